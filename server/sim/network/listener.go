package network

import (
	"net"
	"net/netip"
	"syscall"
)

// listener is an open port. Its fields are guarded by the fabric's lock.
type listener struct {
	host    *Host
	proc    *Process
	at      netip.AddrPort
	waiting []*conn // to be accepted
	closed  bool
	wake    chan struct{} // closed at each change
}

// offer puts a connection before the listener.
func (l *listener) offer(c *conn) {
	l.waiting = append(l.waiting, c)
	l.changed()
}

// changed lets whoever accepts look again.
func (l *listener) changed() {
	close(l.wake)
	l.wake = make(chan struct{})
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	f := l.host.fabric
	for {
		f.mu.Lock()
		if l.closed {
			f.mu.Unlock()
			return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.Addr(), Err: net.ErrClosed}
		}
		if len(l.waiting) > 0 {
			c := l.waiting[0]
			l.waiting = l.waiting[1:]
			f.mu.Unlock()
			return c, nil
		}
		wake := l.wake
		f.mu.Unlock()
		<-wake
	}
}

// Close implements net.Listener. Who was not accepted is told.
func (l *listener) Close() error {
	l.host.fabric.mu.Lock()
	defer l.host.fabric.mu.Unlock()
	if l.closed {
		return &net.OpError{Op: "close", Net: "tcp", Addr: l.Addr(), Err: net.ErrClosed}
	}
	l.close()
	return nil
}

// close ends it, with the lock held.
func (l *listener) close() {
	if l.closed {
		return
	}
	l.closed = true
	delete(l.host.listeners, l.at)
	for _, c := range l.waiting {
		c.other.end(syscall.ECONNRESET)
		c.end(syscall.ECONNRESET)
		c.pair.forget()
	}
	l.waiting = nil
	l.changed()
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.at) }
