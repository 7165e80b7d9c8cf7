package socket

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"zkd/jute"
	"zkd/server/limits"
	"zkd/server/stats"
)

// outputBufferBytes is the size of the pooled output buffers. One that has grown beyond maxPooledBytes is not kept.
const (
	outputBufferBytes = 4 << 10
	maxPooledBytes    = 256 << 10
)

// FlushAtBytes is how much a reader lets gather before it writes, although more requests are there.
const FlushAtBytes = 128 << 10

// MaxOutstanding is how many writes of one connection may be under way before its next request waits. A guess: many
// times what clients pipeline.
const MaxOutstanding = 4096

// MaxOutstandingBytes is how much the writes of one connection that are under way may have together before its next
// request waits: an eighth of what the group takes of a server before all wait (quorum.defaultMaxOutstandingBytes). A
// guess: with a commit in ten milliseconds it is 400 MB a second.
const MaxOutstandingBytes = 4 << 20

// buffers holds byte slices that connections read into and write from while they have something to do.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, outputBufferBytes); return &b }}

// TakeBuffer returns an empty buffer.
func TakeBuffer() *[]byte { return buffers.Get().(*[]byte) }

// GiveBuffer puts a buffer back, unless it has grown too large to keep.
func GiveBuffer(b *[]byte) {
	switch {
	case cap(*b) <= maxPooledBytes:
		*b = (*b)[:0]
		buffers.Put(b)
	case cap(*b) <= maxLargeBytes:
		*b = (*b)[:0]
		largeBuffers.Put(b)
	}
}

// Figures are what all connections have sent. The zero Figures are ready.
type Figures struct {
	Sent    atomic.Int64 // bytes
	Replies stats.MinMax // bytes of replies
}

// Output is what a connection has to send, and how many of its writes are under way.
type Output struct {
	net     net.Conn
	socket  syscall.RawConn // of a TCP connection, else nil; immutable after init
	figures *Figures        // of all connections
	account *limits.Account // of this one; immutable after init
	share   *limits.Share   // of its address; immutable after init

	mu sync.Mutex
	// The rest is guarded by mu.
	tls              *tlsStream      // what is sent goes through; nil: it goes to net
	raw              syscall.RawConn // socket, while no TLS is between
	settled          sync.Cond       // outstanding became 0, or the output was written, or the connection ended
	buf              *[]byte         // what is appended to; nil while there is nothing to send
	ahead            []piece         // goes before buf, in order
	aheadBytes       int             // of ahead
	sending          int             // bytes of what is being written
	charged          int             // what the account knows of all that
	reserved         bool            // a reply that goes before buf is being made: buf waits
	outstanding      int             // writes proposed and not answered
	outstandingBytes int             // of these
	arrivals         arrivals        // of the outstanding ones
	overLimit        bool            // the reader waits because too much is under way on all connections together
	writing          bool            // someone is writing and will come back for more
	queued           bool            // in the flusher's list
	finish           bool            // close when all is written
	closed           bool
	gone             chan struct{} // closed with the connection; nil until somebody asks
	replies          replySizes    // since the last write

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
func (o *Output) wroteLocked(n int) {
	o.figures.Sent.Add(int64(n))
	if r := &o.replies; r.some {
		o.figures.Replies.Add(r.last, r.least, r.greatest)
		*r = replySizes{}
	}
}

// init sets up the output of a connection.
func (o *Output) init(c net.Conn, from *Options) {
	o.net, o.figures, o.account, o.share = c, from.Figures, from.Account, from.Share
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
func (o *Output) begin(t *tlsStream) {
	o.mu.Lock()
	o.tls, o.raw = t, nil
	o.mu.Unlock()
}

// Lock begins what appends a reply. The methods whose names end in Locked are called between it and Unlock.
func (o *Output) Lock() { o.mu.Lock() }

// Unlock ends what Lock has begun.
func (o *Output) Unlock() { o.mu.Unlock() }

// OpenLocked returns the buffer to append a frame to, for EndLocked.
func (o *Output) OpenLocked() []byte {
	if o.buf == nil {
		o.buf = TakeBuffer()
	}
	return *o.buf
}

// EndLocked ends the reply that begins at mark of b, which is the buffer of OpenLocked with what was appended.
func (o *Output) EndLocked(b []byte, mark int) {
	*o.buf = jute.EndFrame(b, mark)
	o.replies.add(len(b) - mark - jute.FrameHeaderBytes)
	if o.closed { // nobody will take it
		GiveBuffer(o.buf)
		o.buf = nil
	}
	o.chargeLocked()
}

// chargeLocked has the account know what waits for the client, in steps.
func (o *Output) chargeLocked() {
	n := o.aheadBytes + o.sending
	if o.buf != nil {
		n += heldBytes(*o.buf)
	}
	if n < limits.MemoryStepBytes {
		n = 0
	}
	more := n - o.charged
	if more == 0 || n > 0 && more < limits.MemoryStepBytes && more > -limits.MemoryStepBytes {
		return
	}
	o.charged = n
	o.account.Add(limits.Unread, int64(more))
}

// heldBytes is what a buffer with these bytes counts: one that was in use before may be larger than they are. Few bytes
// count as such, or a client whose short answer happens to be in a large buffer were the one who costs most.
func heldBytes(b []byte) int {
	if len(b) < limits.MemoryStepBytes {
		return len(b)
	}
	return max(len(b), min(cap(b), maxPooledBytes))
}

// QueueLocked reports whether the caller must give o to the flusher, when it has given up the lock.
func (o *Output) QueueLocked() bool {
	if o.closed || o.writing || o.queued || o.reserved {
		return false
	}
	o.queued = true
	return true
}

// Pushed is what is pushed to a connection: frames that are no replies.
type Pushed struct {
	Frames [][]byte
	Keep   bool // nobody changes them any more: long ones need no copy, and others may have them, too
}

// Push appends what is pushed, and ends the connection if more than unreadMax bytes wait then. It returns how many
// bytes that is, 0 if the connection has ended before. wake says that the caller must give o to the flusher.
func (o *Output) Push(p Pushed, unreadMax int) (bytes int, cut, wake bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return 0, false, false
	}
	for _, b := range p.Frames {
		bytes += len(b)
		if p.Keep && len(b) >= sharedBytes && !o.reserved {
			o.shareLocked(b)
		} else {
			o.copyLocked(b)
		}
	}
	o.chargeLocked()
	cut = o.lenLocked() > unreadMax
	if cut {
		o.closeLocked()
	}
	return bytes, cut, o.QueueLocked()
}

// Append appends frames that are no replies. The caller appends a reply behind them.
func (o *Output) Append(frames []byte) {
	o.mu.Lock()
	o.copyLocked(frames)
	o.chargeLocked()
	o.mu.Unlock()
}

// copyLocked copies frames behind all that is there.
func (o *Output) copyLocked(frames []byte) {
	b := o.OpenLocked()
	*o.buf = append(b, frames...)
}

// Unread returns how much waits to be written.
func (o *Output) Unread() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lenLocked()
}

