package disk

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// Compactions lets a store run one compaction at a time, and none before release is called: Pebble's Open waits for
// the compactions that it begins, which would make a restart as slow as the store is untidy. None begins once the store
// has stopped, either: Pebble begins one that has failed again at once, for ever.
//
// Pebble calls Register once, TrySchedule under its own locks, Done without.
type Compactions struct {
	store   pebble.DBForCompaction // set by Register; immutable after
	stopped func() error           // why the store may not write any more, or nil; does not call back

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
	_ pebble.CompactionScheduler   = (*Compactions)(nil)
	_ pebble.CompactionGrantHandle = (*Compactions)(nil)
)

// NewCompactions returns a scheduler that holds compactions back.
func NewCompactions(stopped func() error) *Compactions {
	c := &Compactions{stopped: stopped}
	c.offered = sync.NewCond(&c.mu.Mutex)
	return c
}

// Release lets compactions run from now on.
func (c *Compactions) Release() {
	c.mu.Lock()
	c.mu.released = true
	c.mu.Unlock()
	c.offer()
}

// Pause lets no compaction begin any more and waits until none runs.
func (c *Compactions) Pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.released = false
	for c.mu.offers > 0 || c.mu.running {
		c.offered.Wait()
	}
}

// Register implements pebble.CompactionScheduler.
func (c *Compactions) Register(_ int, store pebble.DBForCompaction) { c.store = store }

// Unregister implements pebble.CompactionScheduler. The store is not called any more when it returns.
func (c *Compactions) Unregister() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.closed = true
	for c.mu.offers > 0 {
		c.offered.Wait()
	}
}

// TrySchedule implements pebble.CompactionScheduler.
func (c *Compactions) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.running || !c.mayBeginLocked() {
		c.mu.refused = true
		return false, nil
	}
	c.mu.running = true
	return true, c
}

// mayBeginLocked tells whether a compaction may begin while none runs.
func (c *Compactions) mayBeginLocked() bool {
	return c.mu.released && !c.mu.closed && c.stopped() == nil
}

// UpdateGetAllowedWithoutPermission implements pebble.CompactionScheduler. What is allowed never changes.
func (c *Compactions) UpdateGetAllowedWithoutPermission() {}

// Done implements pebble.CompactionGrantHandle.
func (c *Compactions) Done() {
	c.mu.Lock()
	c.mu.running = false
	c.offered.Broadcast()
	c.mu.Unlock()
	c.offer()
}

// Started implements pebble.CompactionGrantHandle.
func (c *Compactions) Started() {}

// MeasureCPU implements pebble.CompactionGrantHandle.
func (c *Compactions) MeasureCPU(pebble.CompactionGoroutineKind) {}

// CumulativeStats implements pebble.CompactionGrantHandle.
func (c *Compactions) CumulativeStats(pebble.CompactionGrantHandleStats) {}

// offer tells the store that it may run a compaction, if it wants to: after a refusal, and after each that has run, it
// waits to be told.
func (c *Compactions) offer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.mayBeginLocked() && !c.mu.running {
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
