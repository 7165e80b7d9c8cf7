package main

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"testing"

	"zkd/quorum/clock"
)

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

func TestCollectorLimitFollowsTheHeap(t *testing.T) {
	for _, c := range []struct {
		name    string
		use     heapUse
		settled uint64
		most    int64
		want    int64
	}{
		{"a small heap", heapUse{live: 20 << 20, other: 10 << 20}, 20 << 20, math.MaxInt64, limitLeast},
		{"one that has grown", heapUse{live: 150 << 20, other: 10 << 20}, 20 << 20, math.MaxInt64, 200 << 20},
		{"one that has grown large", heapUse{live: 1000 << 20, other: 20 << 20}, 20 << 20, math.MaxInt64, 1170 << 20},
		{"one that is large", heapUse{live: 1000 << 20, other: 20 << 20}, 1000 << 20, math.MaxInt64, 1370 << 20},
		{"the operator's limit", heapUse{live: 1000 << 20, other: 20 << 20}, 0, 512 << 20, 512 << 20},
		{"the operator's limit of a small one", heapUse{}, 0, 100 << 20, 100 << 20},
	} {
		// A percent of what lives is counted in whole bytes.
		if got := softLimit(&c.use, c.settled, c.most); got > c.want || got < c.want-100 {
			t.Errorf("%s: %d bytes, want %d", c.name, got, c.want)
		}
	}
}

// A limit that were the first to make the collector run would cost processor time that the settings mean to save.
func TestCollectorLimitLeavesTheRoomOfTheSettings(t *testing.T) {
	for live := uint64(1 << 20); live < 64<<30; live += live/16 + 1<<20 {
		limit := softLimit(&heapUse{live: live, other: 30 << 20}, live, math.MaxInt64) - 30<<20
		goal := live + live*uint64(gcPercentFor(live, math.MaxUint64))/100
		if below := uint64(limit - limit*3/100); below < goal { // Go's own margin
			t.Fatalf("%d bytes live: collected at %d by the limit, at %d by the setting", live, below, goal)
		}
	}
}

func TestCollectorLimitIsNotChangedForLittle(t *testing.T) {
	const set = 300 << 20
	for _, c := range []struct {
		want     int64
		down, is bool
	}{
		{set, true, false},
		{set + limitUp - 1, true, false},
		{set + limitUp, false, true},
		{set + limitUp, true, true},
		{set - limitDown + 1, true, false},
		{set - limitDown, true, true},
		{set - limitDown, false, false},
	} {
		if got := limitMoves(set, c.want, c.down); got != c.is {
			t.Errorf("from %d to %d, down %v: %v", int64(set), c.want, c.down, got)
		}
	}
}

func TestCollectionsAreTold(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told := make(chan struct{}, 1)
	tellCollections(ctx, told)
	for range 3 {
		runtime.GC()
		<-told
	}
}

// What the process may use is not what the collector is told from moment to moment.
func TestCollectorKeepsTheLimitOfTheOperator(t *testing.T) {
	const operator = 1 << 40
	before, percent := debug.SetMemoryLimit(operator), debug.SetGCPercent(100)
	defer func() {
		debug.SetMemoryLimit(before)
		debug.SetGCPercent(percent)
	}()
	world := realWorld(nil)
	most := world.System.MemoryLimit()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tuneCollector(ctx, clock.Real())
	}()
	for debug.SetMemoryLimit(-1) == operator {
		runtime.Gosched()
	}
	if limit := debug.SetMemoryLimit(-1); limit < limitLeast || limit > operator {
		t.Errorf("the limit is %d bytes", limit)
	}
	if got := world.System.MemoryLimit(); got != most {
		t.Errorf("the process may use %d bytes with the collector's limit, %d without", got, most)
	}
	cancel()
	<-ended
	if limit := debug.SetMemoryLimit(-1); limit != operator {
		t.Errorf("the limit is %d bytes afterwards, was %d", limit, int64(operator))
	}
}
