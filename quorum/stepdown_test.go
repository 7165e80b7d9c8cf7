package quorum

import (
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"zkd/quorum/member"
)

// TestALeaderAloneStepsDownAtOnce: with its streams to a majority it loses the leadership, whatever the election
// timeout is. With those to a minority it does not.
func TestALeaderAloneStepsDownAtOnce(t *testing.T) {
	g := newTestGroup(t, 3, 0, func(o *Options) { o.ElectionTicks = 1_000_000 })
	old := g.leader()
	g.mustWriteSoon(old.node, applied{1, 1})
	one := others(old.id)[0]
	g.net.isolate(one, true)
	before := old.states.last()
	for n := range uint32(20) { // each is behind the loss
		g.mustWriteSoon(old.node, applied{1, n + 2})
	}
	if after := old.states.last(); after != before {
		t.Errorf("with a quorum the leader %+v becomes %+v", before, after)
	}
	g.net.isolate(old.id, true)
	eventually(t, "the leader is none any more", func() bool {
		s := old.states.last()
		return s.Role != RoleLeader && s.Leader == 0
	})
}

// TestQuorumHere counts each half of a joint membership for itself, and whoever is connected.
func TestQuorumHere(t *testing.T) {
	for _, c := range []struct {
		name             string
		voters, outgoing []uint64
		here             []uint64
		want             bool
	}{
		{"alone", []uint64{1}, nil, nil, true},
		{"one of two", []uint64{1, 2}, nil, nil, false},
		{"two of two", []uint64{1, 2}, nil, []uint64{2}, true},
		{"one of three", []uint64{1, 2, 3}, nil, []uint64{4}, false},
		{"two of three", []uint64{1, 2, 3}, nil, []uint64{3}, true},
		{"without a vote", []uint64{2, 3}, nil, []uint64{2}, false},
		{"half of the one", []uint64{1, 2, 3}, []uint64{1, 4}, []uint64{2, 3}, false},
		{"both", []uint64{1, 2, 3}, []uint64{1, 4}, []uint64{2, 4}, true},
	} {
		a := admission{facts: &facts{id: 1, member: member.Membership{
			Conf: &raftpb.ConfState{Voters: c.voters, VotersOutgoing: c.outgoing}}}}
		a.here = map[uint64]bool{}
		for _, id := range c.here {
			a.here[id] = true
		}
		if got := a.quorumHere(); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
