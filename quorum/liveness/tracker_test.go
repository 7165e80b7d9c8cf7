package liveness_test

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/quorum/liveness"
)

const (
	tick = 2 * time.Second
	beat = tick / 8
)

var start = time.Unix(1_700_000_000, 0)

// expiry is one session handed to Expire, and when.
type expiry struct {
	id jute.SessionID
	at time.Duration // since the start
}

// bench is a tracker on a manual clock inside a synctest bubble.
type bench struct {
	t     *testing.T
	clock *clock.Manual
	*liveness.Tracker

	mu  sync.Mutex
	got []expiry
}

// inBubble runs test with a tracker.
func inBubble(t *testing.T, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, clock: clock.NewManual(start)}
		b.Tracker = liveness.Start(liveness.Options{Clock: b.clock, Tick: tick, Expire: b.expire})
		defer b.Stop()
		test(b)
	})
}

func (b *bench) expire(ids []jute.SessionID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.clock.Since(start)
	for _, id := range ids {
		b.got = append(b.got, expiry{id, at})
	}
}

// pass lets time pass as a process that runs sees it.
func (b *bench) pass(d time.Duration) {
	for d > 0 {
		step := min(d, beat)
		b.clock.Advance(step)
		synctest.Wait()
		d -= step
	}
}

// standStill lets time pass as a process that is stopped sees it.
func (b *bench) standStill(d time.Duration) {
	b.clock.Advance(d)
	synctest.Wait()
}

// expect compares all that has expired so far.
func (b *bench) expect(want ...expiry) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if diff := cmp.Diff(want, b.got, cmp.AllowUnexported(expiry{})); diff != "" {
		b.t.Errorf("expired (-want +got):\n%s", diff)
	}
}

// TestTheTimeOfSessionsIsHalted: it does not count, however often it is. Who is heard meanwhile has its full timeout
// then.
func TestTheTimeOfSessionsIsHalted(t *testing.T) {
	inBubble(t, func(b *bench) {
		halt := func(d time.Duration) {
			b.Halt(true)
			b.pass(d)
			b.Halt(false)
		}
		b.Add(7, 10*time.Second)
		b.Add(8, 10*time.Second)
		b.pass(6 * time.Second)
		b.Halt(true)
		b.pass(time.Hour)
		b.Touch(8)
		b.pass(time.Hour)
		b.Halt(false)
		b.pass(3 * time.Second)
		b.expect()
		b.pass(2 * tick)
		if len(b.got) != 1 || b.got[0].id != 7 {
			t.Fatalf("expired %v, want session 7", b.got)
		}
		b.pass(time.Second)
		if len(b.got) != 1 {
			t.Fatalf("expired %v, and session 8 was heard", b.got)
		}
		b.Add(9, 10*time.Second)
		for range 20 { // it is halted for twice as long as it is not
			halt(2 * time.Second)
			b.pass(time.Second)
		}
		if len(b.got) != 3 {
			t.Errorf("expired %v, want all: 20 s have passed for session 9", b.got)
		}
	})
}

func TestExpiryIsOnTheGrid(t *testing.T) {
	for _, c := range []struct {
		name           string
		added, timeout time.Duration
		want           time.Duration
	}{
		{"on the grid", 0, 4 * time.Second, 6 * time.Second},
		{"just behind the grid", time.Millisecond, 4 * time.Second, 6 * time.Second},
		{"just before the next", 1999 * time.Millisecond, 4 * time.Second, 6 * time.Second},
		{"timeout off the grid", time.Second, 4500 * time.Millisecond, 6 * time.Second},
		{"timeout off the grid, over it", time.Second, 5500 * time.Millisecond, 8 * time.Second},
		{"shorter than a tick", time.Second, time.Millisecond, 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.pass(c.added)
				b.Add(7, c.timeout)
				b.pass(c.want - c.added - time.Millisecond)
				b.expect()
				b.pass(beat)
				if len(b.got) != 1 || b.got[0].at < c.want || b.got[0].at > c.want+beat {
					t.Errorf("expired %v, want once at %v", b.got, c.want)
				}
				b.pass(10 * tick)
				if len(b.got) != 1 {
					t.Errorf("expired %v, want once", b.got)
				}
			})
		})
	}
}

