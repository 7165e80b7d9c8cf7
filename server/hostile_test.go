package server

import (
	"crypto/tls"
	"crypto/x509/pkix"
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
	"zkd/storage/schema"
)

// hostileMode is a kind of port: how the server listens on it, and how the attackers and the healthy client connect.
type hostileMode struct {
	name    string
	lasts   time.Duration // unless ZKD_HOSTILE_FRAMES says how many frames
	listen  func(r *rig) (addr string)
	dial    func(a *attackers, random *rand.Rand) (net.Conn, error)
	healthy func(t *testing.T, r *rig, addr string) *client
}

// hostileModes are the ports that are attacked.
var hostileModes = []hostileMode{
	{name: "plain", lasts: 4 * time.Second, listen: func(r *rig) string { return r.addr },
		dial:    dialPlain,
		healthy: func(t *testing.T, r *rig, _ string) *client { return r.connect(t) }},
	{name: "TLS", lasts: 3 * time.Second, listen: func(r *rig) string { return r.securePort(&Port{Secure: true}) },
		dial:    dialDamaged,
		healthy: func(t *testing.T, _ *rig, addr string) *client { return connectTLS(t, addr) }},
	{name: "unified", lasts: 3 * time.Second, listen: func(r *rig) string { return r.securePort(&Port{Plain: true}) },
		dial: func(a *attackers, random *rand.Rand) (net.Conn, error) {
			if random.IntN(2) == 0 {
				return dialPlain(a, random)
			}
			return dialDamaged(a, random)
		},
		healthy: func(t *testing.T, _ *rig, addr string) *client { return connectTLS(t, addr) }},
}

// Settings of the attack.
const (
	hostileAttackers = 3
	hostileLeast     = 1000     // frames, without which nothing is said
	hostileBatch     = 100      // frames of one connection
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
		o.HandshakeTimeout = testDeadline / 2 // nobody needs it: the attackers say that they send no more
		withX509(t, o)
	})
	addr := mode.listen(r)
	h := newHealthy(r, mode.healthy(t, r, addr))
	r.settle(1)
	goroutines, files, heap := runtime.NumGoroutine(), descriptors(t), liveHeap()

	a := &attackers{t: t, mode: mode, addr: addr, captures: captures, server: r.server, h: h, left: hostile.Frames(t),
		began: time.Now(), certificate: certificate(t, pkix.Name{CommonName: "stranger"})}
	if a.left == 0 {
		defer time.AfterFunc(mode.lasts+testDeadline, func() { a.over.Store(true) }).Stop()
	}
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
	r.count(1)
	h.round() // its writes come after all of theirs, so no session is made any more
	h.verify()
	h.sweep()
	r.expireBut(h.welcome.SessionID)
	r.settle(1)
	eventually(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= goroutines })
	eventually(t, "all descriptors are closed", func() bool { return descriptors(t) <= files })
	if grown := liveHeap() - heap; grown > hostileHeapMax {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
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

// expireBut ends all sessions but one as if they had been silent for too long, which would take longer than the attack.
func (r *rig) expireBut(id jute.SessionID) {
	var ids []jute.SessionID
	v := r.machine.View()
	v.Sessions(func(s schema.SessionInfo) {
		if s.ID != id {
			ids = append(ids, s.ID)
		}
	})
	v.Close()
	for _, id := range ids {
		if taken, err := (expirer{r.server}).expireOne(id, func() bool { return true }); !taken || err != nil {
			r.t.Fatalf("session %v does not end: %v, %v", id, taken, err)
		}
	}
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
	left     int64 // frames to have the server take; 0 if time decides
	began    time.Time

	certificate tls.Certificate // what those with TLS may show: it has no rights

	over                  atomic.Bool
	connections, answered atomic.Int64
}

// dialPlain connects without TLS.
func dialPlain(a *attackers, _ *rand.Rand) (net.Conn, error) { return dialQuietly(a.addr) }

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
		if err := a.send(b, random); err != nil {
			a.t.Errorf("seed %d: %v", seed, err)
			return
		}
		if a.connections.Add(1); a.enough() {
			a.over.Store(true)
		}
	}
}

// enough says whether the attack has lasted.
func (a *attackers) enough() bool {
	if a.left > 0 {
		return a.taken() >= a.left
	}
	return a.taken() >= hostileLeast && time.Since(a.began) >= a.mode.lasts
}

// taken is how many frames the server has looked at, but for those of the healthy client.
func (a *attackers) taken() int64 { return a.server.metrics.received.Load() - a.h.sent.Load() }

// send sends bytes on a connection of their own, and takes in what is answered. That the server ends it is right.
func (a *attackers) send(b []byte, random *rand.Rand) error {
	nc, err := a.mode.dial(a, random)
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
	if err := <-answered; os.IsTimeout(err) {
		return fmt.Errorf("the server keeps a connection that sends no more: %w", err)
	}
	return nil
}
