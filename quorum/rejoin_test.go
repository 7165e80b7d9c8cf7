package quorum

import (
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"go.etcd.io/raft/v3/raftpb"

	"zkd/quorum/member"
	"zkd/storage/raftlog"
)

// silence is a transport whose frames go nowhere.
type silence struct{}

// Send implements Transport.
func (silence) Send(uint64, uint8, func([]byte) []byte) bool                { return true }
func (silence) SendInOrder(uint64, uint8, func([]byte) []byte, []byte) bool { return true }

// newcomer returns the loop of a member that starts without data.
func newcomer(t *testing.T, id uint64, joining bool, members ...Member) *loop {
	t.Helper()
	return newcomerOn(t, openLog(t, vfs.NewMem(), "log"), id, joining, members...)
}

// newcomerOn is one with a log.
func newcomerOn(t *testing.T, log *raftlog.Log, id uint64, joining bool, members ...Member) *loop {
	t.Helper()
	o := testOptions(log, &fakeMachine{})
	o.ID, o.Members, o.Joining, o.Transport = id, members, joining, silence{}
	s, err := NewStepper(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.End()
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.node.loop
}

// written has the append goroutine's part write what the loop has handed to it.
func written(t *testing.T, l *loop) {
	t.Helper()
	a := &appender{log: l.log, clock: l.options.Clock, done: l.stored.put, step: 1 << 20}
	if err := a.write(l.toAppend.take(nil)); err != nil {
		t.Fatal(err)
	}
	l.receive()
}

// askVote is a candidate's message.
func askVote(from, to uint64) *raftpb.Message {
	term := uint64(7)
	return &raftpb.Message{Type: raftpb.MsgVote.Enum(), From: &from, To: &to, Term: &term}
}

// TestWhoHasNothingDoesNotVoteUnknown: a member that starts without data listens only to those who have said that they
// know no other one under its id, even if it takes itself for one that never had a vote.
func TestWhoHasNothingDoesNotVoteUnknown(t *testing.T) {
	founders := []Member{{ID: 1}, {ID: 2}, {ID: 3}, {ID: 4, Learner: true}}
	for name, l := range map[string]*loop{ // order: each for itself
		"an observer of the founders": newcomer(t, 4, false, founders...),
		"one that joins":              newcomer(t, 4, true),
	} {
		if !l.admission.screen(askVote(1, 4)) {
			t.Errorf("%s listens to a stranger", name)
		}
		l.admission.greeted(1, member.Hello{Incarnation: 11})
		if l.admission.screen(askVote(1, 4)) {
			t.Errorf("%s does not listen to one who knows nobody else", name)
		}
		if !l.admission.screen(askVote(2, 4)) {
			t.Errorf("%s listens to one who has not said whom he knows", name)
		}
		maybeVoter := member.Hello{Incarnation: 12, Known: l.admission.incarnation + 1}
		l.admission.greeted(9, maybeVoter)
		if !l.admission.screen(askVote(1, 4)) {
			t.Errorf("%s votes, and has forgotten what it was", name)
		}
		l.admission.greeted(1, member.Hello{Incarnation: 11, Known: l.admission.incarnation, Admitted: true})
		if !l.admission.screen(askVote(1, 4)) {
			t.Errorf("%s listens before it is durable that it was taken in", name)
		}
		written(t, l)
		if l.admission.screen(askVote(1, 4)) {
			t.Errorf("%s was taken in again and does not listen", name)
		}
	}
}

// TestFoundersWithoutDataHearOfLaterVoters: the group has grown since it was founded, and most of the founders have
// lost their disks. One who is none of them knows that they were there.
func TestFoundersWithoutDataHearOfLaterVoters(t *testing.T) {
	l := newcomer(t, 1, false, Member{ID: 1}, Member{ID: 2}, Member{ID: 3})
	l.admission.greeted(5, member.Hello{Incarnation: 15, Known: l.admission.incarnation + 1})
	l.admission.greeted(3, member.Hello{Incarnation: 13}) // another one without data
	if !l.admission.quarantined() || !l.admission.screen(askVote(3, 1)) {
		t.Error("two of three founders without data found the group anew")
	}
}

// TestTheOtherOfTwoIsBelieved: in a group of two nobody could take in again who has lost its disk.
func TestTheOtherOfTwoIsBelieved(t *testing.T) {
	l := newcomer(t, 1, false, Member{ID: 1}, Member{ID: 2})
	l.admission.greeted(2, member.Hello{Incarnation: 12})
	l.admission.greeted(2, member.Hello{Incarnation: 13})
	if known := l.admission.known[2]; known != 13 {
		t.Errorf("incarnation %d is known, want 13", known)
	}
}

// TestWhoVotesIsPublishedBeforeTheRole: a member without data gets a snapshot in which it has a vote. It is not seen as
// a follower with the voters of before.
func TestWhoVotesIsPublishedBeforeTheRole(t *testing.T) {
	l := newcomer(t, 4, true)
	l.admission.greeted(1, member.Hello{Incarnation: 11, Known: l.admission.incarnation, Admitted: true})
	written(t, l)
	var voters [][]uint64
	l.options.OnState = func(s State) {
		if s.Role == RoleFollower {
			voters = append(voters, l.progress.group.Load().voters)
		}
	}
	from, term, index := uint64(1), uint64(7), uint64(5)
	l.receiveRaft(&raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: &from, To: &l.id, Term: &term})
	l.receiveSnapshot(&staged{dir: "staged", done: func(error) {}, message: &raftpb.Message{
		Type: raftpb.MsgSnap.Enum(), From: &from, To: &l.id, Term: &term,
		Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{
			Index: &index, Term: &term, ConfState: &raftpb.ConfState{Voters: []uint64{1, 2, 4}},
		}},
	}})
	l.status.publish()
	if len(voters) == 0 {
		t.Fatal("the member is no follower")
	}
	for _, v := range voters {
		if !slices.Equal(v, []uint64{1, 2, 4}) {
			t.Errorf("a follower, while %v vote", v)
		}
	}
}

