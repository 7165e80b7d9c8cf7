package transport

import (
	"crypto/tls"
	"encoding/binary"
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
)

// Settings of the attack.
const (
	hostileFor       = 3 * time.Second // unless ZKD_HOSTILE_FRAMES says how many frames
	hostileAttackers = 3               // fewer than may shake hands at once, so that the peers may come back
	hostileBatch     = 20              // frames of one connection
	hostileLeast     = 200             // frames, however long they take
	hostilePeer      = 3               // whom they pretend to be: a member that is not there
)

// hostileMode is a kind of port, and from where it is attacked.
type hostileMode struct {
	name   string
	set    func(*Options)
	before []byte // what is damaged first; nil is the handshake of a peer
	dial   func(addr string) (net.Conn, error)
	passes bool // frames are handed on
}

// TestHostilePeers sends damaged handshakes and frames to a port for servers, beside two servers that talk to each
// other: not one frame of theirs is lost, and nothing is left behind. ZKD_HOSTILE_SEED repeats a run.
func TestHostilePeers(t *testing.T) {
	ca := newAuthority(t)
	_, client := ca.configs(t)
	client.ServerName = "127.0.0.1"
	plain := func(addr string) (net.Conn, error) { return net.DialTimeout("tcp", addr, testDeadline) }
	member := func(addr string) (net.Conn, error) {
		return tls.DialWithDialer(&net.Dialer{Timeout: testDeadline}, "tcp", addr, client)
	}
	for _, mode := range []hostileMode{
		{name: "plain", dial: plain, passes: true},
		{name: "TLS", set: ca.secured(t), before: hostile.ClientHello(t, client), dial: plain},
		{name: "TLS, from a member", set: ca.secured(t), dial: member, passes: true},
	} {
		t.Run(mode.name, func(t *testing.T) { attack(t, mode) })
	}
}

// attack runs the attackers beside the healthy pair.
func attack(t *testing.T, mode hostileMode) {
	seed := hostile.Seed(t)
	t.Logf("ZKD_HOSTILE_SEED=%d", seed)
	a, b := newMember(t, 1, mode.set), newMember(t, 2, mode.set)
	var heard, strange atomic.Int64
	a.heard.receive = func(from uint64, _ uint8, body []byte) {
		switch {
		case from == hostilePeer:
			strange.Add(1)
		case len(body) != 8 || int64(binary.BigEndian.Uint64(body)) != heard.Load()+1:
			t.Errorf("frame %x after %d frames", body, heard.Load())
		default:
			heard.Add(1)
		}
	}
	gone := &member{id: hostilePeer, address: "127.0.0.1:1"}
	a.know(b, gone)
	b.know(a)
	a.Start(a.heard)
	b.Start(b.heard)
	a.linked(b)
	// What has come has a stream whose goroutines run all: now they can be counted.
	a.Send(2, 7, number(1))
	b.Send(1, 7, number(1))
	eventually(t, "a frame comes each way", func() bool { return heard.Load() == 1 && b.heard.count() == 1 })
	files := openFiles(t)
	goroutines := runtime.NumGoroutine()

	h := &hostilePeers{t: t, mode: mode, addr: a.address, left: hostile.Frames(t), passed: &strange}
	if h.left == 0 {
		defer time.AfterFunc(hostileFor, func() { h.late.Store(true) }).Stop()
	}
	ended := make(chan struct{})
	var all sync.WaitGroup
	for i := range uint64(hostileAttackers) {
		all.Go(func() { h.run(seed + i) })
	}
	go func() {
		all.Wait()
		close(ended)
	}()
	rounds := talk(t, b, &heard, ended)
	t.Logf("%d damaged frames on %d connections, %d of them handed on; %d frames of the healthy peer", h.frames.Load(),
		h.connections.Load(), strange.Load(), rounds)
	if a.heard.losses(2) != 0 || b.heard.losses(1) != 0 {
		t.Error("the healthy streams were lost")
	}
	if mode.passes != (strange.Load() > 0) || rounds == 0 || h.frames.Load() < hostileLeast {
		t.Error("too little was sent to say anything, or what must not be handed on is")
	}
	eventually(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= goroutines })
	eventually(t, "all descriptors are closed", func() bool { return openFiles(t) <= files })
}

