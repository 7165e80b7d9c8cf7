package socket

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"syscall"

	"zkd/jute"
	"zkd/server/limits"
)

// Input takes frames from a connection. It holds a buffer only while there are bytes in it. Owned by the reader
// goroutine.
type Input struct {
	net    net.Conn
	raw    syscall.RawConn // of a plain TCP connection, else nil
	limits *limits.FrameLimits
	// account counts the buffer as soon as it is large; nil for the records of TLS, which are small.
	account *limits.Account
	charged int        // what the account knows of buf
	tls     *tlsStream // where the frames come from in place of the socket; nil for plain text
	// large are the turns in which large frames are taken from sockets, and ending tells when the connection has ended;
	// nil for the records of TLS.
	large  *limits.Turns
	ending func() <-chan struct{}

	buf   *[]byte // nil while idle
	start int     // of the bytes in buf that are not used

	got   int   // of the last read
	came  int64 // bytes that Taken has not returned yet
	err   error
	read  func(fd uintptr) bool
	once  func(fd uintptr) bool
	await func(fd uintptr) bool
}

// init sets up the input of a connection.
func (in *Input) init(c net.Conn, raw syscall.RawConn, frames *limits.FrameLimits) {
	in.net, in.raw, in.limits = c, raw, frames
	in.read, in.once, in.await = in.tryRead, in.readOnce, in.readable
}

// Buffered returns the bytes that are there.
func (in *Input) Buffered() []byte {
	if in.buf == nil {
		return nil
	}
	return (*in.buf)[in.start:]
}

// HasFrame reports whether a whole frame is there, so that taking it does not wait.
func (in *Input) HasFrame() bool {
	for !in.holdsFrame() {
		if in.tls == nil || !in.pull() {
			return false
		}
	}
	return true
}

// holdsFrame reports whether a whole frame is in the buffer.
func (in *Input) holdsFrame() bool {
	b := in.Buffered()
	return len(b) >= jute.FrameHeaderBytes &&
		int64(len(b)) >= jute.FrameHeaderBytes+int64(int32(binary.BigEndian.Uint32(b)))
}

// Frame returns the next frame's payload, valid until the next call.
func (in *Input) Frame() ([]byte, error) {
	head, err := in.Peek(jute.FrameHeaderBytes)
	if err != nil {
		return nil, err
	}
	n := int(int32(binary.BigEndian.Uint32(head)))
	if err := in.limits.Check(n); err != nil {
		return nil, err
	}
	b, err := in.Peek(jute.FrameHeaderBytes + n)
	if err != nil {
		return nil, err
	}
	in.start += len(b)
	return b[jute.FrameHeaderBytes:], nil
}

// Peek returns the next n bytes without using them up.
func (in *Input) Peek(n int) ([]byte, error) {
	for len(in.Buffered()) < n {
		if err := in.fill(n); err != nil {
			return nil, err
		}
	}
	return in.Buffered()[:n:n], nil
}

// Taken returns how many bytes have come since it was called last.
func (in *Input) Taken() int64 {
	n := in.came
	in.came = 0
	return n
}

// Release gives the buffer back if nothing is in it.
func (in *Input) Release() {
	if in.buf != nil && in.start == len(*in.buf) {
		GiveBuffer(in.buf)
		in.buf, in.start = nil, 0
		if in.charged > 0 {
			in.account.Add(limits.Requests, -int64(in.charged))
			in.charged = 0
		}
	}
}

// ErrMemory means that this connection held most when clients held more than they may, or would have.
var ErrMemory = errors.New("clients hold too much memory: zkd.clientMemory")

// charge has the account know a buffer of so many bytes before there is one. It may wait for others to give theirs
// back.
func (in *Input) charge(bytes int) error {
	if in.account == nil || bytes < limits.MemoryStepBytes || bytes <= in.charged {
		return nil
	}
	more := bytes - in.charged
	in.charged = bytes
	if !in.account.Take(limits.Requests, int64(more)) {
		return ErrMemory
	}
	return nil
}

// largeInputBytes is the buffer from which on a frame is taken in turns. A guess: what is smaller takes some ten
// microseconds.
const largeInputBytes = 64 << 10

// fill reads at least one byte towards n that are wanted.
func (in *Input) fill(n int) error {
	in.Release()
	if in.buf != nil {
		in.compact()
		room := in.roomFor(n)
		if err := in.charge(room); err != nil {
			return err
		}
		if room >= largeInputBytes && (in.raw != nil || in.tls != nil) && in.large != nil {
			return in.fillInTurn(room)
		}
		in.grow(room)
	}
	switch {
	case in.tls != nil:
		if in.buf == nil {
			in.tls.await()
		}
		in.takeBuffer()
		in.got, in.err = in.tls.read((*in.buf)[len(*in.buf):cap(*in.buf)], true)
	case in.raw == nil:
		in.takeBuffer()
		in.got, in.err = in.net.Read((*in.buf)[len(*in.buf):cap(*in.buf)])
	default:
		if err := in.raw.Read(in.read); err != nil {
			return err
		}
	}
	return in.filled()
}

