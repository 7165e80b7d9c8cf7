package main

import (
	"context"
	"runtime"
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

// The settings follow the heap every two seconds, and one that grows faster has the room of a small one meanwhile: up
// to twice its size. Go's memory limit bounds that. It leaves what has lived for two seconds as much room as the
// settings do, and is no less than limitLeast, so it is not what makes the collector run for a server whose heap is as
// large as it was a moment ago. What has come since gets less.
const (
	limitLeast   = 192 << 20
	limitRoom    = 40 << 20
	limitNew     = 15            // percent
	limitSettled = gcPercent + 5 // percent: Go stays three below the limit
	// limitUp and limitDown are by how much the limit must differ to be changed.
	limitUp   = 4 << 20
	limitDown = 16 << 20
)

// softLimit is the limit for what the runtime says; settled is what of it has lived for long, most what the process may
// use anyway.
func softLimit(u *heapUse, settled uint64, most int64) int64 {
	room := max(u.live/100*limitNew, limitRoom)
	want := max(u.live+room, settled+settled/100*limitSettled) + u.other
	return min(max(int64(want), limitLeast), most)
}

// limitMoves reports whether a limit is to be changed: upwards at any time, or downwards if that is asked for.
func limitMoves(set, want int64, down bool) bool {
	return want >= set+limitUp || down && want <= set-limitDown
}

// heapUse is what the runtime says of the heap, and of what else it has of the system (other).
type heapUse struct {
	live, allocated, objects, free, other uint64
	samples                               [6]metrics.Sample
}

// read asks the runtime.
func (u *heapUse) read() {
	u.samples = [6]metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(u.samples[:])
	u.live, u.allocated = u.samples[0].Value.Uint64(), u.samples[1].Value.Uint64()
	u.objects, u.free = u.samples[2].Value.Uint64(), u.samples[3].Value.Uint64()
	all, not := u.samples[4].Value.Uint64(), u.samples[5].Value.Uint64()+u.objects+u.free
	u.other = all - min(all, not)
}

// spare is what of the heap is free, or was allocated after the last collection: most of that is dead in a calm server.
func (u *heapUse) spare() uint64 { return u.free + u.objects - min(u.live, u.objects) }

// tuner keeps the collector's settings in step with the heap.
type tuner struct {
	clock     clock.Clock
	use       heapUse
	percent   int       // as set
	limit     int64     // as set
	most      int64     // the limit before, which the operator or the cgroup sets
	live      uint64    // at the last tick
	settled   uint64    // the least at that and the one before
	allocated uint64    // until since
	since     time.Time // the last tick
	given     uint64    // allocated when memory was given back last
}

// tuneCollector keeps the collector's settings in step with the heap, and has a calm server give back what it does not
// use, until ctx ends. Go's memory limit is what it was again afterwards.
func tuneCollector(ctx context.Context, c clock.Clock) {
	ticker := c.NewTicker(gcInterval)
	defer ticker.Stop()
	t := tuner{clock: c, most: debug.SetMemoryLimit(-1)}
	defer debug.SetMemoryLimit(t.most)
	t.use.read()
	t.allocated, t.since = t.use.allocated, c.Now()
	t.percent = gcPercentFor(0, 0)
	debug.SetGCPercent(t.percent)
	t.setLimit(softLimit(&t.use, t.settled, t.most))
	collected := make(chan struct{}, 1) // one says that there were some
	tellCollections(ctx, collected)
	for {
		select {
		case <-ticker.C():
			t.tick()
		case <-collected:
			// At once, or it would be collected again and again until the next tick.
			t.use.read()
			t.follow(false)
		case <-ctx.Done():
			return
		}
	}
}

// tick follows the heap.
func (t *tuner) tick() {
	t.use.read()
	now := t.clock.Now()
	elapsed := max(now.Sub(t.since), time.Millisecond).Seconds()
	perSecond := uint64(float64(t.use.allocated-t.allocated) / elapsed)
	t.allocated, t.since = t.use.allocated, now
	want := gcPercentFor(t.use.live, perSecond)
	if want-t.percent >= gcStep || t.percent-want >= gcStep || want == gcPercent && t.percent != want {
		debug.SetGCPercent(want)
		t.percent = want
	}
	t.live, t.settled = t.use.live, min(t.live, t.use.live)
	t.follow(true)
	// What cannot be given back is not tried again before as much has been allocated.
	if t.use.allocated-t.given >= giveBytes && givesBack(t.use.live, t.use.spare(), perSecond) {
		debug.FreeOSMemory()
		t.given = t.use.allocated
	}
}

// follow has the limit follow the heap, downwards as well if that is asked for.
func (t *tuner) follow(down bool) {
	if limit := softLimit(&t.use, t.settled, t.most); limitMoves(t.limit, limit, down) {
		t.setLimit(limit)
	}
}

func (t *tuner) setLimit(limit int64) {
	debug.SetMemoryLimit(limit)
	t.limit = limit
}

// garbage is there for the collector to find.
type garbage struct{ _ *garbage }

// tellCollections has told say that the collector has been through, again and again until ctx ends. Who is late hears
// of several at once.
func tellCollections(ctx context.Context, told chan<- struct{}) {
	if ctx.Err() != nil {
		return
	}
	runtime.AddCleanup(new(garbage), func(told chan<- struct{}) {
		select {
		case told <- struct{}{}:
		default:
		}
		tellCollections(ctx, told)
	}, told)
}
