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

// A server that has become calm gives back what the heap does not need: what a burst has left, and the room for the
// next one, which is 30 percent of a large heap. Calm is who allocates less than calmBytes a second; what is given back
// is at least giveBytes, and a share of a large heap, for each time costs a collection. These are guesses.
const (
	calmBytes = 256 << 10
	giveBytes = 4 << 20
	giveShare = 10 // of the live heap, one in so many
)

// givesBack reports whether memory is to go back to the system: free is what it has given the heap and is not in use,
// or dead.
func givesBack(live, free, perSecond uint64) bool {
	return perSecond < calmBytes && free >= max(giveBytes, live/giveShare)
}

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

// heapUse is what the runtime says of the heap.
type heapUse struct {
	live, allocated, objects, free uint64
	samples                        [4]metrics.Sample
}

// read asks the runtime.
func (u *heapUse) read() {
	u.samples = [4]metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(u.samples[:])
	u.live, u.allocated = u.samples[0].Value.Uint64(), u.samples[1].Value.Uint64()
	u.objects, u.free = u.samples[2].Value.Uint64(), u.samples[3].Value.Uint64()
}

// spare is what of the heap is free, or was allocated after the last collection: most of that is dead in a calm server.
func (u *heapUse) spare() uint64 { return u.free + u.objects - min(u.live, u.objects) }

// tuneCollector keeps the collector's setting in step with the live heap, and has a calm server give back what it does
// not use, until ctx ends.
func tuneCollector(ctx context.Context, c clock.Clock) {
	ticker := c.NewTicker(gcInterval)
	defer ticker.Stop()
	var use heapUse
	use.read()
	allocated, since := use.allocated, c.Now()
	given := uint64(0) // allocated when memory was given back last
	set := gcPercentFor(0, 0)
	debug.SetGCPercent(set)
	for {
		select {
		case <-ticker.C():
		case <-ctx.Done():
			return
		}
		use.read()
		now := c.Now()
		elapsed := max(now.Sub(since), time.Millisecond).Seconds()
		perSecond := uint64(float64(use.allocated-allocated) / elapsed)
		allocated, since = use.allocated, now
		want := gcPercentFor(use.live, perSecond)
		if want-set >= gcStep || set-want >= gcStep || want == gcPercent && set != want {
			debug.SetGCPercent(want)
			set = want
		}
		// What cannot be given back is not tried again before as much has been allocated.
		if use.allocated-given >= giveBytes && givesBack(use.live, use.spare(), perSecond) {
			debug.FreeOSMemory()
			given = use.allocated
		}
	}
}
