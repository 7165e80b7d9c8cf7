package quorum

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"zkd/quorum/clock"
	"zkd/quorum/member"
	"zkd/storage/entry"
	"zkd/storage/raftlog"
)

// newSoleVoter returns the loop of a member that has the only vote, and a leader.
func newSoleVoter(lead uint64) *loop {
	o := &Options{ElectionTicks: 10, Clock: clock.Real()}
	l := &loop{
		facts: facts{
			id: 1, options: o, logger: discard,
			member: member.Membership{Conf: &raftpb.ConfState{Voters: []uint64{1}}},
			soft:   raft.SoftState{Lead: lead, RaftState: raft.StateFollower},
		},
		batcher: testBatcher(1<<10, 1<<10),
	}
	if lead == l.id {
		l.soft.RaftState = raft.StateLeader
	}
	l.connect()
	return l
}

// TestASoleVoterTakesWritesAgain has a member come to be the only one with a vote between a snapshot, which has it take
// no writes until the next tick, and that tick.
func TestASoleVoterTakesWritesAgain(t *testing.T) {
	l := newSoleVoter(1)
	l.batcher.Suspend(ErrLeadershipLost)
	if err := l.batcher.Add(&entry.Proposal{}, nil); err == nil {
		t.Fatal("a write is taken before the tick")
	}
	l.forwarding.tick()
	if err := l.batcher.Add(&entry.Proposal{}, nil); err != nil {
		t.Errorf("a write is refused after the tick: %v", err)
	}
}

// TestASoleVoterListensToItsLeaderAlone lets the leader that was removed transfer the leadership, and no stranger come
// to lead.
func TestASoleVoterListensToItsLeaderAlone(t *testing.T) {
	l := newSoleVoter(2)
	for from, screened := range map[uint64]bool{2: false, 3: true} {
		m := &raftpb.Message{Type: raftpb.MsgTimeoutNow.Enum(), From: &from}
		if got := l.admission.screen(m); got != screened {
			t.Errorf("a message of member %d is kept from raft: %v", from, got)
		}
	}
}

// TestARemovedLeaderProposesNothing keeps writes for the next leader: raft takes none of them.
func TestARemovedLeaderProposesNothing(t *testing.T) {
	l := newSoleVoter(1)
	if !l.mayPropose() {
		t.Error("a leader proposes nothing")
	}
	l.members.set(member.Membership{Index: 1, Conf: &raftpb.ConfState{Voters: []uint64{2}}})
	if l.mayPropose() {
		t.Error("a leader that was removed proposes")
	}
}

// TestAFollowerPassesNoQuestionOn: raft would, as if it had come from who asked, and no member takes that from another.
func TestAFollowerPassesNoQuestionOn(t *testing.T) {
	l := newSoleVoter(1)
	l.termReached = true
	l.soft.RaftState = raft.StateFollower
	if !l.reads.deferQuestion(&raftpb.Message{Type: raftpb.MsgReadIndex.Enum()}) {
		t.Error("a follower lets raft have a question")
	}
	if len(l.reads.deferred) > 0 {
		t.Error("a follower keeps a question")
	}
}

// TestALeaderWithoutAVoteAnswersNoQuestion: with one voter raft answers at once, whoever that voter is.
func TestALeaderWithoutAVoteAnswersNoQuestion(t *testing.T) {
	l := newSoleVoter(1)
	l.termReached = true
	question := &raftpb.Message{Type: raftpb.MsgReadIndex.Enum()}
	if l.reads.deferQuestion(question) {
		t.Error("a leader with a vote does not answer")
	}
	l.members.set(member.Membership{Index: 1, Conf: &raftpb.ConfState{Voters: []uint64{2}, Learners: []uint64{1}}})
	if !l.reads.deferQuestion(question) {
		t.Error("a leader without a vote answers another member")
	}
	if err := l.batcher.AddBarrier(nil); err != nil {
		t.Fatal(err)
	}
	l.reads.ask() // would ask raft, which is not there
	if len(l.reads.waiting) != 1 || len(l.reads.asked) != 0 {
		t.Error("a leader without a vote answers its own question")
	}
}

