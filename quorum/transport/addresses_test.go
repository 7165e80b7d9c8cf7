package transport

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"
)

// listenAgain opens another port for m and has it accept there.
func (m *member) listenAgain() net.Listener {
	m.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		m.t.Fatal(err)
	}
	m.Accept(l)
	return l
}

// moves has the supervisor look for a stream of m that is to move, and waits until that was tried.
func (m *member) moves() {
	m.t.Helper()
	m.redialOne()
	eventually(m.t, "a move was tried", func() bool { return !m.redialing.Load() })
}

// TestStreamMovesToTheNewAddress: peer 2 is said to have another address while it still listens at the former one. The
// stream stays at the former one while nobody can be reached at the new one, and moves there when somebody can; then
// the former listener is not needed.
func TestStreamMovesToTheNewAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // from the begin, so that nobody else gets the port
	if err != nil {
		t.Fatal(err)
	}
	moved := l.Addr().String()
	var there atomic.Bool
	a, b := pair(t, func(o *Options) {
		dial := o.Dial
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == moved && !there.Load() {
				return nil, errors.New("nobody listens")
			}
			return dial(ctx, network, address)
		}
	})
	b.Accept(l)
	a.SetPeers(map[uint64]Peer{2: {Addresses: []string{moved}, Former: []string{b.address}}})
	a.moves()
	a.logs("peer not listening yet", "nobody listens")
	if s := a.of(2); !s.Out || s.Address != b.address || a.heard.losses(2) != 0 {
		t.Fatalf("the stream did not stay at %s: %+v", b.address, s)
	}
	there.Store(true)
	a.moves()
	eventually(t, "the stream leads to the new address", func() bool {
		s := a.of(2)
		return s.Out && s.Address == moved
	})
	eventually(t, "the other side sees where it came", func() bool { s := b.of(1); return s.In && s.At == moved })
	s := b.of(1)
	if !s.Home([]string{moved}) || s.Home([]string{b.address}) {
		t.Errorf("home at %s only, got %+v", moved, s)
	}
	b.Leave(b.opts.Listeners[0])
	if conn, err := net.Dial("tcp", b.address); err == nil {
		t.Errorf("somebody listens at %s, which was left", conn.RemoteAddr())
	}
	if a.linked(b); !a.Send(2, 1, body("there")) {
		t.Error("nothing can be sent after the move")
	}
	eventually(t, "it arrives", func() bool { return b.heard.count() > 0 })
}

// TestOnlyOneStreamMovesAtATime: of two peers that have moved, the second stream moves at the next look of the
// supervisor.
func TestOnlyOneStreamMovesAtATime(t *testing.T) {
	a, b, c := newMember(t, 1, nil), newMember(t, 2, nil), newMember(t, 3, nil)
	for _, m := range []*member{a, b, c} {
		m.know(a, b, c)
		m.Start(m.heard)
	}
	a.linked(b)
	a.linked(c)
	where := map[uint64]Peer{}
	for _, m := range []*member{b, c} {
		where[m.id] = Peer{Addresses: []string{m.listenAgain().Addr().String()}, Former: []string{m.address}}
	}
	a.SetPeers(where)
	moved := func(id uint64) bool { s := a.of(id); return s.Out && s.Address == where[id].Addresses[0] }
	a.moves()
	eventually(t, "one has moved", func() bool { return moved(2) })
	if moved(3) || a.heard.losses(3) != 0 {
		t.Error("both streams moved at once")
	}
	a.moves()
	eventually(t, "the other has moved", func() bool { return moved(3) })
}

// TestPeerSaysWhereItIs: server 2 came back at an address that server 1 does not know of, and finds server 1.
func TestPeerSaysWhereItIs(t *testing.T) {
	var b *member
	b = newMember(t, 2, func(o *Options) { o.Where = func() []string { return []string{b.address} } })
	a := newMember(t, 1, nil)
	a.SetPeers(map[uint64]Peer{2: {Addresses: []string{"127.0.0.1:1"}}}) // nobody listens at that port
	b.know(a)
	a.Start(a.heard)
	b.Start(b.heard)
	a.linked(b)
	if s := a.of(2); !slices.Equal(s.Former, []string{b.address}) {
		t.Errorf("server 2 may be at %v, want %s", s.Former, b.address)
	}
}

// TestReach asks who is at an address: the peer, nobody, another server, oneself.
func TestReach(t *testing.T) {
	a, b, c := newMember(t, 1, nil), newMember(t, 2, nil), newMember(t, 3, nil)
	for _, m := range []*member{a, b, c} {
		m.know(a, b, c)
	}
	b.Start(b.heard)
	c.Start(c.heard)
	a.Start(a.heard)
	for _, test := range []struct {
		name      string
		addresses []string
		reached   bool
	}{
		{"there", []string{b.address}, true},
		{"the second of two", []string{"127.0.0.1:1", b.address}, true},
		{"nobody", []string{"127.0.0.1:1"}, false},
		{"another server", []string{c.address}, false},
		{"this server", []string{a.address}, false},
		{"no address", nil, false},
	} {
		if err := a.Reach(context.Background(), 2, test.addresses); (err == nil) != test.reached {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	if err := a.Reach(context.Background(), 4, []string{b.address}); err == nil {
		t.Error("server 4, which is no peer, was reached")
	}
}

// TestHelloWithoutAddresses: a peer of before says nothing of where it is.
func TestHelloWithoutAddresses(t *testing.T) {
	h := hello{oldest: 1, newest: 1, from: 1, to: 2, processID: 3, purpose: forMessages,
		where: []string{"host:1", "other:2"}}
	whole := h.encode()
	before := seal(bytes.Clone(whole[:len(whole)-sumBytes-1-4-(1+7+8)]), helloHeadBytes) // nothing of levels either
	for want, encoded := range map[int][]byte{2: whole, 0: before} {                     // order: each for itself
		got, err := readHello(bytes.NewReader(encoded))
		if err != nil || len(got.where) != want || got.from != 1 {
			t.Errorf("got %+v, %v, want %d addresses", got, err, want)
		}
	}
}
