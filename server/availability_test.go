package server

import (
	"context"
	"slices"
	"testing"
	"time"

	"zkd/jute"
	"zkd/quorum"
	"zkd/quorum/clock"
)

// noLeader makes the grace short.
func noLeader(readOnly bool) func(uint64, *Options) {
	return func(_ uint64, o *Options) { o.LeaderGrace, o.ReadOnlyMode = 10*time.Millisecond, readOnly }
}

// wantTurnedAway proves that a ConnectRequest is answered by the end of the connection.
func (r *rig) wantTurnedAway(t *testing.T, req *jute.ConnectRequest) {
	t.Helper()
	c := r.dial(t)
	c.write(frame(req.Append(nil)))
	c.wantClosed()
}

// anew asks for a new session.
func anew() *jute.ConnectRequest {
	return &jute.ConnectRequest{TimeoutMillis: 10_000, Passwd: make([]byte, 16), HasReadOnly: true}
}

func TestAMemberServesWhenItHasCaughtUp(t *testing.T) {
	g := startGroup(t, groupOptions{})
	g.at(1).wantTurnedAway(t, anew())
	if got := g.at(1).server.metrics.notServing.Load(); got != 1 {
		t.Errorf("%d clients are counted as turned away, want 1", got)
	}
	g.elect(1)
	g.serves(1, 2, 3)
	g.change(2, func(m *member) { m.paused = true })
	c := g.at(1).connect(t)
	c.mustCreate("/n", "new", jute.ModePersistent)
	g.elect(3) // server 2 has not applied what the leader before has committed
	g.serves(1, 3)
	c.must(jute.OpGetData, look("/n"), jute.OK)
	g.lose()
	g.change(2, func(m *member) { m.paused = false })
	g.caughtUp(2)
}

// TestServesOnlyAfterTheBarrier: a member that starts behind the others is not there for clients until it has applied
// what they have.
func TestServesOnlyAfterTheBarrier(t *testing.T) {
	g := startGroup(t, groupOptions{set: noLeader(false)})
	g.change(2, func(m *member) { m.paused = true })
	g.elect(1)
	g.serves(1)
	c := g.at(1).connect(t)
	c.mustCreate("/n", "", jute.ModePersistent)
	g.lose()
	eventually(t, "the connections end", func() bool { return g.at(1).server.available.serving() == stateDown })
	c.wantClosed()
	g.elect(1)
	g.serves(1, 3)
	g.at(2).wantTurnedAway(t, anew())
	g.change(2, func(m *member) { m.paused = false })
	g.serves(2)
	c = g.at(2).connect(t)
	c.must(jute.OpExists, look("/n"), jute.OK)
}

// TestAShortElectionIsNotSeen: connections outlive a change of the leader, reads go on and writes wait.
func TestAShortElectionIsNotSeen(t *testing.T) {
	g := startGroup(t, groupOptions{})
	g.elect(1)
	g.serves(2)
	c := g.at(2).connect(t)
	c.mustCreate("/n", "old", jute.ModePersistent)
	g.lose()
	if got := c.must(jute.OpGetData, look("/n"), jute.OK); got.data(t) != "old" {
		t.Errorf("data %q", got.data(t))
	}
	c.send(jute.OpSetData, setTo("/n", "new"))
	g.await(2, "the write is proposed", func(m *member) bool { return len(m.held) == 1 })
	g.elect(3)
	if got := c.receive(); got.Err != jute.OK {
		t.Errorf("the write is answered %v", got.Err)
	}
	if got := c.must(jute.OpGetData, look("/n"), jute.OK); got.data(t) != "new" {
		t.Errorf("data %q", got.data(t))
	}
}

// TestADroppedWriteEndsItsConnection: whether it happened is not known.
func TestADroppedWriteEndsItsConnection(t *testing.T) {
	g := startGroup(t, groupOptions{})
	g.elect(1)
	g.serves(1, 2)
	c, other, moving := g.at(2).connect(t), g.at(2).connect(t), g.at(1).connect(t)
	g.caughtUp(2)
	g.lose()
	c.send(jute.OpCreate, makeNode("/n", "", jute.ModePersistent))
	late := g.at(2).dial(t)
	late.write(frame(moving.again().Append(nil)))
	g.await(2, "both are proposed", func(m *member) bool { return len(m.held) == 2 })
	g.drop(2, quorum.ErrLeadershipLost)
	c.wantClosed()
	late.wantClosed()
	g.elect(1)
	other.must(jute.OpExists, look("/n"), jute.NoNode)
	if again := g.at(2).reattach(t, c); again.welcome.SessionID != c.welcome.SessionID {
		t.Error("the session is gone with a write of it")
	}
}