// talk has b send numbered frames until ended is closed, each when the one before has come. It returns how many have.
func talk(t *testing.T, b *member, heard *atomic.Int64, ended <-chan struct{}) (n int64) {
	t.Helper()
	n = heard.Load()
	for {
		select {
		case <-ended:
			return n
		default:
		}
		n++
		if !b.Send(1, 7, number(uint64(n))) {
			t.Fatalf("frame %d is dropped", n)
		}
		eventually(t, "the frame comes", func() bool { return heard.Load() == n })
	}
}

// openFiles counts the open files of this process.
func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if os.IsNotExist(err) {
		return 0 // not on this system
	}
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// hostilePeers send what is no frame.
type hostilePeers struct {
	t    *testing.T
	mode hostileMode
	addr string
	left int64 // frames to send; 0 if time decides

	passed *atomic.Int64 // frames that were handed on

	late, over          atomic.Bool // hostileFor has gone by; no more is sent
	frames, connections atomic.Int64
}

// run attacks until it is over. What is damaged are a handshake and frames as a peer sends them; of most of the frames
// the checksum is right, so that they are handed on.
func (h *hostilePeers) run(seed uint64) {
	random := rand.New(rand.NewPCG(seed, 3))
	g := good()
	g.from, g.to = hostilePeer, 1
	hello := g.encode()
	if h.mode.before != nil {
		hello = h.mode.before
	}
	// A Mutator takes frames with a length of four bytes: that is its own here.
	wrapped := func(b []byte) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...) }
	var real [][]byte
	for i := range 20 {
		b, _ := appendFrame(nil, uint8(i), body(fmt.Sprint("frame ", i, string(make([]byte, i*i)))))
		real = append(real, wrapped(b))
		large := largeFrame{head: []byte{uint8(i)}, kept: make([]byte, 1+i*i)}
		b = large.appendPieces(nil, 1)
		real = append(real, wrapped(b))
	}
	frames := hostile.NewMutator(real, seed)
	hellos := hostile.NewMutator([][]byte{wrapped(hello)}, seed)
	for !h.over.Load() {
		b := hello
		if random.IntN(3) == 0 {
			b = hellos.Append(nil)[4:]
		}
		b = append([]byte(nil), b...)
		for range hostileBatch {
			damaged := frames.Append(nil)[4:]
			if random.IntN(10) > 0 && len(damaged) > frameHeadBytes {
				flags := random.Uint32N(4) * frameAhead >> 1 // none, a piece, ahead, or both
				b, _ = appendFlagged(b, flags, damaged[0], body(string(damaged[1:])))
			} else {
				b = append(b, damaged...)
			}
		}
		if err := h.send(b); err != nil {
			h.t.Errorf("seed %d: %v", seed, err)
			return
		}
		h.connections.Add(1)
		n := h.frames.Add(hostileBatch)
		enough := n >= hostileLeast && (!h.mode.passes || h.passed.Load() > 0) || n > 100*hostileLeast
		if h.left > 0 && n >= h.left || h.late.Load() && enough {
			h.over.Store(true)
		}
	}
}

// send sends bytes on a connection of their own, and waits until the other side has ended it.
func (h *hostilePeers) send(b []byte) error {
	nc, err := h.mode.dial(h.addr)
	if err != nil {
		return fmt.Errorf("the port takes no connections: %w", err)
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(testDeadline)) // an error shows with the read
	_, _ = nc.Write(b)                               // it may be closed before all is sent
	if half, ok := nc.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // it may be closed
	}
	if _, err := io.Copy(io.Discard, nc); err != nil && os.IsTimeout(err) {
		return fmt.Errorf("the server keeps a connection that sends no more: %w", err)
	}
	return nil
}
