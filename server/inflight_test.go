package server

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"zkd/jute"
	"zkd/server/socket"
)

// startHeld starts a server with globalOutstandingLimit=1 that has two writes of b to /n under way and one of a, whose
// reader is held with two more.
func startHeld(t *testing.T) (r *rig, node *holdingNode, a, b *client) {
	t.Helper()
	r, node = startHolding(t, rigOptions{set: func(o *Options) { o.Limits.Outstanding = 1 }})
	a, b = r.connect(t), r.connect(t)
	a.mustCreate("/n", "", jute.ModePersistent)
	r.nothingUnderWay()
	b.pipeline(2, jute.OpSetData, setTo("/n", "b"))
	node.holds(t, 2)
	a.pipeline(3, jute.OpSetData, setTo("/n", "a"))
	r.held(a, 1)
	return r, node, a, b
}

// nothingUnderWay waits until nothing counts as under way: a client may know of its session before its reader has
// counted the handshake out.
func (r *rig) nothingUnderWay() {
	r.t.Helper()
	eventually(r.t, "nothing is under way", func() bool { return r.server.inFlight.Count() == 0 })
}

// held waits until the reader of c's connection waits because of globalOutstandingLimit, and then has n writes under
// way.
func (r *rig) held(c *client, n int) {
	r.t.Helper()
	sc := r.connOf(c)
	eventually(r.t, "the reader waits", func() bool {
		return sc.Out.State().Held
	})
	if got := sc.Out.State().Outstanding; got != n {
		r.t.Errorf("%d writes of the connection are under way, want %d", got, n)
	}
}

func TestGlobalOutstandingLimitStopsReaders(t *testing.T) {
	r, node := startHolding(t, rigOptions{set: func(o *Options) { o.Limits.Outstanding = 16 }})
	a, b, c := r.connect(t), r.connect(t), r.connect(t)
	a.mustCreate("/n", "", jute.ModePersistent)
	r.nothingUnderWay()
	a.pipeline(40, jute.OpSetData, setTo("/n", "a"))
	r.held(a, 17)
	b.pipeline(5, jute.OpSetData, setTo("/n", "b"))
	r.held(b, 2) // however many the others have
	c.must(jute.OpGetData, look("/n"), jute.OK)
	node.holds(t, 19)
	node.release(7) // of a; 12 are left
	node.holds(t, 17)
	r.held(a, 15) // a has made full use of it
	r.held(b, 2)  // and b has heard nothing yet
	node.release(-1)
	a.wantReplies(40, jute.OK)
	b.wantReplies(5, jute.OK)
	if got := string(r.read(t, "/n")); got != "b" && got != "a" {
		t.Errorf("data %q", got)
	}
}

// read returns the data of a znode.
func (r *rig) read(t *testing.T, path string) []byte {
	t.Helper()
	v := r.machine.View()
	defer v.Close()
	n, ok := v.Get(path)
	if !ok {
		t.Fatalf("no znode %s", path)
	}
	return n.Data()
}

func TestAHeldReaderEndsWithItsConnection(t *testing.T) {
	r, node, a, b := startHeld(t)
	again := r.reattach(t, a) // closes the old connection, whose write is still held
	a.wantClosed()
	r.count(2)
	node.release(-1)
	b.wantReplies(2, jute.OK)
	again.must(jute.OpSetData, setTo("/n", "again"), jute.OK)
}

// TestADroppedWriteIsUnderWayNoMore: whatever becomes of it, its address has its bytes again.
func TestADroppedWriteIsUnderWayNoMore(t *testing.T) {
	r, node := startHolding(t, rigOptions{})
	a := r.connect(t)
	a.mustCreate("/n", "", jute.ModePersistent)
	a.pipeline(2, jute.OpSetData, setTo("/n", "a"))
	node.holds(t, 2)
	if r.server.shares.Bytes() == 0 {
		t.Error("nothing is under way")
	}
	node.drop(errors.New("leadership was lost"))
	a.wantClosed()
	if n := r.server.shares.Bytes(); n != 0 {
		t.Errorf("%d bytes are under way", n)
	}
}

