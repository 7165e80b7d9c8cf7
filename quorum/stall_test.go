package quorum

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/raft/v3/raftpb"

	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/storage/apply"
	"zkd/storage/crashfs"
	"zkd/storage/entry"
)

// stallGroup is a group whose disks can hang, or be slow, in the time of a clock that goes with the ticks.
type stallGroup struct {
	*stepGroup
	clock      *clock.Manual
	hungLog    map[uint64]bool
	hungState  map[uint64]bool
	hungReads  map[uint64]bool // of the log, for members that are behind
	slow       map[uint64]int  // an append takes that many ticks
	dead       map[uint64]bool
	waits      map[uint64]int // ticks that an append has taken
	candidates map[uint64]int // ticks at whose end a member was a candidate
	written    uint32
	acked      map[uint32]bool
}

// newStallGroup starts a group of voters, of which the first leads.
func newStallGroup(t *testing.T, voters int) *stallGroup {
	cryptotest.SetGlobalRandom(t, 1)
	g := &stallGroup{
		stepGroup: &stepGroup{t: t, random: rand.New(rand.NewPCG(1, 1)), disk: newFakeDisk()},
		clock:     clock.NewManual(time.Unix(1, 0)),
		hungLog:   map[uint64]bool{}, hungState: map[uint64]bool{}, hungReads: map[uint64]bool{},
		slow: map[uint64]int{}, dead: map[uint64]bool{}, waits: map[uint64]int{}, candidates: map[uint64]int{},
		acked: map[uint32]bool{},
	}
	var founders []Member
	for id := range uint64(voters) {
		founders = append(founders, Member{ID: id + 1})
	}
	for _, f := range founders {
		m := &stepMember{id: f.ID, g: g.stepGroup, fs: crashfs.New(), machine: &fakeMachine{keep: true, disk: g.disk}}
		m.founders, m.clock = founders, g.clock
		g.members = append(g.members, m)
		m.start()
	}
	for _, m := range g.members {
		for _, other := range g.members {
			if other != m {
				m.stepper.Node().Connected(other.id)
			}
		}
	}
	g.ticks(timeout)
	for tries := 0; g.leader() != 1; tries++ {
		if tries > voters || g.leader() == 0 {
			t.Fatalf("member %d leads, not the first", g.leader())
		}
		g.members[g.leader()-1].stepper.Transfer()
		g.ticks(timeout)
	}
	t.Cleanup(func() {
		for _, m := range g.members {
			m.stepper.End()
			if err := m.stepper.node.options.Log.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return g
}

// leader is who takes itself for the leader, in the highest term; 0: nobody.
func (g *stallGroup) leader() (leader uint64) {
	term := uint64(0)
	for _, m := range g.members {
		if s := m.stepper.Node().Status(); !g.dead[m.id] && s.Role == RoleLeader && s.Term > term {
			leader, term = m.id, s.Term
		}
	}
	return leader
}

// ticks passes ticks, in each of which everything is done that can be.
func (g *stallGroup) ticks(n int) {
	g.t.Helper()
	for range n {
		g.clock.Advance(defaultTickInterval)
		for _, m := range g.members {
			if g.dead[m.id] {
				continue
			}
			if err := m.stepper.Tick(); err != nil {
				g.t.Fatal(err)
			}
			g.waits[m.id]++
		}
		for rounds := 0; g.round(); rounds++ {
			if rounds > 10_000 {
				g.t.Fatal("the group does not come to rest")
			}
		}
		for _, m := range g.members {
			if !g.dead[m.id] && m.stepper.Node().Status().Role == RoleCandidate {
				g.candidates[m.id]++
			}
		}
	}
}

// round delivers all frames and gives each part a turn whose disk answers. It tells whether there was anything to do.
func (g *stallGroup) round() (busy bool) {
	for _, f := range g.frames {
		if !g.dead[f.to] && !g.dead[f.from] {
			g.members[f.to-1].stepper.Node().Receive(f.from, f.kind, f.body)
		}
		busy = true
	}
	g.frames = g.frames[:0]
	for _, m := range g.members {
		if g.dead[m.id] {
			continue
		}
		parts := []func() (bool, error){m.stepper.Turn}
		if !g.hungLog[m.id] && g.waits[m.id] >= g.slow[m.id] {
			parts = append(parts, func() (bool, error) {
				worked, err := m.stepper.Append()
				if worked {
					g.waits[m.id] = 0
				}
				return worked, err
			})
		}
		if !g.hungState[m.id] {
			parts = append(parts, m.stepper.Apply)
		}
		if !g.hungReads[m.id] {
			parts = append(parts, m.stepper.Read)
		}
		for _, part := range parts {
			worked, err := part()
			if err != nil {
				g.t.Fatalf("member %d: %v", m.id, err)
			}
			busy = busy || worked
		}
		busy = m.stepper.Checkpoint(context.Background()) || busy
	}
	return busy
}

// write proposes a write through a member.
func (g *stallGroup) write(through uint64) (n uint32) {
	g.t.Helper()
	g.written++
	w := stallWaiter{g, g.written}
	err := g.members[through-1].stepper.Node().Propose(proposal(applied{uint32(through), g.written}, 30), w)
	if err != nil {
		g.t.Fatal(err)
	}
	return g.written
}

// writesGoOn writes through a member, so many times, and sees to it that each write is done within so many ticks,
// whatever disk hangs.
func (g *stallGroup) writesGoOn(through uint64, times, within int) {
	g.t.Helper()
	for range times {
		n := g.write(through)
		g.ticks(within)
		if !g.acked[n] {
			g.t.Fatalf("of %d members, write %d waits for the disk that hangs", len(g.members), n)
		}
	}
}

// stallWaiter waits for one write.
type stallWaiter struct {
	g *stallGroup
	n uint32
}

// Applied implements batcher.Waiter.
func (w stallWaiter) Applied(*apply.Result) { w.g.acked[w.n] = true }

// Dropped implements batcher.Waiter.
func (w stallWaiter) Dropped(error) {}

// hang has a disk of a member hang, or answer again.
func (g *stallGroup) hang(id uint64, log, state bool) {
	g.hungLog[id], g.hungState[id] = log, state
	g.members[id-1].machine.hanging.Store(state)
}

// agree sees to it that all members have applied the same.
func (g *stallGroup) agree() {
	g.t.Helper()
	for _, m := range g.members {
		if diff := cmp.Diff(g.members[0].machine.list(), m.machine.list(), cmp.AllowUnexported(applied{})); diff != "" {
			g.t.Errorf("members 1 and %d differ:\n%s", m.id, diff)
		}
	}
}

// timeout is an election timeout in ticks.
const timeout = defaultElectionTicks

// TestHungLeaderHandsOver has the disk of the leader's log hang: what clients of the others write goes on before
// anything else is done, then another member leads, and this one leads no more until its disk answers.
func TestHungLeaderHandsOver(t *testing.T) {
	for _, voters := range []int{3, 5} {
		g := newStallGroup(t, voters)
		g.hang(1, true, false)
		g.writesGoOn(2, timeout, lateTicks+1) // the first is late, by less than an election timeout
		second := g.leader()
		if second == 1 {
			t.Fatalf("%d voters: the leader whose disk hangs leads on", voters)
		}
		s := g.members[0].stepper.Node().Status()
		if s.LogDisk.Hangs == 0 || s.LogDisk.Stalls != 1 || s.DiskTransfers != 1 || s.StateDisk.Stalls != 0 {
			t.Errorf("%d voters: it shows %+v", voters, s)
		}
		own := g.write(1)
		if voters == 5 { // three disks are left then, and the votes of all of them are wanted
			g.dead[second] = true
			for _, m := range g.members {
				m.stepper.Node().Lost(second)
			}
		}
		clear(g.candidates)
		for range 5 * timeout {
			g.ticks(1)
			if lead := g.leader(); lead == 1 {
				t.Fatalf("%d voters: a member whose disk hangs leads", voters)
			}
		}
		if g.candidates[1] > 0 {
			t.Errorf("%d voters: a member whose disk hangs campaigns", voters)
		}
		if lead := g.leader(); lead == 0 {
			t.Fatalf("%d voters: nobody leads", voters)
		}
		g.hang(1, false, false)
		g.ticks(2 * timeout)
		if s = g.members[0].stepper.Node().Status(); s.LogDisk.Hangs != 0 || s.Role != RoleFollower || !g.acked[own] {
			t.Errorf("%d voters: after it has healed: %+v, its write done: %v", voters, s, g.acked[own])
		}
		if voters == 3 {
			g.agree()
		}
	}
}

// TestHungStateHandsOver has the disk of the leader's state hang: nothing is applied there.
func TestHungStateHandsOver(t *testing.T) {
	g := newStallGroup(t, 3)
	g.hang(1, false, true)
	g.writesGoOn(2, 4*timeout, 1)
	s := g.members[0].stepper.Node().Status()
	if lead := g.leader(); lead == 1 || s.StateDisk.Hangs == 0 || s.LogDisk.Stalls != 0 {
		t.Fatalf("member %d leads; the one whose disk hangs shows %+v", lead, s)
	}
	g.hang(1, false, false)
	g.ticks(timeout)
	if s = g.members[0].stepper.Node().Status(); s.StateDisk.Hangs != 0 {
		t.Errorf("it has healed and shows %+v", s)
	}
	g.agree()
}

// TestALeaderThatIsSilentIsForgotten: a member that may not lead yet, by what it knows, gives its vote to a leader that
// has stepped down while nothing came from it.
func TestALeaderThatIsSilentIsForgotten(t *testing.T) {
	g := newStallGroup(t, 3)
	l := g.members[1].stepper.node.loop
	l.member.Incarnations[2]++ // its membership lists another one, as that of before it was added again does
	if l.admission.mayLead() {
		t.Fatal("it may lead")
	}
	g.dead[2], g.dead[3] = true, true
	g.ticks(3 * timeout)
	if lead := g.leader(); lead != 0 {
		t.Fatalf("member %d leads alone", lead)
	}
	g.dead[2] = false
	g.ticks(6 * timeout)
	if lead := g.leader(); lead != 1 {
		t.Errorf("member %d leads", lead)
	}
}

// TestALeaderThatIsHeardAgainIsKnown: a member that may not lead yet, and has forgotten a leader that was silent, knows
// it from the first word on. A snapshot that comes before the second one is not refused.
func TestALeaderThatIsHeardAgainIsKnown(t *testing.T) {
	g := newStallGroup(t, 3)
	m := g.members[1]
	m.stepper.node.loop.member.Incarnations[2]++ // as above
	g.dead[1], g.dead[3] = true, true
	g.ticks(3 * timeout)
	if lead := m.stepper.Node().Status().Leader; lead != 0 {
		t.Fatalf("member %d is silent, and not forgotten", lead)
	}
	g.dead[1], g.dead[3] = false, false
	g.ticks(1)
	if err := m.stepper.Tick(); err != nil {
		t.Fatal(err)
	}
	if lead := m.stepper.node.loop.soft.Lead; lead != 1 {
		t.Errorf("member %d leads, as it seems", lead)
	}
}

// TestAForwardedWriteIsHeard: a leader that applies nothing knows whose writes the others forward and acknowledge.
func TestAForwardedWriteIsHeard(t *testing.T) {
	g := newStallGroup(t, 3)
	told := map[uint64][]jute.SessionID{}
	for _, m := range g.members {
		m.stepper.node.options.OnForwarded = func(sessions []jute.SessionID) {
			told[m.id] = append(told[m.id], sessions...)
		}
	}
	g.hang(1, false, true)
	n, again := g.write(2), g.write(2)
	g.ticks(1)
	if own := len(g.members[0].machine.list()); !g.acked[n] || !g.acked[again] || own != 0 {
		t.Fatalf("acknowledged: %v, and the leader has applied %d writes", g.acked, own)
	}
	if diff := cmp.Diff(map[uint64][]jute.SessionID{1: {2}}, told); diff != "" {
		t.Errorf("whose writes are told to whom:\n%s", diff)
	}
	back := proposal(applied{3, 1}, 30)
	back.Op = entry.OpReattachSession
	if err := g.members[1].stepper.Node().Propose(back, nil); err != nil {
		t.Fatal(err)
	}
	g.ticks(1)
	if len(told[1]) != 1 {
		t.Errorf("a client that has yet to show its password counts as heard: %v", told[1])
	}
}

// TestLongApplyKeepsTheLeader applies nothing for long on all members, while their disks get on: an entry may take
// long, and would elsewhere.
func TestLongApplyKeepsTheLeader(t *testing.T) {
	g := newStallGroup(t, 3)
	for id := range uint64(3) {
		g.hungState[id+1] = true
	}
	g.write(1)
	g.ticks(5 * timeout)
	if s := g.members[0].stepper.Node().Status(); s.Role != RoleLeader || s.StateDisk.Stalls != 0 {
		t.Errorf("it shows %+v", s)
	}
}

// TestHungFollowerShows has the disk of a follower hang: nothing changes for the others, and it can be seen there and
// on the leader.
func TestHungFollowerShows(t *testing.T) {
	g := newStallGroup(t, 3)
	g.hang(3, true, false)
	g.writesGoOn(2, 3*timeout, 1)
	peers := g.members[0].stepper.Node().Status().Peers
	if g.leader() != 1 || len(peers) != 2 || peers[0].Stalled || !peers[1].Stalled {
		t.Errorf("member %d leads; the first shows %+v", g.leader(), peers)
	}
	third := g.members[2].stepper.Node()
	if third.Status().LogDisk.Hangs == 0 || !third.loop.progress.state.Load().Behind {
		t.Errorf("it shows %+v, %+v", third.Status(), third.loop.progress.state.Load())
	}
	// The leader goes without a word: the other two have only one disk that answers, and get no leader, but the one
	// whose disk answers must not be told that the leader is alive.
	g.dead[1] = true
	g.ticks(4 * timeout)
	if lead := third.Status().Leader; lead != 0 {
		t.Errorf("a member whose disk hangs takes %d for the leader, of which nothing is heard", lead)
	}
	g.hang(3, false, false)
	g.ticks(4 * timeout)
	if third.loop.progress.state.Load().Behind || g.leader() == 0 {
		t.Errorf("after it has healed, leader %d: %+v", g.leader(), third.Status())
	}
}

// TestHungMemberTakesNoLeadership is offered the leadership while its disk hangs.
func TestHungMemberTakesNoLeadership(t *testing.T) {
	g := newStallGroup(t, 5)
	g.hang(2, true, false)
	g.write(1)
	g.ticks(3 * timeout)
	from, to, term := uint64(1), uint64(2), g.members[0].stepper.Node().Status().Term
	offer, err := appendRaft(nil, &raftpb.Message{Type: raftpb.MsgTimeoutNow.Enum(), From: &from, To: &to, Term: &term})
	if err != nil {
		t.Fatal(err)
	}
	g.members[1].stepper.Node().Receive(1, frameRaft, offer)
	g.ticks(timeout)
	if g.leader() != 1 || g.candidates[2] > 0 {
		t.Errorf("member %d leads, the second was a candidate for %d ticks", g.leader(), g.candidates[2])
	}
}

// TestAllHungDisksKeepTheLeader has all disks hang: nobody is better, and what was written is done when they answer.
func TestAllHungDisksKeepTheLeader(t *testing.T) {
	g := newStallGroup(t, 3)
	for id := range uint64(3) {
		g.hang(id+1, true, false)
	}
	n := g.write(2)
	g.ticks(5 * timeout)
	for id := range uint64(3) {
		g.hang(id+1, false, false)
	}
	g.ticks(5 * timeout)
	if g.leader() == 0 {
		t.Fatal("nobody leads")
	}
	m := g.write(g.leader())
	g.ticks(timeout)
	if !g.acked[n] || !g.acked[m] {
		t.Errorf("done: the write from before %v, the one after %v", g.acked[n], g.acked[m])
	}
	g.agree()
}

// TestSlowLeaderHandsOver has the leader's disk take three ticks for an append, and those of the others none: they are
// not held up, and after a while another one leads, for good.
func TestSlowLeaderHandsOver(t *testing.T) {
	g := newStallGroup(t, 3)
	g.slow[1] = 3
	handed := 0
	for n := 0; n < 100*timeout; n++ {
		w := g.write(2)
		g.ticks(1)
		if late := w - lateTicks - 1; n > lateTicks && !g.acked[late] {
			t.Fatalf("write %d waits for the leader's disk", late)
		}
		if handed == 0 && g.leader() != 1 {
			handed = n
		}
	}
	hands := uint64(0)
	for _, m := range g.members {
		hands += m.stepper.Node().Status().DiskTransfers
	}
	if handed < slowTimeouts*timeout || hands != 1 || g.leader() == 1 {
		t.Errorf("transferred after %d ticks, %d times in all; member %d leads", handed, hands, g.leader())
	}
}

// TestSlowDisksKeepTheLeader has all disks equally slow, or all but one of the others: elsewhere writes would be no
// quicker.
func TestSlowDisksKeepTheLeader(t *testing.T) {
	for _, quick := range []uint64{0, 2} {
		g := newStallGroup(t, 3)
		for id := range uint64(3) {
			if id+1 != quick {
				g.slow[id+1] = 3
			}
		}
		for range 50 * timeout {
			g.write(2)
			g.ticks(1)
		}
		if hands := g.members[0].stepper.Node().Status().DiskTransfers; hands != 0 || g.leader() != 1 {
			t.Errorf("member %d is quick: transferred %d times, member %d leads", quick, hands, g.leader())
		}
	}
}

// TestATransferGoesToAnother: the first that the leader asks to take over has a state that hangs, of which the leader
// knows nothing, as it acknowledges.
func TestATransferGoesToAnother(t *testing.T) {
	g := newStallGroup(t, 3)
	g.hang(2, false, true)
	g.write(3)
	g.ticks(3 * timeout)
	g.hang(1, true, false)
	for range 10 * timeout {
		g.write(3)
		g.ticks(1)
	}
	s := g.members[0].stepper.Node().Status()
	if g.leader() != 3 || s.DiskTransfers != 1 {
		t.Errorf("member %d leads, the first shows %+v", g.leader(), s)
	}
	if g.candidates[2] > 0 {
		t.Error("a member whose state hangs campaigns")
	}
}
