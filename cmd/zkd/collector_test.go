package main

import "testing"

func TestCollectorGivesASmallHeapRoom(t *testing.T) {
	for _, c := range []struct {
		live, perSecond uint64
		want            int
	}{
		{0, 0, gcPercentMax},
		{1 << 20, 0, gcPercentMax},
		{12 << 20, 0, 100},
		{24 << 20, 0, 50},
		{24 << 20, 200 << 20, 50},
		{24 << 20, 480 << 20, 100},
		{24 << 20, 1 << 40, 166}, // up to gcBusyBytes
		{54 << 20, 1 << 40, gcPercent},
		{64 << 20, 0, gcPercent},
		{1 << 40, 1 << 40, gcPercent},
	} {
		if got := gcPercentFor(c.live, c.perSecond); got != c.want {
			t.Errorf("a live heap of %d bytes, %d a second: %d %%, want %d", c.live, c.perSecond, got, c.want)
		}
	}
}

func TestACalmServerGivesMemoryBack(t *testing.T) {
	for _, c := range []struct {
		live, free, perSecond uint64
		want                  bool
	}{
		{20 << 20, giveBytes, 0, true},
		{20 << 20, giveBytes - 1, 0, false},
		{20 << 20, 100 << 20, calmBytes - 1, true},
		{20 << 20, 100 << 20, calmBytes, false},
		{200 << 20, 20 << 20, 0, true},
		{200 << 20, 20<<20 - 1, 0, false},
	} {
		if got := givesBack(c.live, c.free, c.perSecond); got != c.want {
			t.Errorf("%d bytes free beside a live heap of %d, %d a second: %v, want %v",
				c.free, c.live, c.perSecond, got, c.want)
		}
	}
}
