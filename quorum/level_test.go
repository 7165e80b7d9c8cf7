package quorum

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/storage/entry"
)

// Level implements Machine.
func (m *fakeMachine) Level() entry.Level {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.levels {
		return entry.LevelNewest
	}
	return max(m.state.level, entry.LevelOldest)
}

// agreements are the levels to which the members of a test agree, as all of them know it.
type agreements struct {
	mu     sync.Mutex
	levels map[uint64]entry.Level // guarded by mu
}

func (a *agreements) of(id uint64) entry.Level {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.levels[id]
}

func (a *agreements) set(id uint64, level entry.Level) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.levels[id] = level
}

// newLevelGroup starts voters that begin at the oldest level, and learners, who all agree to the newest.
func newLevelGroup(t *testing.T, voters, learners int, set func(o *Options)) (*testGroup, *agreements) {
	a := &agreements{levels: map[uint64]entry.Level{}}
	for id := range voters + learners {
		a.levels[uint64(id)+1] = entry.LevelNewest
	}
	return newTestGroup(t, voters, learners, func(o *Options) {
		o.Machine.(*fakeMachine).levels = true
		o.PeerLevel = a.of
		if set != nil {
			set(o)
		}
	}), a
}

// atLevel waits until all members that run are at a level.
func (g *testGroup) atLevel(level entry.Level) {
	g.t.Helper()
	eventually(g.t, "all members are at the level", func() bool {
		for _, id := range g.up() {
			if g.members[id].node.Level() != level {
				return false
			}
		}
		return true
	})
}

// staysAt has several ticks pass, with a write and a change of leaders, and checks that the level is as it was.
func (g *testGroup) staysAt(level entry.Level) {
	g.t.Helper()
	for range 2 {
		lead := g.leader()
		before := lead.node.loop.progress.tick.Load()
		eventually(g.t, "ticks pass", func() bool { return lead.node.loop.progress.tick.Load() > before+20 })
		g.mustWriteSoon(lead.node, applied{9, 9})
		if got := lead.node.Level(); got != level {
			g.t.Errorf("level %d, want %d", got, level)
		}
		g.stop(lead.id)
		g.start(lead.id)
	}
}

// TestLevelIsRaisedWhenAllMembersAgree: not while one, be it an observer, cannot do more or was not met, and then at
// once; a leader of later finds nothing to do.
func TestLevelIsRaisedWhenAllMembersAgree(t *testing.T) {
	for name, before := range map[string]struct { // order: each case has a group of its own
		id    uint64
		level entry.Level
	}{
		"a voter is old":          {2, entry.LevelOldest},
		"a voter was not met":     {3, 0},
		"an observer is old":      {4, entry.LevelOldest},
		"an observer was not met": {4, 0},
	} {
		t.Run(name, func(t *testing.T) {
			a := &agreements{levels: map[uint64]entry.Level{}} // nobody has met anybody
			own := func(id uint64) entry.Level {
				if id != before.id {
					return entry.LevelNewest
				}
				return max(a.of(id), before.level, entry.LevelOldest)
			}
			g := newTestGroup(t, 3, 1, func(o *Options) {
				machine := o.Machine.(*fakeMachine) //nolint:errcheck // it is one
				// Of a group that was founded: as long as it was not, its leader leaves out who is away.
				machine.whole(func() { machine.levels, machine.state.cluster = true, [16]byte{1} })
				o.PeerLevel, o.LevelMax = a.of, own(o.ID)
				if before.level == 0 {
					o.LevelMax = entry.LevelNewest
				}
				if o.ID == before.id { // nor has it met anybody
					o.PeerLevel = func(uint64) entry.Level { return a.of(before.id) }
				}
			})
			// A founder that is not heard when the ensemble is founded comes in later, and is no member until then.
			g.awaitMembers([]uint64{1, 2, 3}, []uint64{4})
			for id := range uint64(4) {
				if id++; id != before.id {
					a.set(id, entry.LevelNewest)
				}
			}
			a.set(before.id, before.level)
			g.staysAt(entry.LevelOldest)
			a.set(before.id, entry.LevelNewest)
			g.stop(before.id)
			g.start(before.id) // the newer program, which may lead
			g.atLevel(entry.LevelNewest)
			g.staysAt(entry.LevelNewest)
		})
	}
}

// TestLevelIsHeld: one member whose operator does not agree holds the level of all, also if it leads.
func TestLevelIsHeld(t *testing.T) {
	g, _ := newLevelGroup(t, 1, 0, func(o *Options) { o.LevelMax = entry.LevelOldest })
	g.staysAt(entry.LevelOldest)
}

// TestFoundersBeginAtTheirLevel: a founder that is not there is not waited for; one that is there and old is.
func TestFoundersBeginAtTheirLevel(t *testing.T) {
	for name, tc := range map[string]struct { // order: each case has a group of its own
		third entry.Level
		want  entry.Level
	}{
		"all are new":    {entry.LevelNewest, entry.LevelNewest},
		"one is not met": {0, entry.LevelNewest},
		"one is old":     {entry.LevelOldest, entry.LevelOldest},
	} {
		t.Run(name, func(t *testing.T) {
			founding := entry.FoundTxn{ClusterID: entry.ClusterID{1, 2, 3}, Config: []byte("config")}
			levels := &agreements{levels: map[uint64]entry.Level{
				1: entry.LevelNewest, 2: entry.LevelNewest, 3: tc.third,
			}}
			g := newTestGroup(t, 3, 0, func(o *Options) {
				o.Bootstrap = founding.Append(nil)
				o.Machine.(*fakeMachine).levels = true
				o.PeerLevel = levels.of
				if o.ID == 3 && tc.third != 0 {
					o.LevelMax = tc.third // for it may be the leader that bootstraps the group
				}
			})
			g.stop(3)
			g.leader()
			eventually(t, "the group is founded", func() bool {
				return g.members[1].machine.ClusterID() == founding.ClusterID
			})
			g.atLevel(tc.want)
		})
	}
}

// TestServerAloneIsAtItsLevel: when it is started, unless it is held.
func TestServerAloneIsAtItsLevel(t *testing.T) {
	for _, level := range []entry.Level{entry.LevelOldest, entry.LevelNewest} {
		o := testOptions(openLog(t, vfs.NewMem(), "log"), &fakeMachine{levels: true})
		o.LevelMax = level
		if n := startNode(t, o); n.Level() != level {
			t.Errorf("level %d, want %d", n.Level(), level)
		}
	}
}

// TestNothingNewIsProposedBeforeItsLevel: neither what a level does not allow, nor what nobody knows, here or
// forwarded.
func TestNothingNewIsProposedBeforeItsLevel(t *testing.T) {
	o := testOptions(openLog(t, vfs.NewMem(), "log"), &fakeMachine{levels: true})
	o.LevelMax = entry.LevelOldest
	n := startNode(t, o)
	for _, p := range []*entry.Proposal{
		{Op: entry.OpRaiseLevel}, {Op: -999}, {Op: jute.OpGetData}, {Op: jute.OpSetData, Flags: 1 << 15},
	} {
		if err := n.Propose(p, nil); err == nil || !strings.Contains(err.Error(), "feature level 1") {
			t.Errorf("propose operation %d: %v", p.Op, err)
		}
		entry := entry.AppendProposal(entry.AppendEntryHeader(nil, 7, 1), p)
		_, _, err := decodeForward(appendForward(nil, 1, 1, 0, entry))
		if known := p.Level() != 0; errors.Is(err, errFrame) == known {
			t.Errorf("forward operation %d: %v", p.Op, err)
		}
	}
}
