package raftlog

import "sort"

// logOutline knows term and kind of each entry of the log, in runs of entries that have both in common: one for each
// leader whose entries the log has, and two more for each change of membership. So neither is ever read from the
// store. Guarded by Log.mu.
type logOutline struct {
	runs []logRun // by index, without a gap; the last one goes up to the last entry
}

// logRun is entries that follow one another and have term and kind in common, up to the next run.
type logRun struct {
	first uint64 // the oldest of them may be compacted away
	term  uint64
	kind  uint8
}

// append adds entries, replacing what is known from the first of them on.
func (o *logOutline) append(entries []LogEntry) {
	if len(entries) == 0 {
		return
	}
	o.cutFrom(entries[0].Index)
	for i := range entries {
		e := &entries[i]
		if n := len(o.runs); n == 0 || o.runs[n-1].term != e.Term || o.runs[n-1].kind != e.Kind {
			o.runs = append(o.runs, logRun{first: e.Index, term: e.Term, kind: e.Kind})
		}
	}
}

// cutFrom forgets the entries from index on.
func (o *logOutline) cutFrom(index uint64) {
	for n := len(o.runs); n > 0 && o.runs[n-1].first >= index; n-- {
		o.runs = o.runs[:n-1]
	}
}

// compact forgets the entries up to and including index, which is not behind the last one.
func (o *logOutline) compact(index, last uint64) {
	if index >= last {
		o.runs = o.runs[:0]
		return
	}
	if n := o.find(index + 1); n > 0 {
		o.runs = append(o.runs[:0], o.runs[n:]...)
	}
}

// reset forgets everything.
func (o *logOutline) reset() { o.runs = o.runs[:0] }

// find returns which run has the entry at index, which must be in the log.
func (o *logOutline) find(index uint64) int {
	if n := len(o.runs) - 1; o.runs[n].first <= index {
		return n // most questions are about the newest entries
	}
	return sort.Search(len(o.runs), func(i int) bool { return o.runs[i].first > index }) - 1
}

// heads appends the entries [lo, hi), which must be in the log, without their Data.
func (o *logOutline) heads(dst []LogEntry, lo, hi uint64) []LogEntry {
	for n := o.find(lo); lo < hi; n++ {
		end := hi
		if n+1 < len(o.runs) {
			end = min(hi, o.runs[n+1].first)
		}
		for ; lo < end; lo++ {
			dst = append(dst, LogEntry{Index: lo, Term: o.runs[n].term, Kind: o.runs[n].kind})
		}
	}
	return dst
}
