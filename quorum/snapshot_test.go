package quorum

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"

	"zkd/jute"
	"zkd/quorum/member"
	"zkd/storage/crashfs"
)

// smallLog has members forget their logs almost at once.
func smallLog(o *Options) {
	o.TailEntries, o.TailBytes, o.RetainBytes = 1, 1, 1
}

// write writes count times through a member, from sequence first on.
func (g *testGroup) write(id uint64, client, first, count uint32) {
	g.t.Helper()
	for seq := first; seq < first+count; seq++ {
		g.mustWriteSoon(g.members[id].node, applied{client, seq})
	}
}

// forget flushes the machines of all members that run and waits until their logs begin behind index.
func (g *testGroup) forget(index uint64) {
	g.t.Helper()
	for _, id := range g.up() {
		m := g.members[id]
		eventually(g.t, "the log is compacted", func() bool {
			if err := m.machine.Flush(context.Background()); err != nil {
				g.t.Fatal(err)
			}
			notify(m.node.compactor.signal)
			return m.node.options.Log.FirstIndex() > index
		})
	}
}

// TestLaggingMemberGetsASnapshot lets the log go on without a member, twice, with a restart in between.
func TestLaggingMemberGetsASnapshot(t *testing.T) {
	var restored atomic.Int32
	g := newTestGroup(t, 3, 0, func(o *Options) {
		smallLog(o)
		patient(o)
		o.OnReplaced = func() { restored.Add(1) }
	})
	g.leader()
	var founding int // a member that is late for that begins with a snapshot
	for round := range uint32(2) {
		f := g.follower()
		g.write(f.id, 1, 100*round, 50)
		g.kill(f.id)
		lead := g.leader()
		g.write(lead.id, 1, 100*round+50, 50)
		if round == 0 { // both others are needed for what was written, so they have begun
			founding = int(restored.Load())
		}
		g.forget(lead.machine.AppliedIndex() - 5)
		g.start(f.id)
		checkOrder(t, g.agree(int(100*round+100)), nil, int(100*round+100))
		eventually(t, "the install is told of", func() bool { return int(restored.Load())-founding > int(round) })
		if got := int(restored.Load()) - founding; got != int(round)+1 {
			t.Errorf("round %d: %d snapshots were installed", round, got)
		}
		eventually(t, "the mark of the install is cleared", func() bool {
			_, ok := f.node.options.Log.Meta(installingKey)
			return !ok
		})
	}
}

// TestMemberJoins adds a member that knows nothing, first as a learner, then with a vote, and removes another one.
func TestMemberJoins(t *testing.T) {
	g := newTestGroup(t, 3, 0, func(o *Options) {
		smallLog(o)
		patient(o)
	})
	lead := g.leader()
	g.write(lead.id, 1, 0, 30)
	g.forget(lead.machine.AppliedIndex() - 5)
	m := g.start(4)
	if s := m.node.Status(); s.Role != RoleLearner || len(s.Voters) != 0 {
		t.Errorf("before it is added: %+v", s)
	}
	g.change(applied{1, 30}, raftpb.ConfChangeAddLearnerNode, 4)
	eventually(t, "the new member has caught up", func() bool { return len(m.machine.list()) == 31 })
	g.mustWriteSoon(m.node, applied{1, 31})
	g.change(applied{1, 32}, raftpb.ConfChangeAddNode, 4)
	eventually(t, "the new member has a vote", func() bool { return m.states.last().Role == RoleFollower })
	gone := g.follower().id
	g.change(applied{1, 33}, raftpb.ConfChangeRemoveNode, gone)
	eventually(t, "the removed member knows", func() bool { return g.members[gone].states.last().Role == RoleRemoved })
	g.kill(gone)
	g.start(gone)
	eventually(t, "the removed member knows after a restart", func() bool {
		return g.members[gone].states.last().Role == RoleRemoved
	})
	g.kill(gone)
	g.write(m.id, 1, 34, 5)
	checkOrder(t, g.agree(39), nil, 39)
	s := g.leader().node.Status()
	if len(s.Voters) != 3 || !slices.Contains(s.Voters, 4) || s.Quorum != 2 || len(s.Peers) != 2 {
		t.Errorf("status %+v", s)
	}
}

// propose proposes a change of membership on the leader and returns what the waiter is told.
func (g *testGroup) propose(mark applied, changes ...*raftpb.ConfChangeSingle) answer {
	g.t.Helper()
	var got answer
	eventually(g.t, "a change of membership is taken", func() bool {
		w := newWaiter(g.t)
		err := g.leader().node.ProposeChange(&raftpb.ConfChangeV2{Changes: changes}, proposal(mark, 0), w)
		if errors.Is(err, ErrNotLeader) {
			return false
		}
		if err != nil {
			g.t.Fatal(err)
		}
		got = w.wait()
		return !errors.Is(got.err, ErrChangePending) && !errors.Is(got.err, ErrNotLeader) &&
			!errors.Is(got.err, errNotMet)
	})
	return got
}

