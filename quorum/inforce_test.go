package quorum

import (
	"errors"
	"strings"
	"testing"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"zkd/quorum/member"
	"zkd/storage/ensemble"
)

// TestInForce: joint memberships are not, nor is one in which somebody has a vote who is to have none.
func TestInForce(t *testing.T) {
	lines := lineOf(1, "participant") + "\n" + lineOf(2, "participant") + "\n" + lineOf(3, "observer") + "\nversion=7"
	config, err := ensemble.Parse(lines)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		conf    *raftpb.ConfState
		version int64
		leads   bool
		removed bool
		want    bool
	}{
		{"as it says", &raftpb.ConfState{Voters: []uint64{1, 2}, Learners: []uint64{3}}, 7, false, false, true},
		{"a leader", &raftpb.ConfState{Voters: []uint64{1, 2}, Learners: []uint64{3}}, 7, true, false, true},
		{"a later one", &raftpb.ConfState{Voters: []uint64{1, 2}, Learners: []uint64{3}}, 6, false, false, true},
		{"an earlier one", &raftpb.ConfState{Voters: []uint64{1, 2}, Learners: []uint64{3}}, 8, false, false, false},
		{"one leaves", &raftpb.ConfState{Voters: []uint64{1, 2}, Learners: []uint64{3, 4}}, 7, false, false, true},
		{"one has no vote", &raftpb.ConfState{Voters: []uint64{2}, Learners: []uint64{1, 3}}, 7, false, false, true},
		{"an observer votes", &raftpb.ConfState{Voters: []uint64{1, 2, 3}}, 7, false, false, false},
		{"one who left votes", &raftpb.ConfState{Voters: []uint64{1, 2, 4}, Learners: []uint64{3}}, 7, false, false,
			false},
		{"one is missing", &raftpb.ConfState{Voters: []uint64{1, 2}}, 7, false, false, false},
		{"joint", &raftpb.ConfState{Voters: []uint64{1, 2}, VotersOutgoing: []uint64{1, 2, 3},
			LearnersNext: []uint64{3}}, 7, false, false, false},
		{"it leads without a vote", &raftpb.ConfState{Voters: []uint64{2}, Learners: []uint64{1, 3}}, 7, true, false,
			false},
		{"it is removed", &raftpb.ConfState{Voters: []uint64{2, 4}}, 7, false, true, true},
	} {
		facts := &facts{id: 1, member: member.Membership{Index: 1, Conf: c.conf}, removed: c.removed,
			options: &Options{Machine: &configured{text: lines}}}
		if c.leads {
			facts.soft.RaftState = raft.StateLeader
		}
		told := 0
		f := inForce{facts: facts, leaving: &leaving{facts: facts, text: lines, config: config},
			waiting: []inForceRequest{{c.version, func(error) { told++ }}}}
		f.tell()
		f.tell()
		if got := told == 1; got != c.want || told > 1 || len(f.waiting)+told != 1 {
			t.Errorf("%s: told %d times", c.name, told)
		}
	}
}

// TestInForceWaits until those who come can decide without those who leave, and no longer than the node runs.
func TestInForceWaits(t *testing.T) {
	g := newConfiguredGroup(t, 3)
	n := g.leader().node
	g.mustWriteSoon(n, applied{1, 1})
	joining := []string{lineOf(4, "participant"), lineOf(5, "participant"), lineOf(6, "participant")}
	mustReconfigure(t, n, strings.Join(joining, ","), "1,2,3")
	told := map[uint64]chan error{}
	for id := uint64(1); id <= 3; id++ {
		told[id] = make(chan error, 1)
		g.members[id].node.InForce(1, func(err error) { told[id] <- err })
	}
	g.awaitMembers([]uint64{1, 2, 3}, []uint64{4, 5, 6})
	g.mustWriteSoon(n, applied{1, 2})
	for id := range told { // order: each for itself
		if len(told[id]) > 0 {
			t.Fatalf("member %d says that the configuration is in force: %v", id, <-told[id])
		}
	}
	ended := g.follower().id
	endedNode := g.members[ended].node
	g.stop(ended)
	if err := <-told[ended]; !errors.Is(err, ErrStopped) {
		t.Errorf("a member that has ended says %v", err)
	}
	delete(told, ended)
	for id := uint64(4); id <= 6; id++ {
		g.start(id)
	}
	for id := range told { // order: each for itself
		if err := <-told[id]; err != nil {
			t.Errorf("member %d: %v", id, err)
		}
	}
	g.awaitMembers([]uint64{4, 5, 6}, nil)
	late := make(chan error, 1)
	endedNode.InForce(1, func(err error) { late <- err })
	if err := <-late; !errors.Is(err, ErrStopped) {
		t.Errorf("a member that has ended says %v", err)
	}
}
