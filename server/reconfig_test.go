package server

import (
	"testing"
	"time"

	"zkd/jute"
	"zkd/quorum"
	"zkd/quorum/clock"
)

// TestAServerThatLeavesServesForAWhile: as long as the grace is, and again when it is in the configuration again.
func TestAServerThatLeavesServesForAWhile(t *testing.T) {
	const grace = 30 * time.Second
	now := clock.NewManual(time.Unix(1_000_000_000, 0))
	g := startGroup(t, groupOptions{clock: now, set: func(_ uint64, o *Options) { o.RemovedGrace = grace }})
	g.elect(1)
	g.serves(2)
	c := g.at(2).connect(t)
	plays := func(role quorum.Role) {
		g.at(2).server.SetState(quorum.State{Leader: 1, Term: 1, Role: role})
		eventually(t, "the server attends to it", func() bool { return len(g.at(2).server.available.wake) == 0 })
	}
	c.mustCreate("/n", "", jute.ModePersistent)
	plays(quorum.RoleLeaving)
	plays(quorum.RoleLeaving) // nothing new
	c.must(jute.OpSetData, setTo("/n", "new"), jute.OK)
	g.at(2).connect(t).must(jute.OpExists, look("/n"), jute.OK)
	eventually(t, "it serves nobody", func() bool {
		now.Step(grace / 10)
		return g.at(2).server.available.serving() == stateDown
	})
	c.wantClosed()
	g.at(2).wantTurnedAway(t, anew())
	plays(quorum.RoleFollower)
	g.serves(2)
	again := g.at(2).connect(t)
	plays(quorum.RoleLeaving)
	plays(quorum.RoleRemoved)
	again.wantClosed()
	plays(quorum.RoleFollower)
	g.serves(2)
	last := g.at(2).connect(t)
	plays(quorum.RoleLeaving)
	plays(quorum.RoleFollower)
	plays(quorum.RoleLeaving) // from now on
	last.must(jute.OpExists, look("/n"), jute.OK)
}
