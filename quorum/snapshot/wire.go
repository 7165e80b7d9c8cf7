package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"zkd/quorum/clock"
)

// Kinds of messages; docs/formats/peer.md draws them.
const (
	msgManifest = 1 // sender: the manifest
	msgHave     = 2 // receiver: how many bytes of each file are there
	msgData     = 3 // sender: a piece of a file
	msgBeat     = 4 // receiver: it works
	msgDone     = 5 // receiver: the node has the snapshot
	msgError    = 6 // receiver: it gives up
)

const (
	messageHeadBytes = 9       // kind, length, checksum
	dataHeadBytes    = 12      // index of the file, offset
	dataBytesMax     = 1 << 18 // data of one message, of a member of any version
	chunkBytes       = 1 << 18 // data of one message of ours, at most dataBytesMax. A guess: 4 ms at the default rate
	textBytesMax     = 1 << 10
)

// castagnoli is the polynomial of the checksums.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Errors of a stream.
var (
	errSilent   = errors.New("the other side was silent for too long")
	errProtocol = errors.New("unexpected message")
)

// stream carries messages over a connection and ends it when the other side is silent.
type stream struct {
	conn    net.Conn
	clock   clock.Clock
	silence time.Duration
	start   time.Time

	waiting atomic.Int64 // when the read began that is under way, as now; 0: none
	silent  atomic.Bool  // the guard has closed the connection
	ended   chan struct{}
	once    sync.Once
	running sync.WaitGroup

	in      []byte // body of the last message; owned by the reader
	writing sync.Mutex
	out     []byte // guarded by writing
}

// newStream returns a stream with its guard. end must be called.
func newStream(conn net.Conn, c clock.Clock, silence time.Duration) *stream {
	s := &stream{conn: conn, clock: c, silence: silence, start: c.Now(), ended: make(chan struct{})}
	s.running.Go(func() {
		s.every(silence/4, func() bool {
			if began := s.waiting.Load(); began != 0 && s.now()-began > int64(silence) {
				s.silent.Store(true)
				_ = conn.Close() // given up
				return false
			}
			return true
		})
	})
	return s
}

// now is the time since the start in nanoseconds, never 0.
func (s *stream) now() int64 { return int64(s.clock.Since(s.start)) + 1 }

// every calls f at intervals until it says no or the stream ends.
func (s *stream) every(d time.Duration, f func() bool) {
	ticker := s.clock.NewTicker(max(d, 1))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C():
			if !f() {
				return
			}
		case <-s.ended:
			return
		}
	}
}

// beat says at intervals that this side works, until the stream ends.
func (s *stream) beat() {
	s.running.Go(func() {
		s.every(s.silence/4, func() bool { return s.write(msgBeat, nil) == nil })
	})
}

// end closes the connection and waits for the stream's goroutines.
func (s *stream) end() {
	s.once.Do(func() {
		close(s.ended)
		_ = s.conn.Close() // at its end, or given up
	})
	s.running.Wait()
}

// write sends one message.
func (s *stream) write(kind uint8, body []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	b := append(s.out[:0], kind)
	b = binary.BigEndian.AppendUint32(b, uint32(len(body)))
	b = binary.BigEndian.AppendUint32(b, crc32.Update(crc32.Checksum(b[:1], castagnoli), castagnoli, body))
	b = append(b, body...)
	s.out = b
	_, err := s.conn.Write(b)
	return s.why(err)
}

// read returns the next message, whose body is valid until the next call and not longer than bytesMax.
func (s *stream) read(bytesMax int) (kind uint8, body []byte, err error) {
	var head [messageHeadBytes]byte
	if err := s.fill(head[:]); err != nil {
		return 0, nil, err
	}
	length, sum := int(binary.BigEndian.Uint32(head[1:])), binary.BigEndian.Uint32(head[5:])
	if length > bytesMax {
		return 0, nil, fmt.Errorf("%w: %d bytes, at most %d", errProtocol, length, bytesMax)
	}
	s.in = s.in[:0]
	for len(s.in) < length { // in steps, so that a length alone makes no memory be taken
		step := min(length-len(s.in), max(dataBytesMax+dataHeadBytes, len(s.in)))
		start := len(s.in)
		s.in = append(s.in, make([]byte, step)...)
		if err := s.fill(s.in[start:]); err != nil {
			return 0, nil, err
		}
	}
	if got := crc32.Update(crc32.Checksum(head[:1], castagnoli), castagnoli, s.in); got != sum {
		return 0, nil, fmt.Errorf("%w: checksum %08x, want %08x: it was damaged on the way", errProtocol, got, sum)
	}
	return head[0], s.in, nil
}

// fill reads len(b) bytes; the guard sees how long it takes.
func (s *stream) fill(b []byte) error {
	for len(b) > 0 {
		s.waiting.Store(s.now())
		n, err := s.conn.Read(b)
		s.waiting.Store(0)
		b = b[n:]
		if err != nil && len(b) > 0 {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return s.why(err)
		}
	}
	return nil
}

// why says that silence ended the stream, if so.
func (s *stream) why(err error) error {
	if err != nil && s.silent.Load() {
		return errSilent
	}
	return err
}

// Codes of a message that gives up.
const (
	codeLater   = 1 // the sender may try again
	codeFinal   = 2 // it would come out the same
	codeSpace   = 3 // the disk has no room; who does not know it takes it for codeLater
	codeDamaged = 4 // a file is not what the manifest says; likewise
)

// refusal is what the receiver said.
type refusal struct {
	code uint8
	text string
}

func (r *refusal) Error() string { return fmt.Sprintf("the receiver gives up: %q", r.text) }

// refusedWith says whether an error is what the receiver said, with that code.
func refusedWith(err error, code uint8) bool {
	refused := (*refusal)(nil)
	return errors.As(err, &refused) && refused.code == code
}

// parseRefusal reads the body of a message that gives up.
func parseRefusal(body []byte) error {
	if len(body) == 0 {
		return fmt.Errorf("%w: a refusal of 0 bytes", errProtocol)
	}
	return &refusal{body[0], string(body[1:])}
}
