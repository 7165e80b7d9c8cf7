package quorum

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"testing/cryptotest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// stepRetain is Options.RetainBytes of a stepGroup.
const stepRetain = 400

// leader is the member that leads.
func (g *stepGroup) leader() *stepMember {
	g.t.Helper()
	for _, m := range g.present() {
		if m.stepper.Node().Status().Role == RoleLeader {
			return m
		}
	}
	g.t.Fatal("nobody leads")
	return nil
}

// logBytes is what the entries of a member's log have, read one by one.
func (m *stepMember) logBytes() (bytes int) {
	m.g.t.Helper()
	log := m.stepper.node.options.Log
	entries, err := log.Entries(nil, log.FirstIndex(), log.LastIndex()+1, 1<<30)
	if err != nil {
		m.g.t.Fatal(err)
	}
	for i := range entries {
		bytes += len(entries[i].Data)
	}
	return bytes
}

// write lets ticks pass, in each of which the leader writes, all flush, and the compactors work: no log may have twice
// its bound at any time.
func (g *stepGroup) write(c *stepClient, ticks int) {
	g.t.Helper()
	for range ticks {
		c.write(g.leader())
		g.settle(1)
		for _, m := range g.present() {
			if err := m.machine.Flush(context.Background()); err != nil {
				g.t.Fatal(err)
			}
			if _, err := m.stepper.Compact(); err != nil {
				g.t.Fatal(err)
			}
			if bytes := m.logBytes(); bytes > 2*stepRetain {
				g.t.Fatalf("the log of member %d has %d bytes, its bound is %d", m.id, bytes, stepRetain)
			}
		}
	}
}

// behind returns a group of which a member lacks more than the logs of the others have, and that member.
func behind(t *testing.T) (g *stepGroup, c *stepClient, last *stepMember) {
	t.Helper()
	cryptotest.SetGlobalRandom(t, 3)
	g = newStepGroup(t, 3)
	t.Cleanup(g.close)
	g.settle(100)
	last = g.members[2]
	if g.leader() == last {
		last = g.members[0]
	}
	g.away = last.id
	c = &stepClient{id: 1, acks: &ledger{acked: map[uint32]uint32{}}}
	g.write(c, 50)
	if first := g.leader().stepper.Node().Status().FirstIndex; first < 10 {
		t.Fatalf("the log begins at entry %d", first)
	}
	g.refuses, g.away = last.id, 0
	return g, c, last
}

// peer is what the leader knows of a member.
func (g *stepGroup) peer(id uint64) PeerStatus {
	g.t.Helper()
	for _, p := range g.leader().stepper.Node().Status().Peers {
		if p.ID == id {
			return p
		}
	}
	g.t.Fatalf("the leader knows of no member %d", id)
	return PeerStatus{}
}

// TestRefusedSnapshotsArePutOff has a member refuse checkpoints for 300 s of raft's time: it is offered few, and no log
// grows for it. When its connection is new, it is offered one soon, and when it takes one it has everything.
func TestRefusedSnapshotsArePutOff(t *testing.T) {
	g, c, last := behind(t)
	g.write(c, 3000)
	if g.offered < 10 || g.offered > 20 {
		t.Fatalf("%d checkpoints were offered in 3,000 ticks, want 10 to 20", g.offered)
	}
	p := g.peer(last.id)
	if int(p.Transfers) != g.offered || p.TransferFailures != p.Transfers || p.Refusal != errInjected.Error() {
		t.Errorf("%d were offered, status %+v", g.offered, p)
	}
	for range 2 * longestPauseTicks {
		if g.peer(last.id).Pause > 2*firstPauseTicks*last.stepper.node.options.TickInterval {
			break
		}
		g.write(c, 1)
	}
	before := g.offered
	g.leader().stepper.Node().Lost(last.id)
	g.leader().stepper.Node().Connected(last.id)
	g.write(c, firstPauseTicks+5)
	if g.offered != before+1 {
		t.Errorf("%d checkpoints were offered after the connection was new, want 1", g.offered-before)
	}
	g.refuses = 0
	g.write(c, 2*longestPauseTicks)
	g.settle(20)
	if p := g.peer(last.id); p.LagEntries > 0 || p.Pause != 0 || p.Refusal != "" {
		t.Errorf("after it takes checkpoints: %+v", p)
	}
	checkOrder(t, last.machine.list(), nil, int(c.seq))
}

// TestAMemberWhoseDiskGoesOnGetsItsSnapshotSoon has a member's disk hang until it needs a checkpoint, and for long
// after that, in which it takes none: when it stores again what it was sent before, the next one does not wait for the
// end of the pause (seed 11470659).
func TestAMemberWhoseDiskGoesOnGetsItsSnapshotSoon(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 4)
	g := newStepGroup(t, 4)
	t.Cleanup(g.close)
	g.settle(100)
	last := g.members[2]
	if g.leader() == last {
		last = g.members[0]
	}
	g.hung, g.refuses = last.id, last.id
	c := &stepClient{id: 1, acks: &ledger{acked: map[uint32]uint32{}}}
	g.write(c, 1000)
	tick := last.stepper.node.options.TickInterval
	for n := 0; g.peer(last.id).Pause < 5*firstPauseTicks*tick; n++ {
		if n > longestPauseTicks {
			t.Fatalf("no long pause: %+v", g.peer(last.id))
		}
		g.write(c, 1)
	}
	g.hung, g.refuses = 0, 0
	g.write(c, 2*firstPauseTicks)
	g.settle(5)
	if p := g.peer(last.id); p.LagEntries > 0 || p.Pause != 0 || p.Refusal != "" {
		t.Errorf("after its disk went on: %+v", p)
	}
	checkOrder(t, last.machine.list(), nil, int(c.seq))
}

