package network

import (
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"time"
)

// windowBytes is how much of one direction of a connection may be under way, or lie there unread: what the buffers of a
// system hold, about.
const windowBytes = 256 << 10

// pair is a connection: two ends.
type pair struct {
	fabric           *Fabric
	dialer, accepted *conn
	over             bool // no end is open, or it was reset
}

// conn is one end of a connection. All its fields are guarded by the fabric's lock.
type conn struct {
	pair          *pair
	proc          *Process
	host          *Host // of proc
	other         *conn
	local, remote net.TCPAddr

	in      []chunk   // on its way to here, in order
	room    []chunk   // that in has again when nothing is under way: each message would make one else
	inBytes int       // of in
	finAt   time.Time // when the end of what the other one writes is here; zero: not under way
	last    time.Time // when the last of in, or finAt, arrives
	waiting []*waiter // who wait for data, for the end, or for room
	spare   []*waiter // who do not wait any more
	writers int       // of waiting, who wait for room
	err     error     // how it was ended by others
	closed  bool      // by its owner
	wrote   bool      // its owner writes no more
	orphan  bool      // its host went down: nobody reads or writes here, and nobody has said so to the other end

	readBy, writeBy time.Time // deadlines
}

// chunk is what was written at once.
type chunk struct {
	at   time.Time // when it is here
	data []byte
}

// waiter is who waits at one end of a connection. It is used again: a run has millions of waits.
type waiter struct {
	wake   chan struct{} // has room for one
	timer  *time.Timer
	by     time.Time // its deadline; zero: none
	writes bool      // it waits for room
}

// changed lets both ends look again.
func (p *pair) changed() {
	p.dialer.changed()
	p.accepted.changed()
}

// changed lets whoever waits look again.
func (c *conn) changed() {
	for i, w := range c.waiting {
		w.wake <- struct{}{}
		c.waiting[i] = nil
	}
	c.waiting, c.writers = c.waiting[:0], 0
}

// reset ends the connection at both ends, with what is under way.
func (p *pair) reset() {
	for _, c := range []*conn{p.dialer, p.accepted} {
		c.end(syscall.ECONNRESET)
	}
	p.forget()
}

// end ends one end from outside.
func (c *conn) end(err error) {
	if c.err == nil {
		c.err, c.in, c.inBytes = err, nil, 0
	}
	c.changed()
}

// forget takes the connection out of the lists.
func (p *pair) forget() {
	if p.over {
		return
	}
	p.over = true
	for _, h := range []*Host{p.dialer.host, p.accepted.host} {
		p.fabric.conns[h] = slices.DeleteFunc(p.fabric.conns[h], func(o *pair) bool { return o == p })
	}
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	f := c.pair.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		now := time.Now()
		if err := c.usable("read", c.readBy, now); err != nil {
			return 0, err
		}
		if len(b) == 0 {
			return 0, nil
		}
		var next time.Time
		if l := f.link(c.other.host, c.host); !l.cut && !l.mute {
			switch {
			case len(c.in) > 0 && !c.in[0].at.After(now):
				return c.take(b, now), nil
			case len(c.in) > 0:
				next = c.in[0].at
			case !c.finAt.IsZero() && !c.finAt.After(now):
				return 0, io.EOF
			default:
				next = c.finAt
			}
		}
		c.wait(false, c.readBy, next, now)
	}
}

// take moves what is here into b.
func (c *conn) take(b []byte, now time.Time) (n int) {
	for n < len(b) && len(c.in) > 0 && !c.in[0].at.After(now) {
		head := &c.in[0]
		took := copy(b[n:], head.data)
		n += took
		if head.data = head.data[took:]; len(head.data) == 0 {
			c.in = c.in[1:]
		}
	}
	c.inBytes -= n
	if c.other.writers > 0 {
		c.other.changed() // there is room
	}
	return n
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (n int, err error) {
	f := c.pair.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		now := time.Now()
		if err := c.usable("write", c.writeBy, now); err != nil {
			return n, err
		}
		if c.wrote {
			return n, c.failed("write", syscall.EPIPE)
		}
		if n == len(b) {
			return n, nil
		}
		o := c.other
		if o.closed && !o.orphan { // the other end's system says that nobody is there
			o.pair.forget()
			c.end(syscall.ECONNRESET)
			continue
		}
		if room := windowBytes - o.inBytes; room > 0 {
			part := b[n:min(len(b), n+room)]
			n += len(part)
			if o.orphan && c.other.host.up {
				c.end(syscall.ECONNRESET) // its host is back, and knows nothing of the connection
				c.pair.forget()
				continue
			}
			o.arrive(now.Add(f.delay(c.host, o.host, len(part))), slices.Clone(part))
			continue
		}
		c.wait(true, c.writeBy, time.Time{}, now)
	}
}

