package storage

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Term returns the term of the entry at index. The index just before FirstIndex is answered, too: raft compares it
// with what followers have. Fails with ErrCompacted, ErrUnavailable or ErrDamaged.
func (l *RaftLog) Term(index uint64) (uint64, error) {
	l.mu.RLock()
	term, found, err := l.termLocked(index)
	l.mu.RUnlock()
	if found || err != nil {
		return term, err
	}
	entries, err := l.coldEntries(nil, index, index+1, 0)
	if err != nil {
		return 0, err
	}
	return entries[0].Term, nil
}

// termLocked answers from memory; found is false if the entry has to be read from the store.
func (l *RaftLog) termLocked(index uint64) (term uint64, found bool, err error) {
	switch {
	case index == l.mu.startIndex:
		return l.mu.startTerm, true, nil
	case index < l.mu.startIndex:
		return 0, false, ErrCompacted
	case index > l.mu.last:
		return 0, false, ErrUnavailable
	case l.mu.tail.covers(index):
		return l.mu.tail.at(index).Term, true, nil
	}
	return 0, false, nil
}

// Entries appends the entries [lo, hi) to dst and returns it: at least one, then as many as keep the sum of their
// Data within maxBytes. The caller must not change their Data. Entries of the tail cost no allocation beyond dst;
// older ones are read from the store and verified. Fails with ErrCompacted if lo is before FirstIndex, with
// ErrUnavailable if hi is beyond LastIndex+1, and with ErrDamaged; dst is then returned as it came.
func (l *RaftLog) Entries(dst []LogEntry, lo, hi, maxBytes uint64) ([]LogEntry, error) {
	l.mu.RLock()
	err := l.checkRangeLocked(lo, hi)
	if err == nil && lo < hi && l.mu.tail.covers(lo) {
		dst = l.tailEntriesLocked(dst, lo, hi, maxBytes)
		lo = hi
	}
	l.mu.RUnlock()
	if err != nil || lo >= hi {
		return dst, err
	}
	return l.coldEntries(dst, lo, hi, maxBytes)
}

// checkRangeLocked tells whether [lo, hi) is in the log.
func (l *RaftLog) checkRangeLocked(lo, hi uint64) error {
	switch {
	case lo <= l.mu.startIndex:
		return ErrCompacted
	case hi > l.mu.last+1:
		return ErrUnavailable
	}
	return nil
}

// tailEntriesLocked appends [lo, hi) from memory, bounded by maxBytes.
func (l *RaftLog) tailEntriesLocked(dst []LogEntry, lo, hi, maxBytes uint64) []LogEntry {
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

// coldEntries appends [lo, hi) from the store, bounded by maxBytes. The range was in the log a moment ago; if it is
// not found, a writer may have changed the store and be about to say so, which is waited for before anything is called
// damage.
func (l *RaftLog) coldEntries(dst []LogEntry, lo, hi, maxBytes uint64) ([]LogEntry, error) {
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
func (l *RaftLog) openEntries(dst []LogEntry, lo, hi, maxBytes uint64) ([]LogEntry, error) {
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
func (l *RaftLog) readStore(dst []LogEntry, lo, hi, maxBytes uint64) (_ []LogEntry, err error) {
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
func (l *RaftLog) iteratorEntry(iter *pebble.Iterator, index uint64) (LogEntry, error) {
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
func (l *RaftLog) damaged(place string, cause error) error {
	return damagedError(l.opts.Dir, place, cause)
}

// damagedError words damage of a raft log in dir.
func damagedError(dir, place string, cause error) error {
	return fmt.Errorf("%w: raft log in %s: %s: %w: acknowledged writes may be in it, so it is not skipped; "+
		"keep a copy of the directory, then restore a backup or remove the data directory of this member "+
		"to let it fetch everything from the others", ErrDamaged, dir, place, cause)
}
