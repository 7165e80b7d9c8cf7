package liveness_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"zkd/quorum/clock"
	"zkd/quorum/liveness"
)

// jumping is a clock that somebody sets. As with package time, Since goes by the monotonic reading that Now has given
// along, and so do tickers.
type jumping struct {
	*clock.Manual

	mu  sync.Mutex
	off time.Duration           // guarded by mu
	at  map[time.Time]time.Time // what Now has given, and when that was; guarded by mu
}

// Now implements clock.Clock.
func (j *jumping) Now() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	given := j.Manual.Now().Add(j.off)
	j.at[given] = j.Manual.Now()
	return given
}

// Since implements clock.Clock.
func (j *jumping) Since(t time.Time) time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	when, ok := j.at[t]
	if !ok {
		return j.Manual.Now().Add(j.off).Sub(t) // of a time that is only what a clock on the wall shows
	}
	return j.Manual.Since(when)
}

// set makes the clock jump.
func (j *jumping) set(off time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.off = off
}

// TestAClockThatIsSetExpiresNobody: forward by a day it ends no session early, and backward it keeps none.
func TestAClockThatIsSetExpiresNobody(t *testing.T) {
	for name, off := range map[string]time.Duration{ // order: each for itself
		"forward": 24 * time.Hour, "backward": -24 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &bench{t: t, clock: clock.NewManual(start)}
				j := &jumping{Manual: b.clock, at: map[time.Time]time.Time{}}
				b.Tracker = liveness.Start(liveness.Options{Clock: j, Tick: tick, Expire: b.expire})
				defer b.Stop()
				b.Add(7, 10*time.Second)
				b.pass(5 * time.Second)
				j.set(off)
				b.pass(4 * time.Second)
				b.expect()
				if !b.Touch(7) {
					t.Error("the session is gone")
				}
				b.pass(9 * time.Second)
				b.expect()
				b.pass(2*tick + beat)
				if len(b.got) != 1 {
					t.Errorf("expired %v, want session 7", b.got)
				}
			})
		})
	}
}
