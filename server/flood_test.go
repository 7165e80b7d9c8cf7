package server

import (
	"errors"
	"net"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"zkd/jute"
	"zkd/quorum/clock"
)

// floodSize is how many connections a flood has, where the process may open as many files: two for each.
const floodSize = 3000

// timedListener makes TCP connections whose read deadlines are of a manual clock; expire enforces them.
type timedListener struct {
	net.Listener
	clock   *clock.Manual
	mu      sync.Mutex
	waiting map[*timedConn]time.Time // those with a read deadline
}

// timedConn is a connection of a timedListener.
type timedConn struct {
	*net.TCPConn
	of *timedListener
}

// Accept implements net.Listener.
func (l *timedListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &timedConn{TCPConn: nc.(*net.TCPConn), of: l}, nil
}

// SetReadDeadline keeps the deadline for expire, unless it has passed.
func (c *timedConn) SetReadDeadline(at time.Time) error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	delete(c.of.waiting, c)
	if at.IsZero() {
		return c.TCPConn.SetReadDeadline(time.Time{})
	}
	if !c.of.clock.Now().Before(at) {
		return c.TCPConn.SetReadDeadline(passed)
	}
	c.of.waiting[c] = at
	return c.TCPConn.SetReadDeadline(time.Time{})
}

// Close takes the deadline away as well.
func (c *timedConn) Close() error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	delete(c.of.waiting, c)
	return c.TCPConn.Close()
}

// expire makes the reads fail whose deadline has passed.
func (l *timedListener) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	for c, at := range l.waiting {
		if !now.Before(at) {
			delete(l.waiting, c)
			_ = c.TCPConn.SetReadDeadline(passed) // fails only for a connection that has ended
		}
	}
}

// count returns how many connections have a read deadline.
func (l *timedListener) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

