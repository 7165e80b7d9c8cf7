package server

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// outputBufferBytes is the size of the pooled output buffers. One that has grown beyond maxPooledBytes is not kept.
const (
	outputBufferBytes = 4 << 10
	maxPooledBytes    = 256 << 10
)

// flushAtBytes is how much a reader lets gather before it writes, although more requests are there.
const flushAtBytes = 128 << 10

// buffers holds byte slices that connections read into and write from while they have something to do.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, outputBufferBytes); return &b }}

// takeBuffer returns an empty buffer.
func takeBuffer() *[]byte { return buffers.Get().(*[]byte) }

// giveBuffer puts a buffer back, unless it has grown too large to keep.
func giveBuffer(b *[]byte) {
	if cap(*b) <= maxPooledBytes {
		*b = (*b)[:0]
		buffers.Put(b)
	}
}

// output is what a connection has to send, and how many of its writes are under way.
type output struct {
	net     net.Conn
	socket  syscall.RawConn // of a TCP connection, else nil; immutable after init
	figures *metrics        // of the server

	mu sync.Mutex
	// The rest is guarded by mu.
	to          io.Writer       // net, or its TLS
	raw         syscall.RawConn // socket, while no TLS is between
	settled     sync.Cond       // outstanding became 0, or the output was written, or the connection ended
	buf         *[]byte         // nil while there is nothing to send
	outstanding int             // writes proposed and not answered
	arrivals    arrivals        // of the outstanding ones
	held        bool            // the reader waits because too much is under way on all connections together
	writing     bool            // someone is writing and will come back for more
	queued      bool            // in the flusher's list
	finish      bool            // close when all is written
	closed      bool
	gone        chan struct{} // closed with the connection; nil until somebody asks
	replies     replySizes    // since the last write

	attempt attempt // owned by whoever set writing
}

// attempt is one try to write without waiting; it is here so that trying allocates nothing.
type attempt struct {
	b   []byte
	n   int
	err error
	try func(fd uintptr) bool
}

// replySizes are the sizes of replies that the server's figures have not yet.
type replySizes struct {
	some                  bool
	last, least, greatest int
}

// add takes in the size of a reply.
func (r *replySizes) add(n int) {
	if !r.some {
		r.some, r.least, r.greatest = true, n, n
	}
	r.last, r.least, r.greatest = n, min(r.least, n), max(r.greatest, n)
}

// wroteLocked gives the server's figures what has gathered, at a write of so many bytes: so it costs each write, and
// not each reply.
func (o *output) wroteLocked(n int) {
	o.figures.bytesSent.Add(int64(n))
	if r := &o.replies; r.some {
		o.figures.replies.add(r.last, r.least, r.greatest)
		*r = replySizes{}
	}
}

// init sets up the output of a connection.
func (o *output) init(c net.Conn, figures *metrics) {
	o.net, o.to, o.figures = c, c, figures
	o.settled.L = &o.mu
	if tcp, ok := c.(syscall.Conn); ok {
		if raw, err := tcp.SyscallConn(); err == nil {
			o.socket, o.raw = raw, raw
		}
	}
	o.attempt.try = func(fd uintptr) bool {
		o.attempt.n, o.attempt.err = syscall.Write(int(fd), o.attempt.b)
		return true
	}
}

// begin has what is sent go through TLS. Nothing was sent before.
func (o *output) begin(t *tlsStream) {
	o.mu.Lock()
	o.to, o.raw = t, nil
	o.mu.Unlock()
}

// openLocked returns the buffer to append to.
func (o *output) openLocked() []byte {
	if o.buf == nil {
		o.buf = takeBuffer()
	}
	return *o.buf
}

// lenLocked returns how much waits to be written.
func (o *output) lenLocked() int {
	if o.buf == nil {
		return 0
	}
	return len(*o.buf)
}

// flush writes what there is and waits for the client to take it, unless someone else is at it.
func (o *output) flush() {
	o.mu.Lock()
	if o.writing || o.closed {
		o.mu.Unlock()
		return
	}
	o.writing = true
	o.drainLocked()
	o.mu.Unlock()
}

// flushLast writes what there is, after whoever else is writing: when it returns, all is written or the connection is
// closed.
func (o *output) flushLast() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.writing && !o.closed {
		o.settled.Wait()
	}
	if !o.closed {
		o.writing = true
		o.drainLocked()
	}
}

// drainLocked writes until nothing is left. The caller has set writing.
func (o *output) drainLocked() {
	for o.buf != nil && !o.closed {
		b := o.buf
		o.buf = nil
		to := o.to
		o.wroteLocked(len(*b))
		o.mu.Unlock()
		err := writeFrames(to, *b)
		giveBuffer(b)
		o.mu.Lock()
		if err != nil {
			o.closeLocked()
		}
	}
	o.doneLocked()
}

// writeFrames writes whole frames.
func writeFrames(to io.Writer, b []byte) error {
	if t, ok := to.(*tlsStream); ok {
		return t.writeFrames(b)
	}
	_, err := to.Write(b)
	return err
}

// doneLocked ends writing.
func (o *output) doneLocked() {
	o.writing = false
	if o.finish {
		o.closeLocked()
	}
	o.settled.Broadcast()
}

