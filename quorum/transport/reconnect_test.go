package transport

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"zkd/quorum/clock"
)

// proxy forwards connections, and can break or stop them.
type proxy struct {
	listener net.Listener
	mu       sync.Mutex
	target   string     // guarded by mu
	conns    []net.Conn // guarded by mu
	over     bool       // guarded by mu: connections that are being made come too late
	all      sync.WaitGroup
}

// newProxy returns a proxy in front of target.
func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: target}
	p.all.Go(p.run)
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		p.over = true
		p.mu.Unlock()
		p.breakAll()
		p.all.Wait()
	})
	return p
}

func (p *proxy) run() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		target := p.target
		p.mu.Unlock()
		out, err := net.Dial("tcp", target)
		if err != nil {
			_ = in.Close()
			continue
		}
		if !p.keep(in, out) {
			_, _ = in.Close(), out.Close()
			return
		}
		p.all.Go(func() { forward(in, out) })
		p.all.Go(func() { forward(out, in) })
	}
}

// keep notes connections that breakAll closes; false when there is nobody who would.
func (p *proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = append(p.conns, conns...)
	return !p.over
}

func forward(to, from net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			_, _ = to.Write(buf[:n])
		}
		if err != nil {
			_ = to.Close()
			return
		}
	}
}

// lead has the connections that come go to target.
func (p *proxy) lead(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// breakAll closes all connections.
func (p *proxy) breakAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

func TestOrderHoldsOverReconnects(t *testing.T) {
	a, b := newMember(t, 1, nil), newMember(t, 2, nil)
	way := newProxy(t, b.address)
	var last uint64
	var handing atomic.Int32
	b.heard.receive = func(_ uint64, _ uint8, body []byte) {
		if handing.Add(1) != 1 {
			t.Error("two frames of one peer are handed on at once")
		}
		n := binary.BigEndian.Uint64(body)
		if n <= last {
			t.Errorf("frame %d after %d", n, last)
		}
		last = n
		handing.Add(-1)
	}
	a.SetPeers(map[uint64]Peer{2: {Addresses: []string{way.listener.Addr().String()}}})
	b.know(a)
	a.Start(a.heard)
	b.Start(b.heard)
	next := uint64(1)
	for round := range 6 {
		eventually(t, "the stream is up", func() bool { return a.Send(2, 1, number(next)) })
		for range 500 {
			next++
			a.Send(2, 1, number(next))
		}
		next++
		way.breakAll()
		eventually(t, "the break is noticed", func() bool { return a.heard.losses(2) > round })
	}
}

func TestStuckHandlerHoldsTheNextStream(t *testing.T) {
	a, b := newMember(t, 1, nil), newMember(t, 2, nil)
	way := newProxy(t, b.address)
	entered, release := make(chan string, 10), make(chan struct{})
	b.heard.receive = func(_ uint64, _ uint8, body []byte) {
		entered <- string(body)
		<-release
	}
	a.SetPeers(map[uint64]Peer{2: {Addresses: []string{way.listener.Addr().String()}}})
	b.know(a)
	a.Start(a.heard)
	b.Start(b.heard)
	a.linked(b)
	a.Send(2, 1, body("old"))
	if got := <-entered; got != "old" {
		t.Fatalf("got %q", got)
	}
	for round := range 3 {
		since := b.of(1).InSince
		way.breakAll()
		eventually(t, "the stream comes back", func() bool {
			return a.heard.ups(2) == round+2 && b.of(1).InSince.After(since)
		})
	}
	a.Send(2, 1, body("new"))
	if b.heard.losses(1) != 0 || len(entered) != 0 {
		t.Errorf("while the handler is stuck: %d losses told, %d frames", b.heard.losses(1), len(entered))
	}
	release <- struct{}{}
	if got := <-entered; got != "new" || b.heard.losses(1) != 1 {
		t.Errorf("then %q after %d losses, want new after 1", got, b.heard.losses(1))
	}
	close(release)
}

func TestRemovedPeerThatComesBackWaitsForItsTurn(t *testing.T) {
	a, b := newMember(t, 1, nil), newMember(t, 2, nil)
	entered, release := make(chan string, 10), make(chan struct{})
	b.heard.receive = func(_ uint64, _ uint8, body []byte) {
		entered <- string(body)
		<-release
	}
	a.know(b)
	b.know(a)
	a.Start(a.heard)
	b.Start(b.heard)
	a.linked(b)
	a.Send(2, 1, body("old"))
	<-entered
	b.know()
	eventually(t, "the removal is seen", func() bool { return !a.of(2).Out })
	b.know(a)
	a.linked(b)
	a.Send(2, 1, body("new"))
	eventually(t, "it is written", func() bool { return a.of(2).FramesOut == 2 })
	if len(entered) != 0 {
		t.Error("a frame is handed on while an older one is")
	}
	close(release)
	if got := <-entered; got != "new" {
		t.Errorf("got %q", got)
	}
	if b.heard.losses(1) != 0 {
		t.Errorf("removal told %d losses", b.heard.losses(1))
	}
}

func TestPeersComeGoAndMove(t *testing.T) {
	a, b := pair(t, nil)
	c := newMember(t, 3, nil)
	c.know(a, b)
	c.Start(c.heard)
	c.logs("peer unreachable", "knows no server 3")
	a.know(b, c)
	a.linked(c)
	b.know(a, c)
	b.linked(c)
	a.know(c)
	eventually(t, "the removed one has no streams", func() bool { s := b.of(1); return !s.Out && !s.In })
	if a.heard.losses(2) != 0 || len(a.Status()) != 1 {
		t.Errorf("%d losses told, status %+v", a.heard.losses(2), a.Status())
	}
	way := newProxy(t, c.address)
	moved := way.listener.Addr().String()
	a.SetPeers(map[uint64]Peer{3: {Addresses: []string{moved}}})
	eventually(t, "the new address is used", func() bool { s := a.of(3); return s.Out && s.Address == moved })
	eventually(t, "the loss of the stream to the old address is told", func() bool { return a.heard.losses(3) > 0 })
}

func TestAddressesAreTriedInTurnAndTheGoodOneFirst(t *testing.T) {
	const dead = "nowhere:1"
	var mu sync.Mutex
	var dialed []string
	a := newMember(t, 1, func(o *Options) {
		dial := o.Dial
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			mu.Lock()
			dialed = append(dialed, address)
			mu.Unlock()
			if address == dead {
				return nil, errors.New("refused")
			}
			return dial(ctx, network, address)
		}
	})
	b := newMember(t, 2, nil)
	way := newProxy(t, b.address)
	good := way.listener.Addr().String()
	b.know(a)
	b.Start(b.heard)
	a.SetPeers(map[uint64]Peer{2: {Addresses: []string{dead, good}}})
	a.Start(a.heard)
	a.linked(b)
	way.breakAll()
	eventually(t, "it is connected again", func() bool { return a.heard.ups(2) == 2 })
	mu.Lock()
	defer mu.Unlock()
	if want := []string{dead, good, good}; !slices.Equal(dialed, want) {
		t.Errorf("dialed %v, want %v", dialed, want)
	}
}