// State is how an output is at a moment.
type State struct {
	Outstanding int  // writes
	Unread      int  // bytes that wait to be written
	Held        bool // the reader waits because too much is under way on all connections together
}

// State returns how o is.
func (o *Output) State() State {
	o.mu.Lock()
	defer o.mu.Unlock()
	return State{Outstanding: o.outstanding, Unread: o.lenLocked(), Held: o.overLimit}
}

// Writer is where the bytes go: the connection, or its TLS. For its reader, who alone changes that.
func (o *Output) Writer() io.Writer {
	if o.tls != nil {
		return o.tls
	}
	return o.net
}

// lenLocked returns how much waits to be written.
func (o *Output) lenLocked() int {
	if o.buf == nil {
		return o.aheadBytes
	}
	return o.aheadBytes + len(*o.buf)
}

// Flush writes what there is and waits for the client to take it, unless someone else is at it.
func (o *Output) Flush() {
	o.mu.Lock()
	if o.writing || o.closed {
		o.mu.Unlock()
		return
	}
	o.writing = true
	o.drainLocked()
	o.mu.Unlock()
}

// FlushLast writes what there is, after whoever else is writing: when it returns, all is written or the connection is
// closed.
func (o *Output) FlushLast() {
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
func (o *Output) drainLocked() {
	for !o.closed {
		p, ok := o.takeLocked()
		if !ok && !o.answersLocked() {
			break
		}
		o.writeLocked(p)
	}
	o.doneLocked()
}

// doneLocked ends writing.
func (o *Output) doneLocked() {
	o.writing = false
	if o.finish {
		o.closeLocked()
	}
	o.settled.Broadcast()
}

// Close ends the connection at once.
func (o *Output) Close() {
	o.mu.Lock()
	o.closeLocked()
	o.mu.Unlock()
}

// closeLocked ends the connection: its reader finds out by its next read.
func (o *Output) closeLocked() {
	if o.closed {
		return
	}
	o.closed = true
	if o.gone != nil {
		close(o.gone)
	}
	if o.buf != nil {
		GiveBuffer(o.buf)
		o.buf = nil
	}
	for _, p := range o.ahead {
		p.give()
	}
	o.ahead, o.aheadBytes = nil, 0
	o.chargeLocked()
	_ = o.net.Close() // there is nobody left to tell
	o.settled.Broadcast()
}

// Ending returns a channel that is closed when the connection ends.
func (o *Output) Ending() <-chan struct{} {
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

// Ended reports whether the connection has ended.
func (o *Output) Ended() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closed
}

// PeerClosed reports whether the client has closed its end, as far as the system tells: it costs a system call.
func (o *Output) PeerClosed() bool { return peerClosed(o.socket) }

// AwaitSettled waits until no write is outstanding and what is unread is below limit. It returns false if the
// connection has ended.
func (o *Output) AwaitSettled(limit int) bool {
	ok, _ := o.AwaitTurn(limit)
	return ok
}

// AwaitTurn is AwaitSettled, and tells whether it had to wait.
func (o *Output) AwaitTurn(limit int) (ok, waited bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.closed && (o.outstanding > 0 || o.lenLocked() > limit) {
		waited = true
		o.settled.Wait()
	}
	return !o.closed, waited
}

// Writing reports whether a write is outstanding.
func (o *Output) Writing() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.outstanding > 0
}

