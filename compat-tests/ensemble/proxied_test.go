package ensemble

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// silentFor is how long nothing is heard on a line that is cut.
const silentFor = 50 * time.Millisecond

// pair is one proxied connection from server 1 to server 2.
type pair struct {
	t        *testing.T
	network  *proxied
	from, to net.Conn
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := newProxied(t, []int{1, 2}, false)
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p.ports[2][1]))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	from, err := net.Dial("tcp", p.links[[2]int{1, 2}].quorum.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	to, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = from.Close()
		_ = to.Close()
	})
	return &pair{t, p, from, to}
}

// passes sends a byte and reports whether it comes within d, and the error of a connection that has ended.
func (p *pair) passes(from, to net.Conn, d time.Duration) (bool, error) {
	p.t.Helper()
	if _, err := from.Write([]byte{1}); err != nil {
		return false, err
	}
	return p.hears(to, d)
}

func (p *pair) hears(to net.Conn, d time.Duration) (bool, error) {
	p.t.Helper()
	if err := to.SetReadDeadline(time.Now().Add(d)); err != nil {
		p.t.Fatal(err)
	}
	_, err := io.ReadFull(to, make([]byte, 1))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false, nil
	}
	return err == nil, err
}

// TestCutIsOneWay cuts one direction of a connection: the other still works, and nothing is lost in the end.
func TestCutIsOneWay(t *testing.T) {
	p := newPair(t)
	p.network.Cut(1, 2)
	if ok, err := p.passes(p.from, p.to, silentFor); ok || err != nil {
		t.Errorf("cut: %v, %v", ok, err)
	}
	if ok, err := p.passes(p.to, p.from, quickly); !ok {
		t.Errorf("the direction that is not cut: %v, %v", ok, err)
	}
	p.network.Heal()
	if ok, err := p.hears(p.to, quickly); !ok {
		t.Errorf("what was sent before the healing: %v, %v", ok, err)
	}
	if ok, err := p.passes(p.from, p.to, quickly); !ok {
		t.Errorf("healed: %v, %v", ok, err)
	}
}

// TestHalfOpen ends a connection for one server alone.
func TestHalfOpen(t *testing.T) {
	p := newPair(t)
	if ok, err := p.passes(p.from, p.to, quickly); !ok {
		t.Fatalf("at first: %v, %v", ok, err)
	}
	p.network.HalfOpen(1, 2)
	if ok, err := p.hears(p.from, quickly); ok || err == nil {
		t.Errorf("server 1 still has the connection: %v, %v", ok, err)
	}
	if ok, err := p.hears(p.to, silentFor); ok || err != nil {
		t.Errorf("server 2 has heard of it: %v, %v", ok, err)
	}
	p.network.Heal()
	if ok, err := p.hears(p.to, quickly); ok || err == nil {
		t.Errorf("server 2 has not heard of it after the healing: %v, %v", ok, err)
	}
}

// TestDelay holds bytes back.
func TestDelay(t *testing.T) {
	p := newPair(t)
	p.network.Delay(2 * silentFor)
	began := time.Now()
	if ok, err := p.passes(p.from, p.to, quickly); !ok {
		t.Errorf("later: %v, %v", ok, err)
	}
	if took := time.Since(began); took < 2*silentFor {
		t.Errorf("after %v, want %v", took, 2*silentFor)
	}
}

// quickly bounds what takes no time.
const quickly = time.Minute