// tryFlush writes what there is without waiting. It returns false if the client does not take all of it; then writing
// is still set, and the caller has drain called on a goroutine that may wait.
func (o *output) tryFlush() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queued = false
	if o.writing {
		return true
	}
	o.writing = true
	for o.buf != nil && !o.closed {
		if o.raw == nil {
			return false
		}
		b := o.buf
		o.buf = nil
		o.mu.Unlock()
		n := len(*b)
		rest, err := o.tryWrite(*b)
		o.mu.Lock()
		o.wroteLocked(n - len(rest))
		if err != nil {
			o.closeLocked()
		} else if len(rest) > 0 {
			o.putBackLocked(b, rest)
			return false
		}
		giveBuffer(b)
	}
	o.doneLocked()
	return true
}

// putBackLocked puts what was not written before what has come since.
func (o *output) putBackLocked(b *[]byte, rest []byte) {
	n := copy(*b, rest)
	*b = (*b)[:n]
	if o.buf != nil {
		*b = append(*b, *o.buf...)
		giveBuffer(o.buf)
	}
	o.buf = b
}

// drain is the rest of a tryFlush that returned false.
func (o *output) drain() {
	o.mu.Lock()
	o.drainLocked()
	o.mu.Unlock()
}

// tryWrite makes one write call and returns what the client did not take.
func (o *output) tryWrite(b []byte) (rest []byte, err error) {
	o.attempt.b = b
	if err := o.raw.Write(o.attempt.try); err != nil {
		return nil, err
	}
	o.attempt.b = nil
	switch {
	case errors.Is(o.attempt.err, syscall.EAGAIN), errors.Is(o.attempt.err, syscall.EINTR):
		return b, nil
	case o.attempt.err != nil:
		return nil, o.attempt.err
	}
	return b[o.attempt.n:], nil
}

// close ends the connection at once.
func (o *output) close() {
	o.mu.Lock()
	o.closeLocked()
	o.mu.Unlock()
}

// closeLocked ends the connection: its reader finds out by its next read.
func (o *output) closeLocked() {
	if o.closed {
		return
	}
	o.closed = true
	if o.gone != nil {
		close(o.gone)
	}
	if o.buf != nil {
		giveBuffer(o.buf)
		o.buf = nil
	}
	_ = o.net.Close() // there is nobody left to tell
	o.settled.Broadcast()
}

// ending returns a channel that is closed when the connection ends.
func (o *output) ending() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gone == nil {
		o.gone = make(chan struct{})
		if o.closed {
			close(o.gone)
		}
	}
	return o.gone
}

// ended reports whether the connection has ended.
func (o *output) ended() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closed
}

// awaitSettled waits until no write is outstanding and what is unread is below limit. It returns false if the
// connection has ended.
func (o *output) awaitSettled(limit int) bool {
	ok, _ := o.awaitTurn(limit)
	return ok
}

// awaitTurn is awaitSettled, and tells whether it had to wait.
func (o *output) awaitTurn(limit int) (ok, waited bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.closed && (o.outstanding > 0 || o.lenLocked() > limit) {
		waited = true
		o.settled.Wait()
	}
	return !o.closed, waited
}

// beginWrite counts a write in that came at a time, after waiting while too much is under way: of this connection, of
// all connections together, or unread. It returns false if the connection has ended.
//
// However much is under way, a connection may have some, so a reader waits for the replies of its own connection alone:
// it looks again when they are written, and nobody has to wake the readers of other connections.
func (o *output) beginWrite(came time.Duration, all *underWay, elapsed func() time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	a := arrival{at: came, taken: came}
	for !o.closed && o.fullLocked(all) {
		o.settled.Wait()
		a.taken = 0
	}
	if o.closed {
		return false
	}
	if a.taken != came {
		a.taken = elapsed()
	}
	o.outstanding++
	o.arrivals.push(a)
	all.begin()
	return true
}

// fullLocked reports whether another write must wait.
func (o *output) fullLocked(all *underWay) bool {
	if o.outstanding > maxOutstanding || o.lenLocked() > flushAtBytes {
		return true
	}
	if o.held {
		o.held = !all.frees(o.outstanding)
	} else {
		o.held = all.holds(o.outstanding)
	}
	return o.held
}

// arrival is when a write came, and when its connection might propose it: later only if it was held back.
type arrival struct{ at, taken time.Duration }

// arrivals is a queue of the outstanding writes.
type arrivals struct {
	at   []arrival
	head int
}

// push adds the newest.
func (a *arrivals) push(t arrival) {
	if a.head > 0 && len(a.at) == cap(a.at) {
		a.at = a.at[:copy(a.at, a.at[a.head:])]
		a.head = 0
	}
	a.at = append(a.at, t)
}

// pop takes the oldest.
func (a *arrivals) pop() (arrival, bool) {
	if a.head == len(a.at) {
		return arrival{}, false
	}
	t := a.at[a.head]
	a.head++
	if a.head == len(a.at) {
		a.at, a.head = a.at[:0], 0
		if cap(a.at) > 64 {
			a.at = nil
		}
	}
	return t, true
}