// TestWithoutALeaderConnectionsEnd: those that wait for an answer, too.
func TestWithoutALeaderConnectionsEnd(t *testing.T) {
	now := clock.NewManual(time.Unix(1_000_000_000, 0))
	g := startGroup(t, groupOptions{clock: now, set: func(_ uint64, o *Options) { o.LeaderGrace = 3 * time.Second }})
	g.elect(1)
	g.serves(2)
	idle, writing, syncing := g.at(2).connect(t), g.at(2).connect(t), g.at(2).connect(t)
	g.lose()
	attended := func() bool { // the grace is running
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.at(2).server.available.latest().Leader == 0 && len(g.at(2).server.available.wake) == 0
	}
	eventually(t, "the loss is known", attended)
	writing.send(jute.OpCreate, makeNode("/n", "", jute.ModePersistent))
	syncing.send(jute.OpSync, &jute.PathRequest{Path: "/"})
	connecting := g.at(2).dial(t)
	connecting.write(frame(anew().Append(nil)))
	eventually(t, "all of them wait", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.at(2).held) == 1 && len(g.at(2).barriers) == 1
	})
	g.at(2).awaitWaiting(t)
	idle.wantSilence()
	eventually(t, "the grace ends", func() bool {
		now.Step(50 * time.Millisecond)
		g.lose() // another election that nobody wins gives no new grace
		return g.at(2).server.available.serving() == stateDown
	})
	for _, c := range []*client{idle, writing, syncing, connecting} {
		c.wantClosed()
	}
	g.at(2).count(0)
	g.at(2).wantTurnedAway(t, anew())
	g.elect(3)
	g.serves(2)
	g.caughtUp(2)
	v := g.at(2).machine.View()
	made := v.SessionCount()
	v.Close()
	g.at(2).server.sessions.mu.Lock()
	bound := len(g.at(2).server.sessions.bound)
	g.at(2).server.sessions.mu.Unlock()
	if made != 3 || bound != 0 {
		t.Errorf("%d sessions, %d of them bound to connections that have ended; want 3 and 0", made, bound)
	}
	if again := g.at(2).reattach(t, idle); again.welcome.SessionID != idle.welcome.SessionID {
		t.Error("the session did not survive")
	}
	if g.at(2).server.metrics.unavailable.Load().Count == 0 {
		t.Error("the time without a leader is not counted")
	}
}

// awaitWaiting waits until a connection waits with its handshake.
func (r *rig) awaitWaiting(t testing.TB) {
	t.Helper()
	eventually(t, "a connection waits with its handshake", func() bool {
		return slices.ContainsFunc(r.server.connections.all(), func(c *conn) bool {
			return c.counts.received.Load() == 1 && c.epoch.Load() == 0
		})
	})
}

// TestWhoComesNewWaitsForALeader: it is told of a session when there is a leader again, and nobody else waits.
func TestWhoComesNewWaitsForALeader(t *testing.T) {
	for name, start := range map[string]func() *group{ // order: each for itself
		"session of the group": func() *group { return startGroup(t, groupOptions{}) },
		"local session": func() *group {
			return startGroup(t, groupOptions{set: func(_ uint64, o *Options) { o.LocalSessions = true }})
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := start()
			g.elect(1)
			g.serves(2)
			old, back := g.at(2).connect(t), g.at(2).connect(t)
			g.lose()
			late := g.at(2).dial(t)
			late.write(frame(anew().Append(nil)))
			g.at(2).awaitWaiting(t)
			old.must(jute.OpExists, look("/n"), jute.NoNode)
			again := g.at(2).dial(t)
			again.write(frame(back.again().Append(nil)))
			g.elect(3)
			for _, c := range []*client{late, again} {
				c.welcomed()
				c.must(jute.OpExists, look("/n"), jute.NoNode)
				if c.welcome.SessionID == 0 || c.welcome.ReadOnly {
					t.Errorf("it is told %+v", c.welcome)
				}
			}
			if again.welcome.SessionID != back.welcome.SessionID {
				t.Error("the session is another one")
			}
		})
	}
}

