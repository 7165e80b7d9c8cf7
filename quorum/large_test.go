package quorum

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"zkd/quorum/batcher"
)

// largeProposal is the size of a proposal that takes some ticks to travel.
const largeProposal = 4*bytesPerTick + 1

// lateOver is how many frames of more than so many bytes are on their way to a member.
func (g *stepGroup) lateOver(bytes int, to uint64) (n int) {
	for _, f := range g.late {
		if f.to == to && len(f.body) > bytes {
			n++
		}
	}
	return n
}

// letLateArrive ends that what is sent in order gets nowhere, and has what was sent arrive.
func (g *stepGroup) letLateArrive(t *testing.T) {
	t.Helper()
	g.slow = false
	for _, f := range g.late {
		to := g.members[f.to-1].stepper
		to.Node().Receive(f.from, f.kind, f.body)
		if _, err := to.Turn(); err != nil { // takes it: there is room for the next one
			t.Fatal(err)
		}
	}
}

// ofClients is what a member has applied for clients.
func (m *stepMember) ofClients() []applied {
	return slices.DeleteFunc(m.machine.list(), func(a applied) bool { return a.client == 0 })
}

// leadAndOthers returns the leader, and the other members.
func (g *stepGroup) leadAndOthers() (leader *stepMember, others []*stepMember) {
	leader = g.leader()
	return leader, slices.DeleteFunc(slices.Clone(g.members), func(m *stepMember) bool { return m == leader })
}

// newLedGroup starts a group of three, which has a leader. It ends with the test.
func newLedGroup(t *testing.T) (g *stepGroup, leader *stepMember, others []*stepMember) {
	t.Helper()
	g = newStepGroup(t, 1)
	t.Cleanup(g.close)
	g.settle(100)
	leader, others = g.leadAndOthers()
	return g, leader, others
}

// TestALargeEntryOnItsWayEndsNoLeadership: while an entry travels for many election timeouts, from the leader or to it,
// nobody campaigns and the leader does not step down; it is not sent again and again; and when it comes it counts once.
func TestALargeEntryOnItsWayEndsNoLeadership(t *testing.T) {
	for name, tc := range map[string]struct { // order: each case has a group of its own
		forwarded bool // through a member that does not lead
		probes    bool // the leader does not know how far the others are
	}{"of the leader": {}, "of a leader that probes": {probes: true}, "forwarded": {forwarded: true}} {
		t.Run(name, func(t *testing.T) {
			g, leader, others := newLedGroup(t)
			term := leader.stepper.Node().Status().Term
			if tc.probes {
				for _, m := range others {
					leader.stepper.Node().Lost(m.id)
				}
			}
			from, to := leader, others
			if tc.forwarded {
				from, to = others[0], []*stepMember{leader}
			}
			g.slow = true
			c := &stepClient{id: 1, acks: &ledger{acked: map[uint32]uint32{}}}
			p := proposal(applied{1, 0}, largeProposal)
			if err := from.stepper.Node().Propose(p, &stepWaiter{c, 0}); err != nil {
				t.Fatal(err)
			}
			ticks := 6 * defaultElectionTicks
			g.settle(ticks)
			for _, m := range g.members {
				if s := m.stepper.Node().Status(); s.Term != term || s.Leader != leader.id {
					t.Errorf("member %d is in term %d under %d, was in %d under %d", m.id, s.Term, s.Leader, term,
						leader.id)
				}
			}
			for _, m := range to {
				most := 1 + ticks/(resendTicks+patienceFor(largeProposal))
				if n := g.lateOver(largeProposal, m.id); n == 0 || n > most {
					t.Errorf("%d large frames are on their way to member %d after %d ticks", n, m.id, ticks)
				}
			}
			g.letLateArrive(t)
			g.settle(50)
			if c.acks.acked[1] != 1 {
				t.Error("the write is not acknowledged")
			}
			for _, m := range g.members {
				got := m.ofClients()
				if diff := cmp.Diff([]applied{{1, 0}}, got, cmp.AllowUnexported(applied{})); diff != "" {
					t.Errorf("member %d has applied:\n%s", m.id, diff)
				}
			}
		})
	}
}

// TestMuchOnItsWayIsNotSentAgain: a member that answers heartbeats and acknowledges nothing is not sent all that it
// lacks again with each of its answers; and when it comes each write counts once.
func TestMuchOnItsWayIsNotSentAgain(t *testing.T) {
	g, leader, others := newLedGroup(t)
	for _, m := range others {
		leader.stepper.Node().Lost(m.id)
	}
	g.slow = true
	const writes, each, ticks = 4, repeatBytes / 2, 8 * resendTicks
	c := &stepClient{id: 1, acks: &ledger{acked: map[uint32]uint32{}}}
	for i := range uint32(writes) {
		if err := leader.stepper.Node().Propose(proposal(applied{1, i}, each), &stepWaiter{c, i}); err != nil {
			t.Fatal(err)
		}
	}
	g.settle(ticks)
	for _, m := range others {
		if n := g.lateOver(repeatBytes, m.id); n == 0 || n > 1+ticks/resendTicks {
			t.Errorf("%d frames with all that member %d lacks are on their way to it after %d ticks", n, m.id, ticks)
		}
	}
	g.letLateArrive(t)
	g.settle(50)
	for _, m := range g.members {
		got := m.ofClients()
		if len(got) != writes {
			t.Errorf("member %d has applied %v, want each of %d writes once", m.id, got, writes)
		}
	}
}

// TestWhatIsKeptIsNotDated: a leader that dates a batch that the transport keeps, as it was forwarded before, dates a
// copy.
func TestWhatIsKeptIsNotDated(t *testing.T) {
	g, leader, others := newLedGroup(t)
	from := others[0]
	g.slow = true
	c := &stepClient{id: 1, acks: &ledger{acked: map[uint32]uint32{}}}
	if err := from.stepper.Node().Propose(proposal(applied{1, 0}, largeBytes), &stepWaiter{c, 0}); err != nil {
		t.Fatal(err)
	}
	g.settle(1)
	var forwarded *batcher.Batch
	term := leader.stepper.Node().Status().Term
	from.stepper.node.batcher.EachProposed(term, func(b *batcher.Batch) { forwarded = b })
	if forwarded == nil || !forwarded.Kept {
		t.Fatal("nothing that is kept was forwarded")
	}
	kept := forwarded.Data
	before := slices.Clone(kept)
	from.stepper.node.loop.batches = []*batcher.Batch{forwarded}
	from.stepper.node.loop.takeBatches(123456)
	if !slices.Equal(kept, before) || slices.Equal(forwarded.Data, before) || forwarded.Kept {
		t.Error("what is on its way was dated")
	}
}
