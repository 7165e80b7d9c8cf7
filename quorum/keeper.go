package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"zkd/quorum/clock"
	"zkd/storage/raftlog"
)

// keeper keeps the log short, off the path of the writes: it has the machine flush what is applied and old, and forgets
// entries that no crash can make needed again, but for a tail. It is the keeper goroutine's alone but for the signal.
type keeper struct {
	log           *raftlog.Log
	machine       Machine
	clock         clock.Clock
	appended      func() uint64 // bytes appended since the start
	signal        chan struct{} // of size 1; set when a step of the log has been appended
	tailEntries   uint64
	tailBytes     uint64
	retainBytes   uint64      // 0: a share of the room
	scarce        func() bool // there is little room on the disks; nil: never
	retain        *retained
	installs      func() uint64 // appender.installs
	flushInterval time.Duration

	// marks are the bytes appended up to entries, oldest first; the first one is not behind the log's start.
	marks    []raftlog.LogSize
	old      uint64 // bytes of the entries that were there at the start
	begin    uint64 // bytes appended when the present first entry was, those at the start among them
	oldIndex uint64 // applied index that was seen not to be durable at oldSince; 0 if none
	oldSince time.Time
}

// keeperSteps is into how many steps the tail's bound is divided: entries are forgotten in pieces of that size, and as
// often a mark is made.
const keeperSteps = 8

// scarceTails is how many tails a log keeps for members that are behind while there is little room. A guess: what is on
// its way to a follower in health is less.
const scarceTails = 4

// keeperInterval is how often the keeper looks at the log if nothing calls it. It bounds how late a flush by time is.
const keeperInterval = time.Second

// run is the keeper goroutine.
func (k *keeper) run(ticker clock.Ticker, halt <-chan struct{}) error {
	defer ticker.Stop()
	for {
		select {
		case <-k.signal:
		case <-ticker.C():
		case <-halt:
			return nil
		}
		if err := k.keep(); err != nil {
			return err
		}
	}
}

// keep does what is to be done now.
func (k *keeper) keep() error {
	if err := k.flush(); err != nil {
		return err
	}
	return k.compact()
}

// flush makes applied writes durable that the machine, which counts bytes only, has left alone for too long.
func (k *keeper) flush() error {
	applied, durable := k.machine.AppliedIndex(), k.machine.DurableIndex()
	if k.oldIndex == 0 || durable >= k.oldIndex {
		k.oldIndex, k.oldSince = 0, k.clock.Now()
		if applied > durable {
			k.oldIndex = applied
		}
		return nil
	}
	if k.clock.Since(k.oldSince) < k.flushInterval {
		return nil
	}
	k.oldIndex = 0
	installs := k.installs()
	err := k.machine.Flush(context.Background()) // ended by the disk, or by an install, not by a caller
	if err != nil && k.undisturbed(installs) {
		return fmt.Errorf("flush the state: %w", err)
	}
	return nil
}

// undisturbed tells whether no snapshot was installed since installs was read, nor then: an install takes away what the
// keeper is at.
func (k *keeper) undisturbed(installs uint64) bool {
	return installs%2 == 0 && k.installs() == installs
}

// bound is how many bytes are kept at most for members that need them.
func (k *keeper) bound(kept uint64) uint64 {
	if k.retainBytes > 0 {
		return k.retainBytes
	}
	free, err := k.log.DiskFree()
	if err != nil {
		return retainUnknown // as it is not known; a disk that is broken is found out by writing
	}
	return min(max((uint64(free)+kept)/retainShare, retainLeast), retainMost)
}

// compact forgets entries in front of the tail that no member needs, or that the bound does not allow.
func (k *keeper) compact() error {
	installs := k.installs()
	first, last, bytes := k.log.FirstIndex(), k.log.LastIndex(), k.old+k.appended()
	begin := k.bytesUpTo(first - 1)
	limit := k.bound(bytes - begin)
	k.retain.kept.Store(bytes - begin)
	k.retain.limit.Store(limit)
	tailBytes := min(k.tailBytes, limit)
	if k.scarce != nil && k.scarce() {
		tailBytes, limit = tailBytes/keeperSteps, min(limit, scarceTails*k.tailBytes)
	}
	k.mark(first, last, bytes, max(tailBytes/keeperSteps, 1))
	upTo := k.tailBegin(last, bytes, tailBytes)
	if last > k.tailEntries {
		upTo = max(upTo, last-k.tailEntries)
	}
	if floor := k.retain.floor.Load(); floor < upTo {
		upTo = max(floor, k.tailBegin(last, bytes, limit))
	}
	upTo = min(upTo, k.machine.DurableIndex(), k.retain.applied.Load())
	after := k.bytesUpTo(upTo)
	little := upTo-first < k.tailEntries/keeperSteps && after-begin < tailBytes/keeperSteps
	if upTo < first || little && bytes-begin <= limit {
		return nil
	}
	term, err := k.log.Term(upTo)
	if err == nil {
		err = k.log.Compact(upTo, term)
	}
	switch {
	case err == nil:
		k.begin = after
		k.retain.kept.Store(bytes - after)
	case errors.Is(err, raftlog.ErrUnavailable): // a new leader has replaced the end of the log; another time
	case !k.undisturbed(installs):
	default:
		return fmt.Errorf("compact the raft log up to entry %d: %w", upTo, err)
	}
	return nil
}

// mark notes how much has been appended so far, in steps. Of the marks in front of the log the last one is kept; those
// of entries that a new leader has replaced are forgotten.
func (k *keeper) mark(first, last, bytes, step uint64) {
	for n := len(k.marks); n > 1 && k.marks[n-1].Index > last; n-- {
		k.marks = k.marks[:n-1]
	}
	if n := len(k.marks); n > 0 && bytes-k.marks[n-1].Bytes < step {
		return
	}
	old := 0
	for old+1 < len(k.marks) && k.marks[old+1].Index < first {
		old++
	}
	k.marks = append(k.marks[:0], k.marks[old:]...)
	k.marks = append(k.marks, raftlog.LogSize{Index: last, Bytes: bytes})
}

// tailBegin returns the last entry that a tail of at most tail bytes does not have; one in front of the log if it has
// all.
func (k *keeper) tailBegin(last, bytes, tail uint64) (index uint64) {
	n, _ := slices.BinarySearchFunc(k.marks, bytes-min(tail, bytes), func(m raftlog.LogSize, begin uint64) int {
		return cmp.Compare(m.Bytes, begin)
	})
	if n == len(k.marks) {
		return last
	}
	return min(k.marks[n].Index, last)
}

// bytesUpTo is how many bytes had been appended up to an entry, as far as known.
func (k *keeper) bytesUpTo(index uint64) uint64 {
	n, _ := slices.BinarySearchFunc(k.marks, index+1, func(m raftlog.LogSize, behind uint64) int {
		return cmp.Compare(m.Index, behind)
	})
	if n == 0 {
		return k.begin
	}
	return max(k.begin, k.marks[n-1].Bytes)
}
