package quorum

import (
	"testing"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"zkd/quorum/member"
)

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
	l.admission.greeted(2, member.Hello{Incarnation: 12})
	l.admission.greeted(3, member.Hello{Incarnation: 13})
	if !l.admission.counts(voteOf(2, 12)) || !l.admission.counts(voteOf(3, 0)) {
		t.Error("before the founding somebody does not count")
	}
	index, term := uint64(2), uint64(2)
	cc := &raftpb.ConfChangeV2{Changes: []*raftpb.ConfChangeSingle{member.Step(raftpb.ConfChangeRemoveNode, 3)},
		Context: member.AdmissionContext(map[uint64]uint64{1: l.admission.incarnation, 2: 12}, nil)}
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

// TestWhoHasNothingIsQuarantinedInAFoundedGroup: it has never been known there, and is told so; then the log admits it.
func TestWhoHasNothingIsQuarantinedInAFoundedGroup(t *testing.T) {
	l := newcomer(t, 3, false, Member{ID: 1}, Member{ID: 2}, Member{ID: 3})
	l.admission.greeted(2, member.Hello{Incarnation: 12})
	for range l.options.ElectionTicks / 2 {
		if !l.admission.quarantined() {
			t.Error("a founder does not wait for one that is late")
		}
		l.admission.tickFounders()
	}
	if l.admission.quarantined() {
		t.Error("a founder is quarantined among others without data")
	}
	l.admission.greeted(1, member.Hello{Incarnation: 11, Founded: true})
	if !l.admission.quarantined() || !l.admission.screen(askVote(2, 3)) {
		t.Error("it votes, and the group was founded without it")
	}
	l.admission.greeted(1, member.Hello{Incarnation: 11, Founded: true, Known: l.admission.incarnation, Admitted: true})
	written(t, l)
	if l.admission.quarantined() || l.admission.mayLead() {
		t.Error("it was admitted, and is quarantined, or would lead without knowing whom it leads")
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
	l.members.set(member.Membership{Index: 3, Conf: confOf(1, 2, 3), Admissions: member.Admissions{
		Recorded: true, Incarnations: map[uint64]uint64{1: own, 2: 12, 3: 13}}})
	l.admission.greeted(2, member.Hello{Incarnation: 22})
	check := func(why string, want *raftpb.ConfChangeV2) {
		t.Helper()
		if got := l.admission.nextChange(); !proto.Equal(got, want) {
			t.Errorf("%s: proposes %v, want %v", why, got, want)
		}
	}
	check("3 is away, 2 was emptied", nil)
	l.admission.greeted(3, member.Hello{Incarnation: 23})
	check("both were emptied", nil)
	l.admission.greeted(3, member.Hello{Incarnation: 13})
	check("3 is there", &raftpb.ConfChangeV2{Context: member.Returning{Incarnation: 22}.Context(),
		Changes: []*raftpb.ConfChangeSingle{member.Step(raftpb.ConfChangeRemoveNode, 2)}})

	// 2 is out, and 3 emptied.
	l.members.set(member.Membership{Index: 4, Conf: confOf(1, 3), Admissions: member.Admissions{
		Recorded: true, Incarnations: map[uint64]uint64{1: own, 3: 13},
		Returning: map[uint64]member.Returning{2: {Incarnation: 22}}}})
	l.peerLost(3, false)
	check("the other of two is away", nil)
	l.admission.greeted(3, member.Hello{Incarnation: 23})
	check("the other of two comes before who is added", &raftpb.ConfChangeV2{
		Context: member.AdmissionContext(map[uint64]uint64{3: 23}, nil),
		Changes: []*raftpb.ConfChangeSingle{member.Step(raftpb.ConfChangeAddNode, 3)}})
	l.member.Admissions.Incarnations = map[uint64]uint64{1: own, 3: 23}
	check("both count", &raftpb.ConfChangeV2{Context: member.AdmissionContext(map[uint64]uint64{2: 22}, nil),
		Changes: []*raftpb.ConfChangeSingle{member.Step(raftpb.ConfChangeAddNode, 2)}})
}

// TestTheEmptiedOneOfTwoMayLead: it has what the other one has sent it, which that one may have lost before it was on
// its own disk. It leads by the word of the other one alone, as the log lists that, and lists itself.
func TestTheEmptiedOneOfTwoMayLead(t *testing.T) {
	const other, lost = 12, 99
	for _, c := range []struct {
		name        string
		voters      []uint64
		met         uint64 // the incarnation of the other one that is there
		here        bool
		leads, hear bool // and its answer counts
	}{
		{"both are there", []uint64{1, 2}, other, true, true, true},
		{"the other one is away", []uint64{1, 2}, other, false, false, true},
		{"the other one was emptied, too", []uint64{1, 2}, 22, true, false, false},
		{"of three", []uint64{1, 2, 3}, other, true, false, true},
	} {
		l := newcomer(t, 1, false, Member{ID: 1}, Member{ID: 2})
		l.members.set(member.Membership{Index: 5, Conf: &raftpb.ConfState{Voters: c.voters},
			Admissions: member.Admissions{Recorded: true, Incarnations: map[uint64]uint64{1: lost, 2: other}}})
		a := l.admission
		a.empty, a.fresh, a.pending = false, false, false
		a.met[2], a.here[2] = c.met, c.here
		if got := a.mayLead(); got != c.leads {
			t.Errorf("%s: it may lead: %v", c.name, got)
		}
		if got := a.counts(voteOf(2, c.met)); got != c.hear {
			t.Errorf("%s: the answer of the other one counts: %v", c.name, got)
		}
		if !c.leads {
			continue
		}
		cc := a.nextChange()
		if cc == nil {
			t.Fatalf("%s: it does not list itself", c.name)
		}
		context, err := member.ReadContext(cc.GetContext())
		if err != nil || context.Admits[1] != a.incarnation || len(context.Admits) != 1 {
			t.Errorf("%s: it lists %v, %v", c.name, context.Admits, err)
		}
		after, err := l.member.After(cc)
		if err != nil || after.Equivalent(l.member.Conf) != nil {
			t.Errorf("%s: the members are others then: %v, %v", c.name, after, err)
		}
	}
}

// TestWhoIsNotListedServesNobody: of two voters one has lost its disk, and has all data again. It may lead, and says so
// to nobody before the log lists it: the other one could not lose its disk, too, in between.
func TestWhoIsNotListedServesNobody(t *testing.T) {
	const other = 12
	l := newcomer(t, 1, false, Member{ID: 1}, Member{ID: 2})
	a := &l.admission
	l.soft.Lead = 2
	listed := func(own uint64) {
		l.members.set(member.Membership{Index: 5, Conf: confOf(1, 2), Admissions: member.Admissions{
			Recorded: true, Incarnations: map[uint64]uint64{1: own, 2: other}}})
	}
	a.empty, a.fresh, a.pending = false, false, true
	if s := l.status.state(); s.Leader != 0 {
		t.Error("it was let in, knows no membership yet, and serves")
	}
	a.met[2], a.here[2] = other, true
	listed(99)
	if s := l.status.state(); s.Leader != 0 || !a.mayLead() {
		t.Errorf("the log lists who it was before: leader %d, may lead: %v", s.Leader, a.mayLead())
	}
	listed(a.incarnation)
	if s := l.status.state(); s.Leader != 2 || s.Role != RoleFollower {
		t.Errorf("the log lists it: leader %d, role %s", s.Leader, s.Role)
	}
}
