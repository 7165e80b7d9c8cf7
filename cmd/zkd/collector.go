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
// a share of it would have it collected many times a second.
const (
	gcPercent   = 30
	gcRoomBytes = 12 << 20
	// gcPercentMax is Go's own default times two: a heap of a few megabytes needs no more.
	gcPercentMax = 200
)

// gcInterval is how often the settings follow the heap, gcStep by how much they must differ to be changed: each change
// stops the process for a moment.
const (
	gcInterval = 2 * time.Second
	gcStep     = 10
)

// gcPercentFor is the setting for a live heap of this size.
func gcPercentFor(live uint64) int {
	percent := gcRoomBytes * 100 / max(live, 1)
	return int(min(max(percent, gcPercent), gcPercentMax))
}

// tuneCollector keeps the collector's setting in step with the live heap until ctx ends.
func tuneCollector(ctx context.Context, c clock.Clock) {
	ticker := c.NewTicker(gcInterval)
	defer ticker.Stop()
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	set := gcPercentFor(0)
	debug.SetGCPercent(set)
	for {
		select {
		case <-ticker.C():
		case <-ctx.Done():
			return
		}
		metrics.Read(sample)
		want := gcPercentFor(sample[0].Value.Uint64())
		if want-set >= gcStep || set-want >= gcStep || want == gcPercent && set != want {
			debug.SetGCPercent(want)
			set = want
		}
	}
}
