package stats

import "sync/atomic"

// MinMax is the last, the least and the greatest of some sizes, -1 before the first (ZooKeeper's BufferStats). The zero
// MinMax is ready. Each holds one more than its value.
type MinMax struct{ last, least, greatest atomic.Int64 }

// Add takes in sizes that came one after the other.
func (e *MinMax) Add(last, least, greatest int) {
	e.last.Store(int64(last) + 1)
	for {
		old := e.least.Load()
		if old != 0 && old <= int64(least)+1 || e.least.CompareAndSwap(old, int64(least)+1) {
			break
		}
	}
	for {
		old := e.greatest.Load()
		if old > int64(greatest) || e.greatest.CompareAndSwap(old, int64(greatest)+1) {
			return
		}
	}
}

// Reset forgets the sizes.
func (e *MinMax) Reset() {
	e.last.Store(0)
	e.least.Store(0)
	e.greatest.Store(0)
}

// Sizes returns the sizes.
func (e *MinMax) Sizes() (last, least, greatest int64) {
	return e.last.Load() - 1, e.least.Load() - 1, e.greatest.Load() - 1
}
