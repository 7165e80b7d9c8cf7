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
	found      []*Holder
	consumed   bool       // the last change has ended standard watches
	above      []ancestor // of the path whose watchers are gathered
	notice     []byte
	busy       bool         // asserts that Fire is never inside itself
	verdicts   acl.Verdicts // who may hear of znodes with long lists
	once       Audience     // of found
	remembered remembered
}

// keepFound is how many entries of scratch memory Fire keeps, 1 MiB: a change that finds a million connections shall
// not hold on to the memory for it (a guess).
const keepFound = 1 << 17

// Fire tells the watchers of one change: those of its Audience. What it calls may register and remove watches. Fire
// returns how many watchers it has told.
func (t *Table) Fire(ev *Event) (told int) {
	f := &t.firing
	if f.busy {
		invariants.Violated("one goroutine fires watches, and no watcher does", slog.String("path", ev.Path))
	}
	f.busy = true
	a := t.Audience(ev)
	if told = a.Len(); told > 0 {
		f.notice = AppendNotice(f.notice[:0], ev.Type, ev.Path, ev.Zxid)
		for i := range told {
			a.At(i).WatchFired(ev, f.notice)
		}
	}
	f.drop()
	f.busy = false
	return told
}

// Audience finds who hears of one change, and drops the standard watches among theirs: the watchers that were found,
// in order, and may read the znode. NodeCreated and NodeDataChanged go to the data table, NodeChildrenChanged to the
// child table, NodeDeleted to both, the data table first; any other type finds nobody. The parent's NodeChildrenChanged
// is an event of its own, after the node's. Only one goroutine may fire.
func (t *Table) Audience(ev *Event) *Audience {
	f := &t.firing
	f.drop()
	if t.watched.Load() == 0 {
		return &f.once
	}
	of := change{t.hashPath(ev.Path), ev.Type}
	known, found := t.gather(ev, of)
	if known != nil || found == (foundCounts{}) {
		return known.or(&f.once)
	}
	f.filter(ev)
	if f.remembered.of != nil && !f.consumed {
		return f.remembered.keep(of, ev, f.found, found)
	}
	f.once.holders = f.found
	return &f.once
}

// drop forgets whom the last change has found.
func (f *firing) drop() {
	clear(f.found)
	f.found, f.once.holders = f.found[:0], nil
	if cap(f.found) > keepFound {
		f.found = nil
	}
	if cap(f.above) > keepFound {
		f.above = nil
	}
}

// shortList is a list of which it costs nothing to see whether it lets anyone read: a guess.
const shortList = 8

// filter leaves those among the holders that were found who may read the znode.
func (f *firing) filter(ev *Event) {
	if len(ev.ACL) == 0 || len(ev.ACL) <= shortList && acl.Allowed(ev.ACL, jute.PermRead, nil) {
		return
	}
	f.found = slices.DeleteFunc(f.found, func(h *Holder) bool {
		who := h.watcher.Proven()
		return who != nil && !f.verdicts.Allowed(ev.ACL, jute.PermRead, who)
	})
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

// foundCounts is how many a change has found: connections by the data table, watches by the child table.
type foundCounts struct{ data, child int64 }

// gather collects the holders of watches of one change, in order, and consumes their standard watches, unless known is
// who hears of it.
func (t *Table) gather(ev *Event, of change) (known *Audience, found foundCounts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, found = t.firing.remembered.recall(of, ev, t.mu.added)
	if known == nil {
		t.mu.round++
		t.firing.consumed = false
		switch ev.Type {
		case jute.EventNodeCreated, jute.EventNodeDataChanged, jute.EventNodeDeleted:
			found.data = t.gatherData(ev.Path, of.hash)
		}
		switch ev.Type {
		case jute.EventNodeDeleted, jute.EventNodeChildrenChanged:
			found.child = t.gatherList(ev.Path, of.hash, childKind)
		}
	}
	switch ev.Type {
	case jute.EventNodeCreated:
		t.fired.Created.AddNonZero(found.data)
	case jute.EventNodeDataChanged:
		t.fired.Changed.AddNonZero(found.data)
	case jute.EventNodeDeleted:
		t.fired.Deleted.AddNonZero(found.data)
		t.fired.Deleted.AddNonZero(found.child)
	case jute.EventNodeChildrenChanged:
		t.fired.Children.AddNonZero(found.child)
	}
	return known, found
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
			t.firing.consumed = true
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