// TestANewcomerHasLostNothing: one that waits to be added to a group of one has no vote, by whatever list it was given,
// and no disk that could be among those that are lost.
func TestANewcomerHasLostNothing(t *testing.T) {
	l := newcomer(t, 2, true, Member{ID: 1}, Member{ID: 2})
	found := l.voterWatch.find()
	if want := (&MissingVoters{StateLost: true, Away: []uint64{1}}); !cmp.Equal(found, want) {
		t.Errorf("it says %+v, want %+v", found, want)
	}
	l = newcomer(t, 2, true, Member{ID: 1}, Member{ID: 2}, Member{ID: 3})
	for _, id := range []uint64{1, 3} {
		l.admission.greeted(id, member.Hello{Incarnation: 10 + id, Quarantined: true})
	}
	if found := l.voterWatch.find(); !found.Lost {
		t.Errorf("both others have lost their disks, and it says %+v", found)
	}
}

// TestNothingIsCopiedBeforeAnythingIsApplied: a founder whose only other one joins has nothing that this one could get.
// It tried each second, and said that it had failed.
func TestNothingIsCopiedBeforeAnythingIsApplied(t *testing.T) {
	machine := &fakeMachine{}
	l := newcomer(t, 1, false, Member{ID: 1}, Member{ID: 2})
	l.options.Machine, l.options.SnapshotSender = machine, testSnapshotSender{}
	for _, applied := range []uint64{0, bootstrapIndex, bootstrapIndex + 1} {
		machine.state.index = applied
		_, err := l.checkpoints.offer()
		if made := len(l.checkpoints.list) > 0; made != (applied > bootstrapIndex) {
			t.Errorf("with entry %d applied a checkpoint is made: %v, %v", applied, made, err)
		}
	}
}