// change changes one member.
func (g *testGroup) change(mark applied, kind raftpb.ConfChangeType, id uint64) {
	g.t.Helper()
	if got := g.propose(mark, member.Step(kind, id)); got.err != nil {
		g.t.Fatalf("change %v of member %d: %v", kind, id, got.err)
	}
}

// TestChangeDependsOnItsProposal proposes changes of which one's proposal is refused by the state.
func TestChangeDependsOnItsProposal(t *testing.T) {
	g := newTestGroup(t, 3, 0, patient)
	bad := applied{7, 0}
	for _, m := range g.members { // order: each for itself
		m.machine.whole(func() { m.machine.refuse = map[applied]bool{bad: true} })
	}
	got := g.propose(bad, member.Step(raftpb.ConfChangeAddLearnerNode, 9))
	if got.err != nil || got.code != jute.BadVersion {
		t.Errorf("the refused change: %+v", got)
	}
	got = g.propose(applied{7, 1}, member.Step(raftpb.ConfChangeAddLearnerNode, 8))
	if got.err != nil || got.code != jute.OK {
		t.Errorf("the change after it: %+v", got)
	}
	if got := g.propose(applied{7, 2}, member.Step(raftpb.ConfChangeRemoveNode, 1),
		member.Step(raftpb.ConfChangeRemoveNode, 2), member.Step(raftpb.ConfChangeRemoveNode, 3)); got.err == nil {
		t.Error("all voters can be removed")
	}
	err := g.follower().node.ProposeChange(&raftpb.ConfChangeV2{}, proposal(bad, 0), nil)
	if !errors.Is(err, ErrNotLeader) {
		t.Errorf("a follower answers %v", err)
	}
	g.agree(2)
	eventually(t, "all members know the learner", func() bool {
		for _, id := range g.up() {
			if s := g.members[id].node.Status(); !slices.Equal(s.Learners, []uint64{8}) {
				return false
			}
		}
		return true
	})
}

// TestJointChangeReplacesTheLeader replaces the leader and another voter by new members in one change.
func TestJointChangeReplacesTheLeader(t *testing.T) {
	g := newTestGroup(t, 3, 0, func(o *Options) {
		smallLog(o)
		patient(o)
	})
	lead := g.leader()
	g.write(lead.id, 1, 0, 30)
	g.forget(lead.machine.AppliedIndex() - 5)
	other := g.follower().id
	g.start(4)
	g.start(5)
	changes := []*raftpb.ConfChangeSingle{
		member.Step(raftpb.ConfChangeAddNode, 4), member.Step(raftpb.ConfChangeAddNode, 5),
		member.Step(raftpb.ConfChangeRemoveNode, lead.id), member.Step(raftpb.ConfChangeRemoveNode, other),
	}
	if got := g.propose(applied{1, 30}, changes...); got.err != nil {
		t.Fatal(got.err)
	}
	for _, id := range []uint64{lead.id, other} {
		eventually(t, "a removed member knows", func() bool { return g.members[id].states.last().Role == RoleRemoved })
	}
	g.kill(lead.id)
	g.kill(other)
	g.leader()
	g.write(4, 1, 31, 10)
	checkOrder(t, g.agree(41), nil, 41)
}

// TestFounding has the group founded once, by whichever leader.
func TestFounding(t *testing.T) {
	id := [16]byte{1, 2, 3}
	g := newTestGroup(t, 3, 0, func(o *Options) { o.Bootstrap = id[:] })
	for range 3 {
		lead := g.leader()
		eventually(t, "the group is founded", func() bool { return lead.machine.ClusterID() == id })
		g.mustWriteSoon(lead.node, applied{})
		g.stop(lead.id)
		g.start(lead.id)
	}
	g.agree(0)
	g.members[1].machine.whole(func() {
		if n := g.members[1].machine.state.founded; n != 1 {
			t.Errorf("the founding was proposed %d times", n)
		}
	})
}

