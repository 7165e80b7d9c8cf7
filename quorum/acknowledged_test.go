package quorum

import (
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// diskCopy returns a member that is down as its disk has it now, to come back as that later.
func (g *testGroup) diskCopy(id uint64) *testMember {
	g.t.Helper()
	m := g.members[id]
	older := &testMember{id: id, fs: vfs.NewMem(), machine: m.machine.crashed(), states: m.states}
	if _, err := vfs.Clone(m.fs, older.fs, "log", "log"); err != nil {
		g.t.Fatal(err)
	}
	return older
}

// TestAMemberOnAnOlderDiskIsAddedAnew: a member whose disk is what it was some time ago, as after the rollback of a
// virtual machine, is taken out and in again by the leader that goes on, and then has everything.
func TestAMemberOnAnOlderDiskIsAddedAnew(t *testing.T) {
	for name, of := range map[string]func(g *testGroup) uint64{ // order: each for itself
		"follower": func(g *testGroup) uint64 { return g.follower().id },
		"learner":  func(*testGroup) uint64 { return 4 },
	} {
		t.Run(name, func(t *testing.T) {
			g := newTestGroup(t, 3, 1, patient)
			lead := g.leader()
			g.write(lead.id, 1, 0, 20)
			g.agree(20)
			id := of(g)
			g.kill(id)
			older := g.diskCopy(id)
			m := g.start(id)
			term, was := lead.node.Status().Term, m.node.loop.admission.incarnation
			g.write(lead.id, 1, 20, 20)
			g.agree(40)
			g.kill(id)
			g.write(lead.id, 1, 40, 1)

			g.members[id] = older
			m = g.start(id)
			checkOrder(t, g.agree(41), nil, 41)
			g.mustWriteSoon(m.node, applied{2, 0})
			if got := lead.node.Status(); got.Leader != lead.id || got.Term != term {
				t.Errorf("member %d leads in term %d, want %d in term %d", got.Leader, got.Term, lead.id, term)
			}
			g.kill(id)
			if m = g.start(id); m.node.loop.admission.incarnation == was {
				t.Errorf("it is the incarnation %x that it was", was)
			}
			g.mustWriteSoon(m.node, applied{2, 1})
		})
	}
}

// TestAnOlderDiskWithOtherEntriesIsAddedAnew: on the older disk of a member are entries of a leader that got them
// committed nowhere, in the place of others that it has acknowledged since. They are not applied, however far the
// leader that goes on takes its log to be committed; it is taken out and in again.
func TestAnOlderDiskWithOtherEntriesIsAddedAnew(t *testing.T) {
	g := newTestGroup(t, 3, 0, nil)
	first := g.leader()
	g.write(first.id, 1, 0, 10)
	g.agree(10)
	others := slices.DeleteFunc(g.up(), func(id uint64) bool { return id == first.id })
	for _, id := range others {
		g.net.block(first.id, id, true)
	}
	log := first.node.options.Log
	for seq, last := uint32(0), log.LastIndex(); seq < 20; seq++ {
		if err := first.node.Propose(proposal(applied{3, seq}, 0), newWaiter(t)); err != nil {
			t.Fatal(err)
		}
		last++
		eventually(t, "the leader has the entry of a write", func() bool { return log.LastIndex() >= last })
	}
	g.kill(first.id)
	older := g.diskCopy(first.id)
	for _, id := range others {
		g.net.block(first.id, id, false)
	}

	lead := g.leader()
	g.start(first.id)
	g.write(lead.id, 1, 10, 3)
	third := others[0]
	if third == lead.id {
		third = others[1]
	}
	g.kill(third)
	g.write(lead.id, 1, 13, 1) // is committed when the first leader has acknowledged it
	g.start(third)
	g.agree(14)
	g.kill(first.id)
	g.write(lead.id, 1, 14, 1)
	term := lead.node.Status().Term

	g.members[first.id] = older
	m := g.start(first.id)
	list := g.agree(15)
	checkOrder(t, list, nil, 15)
	if slices.ContainsFunc(list, func(a applied) bool { return a.client == 3 }) {
		t.Errorf("applied %v, with writes that were committed nowhere", list)
	}
	g.mustWriteSoon(m.node, applied{2, 0})
	if got := lead.node.Status(); got.Leader != lead.id || got.Term != term {
		t.Errorf("member %d leads in term %d, want %d in term %d", got.Leader, got.Term, lead.id, term)
	}
}
