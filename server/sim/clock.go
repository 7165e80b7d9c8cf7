package sim

import (
	"sync/atomic"
	"time"
	"unsafe"

	"zkd/quorum/clock"
)

// skewed is the clock of one machine: its date may be wrong, jump, and run too fast or too slow; how much time passes
// is right, as it is with CLOCK_MONOTONIC.
type skewed struct {
	clock.Clock
	began time.Time
	error atomic.Pointer[dateError]
}

// dateError is what is wrong with a date.
type dateError struct {
	by    time.Duration
	rate  float64   // what it gains in each second, in seconds; above -1
	since time.Time // when it began to
}

// newClock returns a clock that is right.
func newClock() *skewed {
	c := &skewed{Clock: clock.Real(), began: time.Now()}
	c.set(0, 0)
	return c
}

// Now implements clock.Clock.
func (c *skewed) Now() time.Time {
	now, e := c.Clock.Now(), c.error.Load()
	by := e.by + time.Duration(e.rate*float64(now.Sub(e.since)))
	return monotonic(now.Add(by), now.Sub(c.began)+1)
}

// Since implements clock.Clock.
func (c *skewed) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// set makes the date wrong by a duration, which grows by the rate with each second.
func (c *skewed) set(by time.Duration, rate float64) {
	c.error.Store(&dateError{by, rate, c.Clock.Now()})
}

// layout is a time.Time as package time has it. Times of a bubble have no monotonic reading, and no function gives a
// time one.
type layout struct {
	wall uint64 // a bit that says that there is a reading, 33 bits of seconds since 1885, 30 of nanoseconds
	ext  int64  // the reading
	loc  *time.Location
}

// since1885 is how many seconds there were from 1885 to 1970.
const since1885 = (85*365 + 20) * 24 * 60 * 60

// monotonic returns a date with a reading of a monotonic clock.
func monotonic(date time.Time, reading time.Duration) (t time.Time) {
	*(*layout)(unsafe.Pointer(&t)) = layout{ //nolint:gosec // TestMonotonic would fail with another layout
		wall: 1<<63 | uint64(date.Unix()+since1885)<<30 | uint64(date.Nanosecond()), ext: int64(reading),
	}
	return t
}
