package storage

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// compactions lets a store run one compaction at a time, and none before release is called: Pebble's Open waits for
// the compactions that it begins, which would make a restart as slow as the store is untidy.
//
// Pebble calls Register once, TrySchedule under its own locks, Done without.
type compactions struct {
	store pebble.DBForCompaction // set by Register; immutable after

	mu struct {
		sync.Mutex
		released bool
		closed   bool
		running  bool // a compaction runs, or is being offered to the store
		refused  bool // the store has asked in vain since the last offer began
		offers   int  // under way: the store is being called, without mu
	}
	offered *sync.Cond // on mu: an offer or a compaction has ended
}

var (
	_ pebble.CompactionScheduler   = (*compactions)(nil)
	_ pebble.CompactionGrantHandle = (*compactions)(nil)
)

// newCompactions returns a scheduler that holds compactions back.
func newCompactions() *compactions {
	c := &compactions{}
	c.offered = sync.NewCond(&c.mu.Mutex)
	return c
}

// release lets compactions run from now on.
func (c *compactions) release() {
	c.mu.Lock()
	c.mu.released = true
	c.mu.Unlock()
	c.offer()
}

// pause lets no compaction begin any more and waits until none runs.
func (c *compactions) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.released = false
	for c.mu.offers > 0 || c.mu.running {
		c.offered.Wait()
	}
}

// Register implements pebble.CompactionScheduler.
func (c *compactions) Register(_ int, store pebble.DBForCompaction) { c.store = store }

// Unregister implements pebble.CompactionScheduler. The store is not called any more when it returns.
func (c *compactions) Unregister() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.closed = true
	for c.mu.offers > 0 {
		c.offered.Wait()
	}
}

// TrySchedule implements pebble.CompactionScheduler.
func (c *compactions) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.running || !c.mu.released || c.mu.closed {
		c.mu.refused = true
		return false, nil
	}
	c.mu.running = true
	return true, c
}

// UpdateGetAllowedWithoutPermission implements pebble.CompactionScheduler. What is allowed never changes.
func (c *compactions) UpdateGetAllowedWithoutPermission() {}

// Done implements pebble.CompactionGrantHandle.
func (c *compactions) Done() {
	c.mu.Lock()
	c.mu.running = false
	c.offered.Broadcast()
	c.mu.Unlock()
	c.offer()
}

// Started implements pebble.CompactionGrantHandle.
func (c *compactions) Started() {}

// MeasureCPU implements pebble.CompactionGrantHandle.
func (c *compactions) MeasureCPU(pebble.CompactionGoroutineKind) {}

// CumulativeStats implements pebble.CompactionGrantHandle.
func (c *compactions) CumulativeStats(pebble.CompactionGrantHandleStats) {}

// offer tells the store that it may run a compaction, if it wants to: after a refusal, and after each that has run, it
// waits to be told.
func (c *compactions) offer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.mu.released && !c.mu.closed && !c.mu.running {
		c.mu.refused, c.mu.running = false, true
		c.mu.offers++
		c.mu.Unlock()
		waiting, _ := c.store.GetWaitingCompaction()
		accepted := waiting && c.store.Schedule(c)
		c.mu.Lock()
		c.mu.offers--
		c.offered.Broadcast()
		if accepted {
			return // it may be over already, and another offer under way
		}
		c.mu.running = false
		if !c.mu.refused {
			return
		}
	}
}
