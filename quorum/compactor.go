package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/storage/raftlog"
	"zkd/storage/space"
)

// logCompactor keeps the log short, off the path of the writes: it has the machine flush what is applied and old, and
// forgets entries that no crash can make needed again, but for a tail. It is the compactor goroutine's alone but for
// the signal.
type logCompactor struct {
	log           *raftlog.Log
	machine       Machine
	clock         clock.Clock
	appended      func() uint64 // bytes appended since the start
	signal        chan struct{} // of size 1; set when a step of the log has been appended
	tailEntries   uint64
	tailBytes     uint64
	retainBytes   uint64             // 0: a share of the space
	space         func() space.Level // of the disks; nil: ample
	retain        *retained
	newest        *atomic.Int64 // applier.newest
	installs      func() uint64 // appender.installs
	flushInterval time.Duration

	// sizes are the bytes appended up to entries, oldest first; the first one is not behind the log's start.
	sizes      []raftlog.LogSize
	sizeAtOpen uint64 // bytes of the entries that were there at the start
	begin      uint64 // bytes appended when the present first entry was, those at the start among them
	oldIndex   uint64 // applied index that was seen not to be durable at oldSince; 0 if none
	oldSince   time.Time
}

// compactorSteps is into how many steps the tail's bound is divided: entries are forgotten in pieces of that size, and
// as often the size is noted.
const compactorSteps = 8

// lowSpaceTails is how many tails a log keeps for members that are behind while there is little space. A guess: what is
// on its way to a follower in health is less.
const lowSpaceTails = 4

// compactorInterval is how often the compactor looks at the log if nothing calls it. It bounds how late a flush by time
// is.
const compactorInterval = time.Second

// run is the compactor goroutine.
func (c *logCompactor) run(ticker clock.Ticker, halt <-chan struct{}) error {
	defer ticker.Stop()
	for {
		select {
		case <-c.signal:
		case <-ticker.C():
		case <-halt:
			return nil
		}
		if err := c.work(); err != nil {
			return err
		}
	}
}

// work does what is to be done now.
func (c *logCompactor) work() error {
	if err := c.flush(); err != nil {
		return err
	}
	return c.compact()
}

// flush makes applied writes durable that the machine, which counts bytes only, has left alone for too long.
func (c *logCompactor) flush() error {
	applied, durable := c.machine.AppliedIndex(), c.machine.DurableIndex()
	if c.oldIndex == 0 || durable >= c.oldIndex {
		c.oldIndex, c.oldSince = 0, c.clock.Now()
		if applied > durable {
			c.oldIndex = applied
		}
		return nil
	}
	if c.clock.Since(c.oldSince) < c.flushInterval {
		return nil
	}
	c.oldIndex = 0
	installs := c.installs()
	err := c.machine.Flush(context.Background()) // ended by the disk, or by an install, not by a caller
	if err != nil && c.undisturbed(installs) {
		return fmt.Errorf("flush the state: %w", err)
	}
	return nil
}

// undisturbed tells whether no snapshot was installed since installs was read, nor then: an install takes away what the
// compactor is at.
func (c *logCompactor) undisturbed(installs uint64) bool {
	return installs%2 == 0 && c.installs() == installs
}

// bound is how many bytes are kept at most for members that need them.
func (c *logCompactor) bound(kept uint64) uint64 {
	if c.retainBytes > 0 {
		return c.retainBytes
	}
	free, err := c.log.DiskFree()
	if err != nil {
		return retainUnknown // as it is not known; a disk that is broken is found out by writing
	}
	return min(max((uint64(free)+kept)/retainShare, retainLeast), retainMost)
}

