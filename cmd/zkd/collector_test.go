package main

import "testing"

func TestCollectorGivesASmallHeapRoom(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, gcPercentMax},
		{1 << 20, gcPercentMax},
		{12 << 20, 100},
		{24 << 20, 50},
		{64 << 20, gcPercent},
		{1 << 40, gcPercent},
	} {
		if got := gcPercentFor(c.live); got != c.want {
			t.Errorf("a live heap of %d bytes: %d %%, want %d", c.live, got, c.want)
		}
	}
}
