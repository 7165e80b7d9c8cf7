package quorum

import (
	"slices"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"
)

// atRest opens the log of a member that does not run, and says what counts of it.
func (g *testGroup) atRest(id uint64) (info LogInfo, last uint64) {
	g.t.Helper()
	log := openLog(g.t, g.members[id].fs, "log")
	info, err := DescribeLog(log)
	if err != nil {
		g.t.Fatal(err)
	}
	last = log.LastIndex()
	if err := log.Close(); err != nil {
		g.t.Fatal(err)
	}
	return info, last
}

// proposeAlone has a leader write down an entry whose acknowledgments do not come.
func (g *testGroup) proposeAlone(lead *testMember) {
	g.t.Helper()
	for _, id := range g.up() {
		g.net.block(id, lead.id, true)
	}
	if err := lead.node.Propose(proposal(applied{9, 9}, 0), newWaiter(g.t)); err != nil {
		g.t.Fatal(err)
	}
	eventually(g.t, "every log has the entry, which nobody knows to be committed", func() bool {
		for _, id := range g.up() {
			if s := g.members[id].node.Status(); s.LastIndex <= s.Commit {
				return false
			}
		}
		return true
	})
}

// TestWhatCountsOfALogAtRest has a leader propose what the others get and cannot acknowledge. At its stop the leader
// knows that nobody was told of it; a follower does not, nor does the leader after a crash.
func TestWhatCountsOfALogAtRest(t *testing.T) {
	g := newTestGroup(t, 3, 0, nil)
	lead, follower := g.leader(), g.follower()
	g.write(lead.id, 1, 0, 3)
	g.agree(3)
	g.proposeAlone(lead)
	g.stop(follower.id)
	if info, last := g.atRest(follower.id); !info.Stopped || info.Commit >= last || info.Settled != last {
		t.Errorf("of the follower's log, to %d, counts %+v; all of it may", last, info)
	}
	for _, id := range g.up() {
		if id != lead.id {
			g.kill(id)
		}
	}
	g.stop(lead.id)
	before, last := g.atRest(lead.id)
	if !before.Stopped || before.Settled != before.Commit || before.Commit >= last {
		t.Errorf("of the leader's log, to %d, counts %+v; what is committed alone", last, before)
	}

	// It comes back alone, and hears of no other leader.
	g.start(lead.id)
	g.stop(lead.id)
	if again, last := g.atRest(lead.id); !again.Stopped || again.Settled != before.Settled || again.Settled >= last {
		t.Errorf("after a start without the others it counts %+v of %d, before %+v", again, last, before)
	}
	g.start(lead.id)
	g.kill(lead.id)
	if crashed, last := g.atRest(lead.id); crashed.Stopped || crashed.Settled != last {
		t.Errorf("after a crash it counts %+v of %d", crashed, last)
	}
}

// TestACleanStopLeavesNothingOpen: what a member of several knows to be committed is on disk after its stop.
func TestACleanStopLeavesNothingOpen(t *testing.T) {
	g := newTestGroup(t, 3, 0, nil)
	lead := g.leader()
	g.write(lead.id, 1, 0, 3)
	up := g.up()
	for n, id := range up {
		if n < 2 { // the last one alone agrees on nothing, and may have an entry of its own that it leads with
			// While they elect, all may be committed: the new leader's first entry comes during the stop then.
			eventually(t, "those who are up have a leader, and know that all is committed", func() bool {
				return !slices.ContainsFunc(up[n:], func(id uint64) bool {
					s := g.members[id].node.Status()
					return !slices.Contains(up[n:], s.Leader) || s.LastIndex != s.Commit || s.Commit != s.Applied
				})
			})
		}
		g.stop(id)
		if info, last := g.atRest(id); !info.Stopped || info.Commit < last-1 || info.Settled < info.Commit {
			t.Errorf("member %d, whose log ends at %d, knows %+v", id, last, info)
		}
	}
}

// TestAStopWritesWhatIsLeftForTheLog: what the loop has handed over, and commits perhaps, is in the log after a stop,
// also if it was handed over after the append goroutine had heard of the stop.
func TestAStopWritesWhatIsLeftForTheLog(t *testing.T) {
	o := testOptions(openLog(t, vfs.NewMem(), "log"), &fakeMachine{})
	o.Members, o.Transport = []Member{{ID: 1}, {ID: 2}, {ID: 3}}, silence{}
	s, err := NewStepper(o)
	if err != nil {
		t.Fatal(err)
	}
	l, term, vote, index := s.node.loop, uint64(3), uint64(2), o.Log.LastIndex()+1
	s.node.stop(ErrStopped)
	var giveWork sync.WaitGroup
	giveWork.Go(func() {
		l.voteTerm, l.vote, l.commit = term, vote, index
		l.toAppend.putQuietly(appendWork{message: &raftpb.Message{
			Type: raftpb.MsgStorageAppend.Enum(), Term: &term, Vote: &vote, Commit: &index,
			Entries: []*raftpb.Entry{{Term: &term, Index: &index}},
		}})
	})
	if err := s.node.append(&giveWork); err != nil {
		t.Fatal(err)
	}
	if err := noteRest(l, s.node.appender); err != nil {
		t.Fatal(err)
	}
	if r, ok := restOf(o.Log); !ok || r.last != index || r.commit != index || r.term != term {
		t.Errorf("after the stop the log knows %+v (%t), to the entry %d of term %d", r, ok, index, term)
	}
	s.End()
	if err := o.Log.Close(); err != nil {
		t.Error(err)
	}
}
