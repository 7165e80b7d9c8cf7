package raftlog

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"zkd/storage/disk"
)

// Term returns the term of the entry at index. The index just before FirstIndex is answered, too: raft compares it
// with what followers have. It never waits for the disk. Fails with ErrCompacted or ErrUnavailable.
func (l *Log) Term(index uint64) (uint64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	switch {
	case index == l.mu.startIndex:
		return l.mu.startTerm, nil
	case index < l.mu.startIndex:
		return 0, ErrCompacted
	case index > l.mu.last:
		return 0, ErrUnavailable
	}
	return l.mu.outline.runs[l.mu.outline.find(index)].term, nil
}

// Entries appends the entries [lo, hi) to dst and returns it: at least one, then as many as keep the sum of their
// Data within maxBytes. The caller must not change their Data. Entries of the tail cost no allocation beyond dst;
// older ones are read from the store and verified. Fails with ErrCompacted if lo is before FirstIndex, with
// ErrUnavailable if hi is beyond LastIndex+1, and with disk.ErrDamaged; dst is then returned as it came.
func (l *Log) Entries(dst []LogEntry, lo, hi, maxBytes uint64) ([]LogEntry, error) {
	dst, found, err := l.RecentEntries(dst, lo, hi, maxBytes)
	if found || err != nil {
		return dst, err
	}
	return l.uncachedEntries(dst, lo, hi, maxBytes)
}

// RecentEntries is Entries for who must not wait for the disk: found is false, and nothing appended, if the entry at lo
// has to be read from the store. It does not fail with disk.ErrDamaged.
func (l *Log) RecentEntries(dst []LogEntry, lo, hi, maxBytes uint64) (_ []LogEntry, found bool, err error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if err := l.checkRangeLocked(lo, hi); err != nil {
		return dst, false, err
	}
	if lo >= hi {
		return dst, true, nil
	}
	if !l.mu.tail.covers(lo) {
		return dst, false, nil
	}
	return l.tailEntriesLocked(dst, lo, hi, maxBytes), true, nil
}

// RecentFrom returns the index of the oldest entry that RecentEntries finds; LastIndex+1 if there is none.
func (l *Log) RecentFrom() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if live := l.mu.tail.live(); len(live) > 0 {
		return live[0].Index
	}
	return l.mu.last + 1
}

// Heads appends the entries [lo, hi) to dst without their Data, and returns it. It never waits for the disk. Fails with
// ErrCompacted or ErrUnavailable, as Entries does.
func (l *Log) Heads(dst []LogEntry, lo, hi uint64) ([]LogEntry, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if err := l.checkRangeLocked(lo, hi); err != nil || lo >= hi {
		return dst, err
	}
	return l.mu.outline.heads(dst, lo, hi), nil
}

// checkRangeLocked tells whether [lo, hi) is in the log.
func (l *Log) checkRangeLocked(lo, hi uint64) error {
	switch {
	case lo <= l.mu.startIndex:
		return ErrCompacted
	case hi > l.mu.last+1:
		return ErrUnavailable
	}
	return nil
}

// tailEntriesLocked appends [lo, hi) from memory, bounded by maxBytes.
func (l *Log) tailEntriesLocked(dst []LogEntry, lo, hi, maxBytes uint64) []LogEntry {
	live := l.mu.tail.live()
	from := lo - live[0].Index
	entries := live[from : from+(hi-lo)]
	bytes := uint64(0)
	for i := range entries {
		bytes += uint64(len(entries[i].Data))
		if bytes > maxBytes && i > 0 {
			entries = entries[:i]
			break
		}
	}
	return append(dst, entries...)
}

// uncachedEntries appends [lo, hi) from the store, bounded by maxBytes. The range was in the log a moment ago; if it is
// not found, a writer may have changed the store and be about to say so, which is waited for before anything is called
// damage.
func (l *Log) uncachedEntries(dst []LogEntry, lo, hi, maxBytes uint64) ([]LogEntry, error) {
	entries, err := l.openEntries(dst, lo, hi, maxBytes)
	if err == nil || errors.Is(err, ErrLogClosed) {
		return entries, err
	}
	l.writer.Lock()
	defer l.writer.Unlock()
	l.mu.RLock()
	moved := l.checkRangeLocked(lo, hi)
	l.mu.RUnlock()
	if moved != nil {
		return dst, moved
	}
	return l.openEntries(dst, lo, hi, maxBytes)
}

// openEntries is readStore, unless the log is closed.
func (l *Log) openEntries(dst []LogEntry, lo, hi, maxBytes uint64) ([]LogEntry, error) {
	l.closing.RLock()
	defer l.closing.RUnlock()
	if l.closed.Load() {
		return dst, ErrLogClosed
	}
	entries, err := l.readStore(dst, lo, hi, maxBytes)
	if err != nil {
		return dst, err
	}
	return entries, nil
}

// readStore reads [lo, hi) with one iterator, which sees one moment of the store, and insists on consecutive indexes.
func (l *Log) readStore(dst []LogEntry, lo, hi, maxBytes uint64) (_ []LogEntry, err error) {
	iter, err := l.db.NewIter(&pebble.IterOptions{LowerBound: logEntryKey(lo), UpperBound: logEntryKey(hi)})
	if err != nil {
		return nil, l.damaged("iterator", err)
	}
	defer func() {
		if closeErr := iter.Close(); closeErr != nil && err == nil {
			err = l.damaged("iterator", closeErr)
		}
	}()
	next, bytes := lo, uint64(0)
	for ok := iter.First(); ok; ok = iter.Next() {
		entry, err := l.iteratorEntry(iter, next)
		if err != nil {
			return nil, err
		}
		bytes += uint64(len(entry.Data))
		if bytes > maxBytes && next > lo {
			return dst, nil
		}
		entry.Data = append([]byte(nil), entry.Data...)
		dst = append(dst, entry)
		next++
	}
	if err := iter.Error(); err != nil {
		return nil, l.damaged(fmt.Sprintf("entry %d", next), err)
	}
	if next != hi {
		return nil, l.damaged(fmt.Sprintf("entry %d", next), errors.New("it is missing"))
	}
	return dst, nil
}

// iteratorEntry decodes the entry under the iterator, which must be the one at index. Its Data is valid until the
// iterator moves.
func (l *Log) iteratorEntry(iter *pebble.Iterator, index uint64) (LogEntry, error) {
	got, ok := logEntryIndex(iter.Key())
	if !ok {
		return LogEntry{}, l.damaged(fmt.Sprintf("key %x", iter.Key()), errors.New("it is no entry's key"))
	}
	if got != index {
		return LogEntry{}, l.damaged(fmt.Sprintf("entry %d", index), fmt.Errorf("it is missing, entry %d follows", got))
	}
	value, err := iter.ValueAndErr()
	if err != nil {
		return LogEntry{}, l.damaged(fmt.Sprintf("entry %d", index), err)
	}
	entry, err := decodeLogEntry(value, index)
	if err != nil {
		return LogEntry{}, l.damaged(fmt.Sprintf("entry %d", index), err)
	}
	return entry, nil
}

// damaged words damage found in the store: the place, what is wrong and what the operator can do.
func (l *Log) damaged(place string, cause error) error {
	return damagedError(l.opts.Dir, place, cause)
}

// damagedError words damage of a raft log in dir.
func damagedError(dir, place string, cause error) error {
	return fmt.Errorf("%w: raft log in %s: %s: %w: acknowledged writes may be in it, so it is not skipped; "+
		"keep a copy of the directory, then restore a backup or remove the data directory of this member "+
		"to let it fetch everything from the others", disk.ErrDamaged, dir, place, cause)
}