func TestTouchMovesTheDeadline(t *testing.T) {
	inBubble(t, func(b *bench) {
		s := b.Add(1, 4*time.Second)
		b.Add(2, 4*time.Second)
		b.Add(3, 4*time.Second)
		for range 10 {
			b.pass(2 * time.Second)
			s.Touch()
			if !b.Touch(2) {
				b.t.Error("a live session cannot be touched")
			}
		}
		b.expect(expiry{3, 6 * time.Second})
		if b.Touch(3) || b.SetTimeout(3, time.Hour) {
			b.t.Error("a session that was handed to Expire can be touched")
		}
		b.pass(6 * time.Second)
		b.expect(expiry{3, 6 * time.Second}, expiry{1, 26 * time.Second}, expiry{2, 26 * time.Second})
		if got := b.Len(); got != 3 {
			b.t.Errorf("%d sessions, want 3 until they are removed", got)
		}
	})
}

// TestSilent: the end of who was handed to Expire is proposed, unless it was heard before that.
func TestSilent(t *testing.T) {
	inBubble(t, func(b *bench) {
		handles := []*liveness.Session{nil}
		for id := range jute.SessionID(6) {
			handles = append(handles, b.Add(id+1, 4*time.Second))
		}
		at := 6 * time.Second
		b.pass(at)
		b.expect(expiry{1, at}, expiry{2, at}, expiry{3, at}, expiry{4, at}, expiry{5, at}, expiry{6, at})
		b.Touch(2)
		b.TouchAll([]jute.SessionID{3})
		handles[4].Touch()
		b.Add(5, time.Hour)
		b.Remove(6)
		for id := range jute.SessionID(6) {
			if got, want := b.Silent(id+1), id == 0; got != want {
				b.t.Errorf("session %d: %v, want %v", id+1, got, want)
			}
		}
		b.pass(6 * time.Second)
		b.expect(expiry{1, at}, expiry{2, at}, expiry{3, at}, expiry{4, at}, expiry{5, at}, expiry{6, at},
			expiry{2, 2 * at}, expiry{3, 2 * at}, expiry{4, 2 * at})
	})
}

// TestLater: who cannot be ended now is handed to Expire again in the next tick, unless it is heard before.
func TestLater(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.Add(1, 4*time.Second)
		b.Add(2, 4*time.Second)
		b.Add(3, time.Hour)
		at := 6 * time.Second
		b.pass(at)
		b.expect(expiry{1, at}, expiry{2, at})
		for id := range jute.SessionID(4) {
			b.Later(id + 1) // 3 was not handed out, 4 is not tracked
		}
		if !b.Touch(2) {
			b.t.Error("who is to be handed out again cannot be touched")
		}
		b.pass(tick)
		b.expect(expiry{1, at}, expiry{2, at}, expiry{1, at + tick})
		b.Later(1)
		b.pass(tick)
		b.Remove(1)
		b.pass(at)
		b.expect(expiry{1, at}, expiry{2, at}, expiry{1, at + tick}, expiry{1, at + 2*tick}, expiry{2, 2 * at})
	})
}

func TestSetTimeoutRemoveAndAddAgain(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.Add(1, time.Hour)
		b.Add(2, 4*time.Second)
		b.Add(3, 4*time.Second)
		if !b.SetTimeout(1, 4*time.Second) || b.SetTimeout(9, time.Second) {
			b.t.Error("SetTimeout tells wrongly who is tracked")
		}
		b.Remove(2)
		b.Remove(2)
		b.pass(6 * time.Second)
		b.expect(expiry{3, 6 * time.Second}, expiry{1, 6 * time.Second}) // 1 came to the bucket later
		b.Add(3, 2*time.Second)
		b.pass(4 * time.Second)
		b.expect(expiry{3, 6 * time.Second}, expiry{1, 6 * time.Second}, expiry{3, 10 * time.Second})
		b.Remove(1)
		b.Remove(3)
		if got := b.Len(); got != 0 {
			b.t.Errorf("%d sessions after the last was removed", got)
		}
	})
}

