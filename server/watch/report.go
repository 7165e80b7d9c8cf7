package watch

import "zkd/jute"

// Counts is the size of a table.
type Counts struct {
	// Connections, Paths and Watches are of the data table alone, as ZooKeeper's wchs, wchc, wchp and watch admin
	// commands show it.
	//
	// Quirk: a connection whose data watches have all fired still counts, until it closes or removes one by request
	// (WatchManager.triggerWatch leaves its empty entry).
	Connections, Paths, Watches int
	// All is the number of watches in both tables: the metric watch_count (DataTree.getWatchCount).
	All int
}

// BytesOf returns what the watches of h take, about.
func (t *Table) BytesOf(h *Holder) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return h.bytes
}

// Bytes returns what all watches take, about.
func (t *Table) Bytes() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.bytes
}

// Counts returns the size of the table.
func (t *Table) Counts() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Counts{
		Connections: t.mu.listed,
		Paths:       t.mu.dataPaths,
		Watches:     t.mu.dataCount,
		All:         t.mu.dataCount + t.mu.childCount,
	}
}

// reportBatch bounds how many empty records a report passes over under one lock; besides, it holds the lock for one
// connection or one path at a time, so that a report of millions of watches does not stop the firing goroutine (a
// guess).
const reportBatch = 256

// ByConnection calls f for each connection that Counts counts, with its session and the paths of its data watches; the
// strings may be kept, the slice not. The order is none in particular. A report is not one moment of the table:
// connections and watches that come or go meanwhile may or may not be in it. It stops when f returns false.
func (t *Table) ByConnection(f func(session jute.SessionID, paths []string) bool) {
	var paths []string
	for number := uint32(1); ; number++ {
		session, ok, end := t.connectionPaths(number, &paths)
		if end {
			return
		}
		if ok && !f(session, paths) {
			return
		}
	}
}

// connectionPaths collects what ByConnection tells of the holder with that number.
func (t *Table) connectionPaths(number uint32, paths *[]string) (session jute.SessionID, ok, end bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if number >= t.mu.holders.end() {
		return 0, false, true
	}
	h := *t.mu.holders.at(number)
	if h == nil || !h.listed {
		return 0, false, false
	}
	*paths = (*paths)[:0]
	for id := h.first; id != 0; {
		r := t.mu.watches.at(id)
		if r.kind() == dataKind {
			*paths = append(*paths, t.mu.paths.at(r.path()).name())
		}
		id = r.nextHeld
	}
	return h.session, true, false
}

// ByPath calls f for each path in the data table with the sessions that watch it, like ByConnection.
func (t *Table) ByPath(f func(path string, sessions []jute.SessionID) bool) {
	var sessions []jute.SessionID
	for number := uint32(1); ; number++ {
		path, end := t.pathSessions(&number, &sessions)
		if end {
			return
		}
		if path != "" && !f(path, sessions) {
			return
		}
	}
}

// pathSessions collects what ByPath tells of the next path from *number on, "" if there is none among the next few.
func (t *Table) pathSessions(number *uint32, sessions *[]jute.SessionID) (path string, end bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for stop := *number + reportBatch; *number < stop; *number++ {
		if *number >= t.mu.paths.end() {
			return "", true
		}
		p := t.mu.paths.at(*number)
		if p.text == nil || p.data == 0 {
			continue
		}
		*sessions = (*sessions)[:0]
		for id := p.data; id != 0; {
			r := t.mu.watches.at(id)
			*sessions = append(*sessions, (*t.mu.holders.at(r.holder)).session)
			id = r.next
		}
		return p.name(), false
	}
	*number--
	return "", false
}
