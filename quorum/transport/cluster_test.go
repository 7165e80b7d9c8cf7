package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"zkd/quorum/clock"
)

// changing is a cluster id that becomes known.
type changing struct{ id atomic.Pointer[[16]byte] }

func (c *changing) get() [16]byte {
	if id := c.id.Load(); id != nil {
		return *id
	}
	return [16]byte{}
}

func (c *changing) set(id [16]byte) { c.id.Store(&id) }

// disguised is what those are told in place of the cluster who are not known.
var disguised = [16]byte{1}

func TestProbeCluster(t *testing.T) {
	founded := newMember(t, 2, func(o *Options) { o.Knows = func(id uint64) bool { return id == 1 } })
	empty := newMember(t, 3, func(o *Options) { o.ClusterID = nil })
	asking := map[uint64]*member{}
	for _, id := range []uint64{1, 4} {
		m := newMember(t, id, func(o *Options) { o.ClusterID = nil })
		m.know(founded, empty) // which do not know it, and it is not started
		asking[id] = m
	}
	founded.Start(founded.heard)
	empty.Start(empty.heard)
	for _, tc := range []struct {
		asking, asked uint64
		cluster       [16]byte
		known         bool
	}{
		{1, 2, cluster, true}, {4, 2, disguised, false}, {1, 3, [16]byte{}, false},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
		got, err := asking[tc.asking].ProbeCluster(ctx, tc.asked)
		cancel()
		if want := (Probed{Cluster: tc.cluster, Known: tc.known, Standing: Idle}); err != nil || got != want {
			t.Errorf("server %d of server %d: %+v, %v, want %+v", tc.asking, tc.asked, got, err, want)
		}
	}
	if _, err := asking[1].ProbeCluster(context.Background(), 9); !errors.Is(err, errUnknown) {
		t.Errorf("a server without an address: %v", err)
	}
}

func TestProbeClusterEndsWithItsContext(t *testing.T) {
	m := newMember(t, 1, nil)
	m.SetPeers(map[uint64]Peer{2: {Addresses: []string{"127.0.0.1:1"}}})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := m.ProbeCluster(ctx, 2); err == nil {
		t.Error("it was answered")
	}
}

// TestAnUnknownPeerIsToldOf: one that is no peer calls, to be let in maybe.
func TestAnUnknownPeerIsToldOf(t *testing.T) {
	var mu sync.Mutex
	var told []uint64
	m := newMember(t, 1, func(o *Options) {
		o.UnknownPeer = func(id uint64) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, id)
		}
	})
	m.SetPeers(map[uint64]Peer{2: {}})
	m.Start(m.heard)
	for _, change := range []func(h *hello){
		func(*hello) {}, // a peer
		func(h *hello) { h.from = 5 },
		func(h *hello) { h.from, h.cluster = 6, [16]byte{9} }, // of another cluster: it must not be let in
	} {
		h := good()
		change(&h)
		call(t, m, h)
	}
	mu.Lock()
	defer mu.Unlock()
	if fmt.Sprint(told) != "[5]" {
		t.Errorf("told of %v, want server 5", told)
	}
}

// TestAStreamOfBeforeTheClusterWasKnown: two servers meet empty, and come to belong to different clusters.
func TestAStreamOfBeforeTheClusterWasKnown(t *testing.T) {
	manual := clock.NewManual(time.Unix(1e6, 0))
	ids := map[uint64]*changing{1: {}, 2: {}}
	make1 := func(id uint64) *member {
		return newMember(t, id, func(o *Options) { o.Clock, o.ClusterID = manual, ids[id].get })
	}
	a, b := make1(1), make1(2)
	a.know(b)
	b.know(a)
	a.Start(a.heard)
	b.Start(b.heard)
	a.linked(b)
	ids[1].set([16]byte{1})
	advanceUntil(t, manual, defaultIdleTimeout, "a while", func() bool { return a.of(2).BytesIn > 100 }, a, b)
	if a.heard.losses(2) != 0 {
		t.Error("a stream to a server that knows no cluster yet is given up")
	}
	ids[2].set([16]byte{2})
	advanceUntil(t, manual, defaultIdleTimeout, "the streams are given up", func() bool {
		return a.heard.losses(2) >= 2 && b.heard.losses(1) >= 2 && !a.of(2).Out && !b.of(1).Out
	})
	a.logs("peer unreachable", "cluster", "correct the address")
}

