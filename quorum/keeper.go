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
	flushInterval time.Duration

	marks    []logMark // oldest first, at most keeperMarks; the first one is of the start
	begin    uint64    // bytes appended when the present first entry was
	oldIndex uint64    // applied index that was seen not to be durable at oldSince; 0 if none
	oldSince time.Time
}

// logMark says how many bytes had been appended, since the start, up to an entry.
type logMark struct{ index, bytes uint64 }

// keeperSteps is into how many steps the tail's bound is divided: entries are forgotten in pieces of that size, and as
// often a mark is made.
const keeperSteps = 8

// keeperMarks bounds the marks.
const keeperMarks = 4 * keeperSteps

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
		if err := k.flush(); err != nil {
			return err
		}
		if err := k.compact(); err != nil {
			return err
		}
	}
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
	if err := k.machine.Flush(context.Background()); err != nil { // ended by the disk, not by a caller
		return fmt.Errorf("flush the state: %w", err)
	}
	return nil
}

// compact forgets entries in front of the tail.
func (k *keeper) compact() error {
	first, last, bytes := k.log.FirstIndex(), k.log.LastIndex(), k.appended()
	k.mark(last, bytes)
	upTo, begin := k.tailBegin(last, bytes)
	if durable := k.machine.DurableIndex(); durable < upTo {
		upTo = durable
	}
	if upTo < first || upTo-first < k.tailEntries/keeperSteps && begin-k.begin < k.tailBytes/keeperSteps {
		return nil
	}
	term, err := k.log.Term(upTo)
	if err != nil {
		return fmt.Errorf("compact the raft log up to entry %d: %w", upTo, err)
	}
	if err := k.log.Compact(upTo, term); err != nil {
		if errors.Is(err, storage.ErrUnavailable) {
			return nil // a new leader has replaced the end of the log; another time
		}
		return fmt.Errorf("compact the raft log: %w", err)
	}
	k.begin = begin
	return nil
}

// mark notes how much has been appended so far, in steps.
func (k *keeper) mark(last, bytes uint64) {
	if n := len(k.marks); n > 0 && bytes-k.marks[n-1].bytes < k.tailBytes/keeperSteps {
		return
	}
	if len(k.marks) == keeperMarks {
		k.marks = append(k.marks[:0], k.marks[1:]...)
	}
	k.marks = append(k.marks, logMark{index: last, bytes: bytes})
}

// tailBegin returns the last entry that the tail does not need, and the bytes appended up to it as far as known. The
// tail is within both bounds as soon as entries can be forgotten that far.
func (k *keeper) tailBegin(last, bytes uint64) (index, begin uint64) {
	if last > k.tailEntries {
		index = last - k.tailEntries
	}
	begin = k.begin
	for _, m := range k.marks {
		if bytes-m.bytes <= k.tailBytes {
			if m.bytes > 0 && m.index > index {
				return m.index, m.bytes
			}
			break
		}
	}
	return index, begin
}
