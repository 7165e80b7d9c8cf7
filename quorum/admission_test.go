package quorum

import (
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"testing"

	"zkd/storage/entry"
)

// foundedBy returns a group of voters 1…voters of which only some are there when it is founded.
func foundedBy(t *testing.T, voters int, present ...uint64) *testGroup {
	g := &testGroup{t: t, net: newTestNet(), disk: newFakeDisk(), members: map[uint64]*testMember{}}
	g.set = func(o *Options) { o.ElectionTicks = patience / 2 }
	for id := uint64(1); id <= uint64(voters); id++ {
		g.founders = append(g.founders, Member{ID: id})
	}
	t.Cleanup(g.close)
	for _, id := range present {
		g.start(id)
	}
	return g
}

// wipe has a member that is down come back with an empty disk.
func (g *testGroup) wipe(id uint64) {
	g.t.Helper()
	if m := g.members[id]; m != nil && m.node != nil {
		g.kill(id)
	}
	delete(g.members, id)
	g.start(id)
}

// TestAMemberThatIsTakenInBeginsWithASnapshot wipes a member whose file names others by then than have founded the
// group, or another role of its own. With the whole log replayed on those it would take others for the voters than all
// others do, or come to a change after which there are none (seed 11472371).
func TestAMemberThatIsTakenInBeginsWithASnapshot(t *testing.T) {
	for name, members := range map[string]func(lead, wiped, third uint64) []Member{ // order: each for itself
		"fewer": func(lead, wiped, _ uint64) []Member { return []Member{{ID: lead}, {ID: wiped}} },
		"more": func(lead, wiped, third uint64) []Member {
			return []Member{{ID: lead}, {ID: wiped}, {ID: third}, {ID: 4}}
		},
		"observer": func(lead, wiped, third uint64) []Member {
			return []Member{{ID: lead}, {ID: wiped, Learner: true}, {ID: third}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var file atomic.Pointer[[]Member]
			g := newTestGroup(t, 3, 0, func(o *Options) {
				patient(o)
				if list := file.Load(); list != nil {
					o.Members = *list
				}
			})
			lead := g.leader().id
			wiped := g.follower().id
			mustWrite(t, g.members[lead].node, applied{1, 0})
			g.agree(1)
			list := members(lead, wiped, 6-lead-wiped)
			file.Store(&list)
			g.wipe(wiped)
			eventually(t, "the member votes", func() bool {
				return g.members[wiped].states.last().Role == RoleFollower && g.members[wiped].node.Status().Leader != 0
			})
			mustWrite(t, g.members[wiped].node, applied{2, 0})
			checkOrder(t, g.agree(2), nil, 2)
			for id, m := range g.members { // order: each for itself
				if s := m.node.Status(); !slices.Equal(s.Voters, []uint64{1, 2, 3}) || len(s.Learners) > 0 {
					t.Errorf("by member %d %v vote, and %v do not", id, s.Voters, s.Learners)
				}
			}
		})
	}
}

// tryWrite writes through a member if it takes the write within some elections' time, and tells whether it was
// acknowledged.
func (g *testGroup) tryWrite(n *Node, a applied) bool {
	g.t.Helper()
	for began := n.loop.progress.tick.Load(); n.loop.progress.tick.Load() < began+2*patience; {
		if n.Status().Leader == 0 {
			barrierless(g.t, g, n.options.ID)
			continue
		}
		w := newWaiter(g.t)
		if err := n.Propose(proposal(a, 0), w); err != nil {
			barrierless(g.t, g, n.options.ID)
			continue
		}
		if err := w.wait().err; err == nil {
			return true
		} else if !errors.Is(err, ErrLeadershipLost) && !errors.Is(err, ErrNoLeader) {
			g.t.Fatal(err)
		}
	}
	return false
}

// keeps checks that no leader comes up, among the members that run, that lacks what was acknowledged, within some
// elections' time.
func (g *testGroup) keeps(acked ...applied) {
	g.t.Helper()
	n := g.members[g.up()[0]].node
	for began := n.loop.progress.tick.Load(); n.loop.progress.tick.Load() < began+2*patience; {
		for _, id := range g.up() {
			m := g.members[id]
			if m.node.Status().Role != RoleLeader || barrier(g.t, m.node).err != nil {
				continue
			}
			for _, a := range acked {
				if !slices.Contains(m.machine.list(), a) {
					g.t.Fatalf("member %d leads, and %v, which was acknowledged, is gone", id, a)
				}
			}
		}
		barrierless(g.t, g, n.options.ID)
	}
}

