package peers

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"zkd/quorum/clock"
)

// portsBench has ports that open nothing, on a clock of the test's own.
type portsBench struct {
	*peerPorts
	clock *clock.Manual
	open  []string        // in the order of opening
	taken map[string]bool // by somebody else
	log   strings.Builder
}

// pretended is a listener of which nothing is wanted but its address.
type pretended struct {
	net.Listener
	at net.Addr
}

func (p *pretended) Addr() net.Addr { return p.at }

func newPortsBench(t *testing.T) *portsBench {
	t.Helper()
	b := &portsBench{clock: clock.NewManual(time.Unix(0, 0)), taken: map[string]bool{}}
	b.peerPorts = &peerPorts{
		logger: slog.New(slog.NewTextHandler(&b.log, nil)), clock: b.clock, network: b,
		accept: func(net.Listener) {},
		leave: func(l net.Listener) {
			b.open = slices.DeleteFunc(b.open, func(a string) bool { return a == l.Addr().String() })
		},
	}
	return b
}

// Listen implements portsNetwork.
func (b *portsBench) Listen(_ context.Context, address string, _ int) (net.Listener, error) {
	if b.taken[address] || slices.Contains(b.open, address) {
		return nil, errors.New("address already in use")
	}
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, err
	}
	b.open = append(b.open, address)
	return &pretended{at: at}, nil
}

