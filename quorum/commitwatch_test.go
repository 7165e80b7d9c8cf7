package quorum

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// followed is what a leader knows of each member's log.
type followed map[uint64]tracker.Progress

func (f followed) BasicStatus() raft.BasicStatus { return raft.BasicStatus{} }

func (f followed) WithProgress(visit func(id uint64, kind raft.ProgressType, pr tracker.Progress)) {
	for id, pr := range f {
		visit(id, raft.ProgressTypePeer, pr)
	}
}

// watched is a leader of three, of whom server 2 is away.
type watched struct {
	*loop
	others followed
	told   []bool // whether it is stuck
	log    bytes.Buffer
}

func newWatched(t *testing.T) *watched {
	w := &watched{loop: newSoleVoter(1), others: followed{1: {}, 2: {}, 3: {State: tracker.StateReplicate}}}
	w.loop.log = openLog(t, vfs.NewMem(), "log")
	t.Cleanup(func() { _ = w.loop.log.Close() })
	w.logger = slog.New(slog.NewTextHandler(&w.log, nil))
	w.raft = w.others
	w.member.Conf.Voters = []uint64{1, 2, 3}
	w.health.disks.reset()
	w.commits.changed = func() { w.told = append(w.told, w.commits.stuck) }
	return w
}

// electionTicks is the election timeout of newSoleVoter.
const electionTicks = 10

// tick lets ticks pass, in each of which server 3 answers.
func (w *watched) tick(n int) {
	for range n {
		w.now++
		w.health.disks.peer(3).heard = w.now
		w.commits.tick()
	}
}

// says checks what it has told of itself.
func (w *watched) says(t *testing.T, why string, want ...bool) {
	t.Helper()
	if !slices.Equal(w.told, want) {
		t.Fatalf("%s: it has told whether it is stuck as %v, want %v", why, w.told, want)
	}
}

// TestALeaderWhoseEntriesAreNotCommittedSaysSo: others answer it, and store nothing. It says when that is over, too.
func TestALeaderWhoseEntriesAreNotCommittedSaysSo(t *testing.T) {
	w := newWatched(t)
	w.commit, w.appended = 5, 5
	w.tick(3 * electionTicks)
	w.says(t, "there is nothing to commit")
	w.appended = 6
	w.tick(electionTicks - 1)
	w.says(t, "less than an election timeout has passed")
	w.commit, w.appended = 6, 7
	w.tick(electionTicks)
	w.says(t, "something was committed")
	w.others[1] = tracker.Progress{Match: 7}
	w.tick(1)
	w.says(t, "nothing was for an election timeout", true)
	if w.tick((stuckTold-1)*electionTicks - 1); w.log.Len() > 0 {
		t.Errorf("the log is\n%s", w.log.String())
	}
	w.tick(electionTicks)
	if !strings.HasSuffix(w.log.String(), " committed=6 last=7 behind=\"[2 3]\"\n") {
		t.Errorf("the log is\n%s", w.log.String())
	}
	w.commit = 7
	w.tick(1)
	w.says(t, "all is committed", true, false)
	if n := strings.Count(w.log.String(), "\n"); n != 2 || !strings.Contains(w.log.String(), "leader commits again") {
		t.Errorf("the log is\n%s", w.log.String())
	}
}

// TestALeaderThatCouldCommitNothingSaysSo: nothing is to be committed. Who answers it is being sent a snapshot, or its
// disk hangs.
func TestALeaderThatCouldCommitNothingSaysSo(t *testing.T) {
	w := newWatched(t)
	w.commit, w.appended = 5, 5
	w.tick(1)
	w.others[3] = tracker.Progress{State: tracker.StateSnapshot}
	w.tick(electionTicks - 1)
	w.says(t, "less than an election timeout has passed")
	w.tick(1)
	w.says(t, "one is away, the other one is being sent a snapshot", true)
	w.others[3] = tracker.Progress{State: tracker.StateReplicate}
	w.tick(1)
	w.says(t, "it follows", true, false)
	w.health.disks.peer(3).stalled = true
	w.tick(electionTicks)
	w.says(t, "its disk hangs", true, false, true)
	w.soft.RaftState = raft.StateFollower
	w.tick(1)
	w.says(t, "it leads no more", true, false, true, false)
}
