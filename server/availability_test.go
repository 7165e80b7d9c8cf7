package server

import (
	"context"
	"encoding/binary"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"zkd/jute"
	"zkd/quorum"
	"zkd/quorum/clock"
	"zkd/quorum/liveness"
	"zkd/storage/apply"
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
	eventually(t, "the write is proposed", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.at(2).held) == 1
	})
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
	g.serves(2)
	c, other, moving := g.at(2).connect(t), g.at(2).connect(t), g.at(1).connect(t)
	g.caughtUp(2)
	g.lose()
	c.send(jute.OpCreate, makeNode("/n", "", jute.ModePersistent))
	late := g.at(2).dial(t)
	late.write(frame(moving.again().Append(nil)))
	eventually(t, "both are proposed", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.at(2).held) == 2
	})
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

// TestTheLeaderExpiresWhomNobodyHears: a session whose client talks to a follower lives by its reports.
func TestTheLeaderExpiresWhomNobodyHears(t *testing.T) {
	now := clock.NewManual(time.Unix(1_000_000_000, 0))
	g := startGroup(t, groupOptions{clock: now})
	g.elect(1)
	g.serves(1, 2, 3)
	alive, silent := g.at(2).connectTimeout(t, 4*time.Second), g.at(3).connectTimeout(t, 4*time.Second)
	silent.mustCreate("/e", "", jute.ModeEphemeral)
	g.caughtUp(2)
	eventually(t, "the silent one expires", func() bool {
		alive.wantSilence()
		now.Step(50 * time.Millisecond)
		return !g.at(2).exists("/e")
	})
	silent.wantClosed()
	for range 400 {
		now.Step(50 * time.Millisecond)
		alive.wantSilence()
	}
	if a, b := g.at(1).server.metrics.expired.Load(), g.at(3).server.metrics.expired.Load(); a != 1 || b != 0 {
		t.Errorf("the leader has expired %d sessions and a follower %d, want 1 and 0", a, b)
	}
	g.change(2, func(m *member) { m.lost = true })
	eventually(t, "without reports the other expires, too", func() bool {
		now.Step(50 * time.Millisecond)
		return g.at(1).server.metrics.expired.Load() == 2
	})
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

// TestAnOldLeaderReports: who has led before follows like the others.
func TestAnOldLeaderReports(t *testing.T) {
	now := clock.NewManual(time.Unix(1_000_000_000, 0))
	g := startGroup(t, groupOptions{clock: now})
	g.elect(1)
	g.serves(1)
	c := g.at(1).connectTimeout(t, 4*time.Second)
	g.elect(3)
	g.expires(3)
	for range 400 {
		now.Step(50 * time.Millisecond)
		c.wantSilence()
	}
	for id := uint64(1); id <= 3; id++ {
		if n := g.at(id).server.metrics.expired.Load(); n != 0 {
			t.Errorf("server %d has expired %d sessions", id, n)
		}
	}
}

// TestAnExpiryOfAnEarlierTermCountsNoMore: a leader that is cut off from the others expires a session that they hear,
// and what it has proposed comes to them when it is back.
func TestAnExpiryOfAnEarlierTermCountsNoMore(t *testing.T) {
	now := clock.NewManual(time.Unix(1_000_000_000, 0))
	g := startGroup(t, groupOptions{clock: now})
	g.elect(1)
	g.serves(1, 2, 3)
	c := g.at(2).connectTimeout(t, 4*time.Second)
	c.mustCreate("/e", "", jute.ModeEphemeral)
	g.caughtUp(1)
	g.change(1, func(m *member) { m.cut = true }) // and does not know it yet
	g.change(2, func(m *member) { m.lost = true })
	eventually(t, "the old leader expires the session", func() bool {
		now.Step(50 * time.Millisecond)
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.at(1).held) == 1
	})
	g.change(2, func(m *member) { m.lost = false })
	g.elect(3)
	g.expires(3)
	g.change(1, func(m *member) { m.cut = false })
	g.elect(3) // the old leader forwards what it has gathered
	g.caughtUp(1)
	g.caughtUp(2)
	c.wantSilence()
	if !g.at(2).exists("/e") {
		t.Fatal("a session ended that the present leader hears")
	}
	if got := g.at(1).server.metrics.expired.Load(); got != 1 {
		t.Errorf("the old leader has expired %d sessions, want 1: else nothing was proved", got)
	}
	eventually(t, "the present leader expires it", func() bool {
		now.Step(50 * time.Millisecond)
		return !g.at(2).exists("/e")
	})
	c.wantClosed()
}