// LookupNetIP implements portsNetwork. It knows one name.
func (b *portsBench) LookupNetIP(_ context.Context, host string) ([]netip.Addr, error) {
	if host != "localhost" {
		return nil, errors.New("no such host")
	}
	return []netip.Addr{netip.IPv6LinkLocalAllNodes(), netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
}

// at is the spot of an address that is bound as it is dialed.
func at(addresses ...string) (spots []listenAddress) {
	for _, a := range addresses {
		spots = append(spots, listenAddress{bind: a, where: a})
	}
	return spots
}

// listens fails the test unless the ports are these.
func (b *portsBench) listens(t *testing.T, when string, want ...string) {
	t.Helper()
	if !slices.Equal(b.open, want) {
		t.Errorf("%s: listens at %v, want %v; the log:\n%s", when, b.open, want, &b.log)
	}
}

func nobody([]string) bool    { return false }
func everybody([]string) bool { return true }

// TestPeerPortsMove: a server listens at its new address when it is offered, and at the former one until all have
// moved.
func TestPeerPortsMove(t *testing.T) {
	const first, second = "127.0.0.1:1001", "127.0.0.1:1002"
	b := newPortsBench(t)
	ctx := t.Context()
	if err := b.begin(ctx, at(first), nil); err != nil {
		t.Fatal(err)
	}
	if listens, err := b.offer(ctx, at(second)); !listens || err != nil {
		t.Fatalf("offered: %v, %v", listens, err)
	}
	b.listens(t, "when it is offered", first, second)
	if got := b.where(); !slices.Equal(got, []string{first}) {
		t.Errorf("it says that it is at %v before the change", got)
	}
	b.settle(ctx, at(second), nil)
	b.retryListen(ctx, nobody)
	b.listens(t, "when it is settled", first, second)
	if got := b.where(); !slices.Equal(got, []string{second, first}) {
		t.Errorf("it says that it is at %v after the change", got)
	}
	if s := b.status(); !slices.Equal(s.own, []string{second}) || !slices.Equal(s.former, []string{first}) {
		t.Errorf("status %+v", s)
	}
	b.retryListen(ctx, func(at []string) bool { return slices.Equal(at, []string{second}) })
	b.listens(t, "when all have moved", second)
}

// TestPeerPortsAreBounded: an offer that does not come true, and a former port to which somebody is left, end.
func TestPeerPortsAreBounded(t *testing.T) {
	const first, second, third = "127.0.0.1:1001", "127.0.0.1:1002", "127.0.0.1:1003"
	b := newPortsBench(t)
	ctx := t.Context()
	if err := b.begin(ctx, at(first), at(second)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.offer(ctx, at(third)); err != nil {
		t.Fatal(err)
	}
	b.retryListen(ctx, nobody)
	b.listens(t, "at the start", first, second, third)
	b.clock.Advance(offeredFor + time.Second)
	b.retryListen(ctx, nobody)
	b.listens(t, "when the offer is old", first, second)
	b.clock.Advance(formerFor)
	b.retryListen(ctx, nobody)
	b.listens(t, "when the former is old", first)
	b.clock.Advance(10 * formerFor)
	b.retryListen(ctx, everybody)
	b.listens(t, "for good", first)
}

// TestPeerPortThatIsTaken: an address that somebody else has is tried again with back-off, and the former one serves
// meanwhile, for as long as it takes.
func TestPeerPortThatIsTaken(t *testing.T) {
	const first, second = "127.0.0.1:1001", "127.0.0.1:1002"
	b := newPortsBench(t)
	ctx := t.Context()
	b.taken[second] = true
	if err := b.begin(ctx, at(second), nil); err == nil || !strings.Contains(err.Error(), "peer port") {
		t.Errorf("it begins without a port: %v", err)
	}
	if err := b.begin(ctx, at(first), nil); err != nil {
		t.Fatal(err)
	}
	if listens, err := b.offer(ctx, at(second)); listens || err == nil {
		t.Errorf("offered what is taken: %v, %v", listens, err)
	}
	b.settle(ctx, at(second), nil)
	for range 2 * int(formerFor/portRetryMost) {
		b.clock.Advance(portRetryMost)
		b.retryListen(ctx, everybody)
	}
	b.listens(t, "while it is taken", first)
	if s := b.status(); !slices.Equal(s.closed, []string{second}) {
		t.Errorf("status %+v", s)
	}
	if tries := strings.Count(b.log.String(), "cannot listen on the configured peer address"); tries < 10 {
		t.Errorf("%d tries", tries)
	}
	b.taken[second] = false
	b.clock.Advance(portRetryMost)
	b.retryListen(ctx, nobody)
	b.listens(t, "when it is free, and the former is old", second)
}

// TestPeerPortsOfAllAddressesAreNotTold: who dialed 0.0.0.0 would find himself.
func TestPeerPortsOfAllAddressesAreNotTold(t *testing.T) {
	b := newPortsBench(t)
	own := []listenAddress{{bind: ":1001", where: "0.0.0.0:1001"}, {bind: "127.0.0.1:1002", where: "host:1002"}}
	if err := b.begin(t.Context(), own, nil); err != nil {
		t.Fatal(err)
	}
	if got := b.where(); !slices.Equal(got, []string{"host:1002"}) {
		t.Errorf("it says that it is at %v", got)
	}
}

// TestPeerPortOfAnotherServer: what another server is to have is left at once.
func TestPeerPortOfAnotherServer(t *testing.T) {
	const first, second = "127.0.0.1:1001", "127.0.0.1:1002"
	b := newPortsBench(t)
	if err := b.begin(t.Context(), at(first), nil); err != nil {
		t.Fatal(err)
	}
	b.settle(t.Context(), at(second), []string{first})
	b.listens(t, "after the change", second)
}

// TestListensAt: names and wildcards are the address that they stand for.
func TestListensAt(t *testing.T) {
	loopback := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 27000}
	all := &net.TCPAddr{IP: net.IPv6unspecified, Port: 27000}
	for _, test := range []struct {
		at       net.Addr
		address  string
		is, wide bool
	}{
		{loopback, "127.0.0.1:27000", true, false},
		{loopback, "localhost:27000", true, false},
		{loopback, "elsewhere:27000", false, false},
		{loopback, "127.0.0.1:27001", false, false},
		{loopback, "127.0.0.2:27000", false, false},
		{loopback, "0.0.0.0:27000", false, true},
		{all, "127.0.0.1:27000", true, false},
		{all, ":27000", true, true},
		{all, "0.0.0.0:27001", false, false},
	} {
		if got := ListensAt(new(portsBench), test.at, test.address); got != test.is {
			t.Errorf("%v is at %s: %v", test.at, test.address, got)
		}
		if got := Widens(test.at, test.address); got != test.wide {
			t.Errorf("%s widens %v: %v", test.address, test.at, got)
		}
	}
}
