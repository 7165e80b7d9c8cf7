package member

import (
	"bytes"
	"slices"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// TestWhoBelongsToAGroup asks memberships who belongs to them.
func TestWhoBelongsToAGroup(t *testing.T) {
	for _, c := range []struct {
		name        string
		conf        *raftpb.ConfState
		ids, voters []uint64
		quorum      int
		sole        uint64 // who has the only vote; 0: nobody
	}{
		{"nobody", &raftpb.ConfState{}, nil, nil, 1, 0},
		{"one", &raftpb.ConfState{Voters: []uint64{7}}, []uint64{7}, []uint64{7}, 1, 7},
		{"one and an observer", &raftpb.ConfState{Voters: []uint64{7}, Learners: []uint64{3}}, []uint64{3, 7},
			[]uint64{7}, 1, 7},
		{"two", &raftpb.ConfState{Voters: []uint64{2, 1}}, []uint64{1, 2}, []uint64{1, 2}, 2, 0},
		{"one of two that leaves", &raftpb.ConfState{Voters: []uint64{1}, VotersOutgoing: []uint64{1, 2}},
			[]uint64{1, 2}, []uint64{1, 2}, 2, 0},
		{"five that were three", &raftpb.ConfState{Voters: []uint64{1, 2, 3, 4, 5}, VotersOutgoing: []uint64{1, 2, 6},
			LearnersNext: []uint64{6}, Learners: []uint64{9}}, []uint64{1, 2, 3, 4, 5, 6, 9},
			[]uint64{1, 2, 3, 4, 5, 6}, 3, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := Membership{Conf: c.conf}
			if !slices.Equal(m.IDs(), c.ids) || !slices.Equal(m.Voters(), c.voters) || m.Quorum() != c.quorum {
				t.Errorf("members %v, voters %v, quorum %d", m.IDs(), m.Voters(), m.Quorum())
			}
			if m.Empty() != (c.ids == nil) {
				t.Errorf("empty: %v", m.Empty())
			}
			for id := range uint64(10) {
				if m.Has(id) != slices.Contains(c.ids, id) || m.Votes(id) != slices.Contains(c.voters, id) ||
					m.SoleVoter(id) != (id != 0 && id == c.sole) {
					t.Errorf("%d belongs: %v, votes: %v, alone: %v", id, m.Has(id), m.Votes(id), m.SoleVoter(id))
				}
			}
		})
	}
}

// TestAVoteIsHeldWhenAJointMembershipEnds has one voter let four in: until the joint membership ends it is needed, and
// the four do not hold votes. Who loses his by it holds it as long.
func TestAVoteIsHeldWhenAJointMembershipEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		conf *raftpb.ConfState
		hold []uint64
	}{
		{"nobody", &raftpb.ConfState{}, nil},
		{"three", &raftpb.ConfState{Voters: []uint64{1, 2, 3}, Learners: []uint64{4}}, []uint64{1, 2, 3}},
		{"five that were one", &raftpb.ConfState{Voters: []uint64{1, 2, 3, 4, 5}, VotersOutgoing: []uint64{1}},
			[]uint64{1}},
		{"two that were three", &raftpb.ConfState{Voters: []uint64{1, 2}, VotersOutgoing: []uint64{1, 2, 3},
			LearnersNext: []uint64{3}}, []uint64{1, 2, 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := Membership{Conf: c.conf}
			for id := range uint64(7) {
				if m.HoldsVote(id) != slices.Contains(c.hold, id) {
					t.Errorf("%d holds a vote: %v", id, m.HoldsVote(id))
				}
			}
		})
	}
}

// TestAMembershipOfAnotherFormatIsRefused, and one that is cut off.
func TestAMembershipOfAnotherFormatIsRefused(t *testing.T) {
	m := Membership{Index: 1 << 40, Conf: &raftpb.ConfState{Voters: []uint64{1, 2}}}
	whole, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Decode(whole); err != nil || got.Index != 1<<40 || !proto.Equal(got.Conf, m.Conf) {
		t.Errorf("of the whole: %+v, %v", got, err)
	}
	for name, b := range map[string][]byte{ // order: each for itself
		"nothing": nil, "format 0": make([]byte, 20), "a later format": append([]byte{2}, whole[1:]...),
		"no more than an index": whole[:8], "a member that is cut off": whole[:len(whole)-1],
	} {
		if got, err := Decode(b); err == nil {
			t.Errorf("of %s: %+v", name, got)
		}
	}
}

// TestWhatRaftWouldPanicOnIsRefused: such a change leads to no membership.
func TestWhatRaftWouldPanicOnIsRefused(t *testing.T) {
	steps := func(steps ...*raftpb.ConfChangeSingle) *raftpb.ConfChangeV2 {
		return &raftpb.ConfChangeV2{Changes: steps}
	}
	add := func(id uint64) *raftpb.ConfChangeSingle { return Step(raftpb.ConfChangeAddNode, id) }
	one := Membership{Conf: &raftpb.ConfState{Voters: []uint64{1}}}
	joint := Membership{Conf: &raftpb.ConfState{Voters: []uint64{1, 3}, VotersOutgoing: []uint64{1, 2}}}
	for name, c := range map[string]struct { // order: each for itself
		before *Membership
		cc     *raftpb.ConfChangeV2
		want   *raftpb.ConfState // nil: it is refused
	}{
		"the last voter leaves":     {&one, steps(Step(raftpb.ConfChangeRemoveNode, 1)), nil},
		"one is added":              {&one, steps(add(2)), &raftpb.ConfState{Voters: []uint64{1, 2}}},
		"an end without a begin":    {&one, steps(), nil},
		"the end of a joint one":    {&joint, steps(), &raftpb.ConfState{Voters: []uint64{1, 3}}},
		"a change in a joint one":   {&joint, steps(add(4)), nil},
		"a second beginning of one": {&joint, steps(add(4), add(5)), nil},
	} {
		conf, err := c.before.After(c.cc)
		if (err == nil) != (c.want != nil) || err == nil && conf.Equivalent(c.want) != nil {
			t.Errorf("%s: %v, %v; want %v", name, conf, err, c.want)
		}
		if _, _, err := c.before.Changed(2, c.cc); (err == nil) != (c.want != nil) {
			t.Errorf("%s: changed: %v", name, err)
		}
	}
	if len(one.IDs()) != 1 || len(joint.IDs()) != 3 {
		t.Errorf("a change has changed what it was made of: %v, %v", one.IDs(), joint.IDs())
	}
}

// FuzzDecode reads what comes from the disk or another member. What is read is written so that the same is read again.
func FuzzDecode(f *testing.F) {
	for _, m := range []Membership{
		{Index: 7, Conf: &raftpb.ConfState{Voters: []uint64{1, 2, 3}}},
		{Index: 1 << 60, Conf: &raftpb.ConfState{Voters: []uint64{1}, Learners: []uint64{2}}, Admissions: Admissions{
			Recorded: true, Incarnations: map[uint64]uint64{1: 11, 2: 12},
			Returning: map[uint64]Returning{3: {Learner: true, Incarnation: 13}},
		}},
	} {
		b, err := m.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			return
		}
		for _, id := range m.IDs() {
			if !m.Has(id) {
				t.Errorf("%d is listed, and does not belong to %v", id, m.Conf)
			}
		}
		first, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Decode(first)
		if err != nil {
			t.Fatalf("written: %v", err)
		}
		if second, err := again.Encode(); err != nil || !bytes.Equal(first, second) {
			t.Errorf("written twice: %x and %x, %v", first, second, err)
		}
	})
}
