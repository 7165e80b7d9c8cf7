package raftlog

// logTail keeps the newest entries of the log in memory, bounded in bytes, without a gap up to the last. The newest
// entry is always kept, however long. Guarded by Log.mu.
type logTail struct {
	bytesMax int64
	bytes    int64      // of Data, and logTailEntryBytes for each entry
	entries  []LogEntry // consecutive indexes; [start:] are live
	start    int
}

// logTailEntryBytes is what an entry costs beside its data: a LogEntry.
const logTailEntryBytes = 48

// live returns the entries kept.
func (t *logTail) live() []LogEntry { return t.entries[t.start:] }

// covers tells whether the entry at index is kept.
func (t *logTail) covers(index uint64) bool {
	live := t.live()
	return len(live) > 0 && index >= live[0].Index && index <= live[len(live)-1].Index
}

// at returns the entry at index, which must be covered.
func (t *logTail) at(index uint64) *LogEntry {
	live := t.live()
	return &live[index-live[0].Index]
}

// append adds entries, replacing what is kept from the first of them on, then forgets the oldest over the bound. The
// tail keeps Data.
func (t *logTail) append(entries []LogEntry) {
	if len(entries) == 0 {
		return
	}
	t.cutFrom(entries[0].Index)
	if live := t.live(); len(live) > 0 && live[len(live)-1].Index+1 != entries[0].Index {
		t.reset()
	}
	if t.start > 0 && len(t.entries)+len(entries) > cap(t.entries) {
		kept := copy(t.entries, t.live())
		clear(t.entries[kept:])
		t.entries, t.start = t.entries[:kept], 0
	}
	t.entries = append(t.entries, entries...)
	for i := range entries {
		t.bytes += logTailEntryBytes + int64(len(entries[i].Data))
	}
	for t.bytes > t.bytesMax && len(t.live()) > 1 {
		t.dropFirst()
	}
}

// cutFrom forgets the entries from index on.
func (t *logTail) cutFrom(index uint64) {
	for n := len(t.entries); n > t.start && t.entries[n-1].Index >= index; n-- {
		t.bytes -= logTailEntryBytes + int64(len(t.entries[n-1].Data))
		t.entries[n-1] = LogEntry{}
		t.entries = t.entries[:n-1]
	}
}

// compact forgets the entries up to and including index.
func (t *logTail) compact(index uint64) {
	for t.start < len(t.entries) && t.entries[t.start].Index <= index {
		t.dropFirst()
	}
}

// dropFirst forgets the oldest entry.
func (t *logTail) dropFirst() {
	t.bytes -= logTailEntryBytes + int64(len(t.entries[t.start].Data))
	t.entries[t.start] = LogEntry{}
	t.start++
}

// reset forgets everything.
func (t *logTail) reset() {
	clear(t.entries)
	t.entries, t.start, t.bytes = t.entries[:0], 0, 0
}
