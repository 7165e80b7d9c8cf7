package quorum

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"
)

// newLeavingGroup starts voters of whom one that leaves stays for a while.
func newLeavingGroup(t testing.TB, voters int, grace time.Duration) *testGroup {
	t.Helper()
	return newConfiguredGroup(t, voters, func(o *Options) { o.RemovedGrace = grace })
}

// graceEver is longer than any test.
const graceEver = time.Hour

// others are all members of three but one.
func others(id uint64) []uint64 {
	return slices.DeleteFunc([]uint64{1, 2, 3}, func(other uint64) bool { return other == id })
}

// leave has the configuration go on without a member, by a request to that member.
func (g *testGroup) leave(id uint64) {
	g.t.Helper()
	mustReconfigure(g.t, g.members[id].node, "", strconv.FormatUint(id, 10))
}

// awaitRole waits until a member plays a part.
func (g *testGroup) awaitRole(id uint64, role Role) {
	g.t.Helper()
	eventually(g.t, "member "+strconv.FormatUint(id, 10)+" is "+string(role), func() bool {
		return g.members[id].states.last().Role == role
	})
}

// TestWhoLeavesGoesOnWithoutAVote: it takes writes, and has what others write; when it is added again it has its vote.
func TestWhoLeavesGoesOnWithoutAVote(t *testing.T) {
	g := newLeavingGroup(t, 3, graceEver)
	g.mustWriteSoon(g.leader().node, applied{1, 1})
	gone := g.follower().id
	g.leave(gone)
	g.awaitMembers(others(gone), []uint64{gone})
	g.awaitRole(gone, RoleLeaving)
	g.mustWriteSoon(g.members[gone].node, applied{1, 2})
	g.mustWriteSoon(g.leader().node, applied{1, 3})
	eventually(t, "who leaves has all", func() bool { return len(g.members[gone].machine.list()) == 3 })
	mustReconfigure(t, g.leader().node, lineOf(gone, "participant"), "")
	g.awaitMembers([]uint64{1, 2, 3}, nil)
	g.awaitRole(gone, RoleFollower)
}

// TestALeaderThatLeavesGoesOn, without a vote, and follows another one.
func TestALeaderThatLeavesGoesOn(t *testing.T) {
	g := newLeavingGroup(t, 3, graceEver)
	gone := g.leader().id
	g.mustWriteSoon(g.members[gone].node, applied{1, 1})
	g.leave(gone)
	g.awaitRole(gone, RoleLeaving)
	g.awaitMembers(others(gone), []uint64{gone})
	g.mustWriteSoon(g.members[gone].node, applied{1, 2})
}

// TestWhoLeavesIsOutInTheEnd: after the grace, and at once if there is none left.
func TestWhoLeavesIsOutInTheEnd(t *testing.T) {
	g := newLeavingGroup(t, 3, 50*time.Millisecond)
	g.mustWriteSoon(g.leader().node, applied{1, 1})
	gone := g.follower().id
	g.leave(gone)
	g.awaitMembers(others(gone), nil)
	g.awaitRole(gone, RoleRemoved)
}

// TestWhoLeavesAndEndsIsOut: nobody waits for it, and the log is not kept for it.
func TestWhoLeavesAndEndsIsOut(t *testing.T) {
	g := newConfiguredGroup(t, 3, func(o *Options) { o.RemovedGrace, o.ElectionTicks = graceEver, patience/2 })
	g.mustWriteSoon(g.leader().node, applied{1, 1})
	gone := g.follower().id
	g.leave(gone)
	g.awaitMembers(others(gone), []uint64{gone})
	g.kill(gone)
	g.awaitMembers(others(gone), nil)
}