// TestALateMemberThatLosesItsDiskOutvotesNobody has a founder come when one that founded the group is away, and lose
// its disk: with that one it is a majority, and neither knows what was acknowledged meanwhile.
func TestALateMemberThatLosesItsDiskOutvotesNobody(t *testing.T) {
	for _, c := range []struct {
		name   string
		voters int
		first  []uint64 // found the group
		away   uint64   // stops then
		late   []uint64 // come for the first time
		wiped  uint64
		stop   []uint64
		then   []uint64 // are there in the end, with the emptied one
	}{
		{"three servers", 3, []uint64{1, 2}, 1, []uint64{3}, 3, []uint64{2}, []uint64{1}},
		{"five servers", 5, []uint64{1, 2, 3}, 1, []uint64{5}, 5, []uint64{2, 3}, []uint64{1, 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := foundedBy(t, c.voters, c.first...)
			g.leader()
			w1, w2 := applied{1, 1}, applied{1, 2}
			g.mustWriteSoon(g.members[2].node, w1)
			g.agree(1)
			g.kill(c.away)
			for _, id := range c.late {
				g.start(id)
			}
			acked := []applied{w1}
			if g.tryWrite(g.members[2].node, w2) {
				acked = append(acked, w2)
			}
			g.kill(c.wiped)
			for _, id := range c.stop {
				g.kill(id)
			}
			g.wipe(c.wiped)
			for _, id := range c.then {
				if m := g.members[id]; m == nil || m.node == nil {
					g.start(id)
				}
			}
			g.keeps(acked...)
			eventually(t, "those that are there say whom they miss", func() bool {
				a := g.members[c.then[0]].node.Status().MissingVoters
				emptied := g.members[c.wiped].node.Status().MissingVoters
				return a != nil && !a.StateLost && slices.Equal(a.Away, c.stop) && emptied != nil && emptied.StateLost
			})
			for _, id := range c.stop {
				g.start(id)
			}
			g.leader()
			for _, id := range slices.Sorted(maps.Keys(g.members)) {
				g.mustWriteSoon(g.members[id].node, applied{3, uint32(id)})
			}
			g.keeps(acked...)
		})
	}
}

// TestTheEmptiedOneOfTwoIsBackAtOnce: the other one of two voters has led all the time, and knows that it had
// everything.
func TestTheEmptiedOneOfTwoIsBackAtOnce(t *testing.T) {
	g := foundedBy(t, 2, 1, 2)
	g.leader()
	emptied := g.follower()
	for seq := range uint32(10) {
		g.mustWriteSoon(emptied.node, applied{1, seq})
	}
	g.agree(10)
	g.wipe(emptied.id)
	g.mustWriteSoon(g.members[emptied.id].node, applied{2, 1})
	g.agree(11)
}

// TestAMajorityWithoutDisksWaits: nobody leads, and all say why, until a disk is back.
func TestAMajorityWithoutDisksWaits(t *testing.T) {
	g := foundedBy(t, 3, 1, 2, 3)
	g.leader()
	w := applied{1, 1}
	g.mustWriteSoon(g.members[1].node, w)
	g.agree(1)
	kept := *g.members[2]
	for _, id := range []uint64{2, 3} {
		g.kill(id)
	}
	for _, id := range []uint64{2, 3} {
		g.wipe(id)
	}
	eventually(t, "all say that a majority has lost its disks", func() bool {
		a := g.members[1].node.Status().MissingVoters
		if a == nil || a.StateLost || !a.Lost || !slices.Equal(a.Emptied, []uint64{2, 3}) {
			return false
		}
		for _, id := range []uint64{2, 3} {
			if b := g.members[id].node.Status().MissingVoters; b == nil || !b.StateLost {
				return false
			}
		}
		return true
	})
	g.keeps(w)
	g.kill(2)
	g.members[2] = &kept // its disk is back
	kept.node = nil
	g.start(2)
	g.mustWriteSoon(g.members[3].node, applied{1, 2})
	g.agree(2)
	eventually(t, "with a leader nobody is waited for", func() bool { // from the next tick on
		return g.members[3].node.Status().MissingVoters == nil
	})
}

// withAnOldMember returns a group of three whose member 3 is of the first feature level, and what their levels are.
func withAnOldMember(t *testing.T) (*testGroup, *agreements) {
	founding := entry.FoundTxn{ClusterID: entry.ClusterID{1, 2, 3}, Config: []byte("config")}
	a := &agreements{levels: map[uint64]entry.Level{1: entry.LevelNewest, 2: entry.LevelNewest, 3: entry.LevelOldest}}
	return newTestGroup(t, 3, 0, func(o *Options) {
		o.Bootstrap = founding.Append(nil)
		o.Machine.(*fakeMachine).levels = true
		o.PeerLevel = a.of
		o.LevelMax = max(a.of(o.ID), entry.LevelOldest)
	}), a
}

// TestWhoIsEmptiedWhileTheLevelIsRaisedIsNotRecordedAsItWas: a member that is away when the level is raised, and comes
// back without its data before incarnations are recorded, is taken out and in again.
func TestWhoIsEmptiedWhileTheLevelIsRaisedIsNotRecordedAsItWas(t *testing.T) {
	g, a := withAnOldMember(t)
	g.mustWriteSoon(g.leader().node, applied{1, 1})
	g.agree(1)
	g.kill(3)
	a.set(3, entry.LevelNewest)
	g.atLevel(entry.LevelNewest)
	g.wipe(3)
	g.mustWriteSoon(g.members[3].node, applied{1, 2})
	g.agree(2)
}

// TestIncarnationsAreRecordedWhenTheLevelIsRaised: as long as a member is old nothing that it does not know is in the
// log, and what the members know of each other decides. Then the membership lists them all.
func TestIncarnationsAreRecordedWhenTheLevelIsRaised(t *testing.T) {
	g, a := withAnOldMember(t)
	g.mustWriteSoon(g.leader().node, applied{1, 1})
	g.wipe(3) // is taken in again as ever
	g.mustWriteSoon(g.members[3].node, applied{1, 2})
	g.agree(2)
	if n := g.recorded(); n > 0 {
		t.Errorf("%d members have recorded incarnations at level 1", n)
	}
	a.set(3, entry.LevelNewest)
	g.kill(3)
	g.start(3) // the newer program
	g.atLevel(entry.LevelNewest)
	eventually(t, "all list all incarnations", func() bool { return g.recorded() == 3 })
	g.wipe(g.follower().id)
	g.mustWriteSoon(g.leader().node, applied{1, 3})
	g.agree(3)
	eventually(t, "all list all incarnations again", func() bool { return g.recorded() == 3 })
}