// listenTimed has the server take connections of a timedListener as well.
func (r *rig) listenTimed(t *testing.T, now *clock.Manual) *timedListener {
	t.Helper()
	l := &timedListener{Listener: listen(t), clock: now, waiting: map[*timedConn]time.Time{}}
	served := make(chan error, 1)
	go func() { served <- r.server.Serve(l) }()
	t.Cleanup(func() {
		r.stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return l
}

// flood opens n connections that never finish their handshake: a third sends nothing, a third half a length, and a
// third half a ConnectRequest.
func flood(addr string, n int) ([]net.Conn, error) {
	request := frame((&jute.ConnectRequest{TimeoutMillis: 30000, Passwd: make([]byte, 16)}).Append(nil))
	begun := [][]byte{nil, request[:2], request[:len(request)/2]}
	conns := make([]net.Conn, 0, n)
	for i := range n {
		nc, err := dialQuietly(addr)
		if err != nil {
			return conns, err
		}
		conns = append(conns, nc)
		if _, err := nc.Write(begun[i%len(begun)]); err != nil && !isClosed(err) { // a refused one may be closed
			return conns, err
		}
	}
	return conns, nil
}

// closeAll closes what is left of a flood.
func closeAll(conns []net.Conn) {
	for _, nc := range conns {
		_ = nc.Close() // it may be closed
	}
}

// closedByServer reads from every connection and returns an error unless the server has closed it.
func closedByServer(conns []net.Conn) error {
	for _, nc := range conns {
		_ = nc.SetReadDeadline(time.Now().Add(testDeadline)) // an error shows with the read
		if n, err := nc.Read(make([]byte, 1)); n > 0 || !isClosed(err) {
			return errors.Join(errors.New("a connection without a handshake is not closed"), err)
		}
	}
	return nil
}

// work has the client write and read back n times.
func work(c *client, n int) {
	c.t.Helper()
	for i := range n {
		c.must(jute.OpSetData, setTo("/n", strconv.Itoa(i)), jute.OK)
		got := c.must(jute.OpGetData, look("/n"), jute.OK)
		if got.data(c.t) != strconv.Itoa(i) {
			c.t.Fatalf("read %q after write %d", got.data(c.t), i)
		}
	}
}

// floodMax is floodSize, or as many as the process may open.
func floodMax(t *testing.T) int {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatalf("limit of open files: %v", err)
	}
	const others = 500
	if limit.Cur < 2*floodSize+others {
		n := int(max(limit.Cur, others+200)-others) / 2
		t.Logf("%d connections only: the process may open no more than %d files", n, limit.Cur)
		return n
	}
	return floodSize
}

func TestAFloodWithoutHandshakesDisturbsNobody(t *testing.T) {
	r, now := startManual(t, func(o *Options) { o.HandshakeTimeout = 20 * time.Second })
	l := r.listenTimed(t, now)
	n := floodMax(t)
	c := r.connectTimeout(t, 40*time.Second)
	c.mustCreate("/n", "", jute.ModePersistent)
	goroutines := runtime.NumGoroutine()

	opened := make(chan error)
	var conns []net.Conn
	go func() {
		var err error
		conns, err = flood(l.Addr().String(), n)
		opened <- err
	}()
	work(c, 200) // while they come
	if err := <-opened; err != nil {
		t.Fatalf("open %d connections: %v", n, err)
	}
	defer closeAll(conns)
	eventually(t, "every handshake is waited for", func() bool { return l.count() == n })
	r.count(n + 1)
	work(c, 200)
	newcomer := r.connectTimeout(t, 40*time.Second)
	work(newcomer, 200)
	_ = newcomer.net.Close()
	r.count(n + 1)

	now.Advance(r.options.HandshakeTimeout - time.Millisecond)
	l.expire()
	if waiting := l.count(); waiting != n {
		t.Errorf("%d connections are cut off early", n-waiting)
	}
	now.Advance(time.Millisecond)
	l.expire()
	r.count(1)
	if err := closedByServer(conns); err != nil {
		t.Error(err)
	}
	if got := r.server.metrics.sessionless.Load(); got != int64(n) {
		t.Errorf("%d connections counted as cut for their silence, want %d", got, n)
	}
	c.wantSilence()
	work(c, 10)
	eventually(t, "their goroutines end", func() bool { return runtime.NumGoroutine() <= goroutines })
}

func TestAFloodFromOneAddressIsRefused(t *testing.T) {
	const perAddress = 60 // the default of maxClientCnxns
	r := newRig(t, func(o *Options) { o.MaxConnectionsPerIP = perAddress })
	n := floodMax(t)
	c := r.connect(t)
	c.mustCreate("/n", "", jute.ModePersistent)
	conns, err := flood(r.addr, n)
	if err != nil {
		t.Fatalf("open %d connections: %v", n, err)
	}
	defer closeAll(conns)
	eventually(t, "all others are refused", func() bool {
		return r.server.metrics.rejected.Load() == int64(n-(perAddress-1))
	})
	if err := closedByServer(conns[perAddress-1:]); err != nil {
		t.Error(err)
	}
	r.count(perAddress)
	work(c, 200)
}

// TestOnlySilenceCountsAsSessionless: connections without a session that end in any other way are not in
// sessionless_connections_expired.
func TestOnlySilenceCountsAsSessionless(t *testing.T) {
	r, now := startManual(t, func(o *Options) { o.HandshakeTimeout = 20 * time.Second })
	l := r.listenTimed(t, now)
	r.addr = l.Addr().String()
	word, broken, gone, refused := r.dial(t), r.dial(t), r.dial(t), r.dial(t)
	word.write([]byte("ruok"))
	broken.write([]byte{0xff, 0xff, 0xff, 0xff}) // no length of a frame
	refused.hello(&jute.ConnectRequest{TimeoutMillis: 30000, SessionID: 1, Passwd: make([]byte, 16)})
	for _, c := range []*client{gone, r.connect(t)} { // the latter is taken after all before it
		_ = c.net.Close()
	}
	for _, c := range []*client{word, broken, refused} {
		c.rest()
		_ = c.net.Close()
	}
	eventually(t, "all of them end", func() bool { return l.count() == 0 })
	r.count(0)
	if got := r.server.metrics.sessionless.Load(); got != 0 {
		t.Errorf("%d connections counted as cut for their silence, want none", got)
	}
	r.dial(t).write([]byte("ru"))
	eventually(t, "the handshake is waited for", func() bool { return l.count() == 1 })
	now.Advance(r.options.HandshakeTimeout)
	l.expire()
	r.count(0)
	r.dial(t) // still silent when the server stops
	eventually(t, "the handshake is waited for", func() bool { return l.count() == 1 })
	r.stop()
	if got := r.server.metrics.sessionless.Load(); got != 1 {
		t.Errorf("%d connections counted as cut for their silence, want 1", got)
	}
}
