package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/quorum/clock"
	"zkd/storage/serverid"
)

// ReceiverOptions says what a Receiver consists of. FS, Dir, Staged and Clock are needed; the rest has defaults.
type ReceiverOptions struct {
	FS  vfs.FS
	Dir string // the staging directory; the receiver is its only user until Staged is called
	// Staged takes a snapshot: dir lies complete and on disk. It is called on the stream's goroutine, and may block. An
	// error is told to the sender, and ends its attempt for good; what is staged stays.
	Staged func(from uint64, header []byte, dir string) error
	// Fits tells by its header what is wrong with a snapshot of a server, before anything of it is received, and while
	// a part of it is kept; nil: nothing is. With ErrLater that server may try again. Any goroutine.
	Fits   func(from uint64, header []byte) error
	Clock  clock.Clock
	Logger *slog.Logger
	// Silence is how long the sender may say nothing.
	Silence time.Duration
}

// ErrLater means a snapshot that may be taken when it comes again.
var ErrLater = errors.New("not now")

// Receiver takes snapshots, one at a time.
type Receiver struct {
	opts    ReceiverOptions
	running sync.WaitGroup // those who keep what a broken stream has left
	closed  chan struct{}
	closing sync.Once

	mu      sync.Mutex
	current *reception    // guarded by mu; nil: none
	taken   snapshotID    // guarded by mu; the last one that the node has taken
	resumed chan struct{} // guarded by mu; closed when a stream goes on with what a broken one has left; nil: none has
	told    refused       // guarded by mu
}

// refused is what was logged last of a refusal.
type refused struct {
	at   time.Time
	code uint8
	left int // refusals since then that were not logged
}

// How long what a broken stream has left is kept for the next one, how often it is asked meanwhile whether there can be
// a next one, and how often a refusal that is the same is logged. Guesses.
const (
	keptFor     = 10 * time.Minute
	keptAskEach = 5 * time.Second
	refusedEach = time.Minute
)

// reception is a stream that has the staging directory.
type reception struct {
	from  uint64
	conn  net.Conn
	ended chan struct{}
}

