package member

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"zkd/storage/serverid"
)

// TestContextsAreRead as they were written.
func TestContextsAreRead(t *testing.T) {
	admits, proposal := map[uint64]uint64{1: 11, 300: 1 << 63}, []byte{1, 2, 3}
	for name, c := range map[string]struct { // order: each for itself
		b    []byte
		want Context
	}{
		"nothing":    {nil, Context{}},
		"a proposal": {proposal, Context{Proposal: proposal}},
		"admissions": {AdmissionContext(admits, nil), Context{Records: true, Admits: admits}},
		"both": {AdmissionContext(admits, proposal),
			Context{Records: true, Admits: admits, Proposal: proposal}},
		"of nobody":    {AdmissionContext(nil, nil), Context{Records: true, Admits: map[uint64]uint64{}}},
		"who returns":  {Returning{Incarnation: 12}.Context(), Context{Again: &Returning{Incarnation: 12}}},
		"an observer":  {Returning{Learner: true}.Context(), Context{Again: &Returning{Learner: true}}},
		"as it begins": {[]byte{readmission, 1}, Context{Proposal: []byte{readmission, 1}}},
	} {
		got, err := ReadContext(c.b)
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
	whole := AdmissionContext(admits, nil)
	for n := 2; n < len(whole); n++ {
		if got, err := ReadContext(whole[:n]); err == nil {
			t.Errorf("of the first %d bytes: %+v", n, got)
		}
	}
	if got, err := ReadContext([]byte{contextAdmits, formatVersion + 1, 0, 0}); err == nil {
		t.Errorf("of a later format: %+v", got)
	}
}

// TestChangesOfBothFormsAreRead: raft's older form is in logs that older revisions have written.
func TestChangesOfBothFormsAreRead(t *testing.T) {
	id, context := uint64(4), []byte("why")
	kind := raftpb.ConfChangeAddLearnerNode
	want := &raftpb.ConfChangeV2{Changes: []*raftpb.ConfChangeSingle{Step(kind, id)}, Context: context}
	for form, change := range map[raftpb.EntryType]proto.Message{ // order: each for itself
		raftpb.EntryConfChange:   &raftpb.ConfChange{Type: kind.Enum(), NodeId: &id, Context: context},
		raftpb.EntryConfChangeV2: want,
	} {
		data, err := proto.Marshal(change)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeChange(&raftpb.Entry{Type: form.Enum(), Data: data})
		if err != nil || !proto.Equal(got.GetChanges()[0], want.GetChanges()[0]) ||
			!bytes.Equal(got.GetContext(), context) {
			t.Errorf("%v: %v, %v", form, got, err)
		}
		if got, err := DecodeChange(&raftpb.Entry{Type: form.Enum(), Data: data[:len(data)-1]}); err == nil {
			t.Errorf("%v that is cut off: %v", form, got)
		}
	}
}

func TestChangesAreDescribedByNumbers(t *testing.T) {
	cc := &raftpb.ConfChangeV2{Changes: []*raftpb.ConfChangeSingle{
		Step(raftpb.ConfChangeAddNode, serverid.Of(0)), Step(raftpb.ConfChangeAddLearnerNode, 2),
		Step(raftpb.ConfChangeRemoveNode, 3),
	}}
	if got := Describe(cc); got != "vote of 0, no vote of 2, without 3" {
		t.Error(got)
	}
	if got := Describe(&raftpb.ConfChangeV2{}); got != "end of the one before" {
		t.Error(got)
	}
}