func TestReportsThatCannotBeReadAreIgnored(t *testing.T) {
	log := &logged{}
	g := startGroup(t, groupOptions{members: 1, set: func(_ uint64, o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(log, nil))
	}})
	s := g.at(1).server
	bad := [][]byte{nil, {}, {2}, {2, 0, 0, 0, 0, 0, 0, 0, 1}, {1, 0}, make([]byte, 9)}
	for _, body := range bad {
		s.Heard(2, body)
	}
	s.Heard(2, []byte{1})
	s.Heard(2, []byte{1, 0, 0, 0, 0, 0, 0, 0, 1}) // nobody knows it
	text := log.text()
	if got := strings.Count(text, "malformed session report from peer"); got != len(bad) {
		t.Errorf("%d reports are warned of, want %d:\n%s", got, len(bad), text)
	}
}

// startUnheard starts a server that tracks these sessions alone, none of which was heard for so long that it is due
// within an hour. The tracker's tick is so long that it does not wake meanwhile: it would take the leap of the clock
// for a pause of the process.
func startUnheard(t *testing.T, ids ...jute.SessionID) (*Server, *liveness.Tracker) {
	t.Helper()
	now := clock.NewManual(time.Unix(1_000_000_000, 0))
	s := startGroup(t, groupOptions{members: 1}).at(1).server
	tracker := liveness.Start(liveness.Options{Clock: now, Tick: time.Hour, Expire: func([]jute.SessionID) {}})
	before := s.tracker.Swap(tracker)
	t.Cleanup(func() {
		s.tracker.Store(before)
		tracker.Stop()
	})
	for _, id := range ids {
		tracker.Add(id, time.Hour-time.Second)
	}
	now.Advance(3 * time.Second)
	return s, tracker
}

// TestManySessionsAreHeard: reports are touched by batches.
func TestManySessionsAreHeard(t *testing.T) {
	ids := make([]jute.SessionID, 1000)
	body := []byte{reportVersion}
	for i := range ids {
		ids[i] = jute.SessionID(i)
		body = binary.BigEndian.AppendUint64(body, uint64(i))
	}
	s, tracker := startUnheard(t, ids...)
	s.Heard(2, body)
	buckets := tracker.Buckets()
	if len(buckets) != 1 || len(buckets[0].Sessions) != 1000 || buckets[0].In < time.Hour {
		t.Errorf("%d buckets after all were heard, want one of 1000 sessions, none of them due in an hour",
			len(buckets))
	}
}

// TestAWriteIsHeard: a server that is paused before its next report costs no session whose write the leader has seen.
func TestAWriteIsHeard(t *testing.T) {
	s, tracker := startUnheard(t, 7)
	dueIn := func(leads bool) time.Duration {
		defer s.available.leading.Store(s.available.leading.Swap(leads))
		s.Committed(&apply.Result{Op: jute.OpSetData, Session: 7, Code: jute.BadVersion})
		return tracker.Buckets()[0].In
	}
	if got := dueIn(false); got > time.Hour {
		t.Errorf("a follower, which would report it as its own, has heard a session: it is due in %v", got)
	}
	if got := dueIn(true); got <= time.Hour {
		t.Errorf("the leader has not heard the session whose write it applied: it is due in %v", got)
	}
	s, tracker = startUnheard(t, 7)
	s.Forwarded([]jute.SessionID{7})
	if got := tracker.Buckets()[0].In; got <= time.Hour {
		t.Errorf("the leader has not heard the session whose write was forwarded to it: it is due in %v", got)
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