// TestWhoWasRemovedMayVote: it may have been added again, and not have heard of that.
func TestWhoWasRemovedMayVote(t *testing.T) {
	l := newcomer(t, 1, false, Member{ID: 1}, Member{ID: 2})
	l.admission.greeted(2, member.Hello{Incarnation: 12})
	l.removed = true
	if l.admission.screen(askVote(2, 1)) {
		t.Error("its vote cannot be had")
	}
	from, term := uint64(2), uint64(7)
	if !l.admission.screen(&raftpb.Message{Type: raftpb.MsgTimeoutNow.Enum(), From: &from, Term: &term}) {
		t.Error("it would campaign")
	}
}

// TestAVoteIsGivenOnce: who asks for it again has forgotten that it has got it, and what it has done with it.
func TestAVoteIsGivenOnce(t *testing.T) {
	l := newcomer(t, 1, false, Member{ID: 1}, Member{ID: 2})
	l.admission.greeted(2, member.Hello{Incarnation: 12})
	if l.admission.screen(askVote(2, 1)) {
		t.Fatal("no vote can be had")
	}
	ask := askVote(2, 1)
	index, term := uint64(9), uint64(6)
	ask.Index, ask.LogTerm = &index, &term
	l.stepRaft(ask)
	if hard := l.raw.BasicStatus().HardState; hard.GetVote() != 2 || hard.GetTerm() != 7 {
		t.Fatalf("the vote is %v", &hard)
	}
	if !l.admission.screen(askVote(2, 1)) {
		t.Error("the vote can be had again")
	}
	later := askVote(2, 1)
	*later.Term++
	if l.admission.screen(later) {
		t.Error("that of a later term cannot be had")
	}
}

