package liveness_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/quorum/liveness"
)

// pair is a server that reports and the one that leads, on one clock.
type pair struct {
	t        *testing.T
	clock    *clock.Manual
	follower *liveness.Tracker
	leader   *liveness.Tracker

	mu       sync.Mutex
	refuse   bool // Report is not taken
	lose     bool // Report is taken and lost
	reported [][]jute.SessionID
	expired  []expiry
}

// inPair runs test with two trackers.
func inPair(t *testing.T, test func(p *pair)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &pair{t: t, clock: clock.NewManual(start)}
		p.leader = liveness.Start(liveness.Options{Clock: p.clock, Tick: tick, Expire: p.expire, Report: p.report,
			Reporting: true})
		defer p.leader.Stop()
		p.leader.Lead()
		p.follower = liveness.Start(liveness.Options{Clock: p.clock, Tick: tick, Expire: p.expireWrongly,
			Report: p.report, Reporting: true})
		defer p.follower.Stop()
		test(p)
	})
}

func (p *pair) expire(ids []jute.SessionID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		p.expired = append(p.expired, expiry{id, p.clock.Since(start)})
	}
}

func (p *pair) expireWrongly(ids []jute.SessionID) { p.t.Errorf("a follower expires %v", ids) }

func (p *pair) report(ids []jute.SessionID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse {
		return false
	}
	p.reported = append(p.reported, slices.Clone(ids))
	if !p.lose {
		p.leader.TouchAll(ids)
	}
	return true
}

// add has both track a session whose client is at the follower.
func (p *pair) add(id jute.SessionID, timeout time.Duration) *liveness.Session {
	p.leader.Add(id, timeout)
	return p.follower.Bind(id, timeout)
}

// pass lets time pass as processes that run see it.
func (p *pair) pass(d time.Duration) {
	for ; d > 0; d -= beat {
		p.clock.Advance(min(d, beat))
		synctest.Wait()
	}
}

// set changes what becomes of reports.
func (p *pair) set(refuse, lose bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse, p.lose = refuse, lose
}

// takeReported returns what was reported since the last call, sorted.
func (p *pair) takeReported() []jute.SessionID {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := slices.Sorted(slices.Values(slices.Concat(p.reported...)))
	p.reported = nil
	return all
}

// wantExpired compares all that has expired so far, by id.
func (p *pair) wantExpired(want ...jute.SessionID) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	var got []jute.SessionID
	for _, e := range p.expired {
		got = append(got, e.id)
	}
	if !slices.Equal(got, want) {
		p.t.Errorf("expired %v, want %v", got, want)
	}
}

func TestReportsKeepSessionsAlive(t *testing.T) {
	inPair(t, func(p *pair) {
		s := p.add(1, 4*time.Second)
		p.add(2, 4*time.Second)
		for range 20 {
			p.pass(time.Second)
			s.Touch()
		}
		p.wantExpired(2)
		p.pass(8 * time.Second)
		p.wantExpired(2, 1)
		if p.leader.Expiring() == p.follower.Expiring() {
			t.Error("both trackers expire, or none")
		}
	})
}

func TestEachTouchIsReportedOnce(t *testing.T) {
	inPair(t, func(p *pair) {
		s := p.add(1, time.Minute)
		p.add(2, time.Minute)
		p.follower.Add(3, time.Minute) // at another server
		p.pass(tick / 2)
		if got := p.takeReported(); !slices.Equal(got, []jute.SessionID{1, 2}) {
			t.Errorf("the first report has %v, want those that were bound", got)
		}
		p.pass(beat)
		s.Touch()
		s.Touch()
		p.follower.Touch(3)
		p.pass(2 * tick)
		if got := p.takeReported(); !slices.Equal(got, []jute.SessionID{1}) {
			t.Errorf("reported %v, want 1 once", got)
		}
	})
}

// TestUnboundIsReportedOnceMore: a client that leaves was heard until then.
func TestUnboundIsReportedOnceMore(t *testing.T) {
	inPair(t, func(p *pair) {
		s, again := p.add(1, time.Minute), p.follower.Bind(1, time.Minute)
		if s != again {
			t.Fatal("bound twice, one session became two")
		}
		p.pass(2 * tick)
		p.takeReported()
		s.Unbind()
		s.Touch()
		p.pass(tick)
		if got := p.takeReported(); !slices.Equal(got, []jute.SessionID{1}) {
			t.Errorf("reported %v, want 1: it has another connection", got)
		}
		s.Touch()
		s.Unbind()
		p.pass(tick)
		if got := p.takeReported(); !slices.Equal(got, []jute.SessionID{1}) {
			t.Errorf("reported %v, want 1: it was heard before it left", got)
		}
		s.Touch() // nobody does
		p.pass(tick)
		if got := p.takeReported(); len(got) > 0 {
			t.Errorf("reported %v of a session that has left", got)
		}
	})
}

// TestRefusedReportsComeLater: nothing is forgotten of what the leader could not be told.
func TestRefusedReportsComeLater(t *testing.T) {
	inPair(t, func(p *pair) {
		early, late := p.add(1, time.Minute), p.add(2, time.Minute)
		p.add(3, time.Minute)
		p.pass(2 * tick)
		early.Touch()
		p.pass(tick / 2) // reported, and maybe lost
		p.takeReported()
		p.set(true, false)
		p.pass(beat)
		late.Touch()
		p.pass(3 * tick)
		p.set(false, false)
		p.pass(tick / 2)
		if got := p.takeReported(); !slices.Equal(got, []jute.SessionID{1, 2}) {
			t.Errorf("reported %v, want 2, and 1 again", got)
		}
		p.pass(2 * tick)
		if got := p.takeReported(); len(got) > 0 {
			t.Errorf("reported %v again", got)
		}
	})
}

