package quorum

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestGroupAgrees(t *testing.T) {
	for _, size := range []int{2, 3, 5} {
		g := newTestGroup(t, size, 1, patient)
		g.leader()
		for seq := range uint32(20) {
			for _, id := range g.up() {
				mustWrite(t, g.members[id].node, applied{uint32(id), seq})
			}
		}
		checkOrder(t, g.agree(20*(size+1)), nil, 20*(size+1))
	}
}

// TestFailover kills the leader and expects another one before its silence could be noticed: an election timeout lasts
// a hundred times this tick.
func TestFailover(t *testing.T) {
	g := newTestGroup(t, 3, 0, func(o *Options) { o.TickInterval = 500 * time.Millisecond })
	lead := g.leader()
	mustWrite(t, g.follower().node, applied{1, 0})
	f := g.follower()
	began := f.node.loop.progress.tick.Load()
	g.kill(lead.id)
	mustWrite(t, f.node, applied{1, 1})
	if ticks := f.node.loop.progress.tick.Load() - began; ticks >= patience {
		t.Errorf("took %d ticks: as long as an election timeout", ticks)
	}
	g.start(lead.id)
	g.agree(2)
}

func TestCleanStopOfTheLeader(t *testing.T) {
	g := newTestGroup(t, 3, 0, func(o *Options) { o.TickInterval = 100 * time.Millisecond })
	for round := range uint32(3) {
		lead := g.leader()
		f := g.follower()
		mustWrite(t, f.node, applied{1, 2 * round})
		began := time.Now()
		g.stop(lead.id)
		t.Logf("stop took %v", time.Since(began))
		mustWrite(t, f.node, applied{1, 2*round + 1})
		t.Logf("a write %v after", time.Since(began))
		g.start(lead.id)
	}
	checkOrder(t, g.agree(6), nil, 6)
}

// groupLoad runs clients on members: each writes 0, 1, 2 … and stops at its first write whose outcome it does not know.
type groupLoad struct {
	g     *testGroup
	acks  *ledger
	all   sync.WaitGroup
	halt  chan struct{}
	count atomic.Uint32 // clients so far
}

func newGroupLoad(g *testGroup) *groupLoad {
	return &groupLoad{g: g, acks: &ledger{acked: map[uint32]uint32{}}, halt: make(chan struct{})}
}

// client begins a client of a member with a few writes under way at a time. It ends with the load, or when a write of
// it is dropped.
func (l *groupLoad) client(n *Node, window int) {
	id := l.count.Add(1)
	l.all.Go(func() {
		room, dropped := make(chan struct{}, window), make(chan struct{}, window)
		for seq := uint32(0); ; seq++ {
			select {
			case room <- struct{}{}:
			case <-l.halt:
				return
			case <-dropped:
				return
			}
			select {
			case <-dropped:
				return
			default:
			}
			w := &loadWaiter{ledgerWaiter{l.acks, applied{id, seq}, room}, dropped}
			if err := n.Propose(proposal(w.mark, 20), w); err != nil {
				return
			}
		}
	})
}

// loadWaiter is a ledgerWaiter that ends its client when a write is dropped.
type loadWaiter struct {
	ledgerWaiter
	dropped chan struct{}
}

// Dropped implements batcher.Waiter.
func (w *loadWaiter) Dropped(error) { w.dropped <- struct{}{} }

// stop ends the clients and checks what was applied: each client's writes in order, without a gap, once, and all that
// was acknowledged.
func (l *groupLoad) stop() []applied {
	l.g.t.Helper()
	close(l.halt)
	l.all.Wait()
	for _, id := range l.g.up() {
		barrier(l.g.t, l.g.members[id].node)
	}
	acked := l.acks.snapshot() // before the look at the members: what is still under way may be applied after it
	list := l.g.agree(0)
	checkOrder(l.g.t, list, acked, -1)
	return list
}

// TestForwardingKeepsOrder loses, doubles and overtakes the frames of forwarding, under load on all members.
func TestForwardingKeepsOrder(t *testing.T) {
	g := newTestGroup(t, 3, 1, func(o *Options) { o.MaxEntryBytes = 300 })
	g.leader()
	g.net.mu.Lock()
	g.net.chaos = func(r *rand.Rand) (n int, late bool) {
		switch r.IntN(10) {
		case 0:
			return 0, false
		case 1:
			return 2, false
		case 2:
			return 1, true
		}
		return 1, false
	}
	g.net.mu.Unlock()
	load := newGroupLoad(g)
	for _, id := range g.up() {
		for range 4 {
			load.client(g.members[id].node, 5)
		}
	}
	eventually(t, "much is written, and every client is answered", func() bool {
		return len(g.members[4].machine.list()) > 3000 && uint32(len(load.acks.snapshot())) == load.count.Load()
	})
	list := load.stop()
	g.net.mu.Lock()
	t.Logf("%d writes, frames %v", len(list), g.net.sent)
	g.net.mu.Unlock()
}

