package state

import (
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2"
)

// buriedPaths is how many figures a machine keeps of what lists have stepped over. Paths with one hash share one, which
// costs the one with few a turn at times. A guess.
const buriedPaths = 4096

// buriedLeast is how much is worth to be kept: less is no large read.
const buriedLeast = 256

// buried says, by the hash of a path, how many deleted keys its last list of children has stepped over: they are in the
// store until it is compacted, and how many there are nobody knows before.
type buried [buriedPaths]atomic.Uint32

// of returns the figure of a path.
func (b *buried) of(path string) *atomic.Uint32 { return &b[xxhash.Sum64String(path)%buriedPaths] }

// bury begins a list of so many children of path. At its end the returned function notes what it has stepped over
// besides, and lets others run for that.
func (a *readView) bury(path string, children int) func() {
	before := a.steps()
	return func() {
		over := a.steps() - before - children
		at := a.m.buried.of(path)
		switch {
		case over >= buriedLeast:
			at.Store(uint32(over))
		case at.Load() != 0:
			at.Store(0)
		}
		for ; a.pace != nil && over >= ScanPace; over -= ScanPace {
			if !a.pace() {
				return
			}
		}
	}
}

// steps is how many keys of the store the View's iterator has stepped over so far, those that do not show too.
func (a *readView) steps() int {
	if a.it == nil {
		return 0
	}
	stats := a.it.Stats()
	return stats.ForwardStepCount[pebble.InternalIterCall]
}
