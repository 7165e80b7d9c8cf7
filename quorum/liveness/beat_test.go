package liveness

import (
	"testing"
	"time"

	"zkd/jute"
	"zkd/quorum/clock"
)

// TestHeardBeforeThePauseIsNoticed touches a session after a pause and before the tracker knows of it.
func TestHeardBeforeThePauseIsNoticed(t *testing.T) {
	c := clock.NewManual(time.Unix(1_700_000_000, 0))
	tracker := Start(Options{Clock: c, Tick: time.Second, Expire: func([]jute.SessionID) {}})
	tracker.Stop() // the test does the goroutine's work
	s := tracker.Add(1, 4*time.Second)
	c.Advance(time.Minute)
	s.Touch()
	tracker.setBack(59 * time.Second)
	if got, want := time.Duration(s.heard.Load()), time.Second; got != want {
		t.Errorf("heard at %v of the tracker's time, want the present, %v", got, want)
	}
}

// BenchmarkRebucket is the tracker's work for 100,000 sessions of 10 s that stay alive, for each second: a tenth of
// them is moved.
func BenchmarkRebucket(b *testing.B) {
	const sessions = 100_000
	c := clock.NewManual(time.Unix(1_700_000_000, 0))
	// The goroutine is stopped: the benchmark does its work.
	t := Start(Options{Clock: c, Tick: time.Second, Expire: func([]jute.SessionID) {}})
	t.Stop()
	all := make([]*Session, sessions)
	for i := range all {
		all[i] = t.Add(jute.SessionID(i), 10*time.Second)
		if i%(sessions/10) == 0 {
			c.Advance(time.Second)
		}
	}
	moved := 0
	for b.Loop() {
		c.Advance(time.Second)
		b.StopTimer()
		for _, s := range all[moved%10*(sessions/10):][:sessions/10] {
			s.Touch()
		}
		moved++
		b.StartTimer()
		if n := len(t.collect(nil)); n != 0 {
			b.Fatalf("%d live sessions expired", n)
		}
	}
}
