package state

import (
	"container/list"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"zkd/storage/childlist"
	"zkd/storage/invariants"
	"zkd/storage/schema"
)

// keptListOverheadBytes is what a kept list costs beside its path and names (measured 2026-11 by filling lists and
// reading the heap's growth).
const keptListOverheadBytes = 256

// Bounds of what is kept, by what it gives: guesses, but for what they bound.
const (
	// listAsked is how often a list is asked for before it is kept: one that is read once is not worth it.
	listAsked = 2
	// listAskedMost is how often at most, of one that was dropped again and again before anybody had used it.
	listAskedMost = 64
	// listChangesLeast and a part of listChangesPart of the names are how many changes a list may be behind: who takes
	// it then makes up for them in less time than the store needs. One that nobody takes meanwhile is dropped.
	listChangesLeast = 64
	listChangesPart  = 4
	// listDropsAtOnce is how many lists are dropped at a time for a large one: some microseconds.
	listDropsAtOnce = 64
	// listMarks is how many paths are known by how often their lists were asked for.
	listMarks = 1024
)

// lists keeps the children of znodes whose lists are asked for, as replies have them. What an entry changes is noted
// with the list, at the cost of some bytes, and made up for by who reads it next: the apply goroutine never touches a
// list, and a reader has a moment of it that nobody changes. Any goroutine may use it.
type lists struct {
	bytesMax int64        // immutable
	count    atomic.Int64 // of kept: apply asks it without the lock

	mu struct {
		sync.Mutex
		byPath map[string]*keptList // by path, the root's being ""
		order  list.List            // of *keptList, the one that was taken last first
		bytes  int64

		hits, misses uint64
		marks        [listMarks]listMark // by the hash of the path
	}
}

// listMark is how often the list of a path was asked for while it was not kept.
type listMark struct {
	hash        uint32
	asked, need uint8
}

// keptList is the list of a znode's children in the present state: names, and the changes behind them. It is guarded by
// the lock of the lists.
type keptList struct {
	path    string
	place   *list.Element
	names   *childlist.List // nil while they are being read
	changes childlist.Changes
	behind  int    // how many changes
	count   int    // of children at present
	changed uint64 // the last entry that has changed it, or at which the reading began
	used    bool   // since it is whole
	bytes   int64  // what it counts
}

// List is what is kept of the children of one znode at one moment. The zero List has nothing.
type List struct {
	of      *lists
	kept    *keptList
	names   *childlist.List // nil: nothing is kept
	changes childlist.Changes
	behind  int  // how many changes
	count   int  // of children
	reading bool // the names are to be kept when they were read
}

// init makes the lists ready.
func (s *lists) init(bytesMax int64) {
	s.bytesMax = bytesMax
	s.mu.byPath = make(map[string]*keptList)
	s.mu.order.Init()
}

// listPath is the path by which a list is kept.
func listPath(path string) string {
	if path == "/" {
		return ""
	}
	return path
}

// take returns the list of path, which has so many children after the entry at index; nothing if it is not kept, or has
// changed since. record says that the entry is the last one and that none is published meanwhile: then the list may be
// one that is to be kept from now on.
func (s *lists) take(path string, index uint64, children int, record bool) List {
	path = listPath(path)
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.mu.byPath[path]
	switch {
	case k == nil:
		s.mu.misses++
		if !record || children == 0 || !s.markLocked(path).due() {
			return List{}
		}
		k = s.addLocked(path, index, children)
		return List{of: s, kept: k, count: children, reading: true}
	case k.names == nil || k.changed > index:
		s.mu.misses++
		return List{}
	case k.count != children:
		if invariants.Enabled {
			invariants.Violated("a list of children has as many names as its znode says")
		}
		s.dropLocked(k)
		return List{}
	}
	s.mu.hits++
	k.used = true
	s.mu.order.MoveToFront(k.place)
	return s.ofLocked(k)
}

// catchUp makes up for what has changed in the list of path, if it is kept, so that who takes it has little to do.
func (s *lists) catchUp(path string) {
	if !s.any() {
		return
	}
	s.mu.Lock()
	k := s.mu.byPath[listPath(path)]
	if k == nil || k.names == nil || len(k.changes) == 0 {
		s.mu.Unlock()
		return
	}
	l := s.ofLocked(k)
	s.mu.Unlock()
	l.Settle()
}

// ofLocked returns what is kept with k at present.
func (s *lists) ofLocked(k *keptList) List {
	return List{of: s, kept: k, names: k.names, changes: k.changes, behind: k.behind, count: k.count}
}

// settled has what is kept with l begin with names, which are those of l and its changes. If somebody else was faster,
// it stays as it is.
func (s *lists) settled(l *List, names *childlist.List) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := l.kept
	if s.mu.byPath[k.path] != k || k.names != l.names {
		return
	}
	k.names, k.changes, k.behind = names, k.changes[len(l.changes):], k.behind-l.behind
	if len(k.changes) == 0 {
		k.changes = nil
	}
	s.countLocked(k)
}

// any reports whether lists are kept.
func (s *lists) any() bool { return s.count.Load() > 0 }

// note notes that the entry at index has made the znode at path, or deleted it. The apply goroutine calls it, while
// nobody has a Present.
func (s *lists) note(path string, made bool, index uint64) {
	parent := schema.ParentOf(path)
	name := path[len(parent)+1:]
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.mu.byPath[parent]
	if k == nil {
		return
	}
	k.changed = index
	if k.behind++; k.behind > listChangesLeast+k.count/listChangesPart {
		s.outrunLocked(k)
		return
	}
	if made {
		k.changes = k.changes.Add(name)
		k.count++
	} else {
		k.changes = k.changes.Remove(name)
		k.count--
	}
	s.countLocked(k)
}