// TestWhoWaitsGetsTheReadOnlyMode, on the same connection, if it can do with that; else it is sent away.
func TestWhoWaitsGetsTheReadOnlyMode(t *testing.T) {
	now := clock.NewManual(time.Unix(1_000_000_000, 0))
	g := startGroup(t, groupOptions{clock: now, set: func(_ uint64, o *Options) {
		o.LeaderGrace, o.ReadOnlyMode, o.LocalSessions = 3*time.Second, true, true
	}})
	g.elect(1)
	g.serves(2)
	g.lose()
	can, cannot := g.at(2).dial(t), g.at(2).dial(t)
	can.write(frame(canReadOnly(0, make([]byte, 16)).Append(nil)))
	cannot.write(frame(anew().Append(nil)))
	eventually(t, "read-only mode", func() bool {
		now.Step(50 * time.Millisecond)
		return g.at(2).server.available.serving() == stateReadOnly
	})
	can.welcomed()
	if can.welcome.SessionID == 0 || !can.welcome.ReadOnly {
		t.Errorf("it is told %+v", can.welcome)
	}
	can.must(jute.OpExists, look("/n"), jute.NoNode)
	cannot.wantClosed()
}

// TestWhoWaitsGoesWithTheServer: a stop does not wait for a leader, nor for who has hung up.
func TestWhoWaitsGoesWithTheServer(t *testing.T) {
	g := startGroup(t, groupOptions{})
	g.elect(1)
	g.serves(2)
	g.lose()
	late := g.at(2).dial(t)
	late.write(frame(anew().Append(nil)))
	g.at(2).awaitWaiting(t)
	ctx, cancel := context.WithTimeout(t.Context(), testDeadline)
	defer cancel()
	if err := g.at(2).server.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	late.wantClosed()
}

func TestRestoredClosesConnectionsAndAdoptsSessions(t *testing.T) {
	g := startGroup(t, groupOptions{})
	g.elect(1)
	g.serves(1, 2)
	watcher, leaving := g.at(2).connect(t), g.at(2).connect(t)
	watcher.must(jute.OpExists, watching("/n"), jute.NoNode)
	word := g.at(2).dial(t) // has not said what it is
	g.change(2, func(m *member) { m.deaf = true })
	_ = leaving.net.Close()
	other := g.at(1).connect(t)
	other.mustCreate("/n", "", jute.ModePersistent)
	moved := g.at(1).reattach(t, leaving)
	moved.must(jute.OpCloseSession, nil, jute.OK)
	g.caughtUp(2)
	watcher.wantSilence()
	g.at(2).server.Replacing()
	watcher.wantClosed()
	g.at(2).wantTurnedAway(t, anew())
	g.at(2).server.Replaced()
	g.change(2, func(m *member) { m.deaf = false })
	tracked := func(id jute.SessionID) bool { return g.at(2).server.tracker.Load().Touch(id) }
	eventually(t, "the sessions are those of the state", func() bool {
		return tracked(other.welcome.SessionID) && tracked(watcher.welcome.SessionID) &&
			!tracked(leaving.welcome.SessionID)
	})
	again := g.at(2).reattach(t, watcher)
	again.send(jute.OpSetWatches, &jute.SetWatchesRequest{RelativeZxid: 2, Data: []string{}, Exist: []string{"/n"},
		Child: []string{}})
	again.wantEvents(event{created, "/n"})
	again.receive()
	if g.at(2).server.available.serving() != stateServing {
		t.Error("a snapshot has ended the service")
	}
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	if err := g.at(3).server.Shutdown(ctx); err != nil {
		t.Errorf("stop server 3: %v", err)
	}
	g.at(3).server.Replaced() // must not begin anything
	word.write([]byte("ruok"))
	if got := string(word.rest()); got != "imok" {
		t.Errorf("ruok is answered %q on a connection that had no session", got)
	}
}