// TestLeadersComeAndGo transfers the leadership, kills leaders and cuts them off under load. Nothing acknowledged is
// lost, nothing is applied twice or out of order, and no write of a member that stays alive is dropped.
func TestLeadersComeAndGo(t *testing.T) {
	g := newTestGroup(t, 5, 1, nil)
	g.leader()
	load := newGroupLoad(g)
	for _, id := range g.up() {
		for range 3 {
			load.client(g.members[id].node, 4)
		}
	}
	grow := func() {
		t.Helper()
		before := len(g.members[6].machine.list())
		eventually(t, "writes go on", func() bool { return len(g.members[6].machine.list()) > before+200 })
	}
	random := rand.New(rand.NewPCG(5, 6))
	for range 12 {
		grow()
		lead := g.leader()
		switch random.IntN(3) {
		case 0:
			ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
			err := lead.node.TransferLeadership(ctx)
			if err != nil && !errors.Is(err, ErrTransferFailed) && !errors.Is(err, ErrNotLeader) { // any more
				t.Error(err)
			}
			cancel()
		case 1:
			g.kill(lead.id)
			grow()
			g.start(lead.id)
			load.client(lead.node, 4)
		case 2:
			g.net.isolate(lead.id, true)
			grow()
			g.net.isolate(lead.id, false)
		}
	}
	grow()
	t.Logf("%d writes of %d clients", len(load.stop()), load.count.Load())
}

// TestOneWayCuts takes away one direction between the leader and others.
func TestOneWayCuts(t *testing.T) {
	for _, fromLeader := range []bool{true, false} {
		g := newTestGroup(t, 3, 0, func(o *Options) { o.ElectionTicks = patience / 2 })
		lead := g.leader()
		load := newGroupLoad(g)
		f := g.follower()
		load.client(f.node, 4)
		cut := func(on bool) {
			for _, id := range g.up() {
				if fromLeader {
					g.net.block(lead.id, id, on)
				} else {
					g.net.block(id, lead.id, on)
				}
			}
		}
		cut(true)
		other := g.leader(lead.id)
		w := newWaiter(t)
		lead.node.Barrier(w)
		g.mustWriteSoon(other.node, applied{100, 0})
		eventually(t, "the old leader steps down", func() bool { return lead.states.last().Role != RoleLeader })
		cut(false)
		g.leader()
		w.wait()
		load.stop()
	}
}

// TestReadIndexOnFollowers reads on each member what was acknowledged on another.
func TestReadIndexOnFollowers(t *testing.T) {
	g := newTestGroup(t, 3, 1, patient)
	g.leader()
	for seq := range uint32(50) {
		writer, reader := g.members[1+uint64(seq)%4], g.members[1+uint64(seq/4)%4]
		mustWrite(t, writer.node, applied{1, seq})
		if a := barrier(t, reader.node); a.err != nil || int(a.zxid) < int(seq)+1 {
			t.Fatalf("barrier on member %d after write %d: %+v", reader.id, seq, a)
		}
	}
}

// TestLearnerOfASingleVoter starts a voter whose commit index on disk is old, and asks it from a learner at once.
func TestLearnerOfASingleVoter(t *testing.T) {
	g := newTestGroup(t, 1, 1, func(o *Options) { o.ElectionTicks = 10 * patience })
	mustWrite(t, g.members[1].node, applied{2, 0})
	g.agree(1) // the learner, which may have come late to the founding, has what there is
	for round := range uint32(5) {
		mustWrite(t, g.members[2].node, applied{1, 2 * round})
		mustWrite(t, g.members[1].node, applied{1, 2*round + 1})
		g.kill(1)
		w := newWaiter(t)
		g.members[2].node.Barrier(w)
		g.start(1)
		if a := w.wait(); a.err != nil || int(a.zxid) != 2*int(round)+3 {
			t.Fatalf("round %d: barrier %+v", round, a)
		}
	}
	if s := g.members[2].states.last(); s.Role != RoleLearner {
		t.Errorf("member 2 is %v", s)
	}
}

// TestStopWhileNobodyLeads stops a member whose writes wait for a leader that does not come.
func TestStopWhileNobodyLeads(t *testing.T) {
	g := newTestGroup(t, 3, 0, nil)
	lead := g.leader()
	for _, id := range g.up() {
		if id != lead.id {
			g.kill(id)
		}
	}
	m := g.members[lead.id]
	w := newWaiter(t)
	if err := m.node.Propose(proposal(applied{1, 0}, 0), w); err != nil {
		t.Fatal(err)
	}
	b := newWaiter(t)
	m.node.Barrier(b)
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	if err := m.node.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
	for _, w := range []*waiter{w, b} {
		if got := w.wait(); !errors.Is(got.err, ErrLeadershipLost) && !errors.Is(got.err, ErrStopped) {
			t.Errorf("a waiter is told %v", got.err)
		}
	}
}

