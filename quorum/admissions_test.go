package quorum

import (
	"bytes"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"zkd/storage/raftlog/logtest"
)

// TestAdmissionsAreKept writes memberships as they are on disk, one over the other, and reads them again; also as a
// revision does that knows nothing of admissions, to which a group that it has founded may go back.
func TestAdmissionsAreKept(t *testing.T) {
	log := logtest.Open(t, vfs.NewMem(), "log")
	older := admissions{out: map[uint64]outcast{2: {incarnation: 12}}}
	recorded := admissions{recorded: true, incarnations: map[uint64]uint64{1: 11, 3: 13}, out: map[uint64]outcast{}}
	for _, step := range []struct {
		name string
		admissions
	}{
		{"none", admissions{}}, {"out of an older group", older}, {"and in again", admissions{}},
		{"out once more", older}, {"recorded", recorded},
		{"and out", admissions{recorded: true, incarnations: map[uint64]uint64{1: 11},
			out: map[uint64]outcast{2: {}, 4: {learner: true, incarnation: 14}}}},
	} {
		name, a := step.name, step.admissions
		m := membership{index: 7, conf: &raftpb.ConfState{Voters: []uint64{1, 3}, Learners: []uint64{5}}, admissions: a}
		if err := storeMembership(log, &m); err != nil {
			t.Fatal(err)
		}
		blob, _ := log.Meta(membershipKey)
		got, err := decodeMembership(blob)
		if err := errors.Join(err, takeOutcasts(log, &got)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(a, got.admissions, cmp.AllowUnexported(admissions{}, outcast{})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		var conf raftpb.ConfState
		err = proto.Unmarshal(blob[9:], &conf)
		if same := conf.Equivalent(got.conf) == nil; err != nil || same == a.recorded {
			t.Errorf("%s: an older revision reads %v, %v", name, &conf, err)
		}
		for n := range a.encode() {
			if _, err := decodeAdmissions(a.encode()[:n]); n > 0 && err == nil {
				t.Errorf("%s: %d bytes are enough", name, n)
			}
		}
	}
}

// TestChangesOfAdmissions follows a group from its founding.
func TestChangesOfAdmissions(t *testing.T) {
	m := membership{index: 1, conf: &raftpb.ConfState{Voters: []uint64{1, 2, 3}}}
	next := func(cc *raftpb.ConfChangeV2) (proposal []byte) {
		t.Helper()
		after, proposal, err := m.changed(m.index+1, cc)
		if err != nil {
			t.Fatal(err)
		}
		m = after
		return proposal
	}
	check := func(incarnations map[uint64]uint64, out map[uint64]outcast) {
		t.Helper()
		want := admissions{recorded: true, incarnations: incarnations, out: out}
		if diff := cmp.Diff(want, m.admissions, cmp.AllowUnexported(admissions{}, outcast{})); diff != "" {
			t.Error(diff)
		}
	}
	one := func(kind raftpb.ConfChangeType, id uint64) []*raftpb.ConfChangeSingle {
		return []*raftpb.ConfChangeSingle{change(kind, id)}
	}
	next(&raftpb.ConfChangeV2{Changes: one(raftpb.ConfChangeRemoveNode, 3), // who founds it, without 3
		Context: admissionContext(map[uint64]uint64{1: 11, 2: 12}, nil)})
	check(map[uint64]uint64{1: 11, 2: 12}, map[uint64]outcast{3: {}})
	next(&raftpb.ConfChangeV2{Changes: one(raftpb.ConfChangeAddNode, 3), // 3 comes
		Context: admissionContext(map[uint64]uint64{3: 13}, nil)})
	check(map[uint64]uint64{1: 11, 2: 12, 3: 13}, map[uint64]outcast{})
	next(&raftpb.ConfChangeV2{Changes: one(raftpb.ConfChangeRemoveNode, 3),
		Context: outcast{incarnation: 23}.append(nil)})
	check(map[uint64]uint64{1: 11, 2: 12}, map[uint64]outcast{3: {incarnation: 23}}) // it has lost its disk
	proposal := next(&raftpb.ConfChangeV2{Changes: one(raftpb.ConfChangeAddLearnerNode, 4),
		Context: admissionContext(map[uint64]uint64{4: 14}, []byte("a reconfig"))})
	check(map[uint64]uint64{1: 11, 2: 12, 4: 14}, map[uint64]outcast{3: {incarnation: 23}})
	if !bytes.Equal(proposal, []byte("a reconfig")) {
		t.Errorf("the proposal is %q", proposal)
	}
	next(&raftpb.ConfChangeV2{Changes: one(raftpb.ConfChangeAddNode, 3),
		Context: admissionContext(map[uint64]uint64{3: 23}, nil)})
	proposal = next(&raftpb.ConfChangeV2{Changes: one(raftpb.ConfChangeRemoveNode, 2), Context: []byte{1, 2}})
	check(map[uint64]uint64{1: 11, 3: 23, 4: 14}, map[uint64]outcast{}) // removed for good
	if !bytes.Equal(proposal, []byte{1, 2}) {
		t.Errorf("the proposal is %q", proposal)
	}
	joint := append(one(raftpb.ConfChangeAddNode, 5), change(raftpb.ConfChangeRemoveNode, 1))
	next(&raftpb.ConfChangeV2{Changes: joint, Context: admissionContext(map[uint64]uint64{5: 15}, nil)})
	check(map[uint64]uint64{1: 11, 3: 23, 4: 14, 5: 15}, map[uint64]outcast{}) // 1 counts until the end of it
	next(&raftpb.ConfChangeV2{})
	check(map[uint64]uint64{3: 23, 4: 14, 5: 15}, map[uint64]outcast{})
}

// voteOf is an answer that raft counts.
func voteOf(from, incarnation uint64) *raftpb.Message {
	to, term := uint64(1), uint64(7)
	m := &raftpb.Message{Type: raftpb.MsgVoteResp.Enum(), From: &from, To: &to, Term: &term}
	if incarnation != 0 {
		m.Vote = &incarnation
	}
	return m
}

// TestOnlyAdmittedIncarnationsCount: a member that has the first entry counts whom its own log lists, whether it is
// applied or not.
func TestOnlyAdmittedIncarnationsCount(t *testing.T) {
	l := newcomer(t, 1, false, Member{ID: 1}, Member{ID: 2}, Member{ID: 3})
	l.admission.greeted(2, hello{incarnation: 12})
	l.admission.greeted(3, hello{incarnation: 13})
	if !l.admission.counts(voteOf(2, 12)) || !l.admission.counts(voteOf(3, 0)) {
		t.Error("before the founding somebody does not count")
	}
	index, term := uint64(2), uint64(2)
	cc := &raftpb.ConfChangeV2{Changes: []*raftpb.ConfChangeSingle{change(raftpb.ConfChangeRemoveNode, 3)},
		Context: admissionContext(map[uint64]uint64{1: l.admission.incarnation, 2: 12}, nil)}
	data, err := proto.Marshal(cc)
	if err != nil {
		t.Fatal(err)
	}
	entry := &raftpb.Entry{Type: raftpb.EntryConfChangeV2.Enum(), Index: &index, Term: &term, Data: data}
	l.members.noteLogged([]*raftpb.Entry{entry})
	for _, c := range []struct {
		from, incarnation uint64
		want              bool
	}{{2, 12, true}, {2, 0, true}, {2, 22, false}, {3, 13, false}, {3, 0, false}} {
		if got := l.admission.counts(voteOf(c.from, c.incarnation)); got != c.want {
			t.Errorf("the answer of incarnation %d of member %d counts: %v", c.incarnation, c.from, got)
		}
	}
	if !l.admission.mayLead() {
		t.Error("who is listed does not campaign")
	}
	l.members.noteLogged([]*raftpb.Entry{{Index: &index, Term: &term}}) // another leader's, in its place
	if l.members.counted() != nil || !l.admission.counts(voteOf(3, 13)) {
		t.Error("an entry that was replaced counts")
	}
}

// TestWhoHasNothingIsMuteInAFoundedGroup: it has never been known there, and is told so; then the log admits it.
func TestWhoHasNothingIsMuteInAFoundedGroup(t *testing.T) {
	l := newcomer(t, 3, false, Member{ID: 1}, Member{ID: 2}, Member{ID: 3})
	l.admission.greeted(2, hello{incarnation: 12})
	for range l.options.ElectionTicks / 2 {
		if !l.admission.muted() {
			t.Error("a founder does not wait for one that is late")
		}
		l.admission.tickFounders()
	}
	if l.admission.muted() {
		t.Error("a founder is mute among others without data")
	}
	l.admission.greeted(1, hello{incarnation: 11, founded: true})
	if !l.admission.muted() || !l.admission.screen(askVote(2, 3)) {
		t.Error("it votes, and the group was founded without it")
	}
	l.admission.greeted(1, hello{incarnation: 11, founded: true, known: l.admission.incarnation, admitted: true})
	written(t, l)
	if l.admission.muted() || l.admission.mayLead() {
		t.Error("it was admitted, and is mute, or would lead without knowing whom it leads")
	}
	if !l.admission.screen(askVote(2, 3)) || l.admission.screen(askVote(1, 3)) {
		t.Error("it votes for who does not know that the group was founded, or not for who does")
	}
}

// TestNoChangeIsProposedThatCannotBeCommitted: the removal of a member that was emptied, in the log of a leader that
// nobody who counts hears, would be committed as soon as that member has its disk again, and leave the group to those
// that have none.
func TestNoChangeIsProposedThatCannotBeCommitted(t *testing.T) {
	l := newcomer(t, 1, false, Member{ID: 1}, Member{ID: 2}, Member{ID: 3})
	own := l.admission.incarnation
	l.members.set(membership{index: 3, conf: &raftpb.ConfState{Voters: []uint64{1, 2, 3}}, admissions: admissions{
		recorded: true, incarnations: map[uint64]uint64{1: own, 2: 12, 3: 13}}})
	l.admission.greeted(2, hello{incarnation: 22})
	check := func(why string, want *raftpb.ConfChangeV2) {
		t.Helper()
		if got := l.admission.nextChange(); !proto.Equal(got, want) {
			t.Errorf("%s: proposes %v, want %v", why, got, want)
		}
	}
	check("3 is away, 2 was emptied", nil)
	l.admission.greeted(3, hello{incarnation: 23})
	check("both were emptied", nil)
	l.admission.greeted(3, hello{incarnation: 13})
	check("3 is there", &raftpb.ConfChangeV2{Context: outcast{incarnation: 22}.append(nil),
		Changes: []*raftpb.ConfChangeSingle{change(raftpb.ConfChangeRemoveNode, 2)}})

	// 2 is out, and 3 emptied.
	l.members.set(membership{index: 4, conf: &raftpb.ConfState{Voters: []uint64{1, 3}}, admissions: admissions{
		recorded: true, incarnations: map[uint64]uint64{1: own, 3: 13}, out: map[uint64]outcast{2: {incarnation: 22}}}})
	l.peerLost(3)
	check("the other of two is away", nil)
	l.admission.greeted(3, hello{incarnation: 23})
	check("the other of two comes before who is added", &raftpb.ConfChangeV2{
		Context: admissionContext(map[uint64]uint64{3: 23}, nil),
		Changes: []*raftpb.ConfChangeSingle{change(raftpb.ConfChangeAddNode, 3)}})
	l.member.admissions.incarnations = map[uint64]uint64{1: own, 3: 23}
	check("both count", &raftpb.ConfChangeV2{Context: admissionContext(map[uint64]uint64{2: 22}, nil),
		Changes: []*raftpb.ConfChangeSingle{change(raftpb.ConfChangeAddNode, 2)}})
}