func TestPauseIsNotCounted(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.Add(1, 4*time.Second)
		b.Add(2, 10*time.Second)
		b.pass(5500 * time.Millisecond) // half a second before the deadline of 1
		b.standStill(time.Minute)
		b.pass(tick - beat) // in the first tick after the pause nobody expires
		b.expect()
		if !b.Touch(1) {
			b.t.Error("a session expired by the server's own pause")
		}
		b.pass(20 * time.Second)
		slices.SortFunc(b.got, func(x, y expiry) int { return int(x.id - y.id) })
		if len(b.got) != 2 || b.got[0].id != 1 || b.got[1].id != 2 {
			b.t.Fatalf("expired %v, want 1 and 2", b.got)
		}
		// 1 was heard at 67.25 s; 2 at 0, with the pause on top of its 10 s. The grid adds a tick at most, and the
		// beats before and after the pause and at the end one each.
		for i, earliest := range []time.Duration{71250 * time.Millisecond, 70 * time.Second} {
			if at := b.got[i].at; at < earliest || at > earliest+tick+3*beat {
				b.t.Errorf("%d expired at %v, want %v and at most a tick later", i+1, at, earliest)
			}
		}
	})
}

// TestAPauseOfAHaltedProcessHasItsGrace: whether the halt is over before the pause is noticed, or after.
func TestAPauseOfAHaltedProcessHasItsGrace(t *testing.T) {
	for name, noticed := range map[string]bool{ // order: each for itself
		"noticed in the halt": true, "noticed after it": false,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.Add(1, 4*time.Second)
				b.pass(5500 * time.Millisecond) // half a second before its deadline
				b.Halt(true)
				b.pass(time.Second)
				b.Halt(noticed)
				b.standStill(time.Minute)
				b.Halt(false)
				b.pass(tick - beat)
				b.expect()
				if !b.Touch(1) {
					b.t.Error("a session expired by the server's own pause")
				}
				b.pass(6 * time.Second)
				if len(b.got) != 1 {
					b.t.Errorf("expired %v, want session 1", b.got)
				}
			})
		})
	}
}

func TestPauseShorterThanAllSlackNeverHelpsTheDead(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.Add(1, 4*time.Second)
		b.pass(time.Second)
		b.standStill(2 * beat) // a late wake-up, no pause
		b.pass(6*time.Second - time.Second - 2*beat)
		b.expect(expiry{1, 6 * time.Second})
	})
}

func TestBucketsShowWhoExpiresWhen(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.Add(9, 4*time.Second)
		b.Add(8, 4*time.Second)
		touched := b.Add(7, 4*time.Second)
		b.pass(3 * time.Second)
		touched.Touch()
		want := []liveness.Bucket{
			{In: 3 * time.Second, Sessions: []jute.SessionID{8, 9}},
			{In: 5 * time.Second, Sessions: []jute.SessionID{7}},
		}
		if diff := cmp.Diff(want, b.Buckets()); diff != "" {
			b.t.Errorf("buckets (-want +got):\n%s", diff)
		}
	})
}

