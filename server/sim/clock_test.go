package sim

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestMonotonic: a date that jumps does not change how much time has passed.
func TestMonotonic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		time.Sleep(1234567891 * time.Nanosecond)
		before := c.Now()
		if !before.Equal(time.Now()) {
			t.Errorf("a right clock says %v, and it is %v", before, time.Now())
		}
		c.set(-time.Hour, 0)
		time.Sleep(time.Second)
		after := c.Now()
		if after.Sub(before) != time.Second || c.Since(before) != time.Second || !after.After(before) {
			t.Errorf("a second is %v, and %v", after.Sub(before), c.Since(before))
		}
		if got := after.UnixNano() - before.UnixNano(); got != int64(time.Second-time.Hour) {
			t.Errorf("the date has moved by %v", time.Duration(got))
		}
		c.set(time.Minute, -0.5)
		before = c.Now()
		time.Sleep(10 * time.Second)
		after = c.Now()
		got := time.Duration(after.UnixNano() - before.UnixNano())
		if passed := after.Sub(before); got != 5*time.Second || passed != 10*time.Second {
			t.Errorf("a date that is half as fast has moved by %v in %v", got, passed)
		}
	})
}
