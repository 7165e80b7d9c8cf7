package socket

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"zkd/jute"
	"zkd/server/limits"
)

// Of TLS records (RFC 8446, section 5.1): the content type of a ClientHello, and the length of a record's header, which
// ends with that of its content.
const (
	RecordHandshake   = 0x16
	RecordHeaderBytes = 5
)

// tlsStream is the TLS of a connection: what input reads from and output writes to in place of the socket.
type tlsStream struct {
	*tls.Conn
	records recordConn
	full    bool // the last read filled its buffer: more may be there. Owned by the reader.
}

// newTLSStream begins TLS on a connection whose input may hold the first bytes of it already.
func newTLSStream(in *Input, config *tls.Config) *tlsStream {
	t := &tlsStream{}
	t.records.Conn = in.net
	t.records.cipher.init(in.net, in.raw, nil)
	t.records.cipher.buf, t.records.cipher.start = in.buf, in.start
	in.buf, in.start = nil, 0
	t.Conn = tls.Server(&t.records, config)
	return t
}

// read reads at least one byte into b, and waits for it if wait is set: else notYetError says that none is there. Owned
// by the reader.
func (t *tlsStream) read(b []byte, wait bool) (int, error) {
	t.records.hurried = !wait
	n, err := t.Read(b)
	t.records.hurried = false
	t.full = n == len(b)
	return n, err
}

// await returns when there is something to read, or an error to find. So nothing but what crypto/tls keeps is held
// while a connection is idle.
func (t *tlsStream) await() {
	if !t.full {
		_, _ = t.records.peek(1) // the read that follows finds the error
	}
}

// awaitRecord returns when a whole record is there, or what has been decrypted already: a read that does not wait finds
// something then, unless it is a message of TLS's own.
func (t *tlsStream) awaitRecord() error {
	if t.full {
		return nil
	}
	head, err := t.records.peek(RecordHeaderBytes)
	if err != nil || t.records.whole() {
		return err
	}
	_, err = t.records.peek(RecordHeaderBytes + contentBytes(head))
	return err
}

// partBytes is how much of a frame crypto/tls is given at once: whole records, so that long frames have no more.
const partBytes = 4 << 14

// writeFrames writes whole frames, each in records of its own, and what crypto/tls has to say besides. The records go
// to the socket together. For whoever has set Output.writing.
//
// Two frames must not share a record, as they never do from ZooKeeper: its C client takes one frame whenever the socket
// has something, and does not ask OpenSSL for what is decrypted already. It would find the second frame only when a
// third one comes.
func (t *tlsStream) writeFrames(b []byte) error {
	var err error
	for len(b) > 0 && err == nil {
		n := jute.FrameHeaderBytes + int(binary.BigEndian.Uint32(b))
		err = t.encrypt(b[:n])
		b = b[n:]
	}
	return errors.Join(err, t.records.send()) // also the alert that says why nothing is encrypted any more
}

// Write writes b, which is no frame, before there is anybody else who writes.
func (t *tlsStream) Write(b []byte) (int, error) {
	if err := errors.Join(t.encrypt(b), t.records.send()); err != nil {
		return 0, err
	}
	return len(b), nil
}

// encrypt has records of b gather, and writes them as soon as they are many.
func (t *tlsStream) encrypt(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), partBytes)
		if _, err := t.Conn.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
		if t.records.gathered() >= FlushAtBytes {
			if err := t.records.send(); err != nil {
				return err
			}
		}
	}
	return nil
}

// answersLocked reports whether crypto/tls has something to say besides what was appended.
func (o *Output) answersLocked() bool { return o.tls != nil && o.tls.records.gathered() > 0 }

// writeLocked writes a piece, or only what crypto/tls has to say, without the lock.
func (o *Output) writeLocked(p piece) {
	var b []byte
	if p.buf != nil {
		b = p.rest()
		o.wroteLocked(len(b))
		o.sending = heldBytes(*p.buf)
	}
	to := o.tls
	if to != nil { // which has records of it besides
		o.sending += min(o.sending, unsentMax)
		o.chargeLocked()
	}
	o.mu.Unlock()
	var err error
	if to != nil {
		err = to.writeFrames(b)
	} else {
		_, err = o.net.Write(b)
	}
	if p.buf != nil {
		p.give()
	}
	o.mu.Lock()
	o.sending = 0
	o.chargeLocked()
	if err != nil {
		o.closeLocked()
	}
}

// recordConn is the socket as crypto/tls sees it. It gives out no byte beyond the end of a record, so that crypto/tls
// has no records that it has not decrypted, and whether one is there can be told without waiting for it.
//
// What crypto/tls writes gathers here until somebody sends it. So no lock of crypto/tls's is held while anybody waits
// for the client, and who reads does not wait, either, when crypto/tls answers from within the read.
type recordConn struct {
	net.Conn               // what it is read and written through past this, and its deadline of reads
	cipher   Input         // owned by the reader, as the rest
	left     int           // bytes of the record that was begun
	hurried  bool          // reads do not wait
	turns    *limits.Turns // during the handshake: who computes has one
	out      *Output       // has others who write; nil during the handshake

	overrun atomic.Bool // more answers of crypto/tls were to gather than may

	mu      sync.Mutex
	unsent  *[]byte // guarded by mu: records in their order; nil: none
	sending bool    // guarded by mu: somebody writes records to the socket that were gathered before
}