// TestWhoIsKept: one that leaves now if it was heard of late, one that leaves already if it was not silent for long,
// and nobody beyond the grace. A leader that is new has heard nobody yet.
func TestWhoIsKept(t *testing.T) {
	const now, timeout, grace = 10_000, 10, 100
	o := &Options{TickInterval: time.Second, ElectionTicks: timeout, RemovedGrace: grace * time.Second}
	for _, c := range []struct {
		name                 string
		since, heard, termAt uint64 // since 0: it leaves now
		want                 bool
	}{
		{"heard of late", 0, now - timeout, 0, true},
		{"silent", 0, now - timeout - 1, 0, false},
		{"the leader is new", 0, 0, now - timeout, true},
		{"leaves", now - grace + 1, now, 0, true},
		{"has left", now - grace, now, 0, false},
		{"silent while it leaves", now - grace + 1, now - leavingAwayTimeouts*timeout, 0, true},
		{"gone", now - grace + 1, now - leavingAwayTimeouts*timeout - 1, 0, false},
		{"the leader is new, and it leaves", now - grace + 1, 0, now - leavingAwayTimeouts*timeout, true},
	} {
		d := leaving{facts: &facts{id: 1, now: now, options: o}, termAt: c.termAt, since: map[uint64]uint64{},
			heard: func(uint64) uint64 { return c.heard }}
		if c.since > 0 {
			d.since[2] = c.since
		}
		if got := d.keeps(2); got != c.want {
			t.Errorf("%s: it is kept: %v", c.name, got)
		}
	}
	none := leaving{facts: &facts{id: 1, now: now, options: &Options{TickInterval: time.Second}},
		heard: func(uint64) uint64 { return now }}
	if none.keeps(1) || none.keeps(2) {
		t.Error("without a grace one is kept")
	}
}

// TestWhoLeavesTellsWhatIsCommitted: the leader of three hands on to one of the others, and is the only one to know
// that this is committed when it ends. The one that stays still asks both for their votes: one is away, and the leader
// has the longer log, and no right to lead. Its refusal says what is committed (found by the simulation).
func TestWhoLeavesTellsWhatIsCommitted(t *testing.T) {
	g, leader, others := newLedGroup(t)
	stays := others[0]
	g.away = others[1].id
	change := &raftpb.ConfChangeV2{Changes: []*raftpb.ConfChangeSingle{
		{Type: raftpb.ConfChangeAddLearnerNode.Enum(), NodeId: &leader.id},
		{Type: raftpb.ConfChangeRemoveNode.Enum(), NodeId: &g.away},
	}}
	if err := leader.stepper.Node().ProposeChange(change, proposal(applied{1, 1}, 30), newWaiter(t)); err != nil {
		t.Fatal(err)
	}
	turns := func(m *stepMember) {
		for _, part := range []func() (bool, error){m.stepper.Turn, m.stepper.Append, m.stepper.Apply, m.stepper.Turn} {
			if _, err := part(); err != nil {
				t.Fatal(err)
			}
		}
	}
	hear := func(m *stepMember) { // what is on its way to it
		frames := g.frames
		g.frames = nil
		for _, f := range frames {
			if f.to == m.id {
				m.stepper.Node().Receive(f.from, f.kind, f.body)
			} else {
				g.frames = append(g.frames, f)
			}
		}
		turns(m)
	}
	voters := func(m *stepMember) []uint64 { return m.stepper.Node().Status().Voters }
	for n := 0; !slices.Equal(voters(leader), []uint64{stays.id}); n++ {
		if n == 100 {
			t.Fatalf("the voters are %v", voters(leader))
		}
		hear(stays)
		if err := leader.stepper.Node().Propose(proposal(applied{2, uint32(n)}, 30), newWaiter(t)); err != nil {
			t.Fatal(err)
		}
		turns(leader) // so that its log is the longer one
		hear(leader)
	}
	last := func(m *stepMember) uint64 { return m.stepper.node.options.Log.LastIndex() }
	if len(voters(stays)) == 1 || last(stays) >= last(leader) {
		t.Fatalf("who stays knows of the voters %v, and has entry %d of %d", voters(stays), last(stays), last(leader))
	}
	g.frames = nil // so that it hears of no more
	leader.crash()
	g.settle(100)
	if s := stays.stepper.Node().Status(); s.Role != RoleLeader {
		t.Errorf("who stays is %s under %d, of the voters %v", s.Role, s.Leader, s.Voters)
	}
}