// AwaitWrites waits until no write is outstanding, of a connection that has ended, too.
func (o *Output) AwaitWrites() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.outstanding > 0 {
		o.settled.Wait()
	}
}

// Write is a write that is to begin.
type Write struct {
	Came  time.Duration
	Bytes int // that the group gets to store
	Frame int // bytes of its frame, with its length
}

// BeginWrite counts a write in, after waiting while too much is under way: of this connection, of its address, of all
// connections together, or unread. It returns false if the connection has ended.
//
// However many are under way, a connection may have some, so a reader waits for the replies of its own connection
// alone: it looks again when they are written, and nobody has to wake the readers of other connections. Only for the
// bytes of its address it stands in a line (limits.Shares).
func (o *Output) BeginWrite(w Write, all *limits.InFlight, elapsed func() time.Duration) bool {
	a := Arrival{At: w.Came, Taken: w.Came, Frame: w.Frame, bytes: w.Bytes}
	waited, ok := o.share.Begin(w.Bytes, o.Ending)
	if !ok {
		return false
	}
	if waited {
		a.Taken = 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.closed && o.fullLocked(all) {
		o.settled.Wait()
		a.Taken = 0
	}
	if o.closed {
		o.share.End(w.Bytes)
		return false
	}
	if a.Taken != w.Came {
		a.Taken = elapsed()
	}
	o.outstanding++
	o.outstandingBytes += w.Bytes
	o.arrivals.push(a)
	all.Begin()
	return true
}

// EndWriteLocked counts the oldest write out, which is answered next, and returns when it came. last has the connection
// closed when the answer is written. open is false if nobody will take the answer.
func (o *Output) EndWriteLocked(last bool) (came Arrival, open bool) {
	o.outstanding--
	came = o.arrivals.pop()
	o.outstandingBytes -= came.bytes
	o.share.End(came.bytes)
	if o.outstanding == 0 || o.outstanding == MaxOutstanding {
		o.settled.Broadcast()
	}
	o.finish = o.finish || last
	return came, !o.closed
}

// DropWrite counts a write out whose answer is not known, and ends the connection.
func (o *Output) DropWrite() {
	o.mu.Lock()
	o.outstanding--
	o.share.End(o.arrivals.pop().bytes)
	o.closeLocked()
	o.settled.Broadcast()
	o.mu.Unlock()
}

// fullLocked reports whether another write must wait.
func (o *Output) fullLocked(all *limits.InFlight) bool {
	if o.outstanding > MaxOutstanding || o.outstandingBytes >= MaxOutstandingBytes || o.lenLocked() > FlushAtBytes {
		return true
	}
	if o.overLimit {
		o.overLimit = !all.Frees(o.outstanding, o.share)
	} else {
		o.overLimit = all.Holds(o.outstanding, o.share)
	}
	return o.overLimit
}

// Arrival is when a write came, and when its connection might propose it: later only if it was held back.
type Arrival struct {
	At, Taken time.Duration
	Frame     int
	bytes     int
}

// arrivals is a queue of the outstanding writes.
type arrivals struct {
	at   []Arrival
	head int
	last int // how many were in at when it was given up; 0 else
}

// keepArrivals is how long an empty queue may be to be used again: a client that waits holds no more.
const keepArrivals = 64

// push adds the newest.
func (a *arrivals) push(t Arrival) {
	if a.head > 0 && len(a.at) == cap(a.at) {
		a.at = a.at[:copy(a.at, a.at[a.head:])]
		a.head = 0
	}
	if a.last > 0 { // there may be as many again
		a.at, a.last = make([]Arrival, 0, a.last), 0
	}
	a.at = append(a.at, t)
}

// pop takes the oldest.
func (a *arrivals) pop() Arrival {
	if a.head == len(a.at) {
		return Arrival{}
	}
	t := a.at[a.head]
	a.head++
	if a.head == len(a.at) {
		if cap(a.at) > keepArrivals {
			a.at, a.last = nil, len(a.at)
		}
		a.at, a.head = a.at[:0], 0
	}
	return t
}
