package quorum

import (
	"errors"
	"testing"
	"testing/cryptotest"

	"go.etcd.io/raft/v3/raftpb"

	"zkd/quorum/member"
)

// TestALeaderWithoutAQuorumStepsDown soon, in its term, and only if so many connections are broken, and stay broken,
// that it can commit nothing.
func TestALeaderWithoutAQuorumStepsDown(t *testing.T) {
	for name, tc := range map[string]struct { // order: each case has a group of its own
		lost  int  // to how many of two the connection breaks
		left  bool // of those, and they had said so
		hears bool // of those, at once again
		leads bool
	}{
		"all gone":             {lost: 2},
		"all stopped":          {lost: 2, left: true},
		"one gone":             {lost: 1, leads: true},
		"one stopped":          {lost: 1, left: true, leads: true},
		"dialed again at once": {lost: 2, hears: true, leads: true},
	} {
		t.Run(name, func(t *testing.T) {
			g, leader, others := newLedGroup(t)
			before := leader.stepper.Node().Status()
			for _, m := range others[:tc.lost] {
				if tc.left {
					leader.stepper.Node().Left(m.id)
				} else {
					leader.stepper.Node().Lost(m.id)
				}
			}
			switch {
			case tc.hears:
				g.settle(2 * defaultElectionTicks)
			case tc.left:
				if _, err := leader.stepper.Turn(); err != nil { // at once
					t.Fatal(err)
				}
			default:
				for range nearTicks { // the first ends with the loss
					if err := leader.stepper.Tick(); err != nil {
						t.Fatal(err)
					}
				}
			}
			after := leader.stepper.Node().Status()
			if leads := after.Role == RoleLeader; leads != tc.leads || !leads && after.Leader != 0 {
				t.Errorf("it is %s under %d, leads should be %v", after.Role, after.Leader, tc.leads)
			}
			if after.Term != before.Term {
				t.Errorf("the term was %d and is %d", before.Term, after.Term)
			}
		})
	}
}

// TestATransferDoesNotWaitForWhoStops: another member is asked, and if there is none who waits is told at once.
func TestATransferDoesNotWaitForWhoStops(t *testing.T) {
	for _, all := range []bool{false, true} {
		g := newStepGroup(t, 1)
		g.settle(100)
		leader, others := g.leadAndOthers()
		turn := func() {
			if _, err := leader.stepper.Turn(); err != nil {
				t.Fatal(err)
			}
		}
		told := leader.stepper.Transfer()
		turn()
		asked := leader.stepper.node.loop.transfer.to
		g.away, g.frames = asked, g.frames[:0]
		leader.stepper.Node().Left(asked)
		turn()
		if all {
			for _, m := range others {
				leader.stepper.Node().Left(m.id)
			}
			turn()
		} else {
			g.settle(defaultElectionTicks / 2)
		}
		select {
		case err := <-told:
			if all != errors.Is(err, ErrTransferFailed) {
				t.Errorf("all have stopped: %v, and it ends with %v", all, err)
			}
		default:
			t.Errorf("all have stopped: %v, and it goes on", all)
		}
		g.close()
	}
}

// TestConnectedAgainThereIsALeaderSoon: two members of three that had lost each other for a while have a leader as soon
// as each has had its turn, of which none falls on one of the other, whenever that is.
func TestConnectedAgainThereIsALeaderSoon(t *testing.T) {
	for apart := 1 + nearTicks; apart <= defaultElectionTicks; apart++ {
		cryptotest.SetGlobalRandom(t, uint64(apart))
		g := newStepGroup(t, uint64(apart))
		g.settle(100)
		leader, others := g.leadAndOthers()
		follower := others[0]
		g.away = others[1].id
		leader.stepper.Node().Lost(g.away)
		follower.stepper.Node().Lost(g.away)
		g.settle(1)
		leader.stepper.Node().Lost(follower.id)
		follower.stepper.Node().Lost(leader.id)
		for range apart {
			for _, m := range g.present() {
				if err := m.stepper.Tick(); err != nil {
					t.Fatal(err)
				}
			}
			g.frames = g.frames[:0]
		}
		for _, m := range g.present() {
			if s := m.stepper.Node().Status(); s.Leader != 0 {
				t.Errorf("after %d ticks member %d knows leader %d", apart, m.id, s.Leader)
			}
		}
		leader.stepper.Node().Connected(follower.id)
		follower.stepper.Node().Connected(leader.id)
		g.settle(2 * 3) // a turn of each of three
		a, b := leader.stepper.Node().Status().Leader, follower.stepper.Node().Status().Leader
		if a == 0 || a != b {
			t.Errorf("after %d ticks apart the leader is %d to one, %d to the other", apart, a, b)
		}
		g.close()
	}
}

// TestQuorumNear counts who is connected or was heard a moment ago, and is never short where a decision is possible.
func TestQuorumNear(t *testing.T) {
	for _, c := range []struct {
		name                         string
		voters, outgoing, here, late []uint64
		want                         bool
	}{
		{name: "alone", voters: []uint64{1}, want: true},
		{name: "one of two", voters: []uint64{1, 2}},
		{name: "two of two", voters: []uint64{1, 2}, here: []uint64{2}, want: true},
		{name: "heard", voters: []uint64{1, 2}, late: []uint64{2}, want: true},
		{name: "one of three", voters: []uint64{1, 2, 3}, here: []uint64{4}, late: []uint64{5}},
		{name: "two of three", voters: []uint64{1, 2, 3}, here: []uint64{3}, want: true},
		{name: "half of four", voters: []uint64{1, 2, 3, 4}, here: []uint64{3}, late: []uint64{3}},
		{name: "three of four", voters: []uint64{1, 2, 3, 4}, here: []uint64{3}, late: []uint64{2}, want: true},
		{name: "without a vote", voters: []uint64{2, 3}, here: []uint64{2}},
		{name: "joint", voters: []uint64{1, 2, 3}, outgoing: []uint64{1, 4, 5}, here: []uint64{2, 4}, want: true},
		{name: "of a joint one", voters: []uint64{1, 2, 3, 4}, outgoing: []uint64{1}, here: []uint64{2}},
	} {
		a := admission{facts: &facts{id: 1, now: 100, member: member.Membership{
			Conf: &raftpb.ConfState{Voters: c.voters, VotersOutgoing: c.outgoing}}}}
		a.here = map[uint64]bool{}
		for _, id := range c.here {
			a.here[id] = true
		}
		at := map[uint64]uint64{}
		for _, id := range c.voters {
			at[id] = a.now - nearTicks
		}
		for _, id := range c.late {
			at[id]++
		}
		a.heardAt = func(id uint64) uint64 { return at[id] }
		if got := a.quorumNear(); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