func TestShutdownEndsHeldReaders(t *testing.T) {
	r, _, _, _ := startHeld(t)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := r.server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("shutdown with writes that never end: %v", err)
	}
	r.count(0)
}

// TestLargeWritesOfOneConnectionLeaveRoom: however much one client sends at once, what is under way of it is a part of
// what the group takes before all wait; others go on beside it.
func TestLargeWritesOfOneConnectionLeaveRoom(t *testing.T) {
	r, node := startHolding(t, rigOptions{})
	a, b := r.connect(t), r.connect(t)
	a.mustCreate("/n", "", jute.ModePersistent)
	r.nothingUnderWay()
	const size, writes = socket.MaxOutstandingBytes / 8, 20
	sent := make(chan struct{})
	go func() { // it is more than the server takes now
		defer close(sent)
		a.pipeline(writes, jute.OpSetData, setTo("/n", strings.Repeat("x", size)))
	}()
	node.holds(t, 8)
	b.pipeline(1, jute.OpSetData, setTo("/n", "b"))
	node.holds(t, 9)
	if got := r.connOf(a).Out.State(); got.Outstanding != 8 {
		t.Errorf("%d writes of one connection are under way, want 8", got.Outstanding)
	}
	node.release(-1)
	b.wantReplies(1, jute.OK)
	<-sent
	a.wantReplies(writes, jute.OK)
}

// TestAnAddressHasItsShare of what is under way, with however many connections: beyond it each of them has one write,
// and who comes from elsewhere goes on.
func TestAnAddressHasItsShare(t *testing.T) {
	r, node := startHolding(t, rigOptions{set: func(o *Options) { o.Limits.Outstanding = 16 }})
	other := r.connectFrom(t, "127.0.0.2")
	other.mustCreate("/n", "", jute.ModePersistent)
	clients := make([]*client, 12)
	for i := range clients {
		clients[i] = r.connect(t)
	}
	r.nothingUnderWay()
	for i, c := range clients {
		c.pipeline(2, jute.OpSetData, setTo("/n", "a"))
		if i < 8 {
			node.holds(t, 2*(i+1))
		} else {
			r.held(c, 1)
		}
	}
	node.holds(t, 20)
	other.pipeline(2, jute.OpSetData, setTo("/n", "b"))
	node.holds(t, 22)
	node.release(-1)
	for _, c := range append(clients, other) {
		c.wantReplies(2, jute.OK)
	}
}

// TestLargeWritesOfAnAddressLeaveRoom does the same for their bytes: half of what the group takes is left to others.
func TestLargeWritesOfAnAddressLeaveRoom(t *testing.T) {
	r, node := startHolding(t, rigOptions{})
	other := r.connectFrom(t, "127.0.0.2")
	other.mustCreate("/n", "", jute.ModePersistent)
	const writes, connections = 8, 6
	data := strings.Repeat("x", socket.MaxOutstandingBytes/writes)
	clients := make([]*client, connections)
	for i := range clients {
		clients[i] = r.connect(t)
	}
	r.nothingUnderWay()
	var sending sync.WaitGroup
	for _, c := range clients {
		sending.Go(func() { // it is more than the server takes now
			for range writes {
				c.write(c.encode(jute.OpSetData, setTo("/n", data)))
			}
		})
	}
	node.holds(t, 31) // of 48; with what is around the data 32 are more than 16 MiB
	other.pipeline(1, jute.OpSetData, setTo("/n", data))
	node.holds(t, 32)
	node.release(-1)
	sending.Wait()
	for _, c := range clients {
		c.wantReplies(writes, jute.OK)
	}
	other.wantReplies(1, jute.OK)
}