// NewReceiver returns a receiver. What an earlier process has left in the staging directory is used if the same
// snapshot comes, and discarded if another one does.
func NewReceiver(opts ReceiverOptions) (*Receiver, error) {
	if opts.FS == nil || opts.Dir == "" || opts.Staged == nil || opts.Clock == nil {
		return nil, errors.New("snapshot receiver options: FS, Dir, Staged and Clock must be given")
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Silence <= 0 {
		opts.Silence = defaultSilence
	}
	return &Receiver{opts: opts, closed: make(chan struct{})}, nil
}

// Close ends what the receiver does by itself. It is called when no stream is there any more.
func (r *Receiver) Close() {
	r.closing.Do(func() { close(r.closed) })
	r.running.Wait()
}

// drainMessagesMax is how many messages of a sender that was refused are read before the connection is closed: as much
// as can be under way, so that it sees the refusal and not a reset.
const drainMessagesMax = 256

// Receive takes a snapshot off a stream that the server from has opened, and returns when the stream is at its end,
// closed. Closing conn ends it early.
func (r *Receiver) Receive(from uint64, conn net.Conn) {
	s := newStream(conn, r.opts.Clock, r.opts.Silence)
	defer s.end()
	s.beat()
	err := r.receive(from, s)
	if err == nil {
		return
	}
	refused := (*refusal)(nil)
	if !errors.As(err, &refused) {
		r.opts.Logger.Warn("snapshot receive failed", slog.Int64("peer", serverid.Number(from)), slog.Any("err", err))
		return // the stream broke: nobody listens
	}
	r.logRefusal(from, refused)
	text := refused.text[:min(len(refused.text), textBytesMax)]
	if s.write(msgError, append([]byte{refused.code}, text...)) != nil {
		return
	}
	for range drainMessagesMax {
		if _, _, err := s.read(dataBytesMax + dataHeadBytes); err != nil {
			return
		}
	}
}

// logRefusal logs what the sender is told; a sender that does not wait is no reason to say it over and over.
func (r *Receiver) logRefusal(from uint64, why *refusal) {
	now := r.opts.Clock.Now()
	r.mu.Lock()
	if r.told.code == why.code && now.Sub(r.told.at) < refusedEach {
		r.told.left++
		r.mu.Unlock()
		return
	}
	left := r.told.left
	r.told = refused{at: now, code: why.code}
	r.mu.Unlock()
	if why.code == codeSpace {
		r.opts.Logger.Warn("snapshot not received: disk space low",
			slog.Int64("peer", serverid.Number(from)), slog.String("path", r.opts.Dir), slog.Any("err", why),
			slog.Int("left_out", left))
		return
	}
	r.opts.Logger.Warn("snapshot receive failed", slog.Int64("peer", serverid.Number(from)), slog.Any("err", why),
		slog.Int("left_out", left))
}

// final is an error that another attempt would meet again.
func final(err error) error { return &refusal{codeFinal, err.Error()} }

// receive takes the manifest, and the staging directory if it is free. A refusal is to be told to the sender.
func (r *Receiver) receive(from uint64, s *stream) error {
	kind, body, err := s.read(manifestBytesMax)
	if err != nil {
		return err
	}
	if kind != msgManifest {
		return final(fmt.Errorf("%w: kind %d, want the manifest", errProtocol, kind))
	}
	m, err := parseManifest(bytes.Clone(body))
	if err != nil {
		return final(err)
	}
	if r.opts.Fits != nil {
		switch err := r.opts.Fits(from, m.header); {
		case errors.Is(err, ErrLater):
			return &refusal{codeLater, err.Error()}
		case err != nil:
			return final(fmt.Errorf("the snapshot does not fit: %w", err))
		}
	}
	mine, err := r.enter(from, s.conn)
	if err != nil {
		return err
	}
	broken := (*manifest)(nil)
	defer func() { r.leave(mine, broken) }()
	if r.hasTaken(m.id) { // the answer to an earlier stream was lost
		return s.write(msgDone, nil)
	}
	began := r.opts.Clock.Now()
	st := &staging{fs: r.opts.FS, dir: r.opts.Dir, manifest: m, buf: make([]byte, chunkBytes)}
	if err := st.fill(s); err != nil {
		var cut *streamError
		if errors.As(err, &cut) || refusedWith(err, codeDamaged) {
			broken = m
		}
		return err
	}
	r.opts.Logger.Info("snapshot received", slog.Int64("peer", serverid.Number(from)), slog.Int64("bytes", m.bytes),
		slog.Int64("received", st.received), slog.Duration("took", r.opts.Clock.Since(began)))
	if err := r.opts.Staged(from, m.header, r.opts.Dir); err != nil {
		return final(fmt.Errorf("the node refuses the snapshot: %w", err))
	}
	r.mu.Lock()
	r.taken = m.id
	r.mu.Unlock()
	return s.write(msgDone, nil)
}

// hasTaken says whether the snapshot is the last one that the node has taken.
func (r *Receiver) hasTaken(id snapshotID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken == id
}

// enter takes the staging directory. A stream of the same sender that has it is closed and waited for.
func (r *Receiver) enter(from uint64, conn net.Conn) (*reception, error) {
	for {
		r.mu.Lock()
		old := r.current
		if old == nil {
			mine := &reception{from: from, conn: conn, ended: make(chan struct{})}
			r.current = mine
			if r.resumed != nil {
				close(r.resumed)
				r.resumed = nil
			}
			r.mu.Unlock()
			return mine, nil
		}
		r.mu.Unlock()
		if old.conn == nil || old.from != from {
			return nil, &refusal{codeLater, fmt.Sprintf("a snapshot of server %d is being received",
				serverid.Number(old.from))}
		}
		_ = old.conn.Close() // given up
		<-old.ended
	}
}

// leave gives the staging directory back. What is there of a stream that broke is kept for the next one of its
// manifest.
func (r *Receiver) leave(mine *reception, broken *manifest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current = nil
	close(mine.ended)
	if broken == nil {
		return
	}
	resumed := make(chan struct{})
	r.resumed = resumed
	r.running.Go(func() { r.expire(mine.from, broken.header, resumed) })
}

// isGivenUp waits until nobody can go on with what a broken stream has left, or nobody has for long; false if somebody
// does, or the receiver is closed.
func (r *Receiver) isGivenUp(from uint64, header []byte, resumed <-chan struct{}) bool {
	began := r.opts.Clock.Now()
	ticker := r.opts.Clock.NewTicker(keptAskEach)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C():
		case <-resumed:
			return false
		case <-r.closed:
			return false
		}
		if r.opts.Clock.Since(began) >= keptFor {
			return true
		}
		if r.opts.Fits == nil {
			continue
		}
		if err := r.opts.Fits(from, header); err != nil && !errors.Is(err, ErrLater) {
			return true
		}
	}
}

// expire removes what a broken stream has left, unless another one goes on with it in time.
func (r *Receiver) expire(from uint64, header []byte, resumed <-chan struct{}) {
	if !r.isGivenUp(from, header, resumed) {
		return
	}
	r.mu.Lock()
	select {
	case <-resumed:
		r.mu.Unlock()
		return
	default:
	}
	mine := &reception{ended: make(chan struct{})} // others are told to come back
	r.current, r.resumed = mine, nil
	r.mu.Unlock()
	defer r.leave(mine, nil)
	st := &staging{fs: r.opts.FS, dir: r.opts.Dir}
	switch left, err := sizeOf(st.fs, st.dir); {
	case err == nil && left < 0:
		return
	case err == nil:
		if err = st.discard(); err == nil {
			r.opts.Logger.Info("removed partial snapshot", slog.String("path", st.dir))
			return
		}
		fallthrough
	default:
		r.opts.Logger.Warn("failed to remove partial snapshot", slog.String("path", st.dir),
			slog.Any("err", err))
	}
}

// Complete says whether dir holds all of a snapshot: the mark, and each file with the size that the manifest gives. The
// hashes were compared before the mark was written. An error is one of the file system.
func Complete(fs vfs.FS, dir string) (bool, error) {
	m, err := staged(fs, dir)
	if m == nil || err != nil {
		return false, err
	}
	mark, err := readFile(fs, fs.PathJoin(dir, completeName), len(m.id)+1)
	if mark == nil || err != nil {
		return false, err
	}
	if !bytes.Equal(mark, m.id[:]) {
		return false, nil
	}
	for _, f := range m.files {
		size, err := sizeOf(fs, fs.PathJoin(dir, f.name))
		if err != nil || size != f.size {
			return false, err
		}
	}
	return true, nil
}
