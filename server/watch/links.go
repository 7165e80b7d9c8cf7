package watch

import (
	"encoding/binary"
	"log/slog"
	"strings"
	"unsafe"

	"zkd/storage/invariants"
)

// tableChains gives the indexes their way through the records; the mu of the table is held.
type (
	pathChains  struct{ t *Table }
	watchChains struct{ t *Table }
)

func (c pathChains) hashOf(id uint32) uint32  { return uint32(c.t.hashPath(c.t.mu.paths.at(id).name())) }
func (c pathChains) nextOf(id uint32) *uint32 { return &c.t.mu.paths.at(id).chain }

func (c watchChains) hashOf(id uint32) uint32 {
	r := c.t.mu.watches.at(id)
	return hashWatch(r.holder, r.path(), r.kind())
}
func (c watchChains) nextOf(id uint32) *uint32 { return &c.t.mu.watches.at(id).chain }

// newPath adds a record for a path that has none, with its own copy of the text.
func (t *Table) newPath(path string, hash uint64) uint32 {
	id := t.mu.paths.take()
	if id > pathsMax {
		invariants.Violated("fewer than 2^28 different paths are watched", slog.String("path", path))
	}
	var text *byte
	if len(path) < longPathBytes {
		text = unsafe.StringData(strings.Clone(path))
	} else {
		b := append(make([]byte, 0, len(path)+hashBytes), path...)
		text = unsafe.SliceData(binary.LittleEndian.AppendUint64(b, hash))
	}
	*t.mu.paths.at(id) = pathRecord{text: text, bytes: uint32(len(path))}
	t.mu.pathIndex.insert(id, uint32(hash), pathChains{t})
	t.watched.Add(1)
	t.mu.bytes += len(path)
	return id
}

// link makes a new watch and puts it into its three lists.
func (t *Table) link(h *Holder, path uint32, k kind, m mode) {
	id := t.mu.watches.take()
	r := t.mu.watches.at(id)
	*r = watchRecord{word: path | uint32(k) | uint32(m), holder: h.number}
	t.mu.watchIndex.insert(id, hashWatch(h.number, path, k), watchChains{t})
	r.nextHeld = h.first
	if h.first != 0 {
		t.mu.watches.at(h.first).prevHeld = id
	}
	h.first = id
	h.bytes += recordBytes + int(t.mu.paths.at(path).bytes)
	t.mu.bytes += recordBytes
	if k == dataKind {
		h.data++
		t.mu.dataCount++
		if t.mu.paths.at(path).data == 0 {
			t.mu.dataPaths++
		}
	} else {
		h.child++
		t.mu.childCount++
	}
	if m&recursive != 0 {
		t.recursive.Add(1)
	}
	t.enlist(id, r)
}

// unlink ends a watch, and the record of its path if that was its last.
func (t *Table) unlink(id uint32) {
	r := t.mu.watches.at(id)
	path, k := r.path(), r.kind()
	h := *t.mu.holders.at(r.holder)
	t.delist(id, r)
	t.mu.watchIndex.remove(id, hashWatch(r.holder, path, k), watchChains{t})
	if r.nextHeld != 0 {
		t.mu.watches.at(r.nextHeld).prevHeld = r.prevHeld
	}
	if r.prevHeld != 0 {
		t.mu.watches.at(r.prevHeld).nextHeld = r.nextHeld
	} else {
		h.first = r.nextHeld
	}
	if r.modes()&recursive != 0 {
		t.recursive.Add(-1)
	}
	p := t.mu.paths.at(path)
	h.bytes -= recordBytes + int(p.bytes)
	t.mu.bytes -= recordBytes
	if k == dataKind {
		h.data--
		t.mu.dataCount--
		if p.data == 0 {
			t.mu.dataPaths--
		}
	} else {
		h.child--
		t.mu.childCount--
	}
	t.mu.watches.release(id)
	if p.data == 0 && p.child == 0 {
		t.mu.bytes -= int(p.bytes)
		t.mu.pathIndex.remove(path, uint32(t.hashPath(p.name())), pathChains{t})
		t.watched.Add(-1)
		t.mu.paths.release(path)
	}
}

// enlist puts a watch into the list of its path: in front if it is recursive, so that a walk over the ancestors stops
// at the first that is not, else at the end.
func (t *Table) enlist(id uint32, r *watchRecord) {
	head := t.mu.paths.at(r.path()).list(r.kind())
	if *head == 0 {
		r.next, r.prev = 0, id
		*head = id
		return
	}
	first := t.mu.watches.at(*head)
	last := first.prev
	if r.modes()&recursive != 0 {
		r.next, r.prev = *head, last
		first.prev = id
		*head = id
		return
	}
	r.next, r.prev = 0, last
	t.mu.watches.at(last).next = id
	first.prev = id
}

// delist takes a watch out of the list of its path.
func (t *Table) delist(id uint32, r *watchRecord) {
	head := t.mu.paths.at(r.path()).list(r.kind())
	switch {
	case *head == id && r.next == 0:
		*head = 0
		return
	case *head == id:
		*head = r.next
		t.mu.watches.at(r.next).prev = r.prev
		return
	case r.next == 0:
		t.mu.watches.at(*head).prev = r.prev
	default:
		t.mu.watches.at(r.next).prev = r.prev
	}
	t.mu.watches.at(r.prev).next = r.next
}

// setModes changes the modes of a watch, which may move it within the list of its path; no modes end it.
func (t *Table) setModes(id uint32, m mode) {
	if m == 0 {
		t.unlink(id)
		return
	}
	r := t.mu.watches.at(id)
	was := r.modes()
	moves := (was^m)&recursive != 0
	if moves {
		t.delist(id, r)
	}
	r.word = r.word&^uint32(anyMode) | uint32(m)
	if !moves {
		return
	}
	if m&recursive != 0 {
		t.recursive.Add(1)
	} else {
		t.recursive.Add(-1)
	}
	t.enlist(id, r)
}

// drop takes modes from a watch and reports whether it had any of them.
func (t *Table) drop(h *Holder, path uint32, k kind, m mode) bool {
	id := t.findWatch(h.number, path, k)
	if id == 0 {
		return false
	}
	was := t.mu.watches.at(id).modes()
	if was&m == 0 {
		return false
	}
	t.setModes(id, was&^m)
	if k == dataKind && h.data == 0 {
		t.unlist(h)
	}
	return true
}

// dropBoth is drop in both tables. The path's record goes with its last watch, so the child table comes first only if
// the data table keeps it.
func (t *Table) dropBoth(h *Holder, path uint32, m mode) bool {
	name := t.mu.paths.at(path).name()
	hash := t.hashPath(name)
	dropped := t.drop(h, path, childKind, m)
	if path = t.findPath(name, hash); path == 0 {
		return dropped
	}
	return t.drop(h, path, dataKind, m) || dropped
}

// unlist takes h out of the count of watching connections.
func (t *Table) unlist(h *Holder) {
	if h.listed {
		h.listed = false
		t.mu.listed--
	}
}