// outrunLocked drops a list that has changed too much before anybody took it. If nobody ever did, it is to be asked for
// more often before it is kept again.
func (s *lists) outrunLocked(k *keptList) {
	if !k.used {
		s.markLocked(k.path).hold()
	}
	s.dropLocked(k)
}

// markLocked returns the mark of a path.
func (s *lists) markLocked(path string) *listMark {
	hash := xxhash.Sum64String(path)
	m := &s.mu.marks[hash%listMarks]
	if m.hash != uint32(hash>>32) {
		*m = listMark{hash: uint32(hash >> 32), need: listAsked}
	}
	return m
}

// due counts one that asks, and reports whether the list is to be kept.
func (m *listMark) due() bool {
	if m.asked++; m.asked < max(m.need, 1) {
		return false
	}
	m.asked = 0
	return true
}

// hold has the list be asked for more often before it is kept.
func (m *listMark) hold() { m.need = uint8(min(2*int(m.need), listAskedMost)) }

// addLocked adds a list whose names are about to be read.
func (s *lists) addLocked(path string, index uint64, children int) *keptList {
	k := &keptList{path: strings.Clone(path), count: children, changed: index}
	s.mu.byPath[k.path] = k
	k.place = s.mu.order.PushFront(k)
	s.count.Add(1)
	s.countLocked(k)
	return k
}

// dropLocked forgets a list. Who has it goes on to read it.
func (s *lists) dropLocked(k *keptList) {
	delete(s.mu.byPath, k.path)
	s.mu.order.Remove(k.place)
	s.mu.bytes -= k.bytes
	s.count.Add(-1)
}

// countLocked counts what k takes, and drops what was not taken for the longest time until all fit.
func (s *lists) countLocked(k *keptList) {
	bytes := int64(keptListOverheadBytes + len(k.path) + cap(k.changes))
	if k.names != nil {
		bytes += int64(k.names.MemoryBytes())
	}
	s.mu.bytes += bytes - k.bytes
	k.bytes = bytes
	for s.mu.bytes > s.bytesMax {
		s.outrunLocked(s.mu.order.Back().Value.(*keptList))
	}
}

// makeRoom drops lists until so many bytes fit, but for k. Apply waits for no more than a few of them.
func (s *lists) makeRoom(bytes int64, k *keptList) {
	for fits := false; !fits; {
		s.mu.Lock()
		for range listDropsAtOnce {
			last := s.mu.order.Back()
			if fits = s.mu.bytes+bytes <= s.bytesMax || last == nil || last.Value == any(k); fits {
				break
			}
			s.outrunLocked(last.Value.(*keptList))
		}
		s.mu.Unlock()
	}
}

// clear forgets everything: the state is another.
func (s *lists) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.mu.byPath { // any order: all go
		s.dropLocked(k)
	}
	s.mu.marks = [listMarks]listMark{}
}

// figures adds what the lists say of themselves.
func (s *lists) figures(to *MachineMetrics) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to.Lists, to.ListBytes = int64(len(s.mu.byPath)), s.mu.bytes
	to.ListHits, to.ListMisses = s.mu.hits, s.mu.misses
}

// List returns what is kept of the children of a znode that is there and has so many. It must be closed, after what is
// to be kept was read from a View of the same moment.
func (p Present) List(path string, children int) List {
	return p.m.lists.take(path, p.m.mu.Position.Index, children, true)
}

// List returns what is kept of the children of a znode of the View that has so many. It need not be closed.
func (v View) List(path string, children int) List {
	return v.at.m.lists.take(path, v.at.pos.Index, children, false)
}

// Settle makes up for what has changed since the names were put together, and reports whether they are there: it costs
// no I/O, and time by the bytes and changes.
func (l *List) Settle() bool {
	if l.names != nil && len(l.changes) > 0 {
		names := l.names.With(l.changes)
		l.of.settled(l, names)
		l.names, l.changes = names, nil
	}
	if l.names == nil || l.names.Len() == l.count {
		return l.names != nil
	}
	if invariants.Enabled {
		invariants.Violated("a list of children has as many names as its znode says")
	}
	l.names = nil
	l.end()
	return false
}

// Bytes returns how many bytes a reply with the list takes, about; 0 if nothing is kept.
func (l *List) Bytes() int {
	if l.names == nil {
		return 0
	}
	return l.names.Bytes() + len(l.changes)
}

// Names returns the names of a List that is settled.
func (l *List) Names() *childlist.List { return l.names }

// Keep keeps the names, which were read from a View of the same moment, if they are wanted: encoded as replies have
// them, without their number.
func (l *List) Keep(encoded []byte) {
	if !l.reading {
		return
	}
	l.reading = false
	names := childlist.Of(encoded)
	s, k := l.of, l.kept
	bytes := int64(names.MemoryBytes())
	fits := bytes <= s.bytesMax-keptListOverheadBytes-int64(len(k.path))
	if fits {
		s.makeRoom(bytes, k)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.byPath[k.path] != k {
		return // it is not wanted any more
	}
	switch {
	case names.Len() != l.count: // the reading has ended early
		s.dropLocked(k)
		return
	case !fits: // all others would have to go for it, and it after them
		s.outrunLocked(k)
		return
	}
	k.names = names
	s.mu.order.MoveToFront(k.place)
	s.countLocked(k)
}

// Close ends a List, exactly once, and after Keep: if its names were to be kept and could not be read, somebody else is
// to try.
func (l *List) Close() {
	if l.reading {
		l.reading = false
		l.end()
	}
}

// end drops what is kept.
func (l *List) end() {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if l.of.mu.byPath[l.kept.path] == l.kept {
		l.of.dropLocked(l.kept)
	}
}
