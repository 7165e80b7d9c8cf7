package quorum

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"zkd/quorum/member"
	"zkd/storage/raftlog/logtest"
)

// TestAdmissionsAreKept writes memberships as they are on disk, one over the other, and reads them again; also as a
// revision does that knows nothing of admissions, to which a group that it has founded may go back.
func TestAdmissionsAreKept(t *testing.T) {
	log := logtest.Open(t, vfs.NewMem(), "log")
	older := member.Admissions{Returning: map[uint64]member.Returning{2: {Incarnation: 12}}}
	recorded := member.Admissions{Recorded: true, Incarnations: map[uint64]uint64{1: 11, 3: 13},
		Returning: map[uint64]member.Returning{}}
	for _, step := range []struct {
		name string
		member.Admissions
	}{
		{"none", member.Admissions{}}, {"out of an older group", older}, {"and in again", member.Admissions{}},
		{"out once more", older}, {"recorded", recorded},
		{"and out", member.Admissions{Recorded: true, Incarnations: map[uint64]uint64{1: 11},
			Returning: map[uint64]member.Returning{2: {}, 4: {Learner: true, Incarnation: 14}}}},
	} {
		name, a := step.name, step.Admissions
		m := member.Membership{Index: 7, Conf: &raftpb.ConfState{Voters: []uint64{1, 3}, Learners: []uint64{5}},
			Admissions: a}
		if err := storeMembership(log, &m); err != nil {
			t.Fatal(err)
		}
		blob, _ := log.Meta(membershipKey)
		got, err := member.Decode(blob)
		if err := errors.Join(err, takeReturning(log, &got)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(a, got.Admissions); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		var conf raftpb.ConfState
		err = proto.Unmarshal(blob[9:], &conf)
		if same := conf.Equivalent(got.Conf) == nil; err != nil || same == a.Recorded {
			t.Errorf("%s: an older revision reads %v, %v", name, &conf, err)
		}
	}
}
