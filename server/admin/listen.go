package admin

import (
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// bounded is a listener that has no more than cap(room) connections at once: who comes beyond waits to be taken.
type bounded struct {
	net.Listener
	room chan struct{} // one token for each connection
	down chan struct{} // closed by Close
	once sync.Once
}

// Accept takes a connection when there is room.
func (l *bounded) Accept() (net.Conn, error) {
	select {
	case l.room <- struct{}{}:
	case <-l.down:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.room
		return nil, err
	}
	return &counted{Conn: c, leave: func() { <-l.room }}, nil
}

// Close ends Accept.
func (l *bounded) Close() error {
	l.once.Do(func() { close(l.down) })
	return l.Listener.Close()
}

// counted is a connection that makes room when it is closed.
type counted struct {
	net.Conn
	once  sync.Once
	leave func()
}

// Close closes the connection.
func (c *counted) Close() error {
	c.once.Do(c.leave)
	return c.Conn.Close()
}

// unified is a listener that takes TLS and plain text, by the first byte (UnifiedConnectionFactory).
type unified struct {
	net.Listener
	opts *PortOptions

	ready   chan net.Conn // unbuffered: what nobody takes any more is closed
	failed  chan error    // room for one
	down    chan struct{} // closed by Close
	once    sync.Once
	running sync.WaitGroup
}

// newUnified wraps l.
func newUnified(l net.Listener, o *PortOptions) *unified {
	u := &unified{Listener: l, opts: o, ready: make(chan net.Conn), failed: make(chan error, 1),
		down: make(chan struct{})}
	u.running.Go(u.run)
	return u
}

// run takes connections; each is asked for its first byte on a goroutine of its own, for it may be long in coming.
func (u *unified) run() {
	for {
		c, err := u.Listener.Accept()
		if err != nil {
			u.failed <- err
			return
		}
		u.running.Go(func() { u.look(c) })
	}
}

// handshakeByte is the first one of TLS.
const handshakeByte = 0x16

// look finds out what a connection speaks.
func (u *unified) look(c net.Conn) {
	first := &begun{Conn: c}
	stop := make(chan struct{})
	u.running.Go(func() { // Close does not wait for who says nothing
		select {
		case <-u.down:
			_ = c.Close() // it has said nothing
		case <-stop:
		}
	})
	err := c.SetReadDeadline(u.opts.Clock.Now().Add(u.opts.IdleTimeout))
	if err == nil {
		_, err = c.Read(first.byte[:])
	}
	close(stop)
	if err != nil || c.SetReadDeadline(time.Time{}) != nil {
		_ = c.Close() // it has said nothing
		return
	}
	var conn net.Conn = first
	if first.byte[0] == handshakeByte {
		conn = tls.Server(first, u.opts.TLS)
	} else {
		u.opts.Plain()
	}
	select {
	case u.ready <- conn:
	case <-u.down:
		_ = c.Close() // nobody will serve it
	}
}

// Accept takes a connection that has said what it speaks.
func (u *unified) Accept() (net.Conn, error) {
	select {
	case c := <-u.ready:
		return c, nil
	case err := <-u.failed:
		u.failed <- err
		return nil, err
	case <-u.down:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and waits for the goroutines.
func (u *unified) Close() error {
	u.once.Do(func() { close(u.down) })
	err := u.Listener.Close()
	u.running.Wait()
	return err
}

// begun is a connection whose first byte was read.
type begun struct {
	net.Conn
	byte [1]byte
	used bool // owned by the reader
}

// Read gives the first byte back, then goes on.
func (b *begun) Read(p []byte) (int, error) {
	if !b.used && len(p) > 0 {
		b.used = true
		p[0] = b.byte[0]
		return 1, nil
	}
	return b.Conn.Read(p)
}