// TestInstallSurvivesACrash ends the power before and after each write of an install.
func TestInstallSurvivesACrash(t *testing.T) {
	conf := &raftpb.ConfState{Voters: []uint64{1, 2, 3}}
	in := &install{member: member.Membership{Index: 100, Conf: conf}, term: 5, hard: appendHardState(nil, 6, 2, 100)}
	for _, step := range []string{"begun", "restored", "ended"} {
		fs := crashfs.New()
		log := openLog(t, fs, "log")
		o := testOptions(log, &fakeMachine{})
		o.Members = []Member{{ID: 1}, {ID: 2}, {ID: 3}}
		if _, _, err := openGroup(&o, 0); err != nil {
			t.Fatal(err)
		}
		if err := in.begin(log); err != nil {
			t.Fatal(err)
		}
		if step == "ended" {
			if err := in.end(log); err != nil {
				t.Fatal(err)
			}
		}
		left := openLog(t, fs.CrashClone(vfs.CrashCloneCfg{}), "log")
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		o.Log = left
		applied := uint64(100)
		if step == "begun" { // and FinishInstall has not been called
			if _, _, err := openGroup(&o, 0); err == nil {
				t.Error("the install is finished without the state")
			}
		}
		view, m, err := openGroup(&o, applied)
		if err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		wantTerm := uint64(5)
		if step == "ended" {
			wantTerm = 6
		}
		if left.LastIndex() != 100 || left.FirstIndex() != 101 || m.Index != 100 || view.hard.GetCommit() != 100 ||
			view.hard.GetTerm() != wantTerm || len(m.Conf.GetVoters()) != 3 {
			t.Errorf("%s: log [%d, %d], members %+v, hard state %v", step, left.FirstIndex(), left.LastIndex(), m,
				view.hard)
		}
		if _, ok := left.Meta(installingKey); ok {
			t.Errorf("%s: the mark is left", step)
		}
		if err := left.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWipedMember loses the disk of a member that had everything. It must not vote by what it has forgotten, and comes
// back by itself.
func TestWipedMember(t *testing.T) {
	for name, wiped := range map[string]func(g *testGroup) uint64{ // order: each for itself
		"follower": func(g *testGroup) uint64 { return g.follower().id },
		"leader":   func(g *testGroup) uint64 { return g.leader().id },
		"learner":  func(*testGroup) uint64 { return 4 },
	} {
		t.Run(name, func(t *testing.T) {
			g := newTestGroup(t, 3, 1, smallLog)
			g.leader()
			g.write(1, 1, 0, 20)
			g.agree(20)
			id := wiped(g)
			g.kill(id)
			delete(g.members, id)
			m := g.start(id)
			g.leader()
			writer := id%3 + 1
			g.write(writer, 1, 20, 20)
			checkOrder(t, g.agree(40), nil, 40)
			role := RoleFollower
			if name == "learner" {
				role = RoleLearner
			}
			eventually(t, "the member is what it was", func() bool {
				got := m.states.last().Role
				return got == role || role == RoleFollower && got == RoleLeader
			})
			g.mustWriteSoon(m.node, applied{1, 40})
			for _, other := range g.up() {
				if other != id {
					g.kill(other)
					g.start(other)
					g.mustWriteSoon(m.node, applied{2, uint32(other)})
				}
			}
			if s := g.leader().node.Status(); len(s.Voters) != 3 || len(s.Learners) != 1 {
				t.Errorf("status %+v", s)
			}
		})
	}
}

// TestWipedMemberDoesNotVote leaves a wiped member alone with one that lacks acknowledged writes.
func TestWipedMemberDoesNotVote(t *testing.T) {
	g := newTestGroup(t, 3, 0, func(o *Options) { o.ElectionTicks = patience / 2 })
	g.leader()
	g.write(1, 1, 0, 5)
	g.agree(5)
	behind := g.follower().id
	g.kill(behind)
	lead := g.leader().id
	third := 6 - lead - behind
	g.write(lead, 1, 5, 5)
	g.kill(lead)
	g.kill(third)
	delete(g.members, third)
	m := g.start(third)
	g.start(behind)
	eventually(t, "it knows that it has forgotten", func() bool {
		return g.members[behind].node.loop.progress.elections.Load() == 0 && m.node.Status().Term <= 1 &&
			g.members[behind].states.last().Role == RoleCandidate
	})
	for range 300 {
		notify(m.node.loop.wake)
		if s := g.members[behind].node.Status(); s.Leader != 0 {
			t.Fatalf("a leader is elected: %+v", s)
		}
		barrierless(t, g, behind)
	}
	g.start(lead)
	g.write(third, 1, 10, 5)
	checkOrder(t, g.agree(15), nil, 15)
}

// barrierless lets one tick go by on a member that has no leader.
func barrierless(t testing.TB, g *testGroup, id uint64) {
	t.Helper()
	l := g.members[id].node.loop
	before := l.progress.tick.Load()
	eventually(t, "a tick", func() bool { return l.progress.tick.Load() > before })
}
