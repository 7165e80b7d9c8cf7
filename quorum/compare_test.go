package quorum

import (
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"zkd/quorum/member"
	"zkd/storage/entry"
)

// TestMajorityChecksum: it is what most voters have, the leader or not; observers and members without an
// answer have no say, and without a majority of answers there is none.
func TestMajorityChecksum(t *testing.T) {
	a, b, c := entry.Sums{Znodes: 1}, entry.Sums{Znodes: 2}, entry.Sums{Sessions: 3}
	for _, test := range []struct {
		name    string
		voters  []uint64
		answers map[uint64]entry.Sums // member 1 leads
		want    entry.Sums
		ok      bool
	}{
		{"all alike", []uint64{1, 2, 3}, map[uint64]entry.Sums{1: a, 2: a, 3: a}, a, true},
		{"a follower differs", []uint64{1, 2, 3}, map[uint64]entry.Sums{1: a, 2: a, 3: b}, a, true},
		{"the leader differs", []uint64{1, 2, 3}, map[uint64]entry.Sums{1: a, 2: b, 3: b}, b, true},
		{"one is away", []uint64{1, 2, 3}, map[uint64]entry.Sums{1: a, 3: a}, a, true},
		{"one is away, two differ", []uint64{1, 2, 3}, map[uint64]entry.Sums{1: a, 3: b}, a, true},
		{"two of two differ", []uint64{1, 2}, map[uint64]entry.Sums{1: a, 2: b}, a, true},
		{"all differ", []uint64{1, 2, 3}, map[uint64]entry.Sums{1: b, 2: a, 3: c}, b, true},
		{"two and two and the leader", []uint64{1, 2, 3, 4, 5},
			map[uint64]entry.Sums{1: a, 2: b, 3: b, 4: c, 5: c}, b, true},
		{"no majority has answered", []uint64{1, 2, 3, 4, 5}, map[uint64]entry.Sums{1: a, 2: a}, a, false},
		{"observers have no say", []uint64{1, 2, 3}, map[uint64]entry.Sums{1: a, 7: b, 8: b, 9: b}, a, false},
	} {
		c := comparison{facts: &facts{id: 1, member: member.Membership{Conf: &raftpb.ConfState{Voters: test.voters}}}}
		c.answers = test.answers
		if got, ok := c.findMajority(); ok != test.ok || ok && got != test.want {
			t.Errorf("%s: %+v (%v), want %+v (%v)", test.name, got, ok, test.want, test.ok)
		}
	}
}

// TestSumsFrame: a frame with sums comes back as it was, and others are refused.
func TestSumsFrame(t *testing.T) {
	want := entry.CompareTxn{Index: 7, Sums: entry.Sums{Znodes: 1, Sessions: 2, Rest: 3}}
	frame := want.Append(nil)
	if got, err := decodeSums(frame); err != nil || *got != want {
		t.Errorf("%+v: %v", got, err)
	}
	for _, b := range [][]byte{nil, frame[1:], append(frame, 0), (&entry.CompareTxn{}).Append(nil)} {
		if _, err := decodeSums(b); err == nil {
			t.Errorf("%x is taken", b)
		}
	}
}
