package quorum

import (
	"slices"
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"zkd/quorum/member"
)

// TestStrangers: who came while this member was away is known as soon as another one tells of it, and no longer than
// until the log does.
func TestStrangers(t *testing.T) {
	conf := func(index uint64, voters ...uint64) member.Membership {
		return member.Membership{Index: index, Conf: &raftpb.ConfState{Voters: voters}}
	}
	g := &members{facts: &facts{id: 1}}
	strangers := func(want ...uint64) {
		t.Helper()
		if got := g.strangers(); !slices.Equal(got, want) {
			t.Errorf("strangers are %v, want %v", got, want)
		}
	}
	g.set(conf(10, 1, 2, 3))
	strangers()
	later, older, latest := conf(20, 1, 2, 4), conf(5, 1, 2, 3, 5), conf(30, 1, 4, 6)
	g.toldOf(&later)
	strangers(4)
	g.toldOf(&older)
	strangers(4)
	g.toldOf(&latest)
	strangers(4, 6)
	g.toldOf(&later)
	strangers(4, 6)
	g.set(conf(20, 1, 2, 4))
	strangers(6)
	g.set(conf(30, 1, 4, 6))
	strangers()
}

// TestMembersTellEachOther: a member tells a later membership to one that it meets, and takes note of what it is told.
func TestMembersTellEachOther(t *testing.T) {
	var sent []member.Membership
	g := &members{facts: &facts{id: 1}, transport: tells{told: func(to uint64, kind uint8, body []byte) {
		m, err := member.Decode(body)
		if err != nil || kind != frameMembers || to == 1 {
			t.Errorf("frame of kind %d to %d: %v", kind, to, err)
		}
		sent = append(sent, m)
	}}}
	g.tell(2)
	if len(sent) > 0 {
		t.Fatalf("a member that knows none has told %v", sent)
	}
	g.set(member.Membership{Index: 7, Conf: &raftpb.ConfState{Voters: []uint64{1, 2}, Learners: []uint64{3}}})
	g.tellAll()
	if len(sent) != 2 {
		t.Fatalf("told %d members, want 2", len(sent))
	}
	other := &members{facts: &facts{id: 2}}
	other.set(member.Membership{Index: 5, Conf: &raftpb.ConfState{Voters: []uint64{1, 2}}})
	other.toldOf(&sent[0])
	if got := other.strangers(); !slices.Equal(got, []uint64{3}) {
		t.Errorf("strangers are %v, want server 3", got)
	}
}

// TestWhoJoinsIsToldOfTheMembers: it has a membership of its own only when it has the leader's snapshot, and may not
// know the leader. One that does not count it yet tells it nothing.
func TestWhoJoinsIsToldOfTheMembers(t *testing.T) {
	l := &loop{facts: facts{id: 4}}
	l.members.facts = &l.facts
	l.toldMembers(&member.Membership{Index: 5, Conf: &raftpb.ConfState{Voters: []uint64{1, 2}}})
	if got := l.members.strangers(); len(got) > 0 || l.removed {
		t.Errorf("strangers are %v, removed: %v", got, l.removed)
	}
	l.toldMembers(&member.Membership{Index: 7, Conf: &raftpb.ConfState{Voters: []uint64{1, 2}, Learners: []uint64{4}}})
	if got := l.members.strangers(); !slices.Equal(got, []uint64{1, 2}) {
		t.Errorf("strangers are %v, want servers 1 and 2", got)
	}
}

// tells is a Transport that hands on what is sent.
type tells struct {
	Transport
	told func(to uint64, kind uint8, body []byte)
}

// Send implements Transport.
func (t tells) Send(to uint64, kind uint8, body func([]byte) []byte) bool {
	t.told(to, kind, body(nil))
	return true
}