// TestOneOfTwoKnowsOfAThird: the other one of two voters is believed whatever it has forgotten, but not while a change
// of the voters is in the log.
func TestOneOfTwoKnowsOfAThird(t *testing.T) {
	const learner, vote, gone = raftpb.ConfChangeAddLearnerNode, raftpb.ConfChangeAddNode, raftpb.ConfChangeRemoveNode
	for _, c := range []struct {
		name     string
		changes  []*raftpb.ConfChangeSingle
		believed bool
	}{
		{"nothing", nil, true},
		{"a learner", []*raftpb.ConfChangeSingle{member.Step(learner, 3)}, true},
		{"an incarnation", []*raftpb.ConfChangeSingle{member.Step(vote, 2)}, true},
		{"a third vote", []*raftpb.ConfChangeSingle{member.Step(vote, 3)}, false},
		{"a vote less", []*raftpb.ConfChangeSingle{member.Step(gone, 2)}, false},
		{"a vote taken", []*raftpb.ConfChangeSingle{member.Step(learner, 2)}, false},
		{"a vote for another", []*raftpb.ConfChangeSingle{member.Step(gone, 2), member.Step(vote, 3)}, false},
	} {
		log := openLog(t, vfs.NewMem(), "log")
		o := testOptions(log, &fakeMachine{})
		o.Members, o.Transport = []Member{{ID: 1}, {ID: 2}}, silence{}
		if _, _, err := openGroup(&o, 0); err != nil {
			t.Fatal(err)
		}
		if len(c.changes) > 0 {
			entries := []raftlog.LogEntry{changesEntry(t, 2, c.changes...)}
			if err := log.Append(entries, appendHardState(nil, bootstrapTerm, 0, 1), true); err != nil {
				t.Fatal(err)
			}
		}
		s, err := NewStepper(o)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.node.loop.admission.otherOfTwoVoters(2); got != c.believed {
			t.Errorf("with %s in the log member 2 is believed: %v", c.name, got)
		}
		s.End()
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestAnEnsembleOfOneStartsWithItsOldLines: it has shrunk to one, the state does not know yet that it was founded, and
// the file of the configuration does not follow.
func TestAnEnsembleOfOneStartsWithItsOldLines(t *testing.T) {
	for index, refused := range map[uint64]bool{bootstrapIndex: true, bootstrapIndex + 1: false} {
		log := openLog(t, vfs.NewMem(), "log")
		m := member.Membership{Index: index, Conf: &raftpb.ConfState{Voters: []uint64{1}}}
		if err := storeMembership(log, &m); err != nil {
			t.Fatal(err)
		}
		o := testOptions(log, &fakeMachine{})
		o.Members = []Member{{ID: 1}, {ID: 2}}
		if err := openIdentity(&o); (err != nil) != refused {
			t.Errorf("membership as of entry %d: %v", index, err)
		}
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTheEntryOfTheMembershipIsCommitted: it was applied, or it would not be on disk.
func TestTheEntryOfTheMembershipIsCommitted(t *testing.T) {
	log := openLog(t, vfs.NewMem(), "log")
	defer log.Close()
	if _, _, err := openGroup(&Options{ID: 1, Log: log}, 0); err != nil {
		t.Fatal(err)
	}
	entries := []raftlog.LogEntry{
		changeEntry(t, 2, raftpb.EntryConfChangeV2, 2), changeEntry(t, 3, raftpb.EntryConfChangeV2, 3),
	}
	if err := log.Append(entries, appendHardState(nil, bootstrapTerm, 0, 1), true); err != nil {
		t.Fatal(err)
	}
	m := member.Membership{Index: 2, Conf: &raftpb.ConfState{Voters: []uint64{1}, Learners: []uint64{2}}}
	hard, err := loadHardState(log, 0, &m)
	if err != nil || hard.GetCommit() != 2 {
		t.Errorf("committed up to %d, %v; want 2", hard.GetCommit(), err)
	}
}

// TestWhyThereIsNoLeaderIsToldWhenItHasSettled: servers that are started one after the other are not a line each.
func TestWhyThereIsNoLeaderIsToldWhenItHasSettled(t *testing.T) {
	l := newSoleVoter(raft.None)
	var log bytes.Buffer
	l.logger = slog.New(slog.NewTextHandler(&log, nil))
	l.member.Conf.Voters = []uint64{1, 2, 3, 4, 5}
	l.admission.here = map[uint64]bool{}
	ticks := func(n int) {
		for range n {
			l.now++
			l.voterWatch.tick()
		}
	}
	const patience = 2 * 10 // of newSoleVoter
	for _, step := range []struct {
		comes uint64
		ticks int
		lines int
	}{{0, patience - 1, 0}, {0, 1, 1}, {0, patience, 1}, {2, patience, 1}, {0, 1, 2}, {3, patience, 2}} {
		l.admission.here[step.comes] = true
		if ticks(step.ticks); strings.Count(log.String(), "no leader") != step.lines {
			t.Fatalf("%+v: the log is\n%s", step, log.String())
		}
	}
	if !strings.HasSuffix(log.String(), " away=\"[3 4 5]\" emptied=[] quorum=3 why=\"\"\n") {
		t.Errorf("the log is\n%s", log.String())
	}
}

// TestAFollowerDoesNotNeedWhoVotedBefore has a sole voter give others votes. Until the joint membership ends they are
// learners, as operators see it: with its disk lost there would be no leader again (seed 11466683).
func TestAFollowerDoesNotNeedWhoVotedBefore(t *testing.T) {
	l := newSoleVoter(2)
	l.options.Machine = &fakeMachine{}
	for _, c := range []struct {
		before, voters []uint64
		role           Role
	}{
		{nil, []uint64{2}, RoleLearner},
		{[]uint64{2}, []uint64{1, 2, 3}, RoleLearner},
		{nil, []uint64{1, 2, 3}, RoleFollower},
		{[]uint64{1, 2, 3}, []uint64{2, 3}, RoleFollower},
	} {
		l.member.Conf = &raftpb.ConfState{Voters: c.voters, VotersOutgoing: c.before}
		if role := l.status.role(); role != c.role {
			t.Errorf("of voters %v, before %v: %s", c.voters, c.before, role)
		}
	}
}

// TestASoleVoterWhoseLogGivesOthersVotesStarts: before it was killed it had given others votes, and its state does not
// have that yet. It does not end while they are away: it waits for them (seed 11545204).
func TestASoleVoterWhoseLogGivesOthersVotesStarts(t *testing.T) {
	log := openLog(t, vfs.NewMem(), "log")
	o := testOptions(log, &fakeMachine{})
	o.Members, o.Transport, o.TickInterval = []Member{{ID: 1}}, silence{}, 10*time.Millisecond
	if _, _, err := openGroup(&o, 0); err != nil {
		t.Fatal(err)
	}
	entries := []raftlog.LogEntry{changesEntry(t, 2, member.Step(raftpb.ConfChangeAddNode, 2))}
	if err := log.Append(entries, appendHardState(nil, bootstrapTerm, 0, 2), true); err != nil {
		t.Fatal(err)
	}
	n := startNode(t, o)
	if s := n.Status(); !slices.Equal(s.Voters, []uint64{1, 2}) || s.Leader != 0 {
		t.Errorf("%v vote, and %d leads", s.Voters, s.Leader)
	}
}
