package limits

import (
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// Addresses of the tests.
var addressA, addressB, addressC = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"),
	netip.MustParseAddr("10.0.0.3")

// alone is the share of an address with nobody beside it.
func alone() *Share {
	var s Shares
	s.Init(0)
	return s.Enter(addressA)
}

// never is the end of a connection that does not end.
func never() <-chan struct{} { return nil }

// begins begins a write of so many bytes on a goroutine of its own, and returns what is true when it has begun.
func begins(p *Share, bytes int) *bool {
	done := new(bool)
	go func() {
		_, ok := p.Begin(bytes, never)
		*done = ok
	}()
	synctest.Wait()
	return done
}

func TestAnAddressWithNobodyBesideItHasAll(t *testing.T) {
	p := alone()
	for range 3 {
		if waited, ok := p.Begin(1000, never); waited || !ok {
			t.Error("it waits for nobody")
		}
	}
	if p.exceeds(1) {
		t.Error("it has more than its part of everything")
	}
}

// TestAShareThatIsTakenAgainIsNotForgotten, neither when it is while its last owner leaves, nor when another one has
// its place by then.
func TestAShareThatIsTakenAgainIsNotForgotten(t *testing.T) {
	var s Shares
	s.Init(0)
	a, b := s.Enter(addressA), s.Enter(addressB)
	for p, taken := range map[*Share]*atomic.Int64{a: &a.connections, b: &b.writes} { // order: each alone
		left := make(chan struct{})
		s.mu.Lock()
		go func() {
			p.Leave()
			close(left)
		}()
		for range 1000 {
			runtime.Gosched() // it has left, and is about to be forgotten
		}
		for p.connections.Load() > 0 {
			runtime.Gosched()
		}
		taken.Add(1)
		s.mu.Unlock()
		<-left
		if s.of[p.addr] != p {
			t.Errorf("the share of %v is forgotten", p.addr)
		}
	}
	first := s.Enter(addressC)
	first.Leave()
	second := s.Enter(addressC)
	first.forget() // of its last write, which comes to nothing as well
	if s.of[addressC] != second || s.addresses.Load() != 3 {
		t.Errorf("the one in its place is forgotten, of %d", s.addresses.Load())
	}
}

// TestBeyondHalfAnAddressHasItsPart of what two have together, or one write, and what ends lets others go on.
func TestBeyondHalfAnAddressHasItsPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Shares
		s.Init(200)
		a, b := s.Enter(addressA), s.Enter(addressB)
		if !*begins(a, 60) || !*begins(a, 40) {
			t.Error("half of all is not given to whoever comes first")
		}
		second := begins(a, 10)
		if *second {
			t.Error("beyond it one address has more than its part")
		}
		if !*begins(b, 70) {
			t.Error("another one waits for its first write")
		}
		third := begins(b, 10)
		if *third {
			t.Error("b has more than its part")
		}
		a.End(60) // 40 of a, 70 of b
		synctest.Wait()
		if !*second || *third {
			t.Errorf("a goes on: %v; b goes on: %v", *second, *third)
		}
		a.End(40)
		synctest.Wait()
		if !*third {
			t.Error("b waits, though there is room for all")
		}
		a.End(10)
		b.End(10)
		b.End(70)
		a.Leave()
		b.Leave()
		if s.bytes.Load() != 0 || len(s.of) != 0 || s.addresses.Load() != 0 || len(s.line)+int(s.waiting.Load()) != 0 {
			t.Errorf("left: %d bytes, %d addresses, %d in line", s.bytes.Load(), len(s.of), len(s.line))
		}
	})
}

// TestWhoEndsInLineTakesNothing of its share with it, and one that is gone with writes under way keeps it.
func TestWhoEndsInLineTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Shares
		s.Init(100)
		a, b := s.Enter(addressA), s.Enter(addressB)
		begins(a, 50)
		gone, ended := make(chan struct{}), false
		go func() {
			waited, ok := a.Begin(20, func() <-chan struct{} { return gone })
			ended = waited && !ok
		}()
		synctest.Wait()
		close(gone)
		synctest.Wait()
		a.Leave()
		if again := s.Enter(addressA); !ended || again != a || a.bytes.Load() != 50 || a.writes.Load() != 1 {
			t.Errorf("ended %v, %d bytes and %d writes under way", ended, a.bytes.Load(), a.writes.Load())
		}
		a.Leave()
		a.End(50)
		b.Leave()
		if len(s.of) != 0 || len(s.line) != 0 {
			t.Errorf("%d addresses and %d in line are left", len(s.of), len(s.line))
		}
	})
}

// TestWritesOfAnAddress: of many that are under way an address has its part, whatever its connections have.
func TestWritesOfAnAddress(t *testing.T) {
	var s Shares
	s.Init(1 << 20)
	a := s.Enter(addressA)
	s.Enter(addressB)
	s.Enter(addressC)
	var u InFlight
	u.Init(300, RequestThrottle{}, nil)
	for range 301 {
		u.Begin()
	}
	for n := range 102 {
		if hold := u.Holds(1, a); hold != (n > 100) || u.Holds(0, a) {
			t.Errorf("holds with %d of 300, %d of the address: %v", n, n, hold)
		}
		if free := u.Frees(1, a); free != (n <= 50) || !u.Frees(0, a) {
			t.Errorf("frees with %d of the address: %v", n, free)
		}
		a.Begin(1, never)
	}
}