// TestTheLeaderCleansUp: a container without children goes once.
func TestTheLeaderCleansUp(t *testing.T) {
	now := clock.NewManual(time.Unix(1_000_000_000, 0))
	g := startGroup(t, groupOptions{clock: now})
	g.elect(1)
	g.serves(1, 2, 3)
	c := g.at(1).connectTimeout(t, 40*time.Second)
	c.must(jute.OpCreateContainer, makeNode("/c", "", jute.ModeContainer), jute.OK)
	c.mustCreate("/c/child", "", jute.ModePersistent)
	c.must(jute.OpDelete, gone("/c/child"), jute.OK)
	g.caughtUp(2)
	g.caughtUp(3)
	eventually(t, "the container is cleaned up", func() bool {
		c.wantSilence()
		now.Advance(time.Second) // no Step: the clean-up waits within its tick
		return !g.at(2).exists("/c") && !g.at(3).exists("/c")
	})
	for _, id := range []uint64{2, 3} {
		g.change(id, func(m *member) {
			if m.batch != 0 {
				t.Errorf("server %d, which does not lead, has proposed %d times", id, m.batch)
			}
		})
	}
}

func TestASessionMovesBetweenServers(t *testing.T) {
	g := startGroup(t, groupOptions{})
	g.elect(1)
	g.serves(1, 2)
	old := g.at(1).connect(t)
	old.mustCreate("/e", "", jute.ModeEphemeral)
	g.change(1, func(m *member) { m.paused = true })
	g.caughtUp(2)
	moved := g.at(2).reattach(t, old)
	if moved.welcome.SessionID != old.welcome.SessionID {
		t.Fatalf("reattached as %+v", moved.welcome)
	}
	old.must(jute.OpExists, look("/e"), jute.OK) // the old server does not know it yet
	old.send(jute.OpSetData, setTo("/e", "late"))
	g.change(1, func(m *member) { m.paused = false })
	old.wantClosed()
	g.caughtUp(2)
	if got := moved.must(jute.OpGetData, look("/e"), jute.OK); got.data(t) != "" {
		t.Errorf("a late write through the old server has made the data %q", got.data(t))
	}
	moved.must(jute.OpSetData, setTo("/e", "mine"), jute.OK)
	g.at(1).count(0)
	// And back: a connection that says nothing is closed as well.
	again := g.at(1).reattach(t, old)
	moved.wantClosed()
	again.must(jute.OpCloseSession, nil, jute.OK)
	if g.at(1).exists("/e") {
		t.Error("the ephemeral outlives its session")
	}
}

// TestAnIdleLeaderServesNobody: who leads turns clients away, and serves them again when another one leads.
func TestAnIdleLeaderServesNobody(t *testing.T) {
	g := startGroup(t, groupOptions{set: func(_ uint64, o *Options) { o.IdleLeader = true }})
	g.elect(1)
	g.serves(2, 3)
	g.at(1).wantTurnedAway(t, anew())
	c := g.at(2).connect(t)
	c.mustCreate("/n", "old", jute.ModePersistent)
	g.elect(2)
	c.wantClosed()
	g.serves(1, 3)
	g.at(2).wantTurnedAway(t, anew())
	if g.at(2).server.Info().Serving {
		t.Error("a leader that serves nobody tells the four-letter words that it does")
	}
	again := g.at(1).reattach(t, c)
	if again.welcome.SessionID != c.welcome.SessionID {
		t.Error("the session has ended with the connection to the new leader")
	}
	again.must(jute.OpSetData, setTo("/n", "new"), jute.OK)
}

// TestAServerWhoseDiskHangsTurnsClientsAway: it lacks what the others have committed. It serves again when its disk
// answers, under the same leader.
func TestAServerWhoseDiskHangsTurnsClientsAway(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		g := startGroup(t, groupOptions{set: func(_ uint64, o *Options) { o.ReadOnlyMode = readOnly }})
		g.elect(1)
		g.serves(1, 2, 3)
		c, well := g.at(2).connect(t), g.at(1).connect(t)
		g.mu.Lock()
		state := quorum.State{Leader: 1, Term: g.term, Role: quorum.RoleFollower}
		g.mu.Unlock()
		g.change(2, func(m *member) { m.paused = true })
		state.Behind = true
		g.at(2).server.SetState(state)
		want := stateDown
		if readOnly {
			want = stateReadOnly
		}
		eventually(t, "its clients are turned away", func() bool { return g.at(2).server.available.serving() == want })
		c.wantClosed()
		well.mustCreate("/n", "", jute.ModePersistent)
		state.Behind = false
		g.at(2).server.SetState(state)
		g.change(2, func(m *member) { m.paused = false })
		g.serves(2)
		g.at(2).connect(t).must(jute.OpExists, look("/n"), jute.OK)
	}
}
