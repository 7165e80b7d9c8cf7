package member

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/raft/v3/raftpb"
)

// TestAdmissionsAreRead as they were written, and no part of them alone.
func TestAdmissionsAreRead(t *testing.T) {
	for name, a := range map[string]Admissions{ // order: each for itself
		"none":     {},
		"recorded": {Recorded: true, Incarnations: map[uint64]uint64{1: 11, 3: 13}, Returning: map[uint64]Returning{}},
		"and out": {Recorded: true, Incarnations: map[uint64]uint64{1: 11},
			Returning: map[uint64]Returning{2: {}, 4: {Learner: true, Incarnation: 14}}},
		"out of an older group": {Incarnations: map[uint64]uint64{},
			Returning: map[uint64]Returning{2: {Incarnation: 12}}},
	} {
		blob := a.Encode()
		got, err := DecodeAdmissions(blob)
		if diff := cmp.Diff(a, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
		for n := range blob {
			if _, err := DecodeAdmissions(blob[:n]); n > 0 && err == nil {
				t.Errorf("%s: %d bytes are enough", name, n)
			}
		}
	}
}

// TestChangesOfAdmissions follows a group from its bootstrap.
func TestChangesOfAdmissions(t *testing.T) {
	m := Membership{Index: 1, Conf: &raftpb.ConfState{Voters: []uint64{1, 2, 3}}}
	next := func(cc *raftpb.ConfChangeV2) (proposal []byte) {
		t.Helper()
		after, proposal, err := m.Changed(m.Index+1, cc)
		if err != nil {
			t.Fatal(err)
		}
		m = after
		return proposal
	}
	check := func(incarnations map[uint64]uint64, out map[uint64]Returning) {
		t.Helper()
		want := Admissions{Recorded: true, Incarnations: incarnations, Returning: out}
		if diff := cmp.Diff(want, m.Admissions); diff != "" {
			t.Error(diff)
		}
	}
	one := func(kind raftpb.ConfChangeType, id uint64) []*raftpb.ConfChangeSingle {
		return []*raftpb.ConfChangeSingle{Step(kind, id)}
	}
	next(&raftpb.ConfChangeV2{Changes: one(raftpb.ConfChangeRemoveNode, 3), // who bootstraps it, without 3
		Context: AdmissionContext(map[uint64]uint64{1: 11, 2: 12}, nil)})
	check(map[uint64]uint64{1: 11, 2: 12}, map[uint64]Returning{3: {}})
	next(&raftpb.ConfChangeV2{Changes: one(raftpb.ConfChangeAddNode, 3), // 3 comes
		Context: AdmissionContext(map[uint64]uint64{3: 13}, nil)})
	check(map[uint64]uint64{1: 11, 2: 12, 3: 13}, map[uint64]Returning{})
	next(&raftpb.ConfChangeV2{Changes: one(raftpb.ConfChangeRemoveNode, 3),
		Context: Returning{Incarnation: 23}.Context()})
	check(map[uint64]uint64{1: 11, 2: 12}, map[uint64]Returning{3: {Incarnation: 23}}) // it has lost its disk
	proposal := next(&raftpb.ConfChangeV2{Changes: one(raftpb.ConfChangeAddLearnerNode, 4),
		Context: AdmissionContext(map[uint64]uint64{4: 14}, []byte("a reconfig"))})
	check(map[uint64]uint64{1: 11, 2: 12, 4: 14}, map[uint64]Returning{3: {Incarnation: 23}})
	if !bytes.Equal(proposal, []byte("a reconfig")) {
		t.Errorf("the proposal is %q", proposal)
	}
	next(&raftpb.ConfChangeV2{Changes: one(raftpb.ConfChangeAddNode, 3),
		Context: AdmissionContext(map[uint64]uint64{3: 23}, nil)})
	proposal = next(&raftpb.ConfChangeV2{Changes: one(raftpb.ConfChangeRemoveNode, 2), Context: []byte{1, 2}})
	check(map[uint64]uint64{1: 11, 3: 23, 4: 14}, map[uint64]Returning{}) // removed for good
	if !bytes.Equal(proposal, []byte{1, 2}) {
		t.Errorf("the proposal is %q", proposal)
	}
	joint := append(one(raftpb.ConfChangeAddNode, 5), Step(raftpb.ConfChangeRemoveNode, 1))
	next(&raftpb.ConfChangeV2{Changes: joint, Context: AdmissionContext(map[uint64]uint64{5: 15}, nil)})
	check(map[uint64]uint64{1: 11, 3: 23, 4: 14, 5: 15}, map[uint64]Returning{}) // 1 counts until the end of it
	next(&raftpb.ConfChangeV2{})
	check(map[uint64]uint64{3: 23, 4: 14, 5: 15}, map[uint64]Returning{})
}

// TestWhoIsRemovedForGoodDoesNotReturn, even if it was out for a time already.
func TestWhoIsRemovedForGoodDoesNotReturn(t *testing.T) {
	m := Membership{Index: 1, Conf: &raftpb.ConfState{Voters: []uint64{1, 2}}, Admissions: Admissions{
		Recorded: true, Incarnations: map[uint64]uint64{1: 11, 2: 12},
		Returning: map[uint64]Returning{3: {Incarnation: 13}, 4: {Incarnation: 14}},
	}}
	after, _, err := m.Changed(2, &raftpb.ConfChangeV2{
		Changes: []*raftpb.ConfChangeSingle{Step(raftpb.ConfChangeRemoveNode, 3)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[uint64]Returning{4: {Incarnation: 14}}, after.Returning); diff != "" {
		t.Error(diff)
	}
	if len(m.Returning) != 2 {
		t.Errorf("the membership before has changed: %v", m.Returning)
	}
}