// arrive puts data on its way to here.
func (c *conn) arrive(at time.Time, data []byte) {
	if at.Before(c.last) {
		at = c.last
	}
	c.last = at
	if len(c.in) > 0 { // whoever reads waits for what arrives before, or for a line that is cut
		c.in = append(c.in, chunk{at, data})
	} else {
		c.in = append(c.room[:0], chunk{at, data})
		c.room = c.in
		c.expect(at)
	}
	c.inBytes += len(data)
}

// expect has whoever reads look again when something arrives, unless nothing does on a line that is cut.
func (c *conn) expect(at time.Time) {
	if l := c.pair.fabric.link(c.other.host, c.host); l.cut || l.mute {
		return
	}
	for _, w := range c.waiting {
		if !w.writes && (w.by.IsZero() || at.Before(w.by)) {
			w.timer.Reset(time.Until(at))
		}
	}
}

// arriveBy has all that is under way be here at a time, or before.
func (c *conn) arriveBy(at time.Time) {
	sooner := func(t *time.Time) {
		if t.After(at) {
			*t = at
		}
	}
	for i := range c.in {
		sooner(&c.in[i].at)
	}
	sooner(&c.finAt)
	sooner(&c.last)
}

// usable says why an operation fails at once, or nil.
func (c *conn) usable(op string, by, now time.Time) error {
	switch {
	case c.closed:
		return c.failed(op, net.ErrClosed)
	case c.err != nil:
		return c.failed(op, c.err)
	case !by.IsZero() && !by.After(now):
		return c.failed(op, os.ErrDeadlineExceeded)
	}
	return nil
}

// failed is what an operation returns.
func (c *conn) failed(op string, err error) error {
	if err != net.ErrClosed && err != os.ErrDeadlineExceeded { //nolint:errorlint // they were not wrapped
		err = os.NewSyscallError(op, err)
	}
	return &net.OpError{Op: op, Net: "tcp", Source: &c.local, Addr: &c.remote, Err: err}
}

// wait gives the lock up until something changes, or one of two times has come; a zero time is none. writes says that
// it is waited for room.
func (c *conn) wait(writes bool, by, next, now time.Time) {
	if next.IsZero() || !by.IsZero() && by.Before(next) {
		next = by
	}
	w := c.waiter()
	w.by, w.writes = by, writes
	if !next.IsZero() {
		w.timer.Reset(next.Sub(now))
	}
	c.waiting = append(c.waiting, w)
	if writes {
		c.writers++
	}
	c.pair.fabric.mu.Unlock()
	waits := false
	select {
	case <-w.wake:
	case <-w.timer.C:
		waits = true // unless it is woken before the lock is had
	}
	c.pair.fabric.mu.Lock()
	w.timer.Stop()
	if i := slices.Index(c.waiting, w); i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
		if writes {
			c.writers--
		}
	} else if waits {
		<-w.wake
	}
	c.spare = append(c.spare, w)
}

// waiter returns one whose timer does not run.
func (c *conn) waiter() *waiter {
	if last := len(c.spare) - 1; last >= 0 {
		w := c.spare[last]
		c.spare = c.spare[:last]
		return w
	}
	w := &waiter{wake: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	w.timer.Stop()
	return w
}

// CloseWrite says that no more comes.
func (c *conn) CloseWrite() error {
	f := c.pair.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := c.usable("close", time.Time{}, time.Time{}); err != nil {
		return err
	}
	c.fin()
	return nil
}

// fin puts the end of what is written on its way.
func (c *conn) fin() {
	if c.wrote || c.orphan {
		return
	}
	c.wrote = true
	o := c.other
	at := time.Now().Add(c.pair.fabric.delay(c.host, o.host, 0))
	if at.Before(o.last) {
		at = o.last
	}
	o.last, o.finAt = at, at
	o.changed()
}

// Close implements net.Conn. What lies here unread is lost, and resets the connection, as in a system.
func (c *conn) Close() error {
	f := c.pair.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.closed {
		return c.failed("close", net.ErrClosed)
	}
	c.closed = true
	if c.inBytes > 0 && c.err == nil && len(c.in) > 0 && !c.in[0].at.After(time.Now()) {
		c.other.end(syscall.ECONNRESET)
	}
	c.fin()
	c.in, c.inBytes = nil, 0
	c.changed()
	if c.other.closed || c.other.err != nil {
		c.pair.forget()
	}
	return nil
}

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return &c.local }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return &c.remote }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error { return c.setDeadlines(t, &c.readBy, &c.writeBy) }

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error { return c.setDeadlines(t, &c.readBy) }

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.setDeadlines(t, &c.writeBy) }

// setDeadlines sets some of the deadlines.
func (c *conn) setDeadlines(t time.Time, which ...*time.Time) error {
	f := c.pair.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.closed {
		return c.failed("set", net.ErrClosed)
	}
	for _, at := range which {
		*at = t
	}
	c.changed()
	return nil
}