// TestLossIsSurvivedUpToTheBound: reports are lost in silence for as long as the package says that sessions bear.
func TestLossIsSurvivedUpToTheBound(t *testing.T) {
	const timeout = 6 * time.Second
	inPair(t, func(p *pair) {
		s := p.add(1, timeout)
		ping := func(d time.Duration) {
			for ; d > 0; d -= timeout / 3 {
				s.Touch()
				p.pass(timeout / 3)
			}
		}
		ping(4 * timeout)
		for range 5 {
			p.set(false, true)
			p.pass(timeout*2/3 - tick/2 - beat)
			s.Touch()
			p.set(false, false)
			ping(2 * timeout)
		}
		p.wantExpired()
		p.set(false, true)
		ping(2 * timeout)
		p.wantExpired(1) // else the loss was none
	})
}

func TestANewLeaderGivesFullTimeouts(t *testing.T) {
	inPair(t, func(p *pair) {
		for id := range jute.SessionID(10) {
			p.add(id, 4*time.Second+time.Duration(id)*time.Millisecond)
		}
		p.leader.Follow()
		p.pass(time.Hour)
		p.wantExpired()
		p.leader.Lead()
		began := p.clock.Since(start)
		p.pass(3 * time.Second)
		p.leader.Touch(9)
		p.pass(tick + tick/2)
		if len(p.expired) != 9 {
			t.Errorf("%d sessions expired after %v, want 9", len(p.expired), p.clock.Since(start)-began)
		}
		for _, e := range p.expired {
			if e.at-began < 4*time.Second+time.Duration(e.id)*time.Millisecond {
				t.Errorf("session %d expired %v after the leader began", e.id, e.at-began)
			}
		}
	})
}

// TestWhoWasHandedOutAndNotRemovedIsHandedOutAgain: the end of the session was lost with the leadership.
func TestWhoWasHandedOutAndNotRemovedIsHandedOutAgain(t *testing.T) {
	inPair(t, func(p *pair) {
		const sessions = 200
		for id := range jute.SessionID(sessions) {
			p.leader.Add(id, 4*time.Second)
		}
		p.pass(3 * tick)
		for id := range jute.SessionID(sessions / 2) {
			p.leader.Remove(id)
		}
		p.leader.Follow()
		p.pass(3 * tick)
		p.expired = nil
		p.leader.Lead()
		p.pass(tick)
		p.wantExpired()
		p.pass(3 * tick)
		if len(p.expired) != sessions/2 {
			t.Errorf("%d sessions expired under the second leader, want %d", len(p.expired), sessions/2)
		}
		for _, e := range p.expired {
			if e.id < sessions/2 {
				t.Errorf("session %d is gone, and expired", e.id)
			}
		}
	})
}

func TestRetainForgetsTheRest(t *testing.T) {
	inPair(t, func(p *pair) {
		for id := range jute.SessionID(10) {
			p.add(id, 4*time.Second)
		}
		p.leader.Retain(func(id jute.SessionID) bool { return id%2 == 0 })
		p.follower.Retain(func(id jute.SessionID) bool { return id < 3 })
		if p.leader.Len() != 5 || p.follower.Len() != 3 {
			t.Errorf("%d and %d sessions are left, want 5 and 3", p.leader.Len(), p.follower.Len())
		}
		p.pass(tick / 2)
		if got := p.takeReported(); !slices.Equal(got, []jute.SessionID{0, 1, 2}) {
			t.Errorf("reported %v, want 0 to 2", got)
		}
	})
}

// TestManyAreReportedInBoundedCalls also has sessions come and go between the calls.
func TestManyAreReportedInBoundedCalls(t *testing.T) {
	const sessions = 10_000
	synctest.Test(t, func(t *testing.T) {
		c := clock.NewManual(start)
		random := rand.New(rand.NewPCG(3, 4))
		seen := map[jute.SessionID]bool{}
		var tracker *liveness.Tracker
		largest, stranger := 0, jute.SessionID(sessions)
		tracker = liveness.Start(liveness.Options{
			Clock: c, Tick: tick, Reporting: true, Expire: func([]jute.SessionID) {},
			Report: func(ids []jute.SessionID) bool {
				largest = max(largest, len(ids))
				for _, id := range ids {
					seen[id] = true
				}
				for range 100 { // those with an odd id may leave
					tracker.Remove(jute.SessionID(random.IntN(sessions/2))*2 + 1)
					tracker.Bind(stranger, time.Minute)
					stranger++
				}
				return true
			},
		})
		defer tracker.Stop()
		for id := range jute.SessionID(sessions) {
			tracker.Bind(id, time.Minute)
		}
		for range 8 {
			c.Advance(beat)
			synctest.Wait()
		}
		for id := jute.SessionID(0); id < sessions; id += 2 {
			if !seen[id] {
				t.Fatalf("session %d was not reported", id)
			}
		}
		if largest > 4096 {
			t.Errorf("%d sessions in one call, want at most 4096", largest)
		}
	})
}