// Bounds of what gathers.
const (
	// unsentMax is more than whoever writes frames has gather: encrypt sends from FlushAtBytes (128 KiB) on, and a part
	// has less than as much again for its records.
	unsentMax = 256 << 10
	// answersMax is what may gather while who writes waits for the client. A guess: a hundred answers to updates of the
	// keys, which clients want after some million records, if ever.
	answersMax = 4 << 10
)

// ErrAnswers means a client that has TLS answer again and again, and does not read the answers.
var ErrAnswers = errors.New("answers of TLS, as to updates of the keys, are not read")

// Read returns bytes of one record.
func (r *recordConn) Read(b []byte) (int, error) {
	if r.overrun.Load() {
		return 0, ErrAnswers
	}
	if r.left == 0 {
		if r.hurried && !r.whole() {
			return 0, notYetError{}
		}
		head, err := r.peek(RecordHeaderBytes)
		if err != nil {
			return 0, err
		}
		r.left = RecordHeaderBytes + contentBytes(head)
	}
	if _, err := r.peek(1); err != nil {
		return 0, err
	}
	there := r.cipher.Buffered()
	n := copy(b, there[:min(r.left, len(there))])
	r.cipher.start += n
	r.left -= n
	r.cipher.Release()
	return n, nil
}

// contentBytes is the length of a record's content by its header.
func contentBytes(head []byte) int { return int(binary.BigEndian.Uint16(head[RecordHeaderBytes-2:])) }

// whole reports whether a whole record is there, or the beginning of one that is too long, which crypto/tls refuses by
// its header.
func (r *recordConn) whole() bool {
	b := r.cipher.Buffered()
	if len(b) < RecordHeaderBytes {
		return false
	}
	n := contentBytes(b)
	return n > recordBytesMax || len(b) >= RecordHeaderBytes+n
}

// recordBytesMax is the most that a record's content may have (RFC 5246, section 6.2.3; RFC 8446 allows less).
const recordBytesMax = 1<<14 + 2048

// peek returns the next n bytes of the socket. Before it waits for the client it sends what gathered, for which the
// client may wait; who waits lets others compute.
func (r *recordConn) peek(n int) (b []byte, err error) {
	if b = r.cipher.Buffered(); len(b) >= n {
		return b[:n], nil
	}
	r.Await(func() {
		if err = r.flush(); err == nil {
			b, err = r.cipher.Peek(n)
		}
	})
	return b, err
}

// flush sends what gathered, unless somebody is at it who will come back for more. The reader calls it.
func (r *recordConn) flush() error {
	switch {
	case r.out == nil:
		return r.send()
	case r.gathered() > 0:
		r.out.Flush() // what goes wrong ends the connection, which the read that follows finds
	}
	return nil
}

// Write takes records in, and never waits. What there is no room for is answers to a client that does not read them: it
// is cut off, and the reader finds out why.
func (r *recordConn) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unsent == nil {
		r.unsent = TakeBuffer()
	}
	if n := len(*r.unsent) + len(b); r.out != nil && (n > unsentMax || r.sending && n > answersMax) {
		r.overrun.Store(true)
		_ = r.Conn.Close() // there is nobody left to tell
		return 0, ErrAnswers
	}
	*r.unsent = append(*r.unsent, b...)
	return len(b), nil
}

// gathered returns how many bytes wait for send.
func (r *recordConn) gathered() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unsent == nil {
		return 0
	}
	return len(*r.unsent)
}

// send writes the records that have gathered to the socket. It waits for the client, so no lock is held meanwhile: what
// crypto/tls writes then is sent next. For whoever has set Output.writing, and during the handshake its goroutine.
func (r *recordConn) send() error {
	r.mu.Lock()
	b := r.unsent
	r.unsent, r.sending = nil, b != nil
	r.mu.Unlock()
	if b == nil {
		return nil
	}
	_, err := r.Conn.Write(*b)
	GiveBuffer(b)
	r.mu.Lock()
	r.sending = false
	r.mu.Unlock()
	return err
}

// SetWriteDeadline does nothing: crypto/tls has one for its last record and another one behind it, when that may not be
// sent yet. Who sends has set what is right.
func (r *recordConn) SetWriteDeadline(time.Time) error { return nil }

// Await calls f, which waits for something, and lets others compute meanwhile.
func (r *recordConn) Await(f func()) {
	r.give()
	f()
	r.take()
}

// take waits for a turn to compute, if that is limited.
func (r *recordConn) take() {
	if r.turns != nil {
		r.turns.Begin(nil)
	}
}

// give ends the turn.
func (r *recordConn) give() {
	if r.turns != nil {
		r.turns.End()
	}
}

// notYetError means that no record is there. It is a temporary net.Error, which crypto/tls returns and forgets.
type notYetError struct{}

// Error implements error.
func (notYetError) Error() string { return "no TLS record is there" }

// Timeout implements net.Error.
func (notYetError) Timeout() bool { return false }

// Temporary implements net.Error.
func (notYetError) Temporary() bool { return true }
