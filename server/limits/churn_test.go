package limits_test

import (
	"testing"
	"time"

	"zkd/server/limits"
)

// TestChurnIsTakenLater: a burst goes by, what comes beyond it is paced, and time heals it.
func TestChurnIsTakenLater(t *testing.T) {
	var c limits.Churn
	now := time.Hour
	for range 500 {
		c.Ended(now)
	}
	if got := c.Pause(now); got != 0 {
		t.Errorf("after a burst: a pause of %v", got)
	}
	for range 5 {
		c.Ended(now)
	}
	for _, step := range []struct{ after, want time.Duration }{
		{0, 5 * time.Millisecond}, {3 * time.Millisecond, 2 * time.Millisecond}, {5 * time.Millisecond, 0},
	} {
		if got := c.Pause(now + step.after); got != step.want {
			t.Errorf("%v later: a pause of %v, want %v", step.after, got, step.want)
		}
	}
	for range 100_000 {
		c.Ended(now)
	}
	if got, most := c.Pause(now), 20*time.Millisecond; got != most {
		t.Errorf("a pause of %v, want no more than %v", got, most)
	}
	if got := c.Pause(now + time.Hour); got != 0 {
		t.Errorf("an hour later: a pause of %v", got)
	}
}