// fillInTurn is the rest of fill for a large frame: a thousand clients that send a megabyte each are not to have a
// thousand goroutines copy, or decrypt, it at once. Who has the turn waits for nobody; it waits for the client before.
func (in *Input) fillInTurn(room int) error {
	for {
		if err := in.awaitMore(); err != nil {
			return err
		}
		if !in.large.Begin(in.ending()) {
			return net.ErrClosed
		}
		in.grow(room)
		err := in.takeMore()
		in.large.End()
		if err != nil {
			return err
		}
		if !errors.Is(in.err, syscall.EAGAIN) && !errors.Is(in.err, notYetError{}) {
			return in.filled()
		}
	}
}

// awaitMore returns when takeMore finds something.
func (in *Input) awaitMore() error {
	if in.tls != nil {
		return in.tls.awaitRecord()
	}
	return in.raw.Read(in.await)
}

// takeMore is one read that does not wait.
func (in *Input) takeMore() error {
	if in.tls == nil {
		return in.raw.Read(in.once)
	}
	in.got, in.err = in.tls.read((*in.buf)[len(*in.buf):cap(*in.buf)], false)
	return nil
}

// filled takes in what was read.
func (in *Input) filled() error {
	if in.got > 0 {
		in.came += int64(in.got)
		*in.buf = (*in.buf)[:len(*in.buf)+in.got]
		return nil
	}
	if in.err == nil {
		return io.EOF
	}
	return in.err
}

// begin has the frames come from TLS.
func (in *Input) begin(t *tlsStream) { in.tls, in.raw = t, nil }

// pull takes what is there of a TLS connection without waiting for it, so that a client that sends every request in a
// record of its own is served as one that does not. false means that nothing was there.
func (in *Input) pull() bool {
	if !in.tls.full && !in.tls.records.whole() {
		return false
	}
	if in.buf != nil && (in.wanted() >= largeInputBytes || in.makeRoom(in.wanted()) != nil) {
		return false // the next read that waits takes it in turns, or finds what is wrong again
	}
	in.takeBuffer()
	n, err := in.tls.read((*in.buf)[len(*in.buf):cap(*in.buf)], false)
	*in.buf = (*in.buf)[:len(*in.buf)+n]
	in.Release()
	return err == nil // the next read that waits finds the error again
}

// wanted is how many bytes the next frame has with its length, as far as that is known.
func (in *Input) wanted() int {
	b := in.Buffered()
	if len(b) < jute.FrameHeaderBytes {
		return jute.FrameHeaderBytes
	}
	return jute.FrameHeaderBytes + int(int32(binary.BigEndian.Uint32(b)))
}

// takeBuffer provides a buffer.
func (in *Input) takeBuffer() {
	if in.buf != nil {
		return
	}
	in.buf = TakeBuffer()
	if n := cap(*in.buf); n >= limits.MemoryStepBytes && in.account != nil { // it was large before
		in.charged = n
		in.account.Add(limits.Requests, int64(n))
	}
}

// tryRead is one read call of a socket that never waits; false has the caller wait until something is there.
func (in *Input) tryRead(fd uintptr) bool {
	in.takeBuffer()
	in.got, in.err = syscall.Read(int(fd), (*in.buf)[len(*in.buf):cap(*in.buf)])
	switch {
	case errors.Is(in.err, syscall.EAGAIN):
		in.Release()
		return false
	case errors.Is(in.err, syscall.EINTR):
		return in.tryRead(fd)
	default:
		return true
	}
}

// readOnce is one read call of a socket, whatever comes of it.
func (in *Input) readOnce(fd uintptr) bool {
	in.got, in.err = syscall.Read(int(fd), (*in.buf)[len(*in.buf):cap(*in.buf)])
	if errors.Is(in.err, syscall.EINTR) {
		return in.readOnce(fd)
	}
	return true
}

// readable reports whether a read call would not wait; false has the caller wait until something is there.
func (in *Input) readable(fd uintptr) bool {
	var one [1]byte
	_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK)
	return !errors.Is(err, syscall.EAGAIN)
}

// makeRoom provides room for at least one more byte.
func (in *Input) makeRoom(n int) error {
	in.compact()
	room := in.roomFor(n)
	if err := in.charge(room); err != nil {
		return err
	}
	in.grow(room)
	return nil
}

// compact moves what is there to the front.
func (in *Input) compact() {
	if b := *in.buf; in.start > 0 {
		*in.buf = b[:copy(b, b[in.start:])]
		in.start = 0
	}
}

// roomFor is how large the buffer is to be: it grows only when it is full, so that a length costs nothing until its
// bytes come, and to four times its size, so that little is copied and thrown away.
func (in *Input) roomFor(n int) int {
	b := *in.buf
	if len(b) < cap(b) {
		return cap(b)
	}
	return min(4*cap(b), max(n, cap(b)+1))
}

// grow makes the buffer so large.
func (in *Input) grow(room int) {
	if b := *in.buf; room > cap(b) {
		grown := make([]byte, len(b), room)
		copy(grown, b)
		*in.buf = grown
	}
}