// compact forgets entries in front of the tail that no member needs, or that the bound does not allow.
func (c *logCompactor) compact() error {
	installs := c.installs()
	first, last, bytes := c.log.FirstIndex(), c.log.LastIndex(), c.sizeAtOpen+c.appended()
	begin := c.bytesUpTo(first - 1)
	limit := c.bound(bytes - begin)
	c.retain.kept.Store(bytes - begin)
	c.retain.limit.Store(limit)
	tailBytes, most, level := min(c.tailBytes, limit), limit, space.Ample
	if c.space != nil {
		level = c.space()
	}
	if level != space.Ample {
		tailBytes, limit = tailBytes/compactorSteps, min(limit, lowSpaceTails*c.tailBytes)
	}
	c.noteSize(first, last, bytes, max(tailBytes/compactorSteps, 1))
	upTo := c.tailBegin(last, bytes, tailBytes)
	if last > c.tailEntries {
		upTo = max(upTo, last-c.tailEntries)
	}
	if floor := c.retain.floor.Load(); floor < upTo {
		upTo = max(floor, c.tailBegin(last, bytes, limit))
	}
	if awaited := c.retain.awaited.Load(); level < space.Critical && awaited < upTo {
		upTo = max(awaited, c.tailBegin(last, bytes, most))
	}
	upTo = min(upTo, c.machine.DurableIndex(), c.retain.applied.Load())
	after := c.bytesUpTo(upTo)
	little := upTo-first < c.tailEntries/compactorSteps && after-begin < tailBytes/compactorSteps
	if upTo < first || little && bytes-begin <= limit {
		return nil
	}
	term, err := c.log.Term(upTo)
	if err == nil {
		err = c.log.Compact(upTo, term, c.compacted())
	}
	switch {
	case err == nil:
		c.begin = after
		c.retain.kept.Store(bytes - after)
	case errors.Is(err, raftlog.ErrUnavailable): // a new leader has replaced the end of the log; another time
	case !c.undisturbed(installs):
	default:
		return fmt.Errorf("compact the raft log up to entry %d: %w", upTo, err)
	}
	return nil
}

// compacted returns what the log is to remember of entries that were applied and are forgotten: their time.
func (c *logCompactor) compacted() map[string][]byte {
	if at := c.newest.Load(); at > 0 {
		return map[string][]byte{compactedKey: appendTime(jute.Millis(at))}
	}
	return nil
}

// noteSize notes how much has been appended so far, in steps. Of the sizes in front of the log the last one is kept;
// those of entries that a new leader has replaced are forgotten.
func (c *logCompactor) noteSize(first, last, bytes, step uint64) {
	for n := len(c.sizes); n > 1 && c.sizes[n-1].Index > last; n-- {
		c.sizes = c.sizes[:n-1]
	}
	if n := len(c.sizes); n > 0 && bytes-c.sizes[n-1].Bytes < step {
		return
	}
	old := 0
	for old+1 < len(c.sizes) && c.sizes[old+1].Index < first {
		old++
	}
	c.sizes = append(c.sizes[:0], c.sizes[old:]...)
	c.sizes = append(c.sizes, raftlog.LogSize{Index: last, Bytes: bytes})
}

// tailBegin returns the last entry that a tail of at most tail bytes does not have; one in front of the log if it has
// all.
func (c *logCompactor) tailBegin(last, bytes, tail uint64) (index uint64) {
	n, _ := slices.BinarySearchFunc(c.sizes, bytes-min(tail, bytes), func(size raftlog.LogSize, begin uint64) int {
		return cmp.Compare(size.Bytes, begin)
	})
	if n == len(c.sizes) {
		return last
	}
	return min(c.sizes[n].Index, last)
}

// bytesUpTo is how many bytes had been appended up to an entry, as far as known.
func (c *logCompactor) bytesUpTo(index uint64) uint64 {
	n, _ := slices.BinarySearchFunc(c.sizes, index+1, func(m raftlog.LogSize, behind uint64) int {
		return cmp.Compare(m.Index, behind)
	})
	if n == 0 {
		return c.begin
	}
	return max(c.begin, c.sizes[n-1].Bytes)
}
