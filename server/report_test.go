package server

import (
	"encoding/binary"
	"log/slog"
	"strings"
	"testing"
	"time"

	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/quorum/liveness"
	"zkd/storage/apply"
)

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

// expiresAfter checks that the leader, server 1, ends no session while so much time passes, and later that of /e.
func (g *group) expiresAfter(now *clock.Manual, d time.Duration) {
	g.t.Helper()
	pass(now, d, 50*time.Millisecond)
	if n := g.at(1).server.metrics.expired.Load(); n != 0 || !g.at(1).exists("/e") {
		g.t.Fatalf("the leader has expired %d sessions, and nobody could come back before", n)
	}
	eventually(g.t, "it expires who does not", func() bool {
		now.Step(50 * time.Millisecond)
		return !g.at(1).exists("/e")
	})
}

// TestALeaderThatCommitsNothingExpiresNobody: it leads, and what it proposes is not committed, as the others that it
// reaches have no log yet. No client is served meanwhile. It may take longer than sessions last: they have all their
// time when it is over (seed 11961676).
func TestALeaderThatCommitsNothingExpiresNobody(t *testing.T) {
	now := clock.NewManual(time.Unix(1_000_000_000, 0))
	g := startGroup(t, groupOptions{clock: now})
	g.elect(2)
	g.serves(1, 2, 3)
	c := g.at(3).connectTimeout(t, 4*time.Second)
	c.mustCreate("/e", "", jute.ModeEphemeral)
	g.caughtUp(1)
	g.change(1, func(m *member) { m.paused = true }) // so nothing that it waits for comes
	c.mustCreate("/n", "", jute.ModePersistent)
	g.elect(1)
	g.await(1, "the leader has asked for its barrier", func(m *member) bool { return len(m.barriers) == 1 })
	pass(now, 10*time.Second, 50*time.Millisecond)
	g.change(1, func(m *member) { m.paused = false })
	g.serves(1)
	g.expires(1)
	g.expiresAfter(now, 3900*time.Millisecond)
}

// TestALeaderThatIsStuckExpiresNobody: it has served, and nothing of what it proposes is committed any more.
func TestALeaderThatIsStuckExpiresNobody(t *testing.T) {
	now := clock.NewManual(time.Unix(1_000_000_000, 0))
	g := startGroup(t, groupOptions{clock: now})
	g.elect(1)
	g.serves(1, 2, 3)
	c := g.at(3).connectTimeout(t, 4*time.Second)
	c.mustCreate("/e", "", jute.ModeEphemeral)
	g.caughtUp(1)
	g.expires(1)
	stuck := func(stuck bool) {
		state := g.at(1).server.available.latest()
		state.Stuck = stuck
		g.at(1).server.SetState(state)
	}
	stuck(true)
	g.expires(0) // nobody
	pass(now, 10*time.Second, 50*time.Millisecond)
	stuck(false)
	g.expires(1)
	g.expiresAfter(now, 3*time.Second)
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