// TestStopDropsBarriersOfWhoIsAlone stops a member that cannot have a leader, with nothing but a barrier waiting for
// one. Its ticks never come, so that it is not the time which ends the wait.
func TestStopDropsBarriersOfWhoIsAlone(t *testing.T) {
	g := newTestGroup(t, 3, 0, nil)
	lead := g.leader()
	for _, id := range g.up() {
		g.kill(id)
	}
	g.set = func(o *Options) { o.TickInterval = time.Hour }
	g.start(lead.id)
	m := g.members[lead.id]
	b := newWaiter(t)
	m.node.Barrier(b)
	g.stop(lead.id)
	if got := b.wait(); !errors.Is(got.err, ErrStopped) {
		t.Errorf("the barrier is told %v, want ErrStopped", got.err)
	}
}

// TestReportsReachTheLeader reports from each member.
func TestReportsReachTheLeader(t *testing.T) {
	type report struct{ at, from uint64 }
	var mu sync.Mutex
	seen := map[report]bool{}
	g := newTestGroup(t, 3, 1, func(o *Options) {
		o.ElectionTicks = 10 * patience
		at := o.ID
		o.OnReport = func(from uint64, body []byte) {
			mu.Lock()
			defer mu.Unlock()
			seen[report{at, from}] = string(body) == "sessions"
		}
	})
	lead := g.leader().id
	for _, id := range g.up() {
		if !g.members[id].node.Report(func(b []byte) []byte { return append(b, "sessions"...) }) {
			t.Errorf("member %d cannot report", id)
		}
	}
	eventually(t, "all reports are there", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(seen) == 4
	})
	mu.Lock()
	defer mu.Unlock()
	for r, whole := range seen { // order: each for itself
		if r.at != lead || !whole {
			t.Errorf("a report from %d at %d, whole: %v", r.from, r.at, whole)
		}
	}
}

// TestTransferLeadership transfers the leadership on request, and fails where it cannot.
func TestTransferLeadership(t *testing.T) {
	g := newTestGroup(t, 3, 0, func(o *Options) { o.ElectionTicks = 5 * patience })
	lead := g.leader()
	mustWrite(t, lead.node, applied{})
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	if err := g.follower().node.TransferLeadership(ctx); !errors.Is(err, ErrNotLeader) {
		t.Errorf("a follower answers %v", err)
	}
	if err := lead.node.TransferLeadership(ctx); err != nil {
		t.Errorf("transfer the leadership: %v", err)
	}
	next := g.leader()
	if next.id == lead.id {
		t.Error("the leader is the same")
	}
	for _, id := range g.up() {
		if id != next.id {
			g.kill(id)
		}
	}
	if err := next.node.TransferLeadership(ctx); err == nil {
		t.Error("the leadership went to nobody")
	}
}

// TestLogIsKeptForThoseThatLag lets a follower be away: within the bound it gets entries when it comes back, beyond it
// a snapshot.
func TestLogIsKeptForThoseThatLag(t *testing.T) {
	for _, c := range []struct {
		retainBytes int64
		snapshots   int32
	}{{1 << 20, 0}, {2000, 1}} {
		var restored atomic.Int32
		g := newTestGroup(t, 3, 0, func(o *Options) {
			patient(o)
			o.TailEntries, o.TailBytes, o.RetainBytes = 8, 400, c.retainBytes
			o.OnReplaced = func() { restored.Add(1) }
		})
		g.leader()
		f := g.follower()
		g.write(f.id, 1, 0, 10)
		g.agree(10)
		founded := restored.Load() // who was late for that may have been sent one
		g.kill(f.id)
		lead := g.leader()
		g.write(lead.id, 1, 10, 150)
		before := lead.node.Status()
		for range 3 { // the compactor looks, and the loop has told it what is needed
			if err := lead.machine.Flush(context.Background()); err != nil {
				t.Fatal(err)
			}
			ticks := lead.node.loop.progress.tick.Load()
			eventually(t, "ticks", func() bool { return lead.node.loop.progress.tick.Load() > ticks+3 })
			notify(lead.node.compactor.signal)
		}
		if c.snapshots > 0 {
			eventually(t, "the log is compacted", func() bool {
				return lead.node.Status().FirstIndex > 30
			})
		}
		g.start(f.id)
		checkOrder(t, g.agree(160), nil, 160)
		eventually(t, "every install is told of", func() bool { return restored.Load()-founded >= c.snapshots })
		if got := restored.Load() - founded; got != c.snapshots {
			t.Errorf("bound %d: %d snapshots, want %d; log [%d, %d], then [%d, …)", c.retainBytes, got, c.snapshots,
				before.FirstIndex, before.LastIndex, lead.node.Status().FirstIndex)
		}
	}
}
