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
		c.set(-time.Hour)
		time.Sleep(time.Second)
		after := c.Now()
		if after.Sub(before) != time.Second || c.Since(before) != time.Second || !after.After(before) {
			t.Errorf("a second is %v, and %v", after.Sub(before), c.Since(before))
		}
		if got := after.UnixNano() - before.UnixNano(); got != int64(time.Second-time.Hour) {
			t.Errorf("the date has moved by %v", time.Duration(got))
		}
	})
}
