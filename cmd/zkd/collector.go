package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"zkd/quorum/clock"
)

// The collector's settings trade processor time for memory: most of what the server keeps is memtables and caches of
// fixed size, which cost the collector little to look at (docs/performance.md). A small heap is given room of its own:
// a share of it would have it collected many times a second. It is given more while much is allocated, but never so
// much that it takes more than a large heap does.
const (
	gcPercent   = 30
	gcRoomBytes = 12 << 20
	// gcPerSecond is how often the collector should run at most, as long as the heap stays below gcBusyBytes.
	gcPerSecond = 20
	gcBusyBytes = 64 << 20
	// gcPercentMax is Go's own default times two: a heap of a few megabytes needs no more.
	gcPercentMax = 200
)

// gcInterval is how often the settings follow the heap, gcStep by how much they must differ to be changed: each change
// stops the process for a moment.
const (
	gcInterval = 2 * time.Second
	gcStep     = 10
)

// gcPercentFor is the setting for a live heap of this size, to which so many bytes are allocated in a second.
func gcPercentFor(live, perSecond uint64) int {
	room := min(perSecond/gcPerSecond, gcBusyBytes-min(live, gcBusyBytes))
	percent := max(room, gcRoomBytes) * 100 / max(live, 1)
	return int(min(max(percent, gcPercent), gcPercentMax))
}

// tuneCollector keeps the collector's setting in step with the live heap until ctx ends.
func tuneCollector(ctx context.Context, c clock.Clock) {
	ticker := c.NewTicker(gcInterval)
	defer ticker.Stop()
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	allocated, since := sample[1].Value.Uint64(), c.Now()
	set := gcPercentFor(0, 0)
	debug.SetGCPercent(set)
	for {
		select {
		case <-ticker.C():
		case <-ctx.Done():
			return
		}
		metrics.Read(sample)
		now, total := c.Now(), sample[1].Value.Uint64()
		perSecond := float64(total-allocated) / max(now.Sub(since), time.Millisecond).Seconds()
		allocated, since = total, now
		want := gcPercentFor(sample[0].Value.Uint64(), uint64(perSecond))
		if want-set >= gcStep || set-want >= gcStep || want == gcPercent && set != want {
			debug.SetGCPercent(want)
			set = want
		}
	}
}
