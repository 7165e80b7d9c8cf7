package watch

import (
	"log/slog"
	"slices"

	"zkd/jute"
	"zkd/server/stats"
	"zkd/storage/acl"
	"zkd/storage/invariants"
)

// FiredCounts holds, per event type, how many connections each change that was watched found, as ZooKeeper's metrics
// node_created_watch_count, node_deleted_watch_count, node_changed_watch_count and node_children_watch_count.
type FiredCounts struct {
	Created, Deleted, Changed, Children stats.Histogram
}

// firing is the scratch memory of Fire, kept between calls.
type firing struct {
	found    []*Holder
	above    []ancestor // of the path whose watchers are gathered
	notice   []byte
	busy     bool         // asserts that Fire is never inside itself
	verdicts acl.Verdicts // who may hear of znodes with long lists
}

// keepFound is how many entries of scratch memory Fire keeps, 1 MiB: a change that finds a million connections shall
// not hold on to the memory for it (a guess).
const keepFound = 1 << 17

// Fire tells the watchers of one change, and drops the standard watches among theirs. NodeCreated and NodeDataChanged
// go to the data table, NodeChildrenChanged to the child table, NodeDeleted to both, the data table first; any other
// type does nothing. The parent's NodeChildrenChanged is an event of its own, after the node's.
//
// Only one goroutine may fire. What it calls may register and remove watches. Fire returns how many watchers it has
// told.
func (t *Table) Fire(ev *Event) (told int) {
	if t.firing.busy {
		invariants.Violated("one goroutine fires watches, and no watcher does", slog.String("path", ev.Path))
	}
	t.firing.busy = true
	t.gather(ev)
	if len(t.firing.found) > 0 {
		told = t.tell(ev)
	}
	t.firing.busy = false
	return told
}

// keepVerdicts is above how many entries of lists and answers Fire forgets what it knows of them, between two entries
// of the log: some 2 MB (a guess). In an entry it forgets nothing, or a few lists in turn could have each event read
// one again. What it needs then is not more than what the entry has read to change these znodes.
const keepVerdicts = 16 << 10

// Begin says that the events of another entry of the log follow. It is for the goroutine that fires.
func (t *Table) Begin() {
	if t.firing.verdicts.Size() > keepVerdicts {
		t.firing.verdicts.Forget()
	}
}

// Fired returns the table's counts of connections found by changes. They may be read and reset at any time.
func (t *Table) Fired() *FiredCounts { return &t.fired }

// gather collects the holders to tell, in order, and consumes their standard watches.
func (t *Table) gather(ev *Event) {
	hash := t.hashPath(ev.Path)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.pathIndex.count == 0 {
		return
	}
	t.mu.round++
	switch ev.Type {
	case jute.EventNodeCreated:
		t.fired.Created.AddNonZero(t.gatherData(ev.Path, hash))
	case jute.EventNodeDataChanged:
		t.fired.Changed.AddNonZero(t.gatherData(ev.Path, hash))
	case jute.EventNodeDeleted:
		t.fired.Deleted.AddNonZero(t.gatherData(ev.Path, hash))
		t.fired.Deleted.AddNonZero(t.gatherList(ev.Path, hash, childKind))
	case jute.EventNodeChildrenChanged:
		t.fired.Children.AddNonZero(t.gatherList(ev.Path, hash, childKind))
	}
}

// gatherData collects from the data table: the path's own watches, then the recursive ones of its ancestors. It returns
// how many holders it found.
func (t *Table) gatherData(path string, hash uint64) int64 {
	n := t.gatherList(path, hash, dataKind)
	if t.recursive.Load() == 0 {
		return n
	}
	t.firing.above = t.ancestors(t.firing.above[:0], path)
	for _, up := range slices.Backward(t.firing.above) {
		p := t.findPath(path[:up.bytes], up.hash)
		if p == 0 {
			continue
		}
		for id := t.mu.paths.at(p).data; id != 0; {
			r := t.mu.watches.at(id)
			if r.modes()&recursive == 0 {
				break
			}
			if t.found(r.holder) {
				n++
			}
			id = r.next
		}
	}
	return n
}

// ancestor is a path above another one.
type ancestor struct {
	bytes int
	hash  uint64
}

// ancestors adds those of path to b, the root first.
func (t *Table) ancestors(b []ancestor, path string) []ancestor {
	if len(path) <= 1 || path[0] != '/' {
		return b
	}
	hash := t.hashRoot
	b = append(b, ancestor{1, hash})
	for start := 0; ; {
		end := nextName(path, start)
		if end == len(path) {
			return b
		}
		hash = t.hashNext(hash, path[start+1:end])
		b = append(b, ancestor{end, hash})
		start = end
	}
}

// gatherList collects the watches of one path in one table, consumes the standard ones, and returns how many watches
// there were.
func (t *Table) gatherList(path string, hash uint64, k kind) (n int64) {
	p := t.findPath(path, hash)
	if p == 0 {
		return 0
	}
	for id := *t.mu.paths.at(p).list(k); id != 0; n++ {
		r := t.mu.watches.at(id)
		next := r.next
		t.found(r.holder)
		if r.modes()&standard != 0 {
			t.setModes(id, r.modes()&^standard)
		}
		id = next
	}
	return n
}

// found adds a holder to those that are told, once in a round.
func (t *Table) found(number uint32) bool {
	h := *t.mu.holders.at(number)
	if h.told == t.mu.round {
		return false
	}
	h.told = t.mu.round
	t.firing.found = append(t.firing.found, h)
	return true
}

// tell calls the watchers that were found and may read the znode, and returns how many.
func (t *Table) tell(ev *Event) (told int) {
	f := &t.firing
	f.notice = f.notice[:0]
	for i, h := range f.found {
		f.found[i] = nil
		if len(ev.ACL) > 0 {
			if who := h.watcher.Proven(); who != nil && !f.verdicts.Allowed(ev.ACL, jute.PermRead, who) {
				continue
			}
		}
		if len(f.notice) == 0 {
			f.notice = AppendNotice(f.notice, ev.Type, ev.Path, ev.Zxid)
		}
		h.watcher.WatchFired(ev, f.notice)
		told++
	}
	f.found = f.found[:0]
	if cap(f.found) > keepFound {
		f.found = nil
	}
	if cap(f.above) > keepFound {
		f.above = nil
	}
	return told
}

// AppendNotice adds the frame of a notification to b. Changes carry their zxid; the events that setWatches makes for
// what was missed carry zxid -1 (org.apache.zookeeper.server.NIOServerCnxn.process).
func AppendNotice(b []byte, typ jute.EventType, path string, zxid jute.Zxid) []byte {
	b, mark := jute.BeginFrame(b)
	header := jute.ReplyHeader{Xid: jute.XidNotification, Zxid: zxid}
	b = header.Append(b)
	event := jute.WatcherEvent{Type: typ, State: jute.StateConnected, Path: path}
	b = event.Append(b)
	return jute.EndFrame(b, mark)
}