// TestAPausedPeerIsAskedOnceAtATime: a peer that knew no cluster when the stream to it began is paused. Questions that
// it does not answer do not pile up.
func TestAPausedPeerIsAskedOnceAtATime(t *testing.T) {
	address, questions := muteListener(t)
	manual := clock.NewManual(time.Unix(1e6, 0))
	a := newMember(t, 1, func(o *Options) { o.Clock, o.DialTimeout = manual, 100*defaultIdleTimeout })
	a.SetPeers(map[uint64]Peer{2: {Addresses: []string{address}}})
	a.Start(a.heard)
	eventually(t, "the stream is up", func() bool { return a.of(2).Out })
	asked := func() bool { return len(questions) > 0 }
	for range 2 {
		advanceUntil(t, manual, defaultIdleTimeout, "the peer is asked", asked)
		for range 3 * keepAliveParts { // the supervisor looks at each
			sent := a.of(2).BytesOut
			advanceUntil(t, manual, defaultIdleTimeout, "a keep-alive", func() bool { return a.of(2).BytesOut > sent })
		}
		if n := len(questions); n != 1 {
			t.Errorf("%d questions at a time", n)
		}
		_ = (<-questions).Close() // a question without an answer: there is another
	}
}

// TestTheSameClusterIsNoReason: the streams of a new ensemble stay up when it has been founded.
func TestTheSameClusterIsNoReason(t *testing.T) {
	manual := clock.NewManual(time.Unix(1e6, 0))
	id := &changing{}
	a, b := pair(t, func(o *Options) { o.Clock, o.ClusterID = manual, id.get })
	id.set([16]byte{1})
	advanceUntil(t, manual, defaultIdleTimeout, "a while", func() bool {
		return a.of(2).BytesIn > 200 && b.of(1).BytesIn > 200
	}, a, b)
	if a.heard.losses(2) != 0 || b.heard.losses(1) != 0 {
		t.Error("streams are given up")
	}
}

// TestDifferentFounders: servers that would found different ensembles do not talk, and both say what differs. Once one
// of them is founded the lists do not matter.
func TestDifferentFounders(t *testing.T) {
	founded := &changing{}
	lists := map[uint64]string{1: "1 2 3", 2: "1 2 4"}
	a, b := pair0(t, func(id uint64, o *Options) {
		o.ClusterID = founded.get
		o.Founders = func() string { return lists[id] }
		o.Differ = func(server uint64, theirs string) string {
			if theirs == lists[id] {
				return ""
			}
			return fmt.Sprintf("server %d has %s, server %d has %s", id, lists[id], server, theirs)
		}
	})
	for _, m := range []*member{a, b} {
		m.logs("peer unreachable", "1 2 3", "1 2 4", "server lines of both the same", "zkd.join=true")
	}
	if a.of(2).Out || b.of(1).Out {
		t.Error("they are connected")
	}
	founded.set(cluster)
	a.linked(b)
}

// pair0 starts members 1 and 2.
func pair0(t *testing.T, set func(id uint64, o *Options)) (a, b *member) {
	t.Helper()
	a = newMember(t, 1, func(o *Options) { set(1, o) })
	b = newMember(t, 2, func(o *Options) { set(2, o) })
	a.know(b)
	b.know(a)
	a.Start(a.heard)
	b.Start(b.heard)
	return a, b
}

// TestALongListIsNotSaid: it does not fit the handshake.
func TestALongListIsNotSaid(t *testing.T) {
	long := strings.Repeat("x", foundersBytesMax+1)
	h := good()
	h.founders = long
	read, err := readHello(strings.NewReader(string(h.encode())))
	if err != nil || read.founders != "" {
		t.Errorf("%d bytes, %v", len(read.founders), err)
	}
	a := answer{name: strings.Repeat("n", 999), text: strings.Repeat("t", 999), founders: long[1:]}
	back, err := readAnswer(strings.NewReader(string(a.encode())))
	if err != nil || back.founders != long[1:] {
		t.Errorf("the longest answer: %v", err)
	}
}

// TestNamesAreLookedUpAnew: a server comes back under the same name at another address.
func TestNamesAreLookedUpAnew(t *testing.T) {
	var mu sync.Mutex
	resolved := map[string]string{}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		mu.Lock()
		to := resolved[address]
		mu.Unlock()
		if to == "" {
			return nil, &net.DNSError{Err: "no such host", Name: address, IsNotFound: true}
		}
		return new(net.Dialer).DialContext(ctx, network, to)
	}
	move := func(m *member) {
		mu.Lock()
		defer mu.Unlock()
		resolved[fmt.Sprintf("server%d.example:1", m.id)] = m.address
	}
	start := func(id uint64) *member {
		m := newMember(t, id, func(o *Options) { o.Dial = dial })
		m.SetPeers(map[uint64]Peer{3 - id: {Addresses: []string{fmt.Sprintf("server%d.example:1", 3-id)}}})
		m.Start(m.heard)
		return m
	}
	a := start(1)
	a.logs("peer not reached", "no such host")
	move(a)
	b := start(2)
	move(b)
	a.linked(b)
	b.Close()
	b = start(2) // elsewhere
	move(b)
	a.linked(b)
	if got := a.of(2).Address; got != "server2.example:1" {
		t.Errorf("address %s", got)
	}
}