// hasty is a clock whose timers fire at once, but for those of a dial; it notes how long the others should take.
type hasty struct {
	*clock.Manual
	waits chan time.Duration
}

func (h *hasty) NewTimer(d time.Duration) clock.Timer {
	if d == defaultDialTimeout {
		return h.Manual.NewTimer(d)
	}
	select {
	case h.waits <- d:
	default: // at its end the test looks at no more of them
	}
	return h.Manual.NewTimer(0)
}

func TestBackOffGrowsWithJitter(t *testing.T) {
	h := &hasty{clock.NewManual(time.Unix(1e6, 0)), make(chan time.Duration, 12)}
	ended := make(chan struct{})
	var calls atomic.Int32
	a := newMember(t, 1, func(o *Options) {
		o.Clock, o.Rand = h, rand.New(rand.NewPCG(1, 2))
		o.Dial = func(context.Context, string, string) (net.Conn, error) {
			if calls.Add(1) > 12 {
				<-ended
			}
			return nil, errors.New("refused")
		}
	})
	a.SetPeers(map[uint64]Peer{2: {Addresses: []string{"nowhere:1"}}})
	h.Advance(startsWithin)
	a.Start(a.heard)
	want, odd := backoffLeast, false
	for range 12 {
		waited := <-h.waits
		if waited < want || waited > want*3/2 {
			t.Errorf("waits %v, want %v and up to half more", waited, want)
		}
		odd = odd || waited > want*11/10
		want = min(2*want, backoffMost)
	}
	if !odd {
		t.Error("there is no jitter")
	}
	if s := a.of(2); s.LastError == nil || s.Out || s.In {
		t.Errorf("status %+v", s)
	}
	if n := bytes.Count([]byte(a.log.String()), []byte("peer unreachable")); n != 1 {
		t.Errorf("%d log lines for one failure that goes on", n)
	}
	close(ended)
}