// TestAMemberEndsWhileItInstalls has a member end before it tells the leader that it has a checkpoint, and nobody write
// for long: it finishes the install when it starts, so that it has no use for the same one, and is brought up to date.
func TestAMemberEndsWhileItInstalls(t *testing.T) {
	g, c, last := behind(t)
	g.settle(2 * longestPauseTicks) // until a checkpoint has all that was written
	g.refuses, g.ends = 0, last.id
	g.settle(2 * longestPauseTicks)
	if g.finished != 1 {
		t.Fatalf("%d installs were finished by a start", g.finished)
	}
	if p := g.peer(last.id); p.LagEntries > 0 || p.Snapshotting || p.Pause != 0 {
		t.Errorf("after a while: %+v", p)
	}
	checkOrder(t, last.machine.list(), nil, int(c.seq))
}

// TestOvertakenSnapshotIsGivenUp lets the log go on beyond its bound while a checkpoint is on its way: it is given up,
// and another one brings the member up to date.
func TestOvertakenSnapshotIsGivenUp(t *testing.T) {
	g, c, last := behind(t)
	g.refuses, g.holds = 0, true
	g.write(c, 50)
	if p := g.peer(last.id); g.restored > 0 || !p.Snapshotting || p.Transfers == 0 {
		t.Fatalf("the checkpoint is not on its way: %d restored, %+v", g.restored, p)
	}
	g.holds = false
	g.write(c, 20)
	g.settle(20)
	if p := g.peer(last.id); g.restored != 1 || p.LagEntries > 0 || p.TransferFailures > 0 || p.Transfers != 2 {
		t.Errorf("%d checkpoints were installed, %+v", g.restored, p)
	}
	checkOrder(t, last.machine.list(), nil, int(c.seq))
}

// TestOvertakenSnapshotsThatWereRefusedArePutOff has a member refuse each checkpoint, and the log go on beyond its
// bound before the next attempt, for 300 s of raft's time: it is offered few all the same (seed 11333868), and has
// everything soon after it takes one (seed 11347952).
func TestOvertakenSnapshotsThatWereRefusedArePutOff(t *testing.T) {
	g, c, last := behind(t)
	g.hangs = true
	g.write(c, 3000)
	if g.offered < 25 || g.offered > 45 {
		t.Fatalf("%d checkpoints were offered in 3,000 ticks, want 25 to 45", g.offered)
	}
	if p := g.peer(last.id); p.Refusal != errInjected.Error() {
		t.Errorf("status %+v", p)
	}
	g.refuses, g.hangs = 0, false
	g.write(c, 2*overtakenPauseTicks)
	g.settle(20)
	if p := g.peer(last.id); p.LagEntries > 0 || p.Pause != 0 || p.Refusal != "" {
		t.Errorf("after it takes checkpoints: %+v", p)
	}
	checkOrder(t, last.machine.list(), nil, int(c.seq))
}

// TestChangeOfLeadersNeedsNoSnapshot has a member away, within the bound, while the others change leaders: the new one
// has the entries that it lacks.
func TestChangeOfLeadersNeedsNoSnapshot(t *testing.T) {
	var founded atomic.Bool
	g := newTestGroup(t, 3, 0, func(o *Options) {
		patient(o)
		o.TailEntries, o.TailBytes, o.RetainBytes = 8, 400, 1<<20
		o.OnReplaced = func() {
			if founded.Load() {
				t.Error("a snapshot was installed")
			}
		}
	})
	g.leader()
	f := g.follower()
	g.write(f.id, 1, 0, 10)
	g.agree(10)
	founded.Store(true) // before that who is late may be sent one
	g.kill(f.id)
	lead := g.leader()
	g.write(lead.id, 1, 10, 400)
	g.agree(410)
	for range 3 {
		for _, id := range g.up() {
			m := g.members[id]
			if err := m.machine.Flush(context.Background()); err != nil {
				t.Fatal(err)
			}
			ticks := m.node.loop.progress.tick.Load()
			eventually(t, "ticks", func() bool { return m.node.loop.progress.tick.Load() > ticks+3 })
			notify(m.node.compactor.signal)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	if err := lead.node.TransferLeadership(ctx); err != nil {
		t.Fatal(err)
	}
	g.start(f.id)
	checkOrder(t, g.agree(410), nil, 410)
}

// TestACheckpointThatCouldNotBeRemovedIsRemovedLater has a disk fail just when a checkpoint is to be removed, and once
// more: it is gone when the disk has removed it, and not tried again.
func TestACheckpointThatCouldNotBeRemovedIsRemovedLater(t *testing.T) {
	const dir = "checkpoint-1"
	var tried int
	mem := vfs.NewMem()
	if err := mem.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	disk := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind != errorfs.OpRemoveAll {
			return nil
		}
		if tried++; tried <= 2 {
			return errInjected
		}
		return nil
	}))
	c := &checkpoints{facts: &facts{}, toCheckpointer: newMailbox[checkpointJob](make(chan struct{}, 1))}
	s := &checkpointer{fs: disk, logger: discard, tell: func(what any) {
		left, ok := what.(checkpointLeft)
		if !ok {
			t.Fatalf("the loop is told %v", what)
		}
		c.notRemoved(left)
	}}
	s.do(context.Background(), &checkpointJob{remove: dir})
	for range 5 * removeAgainTicks {
		c.tick()
		for _, w := range c.toCheckpointer.take(nil) {
			s.do(context.Background(), &w)
		}
	}
	if _, err := mem.Stat(dir); !errors.Is(err, os.ErrNotExist) || tried != 3 {
		t.Errorf("after %d attempts: %v", tried, err)
	}
}