// TestRandomAgainstOracle compares with a model that knows of each session when it was heard.
func TestRandomAgainstOracle(t *testing.T) {
	type modelled struct{ heard, timeout time.Duration }
	inBubble(t, func(b *bench) {
		random := rand.New(rand.NewPCG(1, 2))
		model := map[jute.SessionID]modelled{}
		seen := 0
		for range 3000 {
			now := b.clock.Since(start)
			id := jute.SessionID(random.IntN(300))
			m, known := model[id]
			switch random.IntN(5) {
			case 0:
				m = modelled{now, time.Duration(random.IntN(20_000)) * time.Millisecond}
				b.Add(id, m.timeout)
				model[id] = m
			case 1:
				b.Remove(id)
				delete(model, id)
			case 2:
				timeout := time.Duration(random.IntN(20_000)) * time.Millisecond
				if b.SetTimeout(id, timeout) != known {
					t.Fatalf("session %d: SetTimeout says %v, want %v", id, !known, known)
				}
				if known {
					model[id] = modelled{now, timeout}
				}
			default:
				if b.Touch(id) != known {
					t.Fatalf("session %d: Touch says %v, want %v", id, !known, known)
				}
				if known {
					model[id] = modelled{now, m.timeout}
				}
			}
			b.pass(time.Duration(random.IntN(100)) * time.Millisecond)
			for ; seen < len(b.got); seen++ {
				e := b.got[seen]
				m, ok := model[e.id]
				deadline := ((m.heard+m.timeout)/tick + 1) * tick
				if !ok || e.at < deadline || e.at > deadline+beat {
					t.Fatalf("session %d (%v) expired at %v, want %v", e.id, ok, e.at, deadline)
				}
				delete(model, e.id)
			}
			for id, m := range model {
				if deadline := ((m.heard+m.timeout)/tick + 1) * tick; b.clock.Since(start) > deadline+beat {
					t.Fatalf("session %d is alive, should have expired at %v", id, deadline)
				}
			}
		}
		if seen < 100 {
			t.Fatalf("only %d sessions expired", seen)
		}
	})
}

func TestManyExpireAtOnceInBoundedCalls(t *testing.T) {
	const sessions = 5000
	synctest.Test(t, func(t *testing.T) {
		c := clock.NewManual(start)
		var sizes []int
		seen := map[jute.SessionID]bool{}
		tracker := liveness.Start(liveness.Options{Clock: c, Tick: tick, Expire: func(ids []jute.SessionID) {
			sizes = append(sizes, len(ids))
			for _, id := range ids {
				seen[id] = true
			}
		}})
		defer tracker.Stop()
		for id := range jute.SessionID(sessions) {
			tracker.Add(id, time.Second)
		}
		for range 2 * 8 {
			c.Advance(beat)
			synctest.Wait()
		}
		if len(seen) != sessions || slices.Max(sizes) > 1024 {
			t.Errorf("%d sessions expired in calls of %v, want %d in calls of at most 1024", len(seen), sizes, sessions)
		}
	})
}

// TestSessionMemory pins what a session costs.
func TestSessionMemory(t *testing.T) {
	const sessions, bytesMax = 100_000, 160
	c := clock.NewManual(start)
	tracker := liveness.Start(liveness.Options{Clock: c, Tick: tick, Expire: func([]jute.SessionID) {}})
	defer tracker.Stop()
	before := heapInUse()
	for id := range jute.SessionID(sessions) {
		tracker.Add(id<<24, 30*time.Second)
	}
	each := (heapInUse() - before) / sessions
	t.Logf("%d bytes a session", each)
	if each > bytesMax {
		t.Errorf("a session takes %d bytes, want at most %d", each, bytesMax)
	}
	runtime.KeepAlive(tracker)
}

// heapInUse is the live heap.
func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestTouchDoesNotAllocate(t *testing.T) {
	tracker := liveness.Start(liveness.Options{Clock: clock.Real(), Tick: time.Hour, Expire: func([]jute.SessionID) {}})
	defer tracker.Stop()
	s := tracker.Add(1, time.Hour)
	if n := testing.AllocsPerRun(100, func() { s.Touch(); tracker.Touch(1) }); n != 0 {
		t.Errorf("a touch allocates %v times", n)
	}
}

func BenchmarkSessionTouch(b *testing.B) {
	tracker := liveness.Start(liveness.Options{Clock: clock.Real(), Tick: time.Hour, Expire: func([]jute.SessionID) {}})
	defer tracker.Stop()
	s := tracker.Add(1, time.Hour)
	for b.Loop() {
		s.Touch()
	}
}

func BenchmarkTrackerTouch(b *testing.B) {
	tracker := liveness.Start(liveness.Options{Clock: clock.Real(), Tick: time.Hour, Expire: func([]jute.SessionID) {}})
	defer tracker.Stop()
	for id := range jute.SessionID(100_000) {
		tracker.Add(id<<24, time.Hour)
	}
	id := jute.SessionID(0)
	for b.Loop() {
		tracker.Touch(id << 24)
		id = (id + 7) % 100_000
	}
}
