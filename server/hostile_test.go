package server

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"zkd/compat-tests/hostile"
	"zkd/jute"
)

// hostileMode is a kind of port: how the server listens on it, and how one connects to it.
type hostileMode struct {
	name   string
	listen func(t *testing.T, l net.Listener) net.Listener
	dial   func(addr string) (net.Conn, error)
}

// hostileModes are the ports that are attacked.
var hostileModes = []hostileMode{
	{name: "plain", listen: func(_ *testing.T, l net.Listener) net.Listener { return l }, dial: dialQuietly},
}

// Settings of the attack.
const (
	hostileFor       = 6 * time.Second // unless ZKD_HOSTILE_FRAMES says how many frames
	hostileAttackers = 3
	hostileBatch     = 100      // frames of one connection
	hostileLeast     = 1000     // frames, however long they take
	hostileHeapMax   = 96 << 20 // bytes by which the heap may grow: what the stores keep in memory here
)

// TestHostileClients sends damaged requests to a server on which a client works. ZKD_HOSTILE_SEED repeats a run.
func TestHostileClients(t *testing.T) {
	captures, err := hostile.ReadCaptures("../jute/testdata/captures.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	seed := hostile.Seed(t)
	for _, mode := range hostileModes {
		t.Run(mode.name, func(t *testing.T) {
			t.Logf("ZKD_HOSTILE_SEED=%d", seed)
			attack(t, mode, captures, seed)
		})
	}
}

// attack runs the attackers and the healthy client, and counts before and after.
func attack(t *testing.T, mode hostileMode, captures hostile.Captures, seed uint64) {
	r := newRig(t, func(o *Options) {
		o.TickTime, o.MinTimeout, o.MaxTimeout = 100*time.Millisecond, 200*time.Millisecond, 3*time.Second
		o.HandshakeTimeout = testDeadline / 4
	})
	addr := r.listenAs(t, mode)
	h := newHealthy(t, r)
	r.settle(1)
	goroutines, files, heap := runtime.NumGoroutine(), descriptors(t), liveHeap()

	a := &attackers{t: t, mode: mode, addr: addr, captures: captures, server: r.server, h: h, left: hostile.Frames(t)}
	a.byTime = a.left == 0
	stop := time.AfterFunc(hostileFor, func() { a.late.Store(a.byTime) })
	defer stop.Stop()
	var all sync.WaitGroup
	for i := range uint64(hostileAttackers) {
		all.Go(func() { a.run(seed + i) })
	}
	ended := make(chan struct{})
	go func() {
		all.Wait()
		close(ended)
	}()
	h.work(ended)
	t.Logf("%d damaged frames on %d connections, %d bytes of answers; %d rounds of the healthy client",
		a.taken(), a.connections.Load(), a.answered.Load(), h.rounds)
	if a.taken() < hostileLeast {
		t.Error("too little was taken to say anything")
	}
	h.verify()
	h.sweep()
	r.settle(1)
	eventually(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= goroutines })
	eventually(t, "all descriptors are closed", func() bool { return descriptors(t) <= files })
	if grown := liveHeap() - heap; grown > hostileHeapMax {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
}

// listenAs has the server listen on another port.
func (r *rig) listenAs(t *testing.T, mode hostileMode) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- r.server.Serve(mode.listen(t, l)) }()
	t.Cleanup(func() {
		r.stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return l.Addr().String()
}

// settle waits until there are n sessions and connections, and nothing of the others.
func (r *rig) settle(n int) {
	r.t.Helper()
	eventually(r.t, "the sessions and connections have ended", func() bool {
		v := r.machine.View()
		defer v.Close()
		return v.SessionCount() == n && r.server.connections.count() == n
	})
}

// descriptors counts the open files of this process.
func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if errors.Is(err, os.ErrNotExist) {
		return 0 // not on this system
	}
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// attackers send damaged frames.
type attackers struct {
	t        *testing.T
	mode     hostileMode
	addr     string
	captures hostile.Captures
	server   *Server
	h        *healthy
	left     int64 // frames to have the server take, unless byTime
	byTime   bool

	late, over            atomic.Bool // hostileFor has gone by; no more is sent
	connections, answered atomic.Int64
}

// run attacks until it is over.
func (a *attackers) run(seed uint64) {
	requests := hostile.NewMutator(a.captures.Requests, seed)
	ends := hostile.NewMutator(a.captures.Ends, seed)
	handshakes := hostile.NewMutator(a.captures.Handshakes, seed)
	random := rand.New(rand.NewPCG(seed, 2))
	hello := frame((&jute.ConnectRequest{TimeoutMillis: 1, Passwd: make([]byte, 16), HasReadOnly: true}).Append(nil))
	for !a.over.Load() {
		var b []byte
		if random.IntN(10) == 0 {
			b = handshakes.Append(b)
		} else {
			b = append(b, hello...)
		}
		for range hostileBatch - 1 {
			b = requests.Append(b)
		}
		b = ends.Append(b)
		if err := a.send(b); err != nil {
			a.t.Errorf("seed %d: %v", seed, err)
			return
		}
		a.connections.Add(1)
		if a.late.Load() && a.taken() >= hostileLeast || !a.byTime && a.taken() >= a.left {
			a.over.Store(true)
		}
	}
}

// taken is how many frames the server has looked at, but for those of the healthy client.
func (a *attackers) taken() int64 { return a.server.metrics.received.Load() - a.h.sent.Load() }

// send sends bytes on a connection of their own, and takes in what is answered. That the server ends it is right.
func (a *attackers) send(b []byte) error {
	nc, err := a.mode.dial(a.addr)
	if err != nil {
		return fmt.Errorf("the server takes no connections: %w", err)
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(testDeadline)) // an error shows with the read
	answered := make(chan error)
	go func() {
		n, err := io.Copy(io.Discard, nc)
		a.answered.Add(n)
		answered <- err
	}()
	_, _ = nc.Write(b) // it may be closed before all is sent
	if half, ok := nc.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // it may be closed
	}
	if err := <-answered; err != nil && !isClosed(err) {
		return fmt.Errorf("the server keeps a connection that sends no more: %w", err)
	}
	return nil
}
