package quorum

import (
	"context"
	"errors"
	"fmt"
	"time"

	"zkd/quorum/clock"
	"zkd/storage"
)

// keeper keeps the log short, off the path of the writes: it has the machine flush what is applied and old, and forgets
// entries that no crash can make needed again, but for a tail. It is the keeper goroutine's alone but for the signal.
type keeper struct {
	log           *storage.RaftLog
	machine       Machine
	clock         clock.Clock
	appended      func() uint64 // bytes appended since the start
	signal        chan struct{} // of size 1; set when a step of the log has been appended
	tailEntries   uint64
	tailBytes     uint64
	lagBytes      uint64
	retain        *retention
	installs      func() uint64 // appender.installs
	flushInterval time.Duration

	marks    []logMark // oldest first, for lagBytes and a little more; the first one is of the start
	begin    uint64    // bytes appended when the present first entry was
	oldIndex uint64    // applied index that was seen not to be durable at oldSince; 0 if none
	oldSince time.Time
}

// logMark says how many bytes had been appended, since the start, up to an entry.
type logMark struct{ index, bytes uint64 }

// keeperSteps is into how many steps the tail's bound is divided: entries are forgotten in pieces of that size, and as
// often a mark is made.
const keeperSteps = 8

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

// compact forgets entries in front of the tail that no member needs.
func (k *keeper) compact() error {
	installs := k.installs()
	tailBytes, tailEntries := k.tailBytes, k.tailEntries
	if k.retain.wide.Load() {
		tailBytes, tailEntries = tailBytes*followerTail, tailEntries*followerTail
	}
	first, last, bytes := k.log.FirstIndex(), k.log.LastIndex(), k.appended()
	k.mark(last, bytes)
	upTo := k.tailBegin(last, bytes, tailBytes)
	if last > tailEntries {
		upTo = max(upTo, last-tailEntries)
	}
	if floor := k.retain.floor.Load(); floor < upTo {
		upTo = max(floor, k.tailBegin(last, bytes, k.lagBytes))
	}
	upTo = min(upTo, k.machine.DurableIndex(), k.retain.applied.Load(), k.retain.pin.Load())
	begin := k.bytesUpTo(upTo)
	if upTo < first || upTo-first < tailEntries/keeperSteps && begin-k.begin < tailBytes/keeperSteps {
		return nil
	}
	term, err := k.log.Term(upTo)
	if err == nil {
		err = k.log.Compact(upTo, term)
	}
	switch {
	case err == nil:
		k.begin = begin
	case errors.Is(err, storage.ErrUnavailable): // a new leader has replaced the end of the log; another time
	case !k.undisturbed(installs):
	default:
		return fmt.Errorf("compact the raft log up to entry %d: %w", upTo, err)
	}
	return nil
}

// mark notes how much has been appended so far, in steps. Of the marks that are older than anything looked for, the
// last one is kept.
func (k *keeper) mark(last, bytes uint64) {
	if n := len(k.marks); n > 0 && bytes-k.marks[n-1].bytes < k.tailBytes/keeperSteps {
		return
	}
	old := 0
	for old+1 < len(k.marks) && bytes-k.marks[old+1].bytes > max(k.lagBytes, k.tailBytes*followerTail) {
		old++
	}
	k.marks = append(k.marks[:0], k.marks[old:]...)
	k.marks = append(k.marks, logMark{index: last, bytes: bytes})
}

// tailBegin returns the last entry that a tail of at most tail bytes does not have, 0 if that is not known: as if it
// had all.
func (k *keeper) tailBegin(last, bytes, tail uint64) (index uint64) {
	for _, m := range k.marks {
		if bytes-m.bytes <= tail {
			if m.bytes > 0 {
				return min(m.index, last)
			}
			break
		}
	}
	return 0
}

// bytesUpTo is how many bytes had been appended up to an entry, as far as known.
func (k *keeper) bytesUpTo(index uint64) uint64 {
	bytes := k.begin
	for _, m := range k.marks {
		if m.index > index {
			break
		}
		bytes = max(bytes, m.bytes)
	}
	return bytes
}
