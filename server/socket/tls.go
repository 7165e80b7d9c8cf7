package socket

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"sync"

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
		_, _ = t.records.cipher.Peek(1) // the read that follows finds the error
	}
}

// writeFrames writes whole frames, each in records of its own, which go to the socket together.
//
// Two frames must not share a record, as they never do from ZooKeeper: its C client takes one frame whenever the socket
// has something, and does not ask OpenSSL for what is decrypted already. It would find the second frame only when a
// third one comes.
func (t *tlsStream) writeFrames(b []byte) error {
	t.records.gather()
	var err error
	for len(b) > 0 && err == nil {
		n := jute.FrameHeaderBytes + int(binary.BigEndian.Uint32(b))
		_, err = t.Write(b[:n])
		b = b[n:]
	}
	return errors.Join(err, t.records.sendGathered())
}

// recordConn is the socket as crypto/tls sees it. It gives out no byte beyond the end of a record, so that crypto/tls
// has no records that it has not decrypted, and whether one is there can be told without waiting for it.
type recordConn struct {
	net.Conn               // writes and deadlines
	cipher   Input         // owned by the reader, as the rest
	left     int           // bytes of the record that was begun
	hurried  bool          // reads do not wait
	turns    *limits.Turns // during the handshake: who computes has one

	mu       sync.Mutex
	gathered *[]byte // guarded by mu: records that wait for more; nil: each is written at once
}

// Read returns bytes of one record.
func (r *recordConn) Read(b []byte) (int, error) {
	if r.left == 0 {
		if r.hurried && !r.whole() {
			return 0, notYetError{}
		}
		head, err := r.peek(RecordHeaderBytes)
		if err != nil {
			return 0, err
		}
		r.left = RecordHeaderBytes + int(binary.BigEndian.Uint16(head[RecordHeaderBytes-2:]))
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

// whole reports whether a whole record is there.
func (r *recordConn) whole() bool {
	b := r.cipher.Buffered()
	return len(b) >= RecordHeaderBytes &&
		len(b) >= RecordHeaderBytes+int(binary.BigEndian.Uint16(b[RecordHeaderBytes-2:]))
}

// peek returns the next n bytes of the socket; who waits for them lets others compute.
func (r *recordConn) peek(n int) (b []byte, err error) {
	if b = r.cipher.Buffered(); len(b) >= n {
		return b[:n], nil
	}
	r.Await(func() { b, err = r.cipher.Peek(n) })
	return b, err
}

// Write writes a record to the socket, or gathers it; who waits for the client lets others compute. The records keep
// their order: the reader's answer to an update of the keys may come between those of writeFrames.
func (r *recordConn) Write(b []byte) (n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gathered == nil {
		r.Await(func() { n, err = r.Conn.Write(b) })
		return n, err
	}
	*r.gathered = append(*r.gathered, b...)
	if len(*r.gathered) < FlushAtBytes {
		return len(b), nil
	}
	_, err = r.Conn.Write(*r.gathered)
	*r.gathered = (*r.gathered)[:0]
	return len(b), err
}

// gather has records wait for sendGathered.
func (r *recordConn) gather() {
	r.mu.Lock()
	r.gathered = TakeBuffer()
	r.mu.Unlock()
}

// sendGathered writes the records that have gathered since gather.
func (r *recordConn) sendGathered() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.gathered
	r.gathered = nil
	var err error
	if len(*b) > 0 {
		_, err = r.Conn.Write(*b)
	}
	GiveBuffer(b)
	return err
}

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
