package apply

import (
	"slices"
	"strings"

	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// overlay is the tree as an entry sees it: the state before the entry, and what the entry has done to znodes.
type overlay struct {
	store   Store
	changes *Changes // whose znodes are all that the entry has looked at
	err     error    // the first one of the store: ends the evaluation

	at       map[string]*change // the znodes of changes, by path
	slab     []change           // memory of changes
	slabUsed int
	// ephemerals are the znodes that the entry has made for sessions, in order; some may be gone again.
	ephemerals []*change
	// endedTo is, of sessions that are ending, behind which path their ephemerals begin. It saves a walk over those
	// that were deleted, and lives longer than an entry.
	endedTo map[jute.SessionID]string

	journal     []undo
	journalling bool // inside a multi
	epoch       int  // counts multis: a change is kept in the journal once for each

	names  nameFilter
	arena  arena
	keyBuf []byte
}

// change is what an entry knows and does about one znode.
type change struct {
	path string        // a view of the entry or of the arena
	base *schema.Znode // before the entry; nil if there was none
	cur  *schema.Znode // now; nil if there is none
	// own says that cur was made by this entry and, outside a multi, may be changed in place.
	own bool
	// dataChanged says that cur's data differs from base's.
	dataChanged bool
	epoch       int // the multi that has this change in the journal
}

// undo is how a change was before a multi touched it.
type undo struct {
	c    *change
	prev change
}

// changeSlab is the number of changes that are allocated at once.
const changeSlab = 256

// keptChangesMax is the size above which an entry's maps and slices are given back after it.
const keptChangesMax = 16 << 10

// init makes the overlay ready for its first entry.
func (o *overlay) init(store Store, changes *Changes) {
	o.store, o.changes = store, changes
	o.at = make(map[string]*change, changeSlab)
	o.slab = make([]change, changeSlab)
	o.endedTo = make(map[jute.SessionID]string)
}

// end forgets the entry.
func (o *overlay) end() {
	if len(o.changes.znodes) > keptChangesMax {
		o.at = make(map[string]*change, changeSlab)
		o.journal, o.ephemerals = nil, nil
		o.slab = make([]change, changeSlab)
	}
	clear(o.at)
	clear(o.slab)
	clear(o.ephemerals)
	clear(o.journal)
	o.slabUsed, o.ephemerals, o.journal = 0, o.ephemerals[:0], o.journal[:0]
	o.epoch, o.journalling = 0, false
	o.arena.reset()
	o.names.end()
}

// fail keeps the first error.
func (o *overlay) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

// look returns what is known about the znode at path, a view that stays good until the entry's end. After an error of
// the store it returns a change without znode; err then ends the entry.
func (o *overlay) look(path string) *change {
	if path == "" {
		path = schema.RootPath
	}
	if c, ok := o.at[path]; ok {
		return c
	}
	return o.newChange(path, o.read(path))
}

// lookChild is look for a path that is about to be made below parent.
func (o *overlay) lookChild(parent *change, path string) *change {
	c, ok := o.at[path]
	if o.names.absent(o, parent, path) && !ok {
		return o.newChange(path, nil)
	}
	if ok {
		return c
	}
	return o.look(path)
}

// read returns the znode at path before the entry, or nil.
func (o *overlay) read(path string) *schema.Znode {
	if path[0] != '/' {
		return nil
	}
	n, err := o.store.Znode(path)
	if err != nil {
		o.fail(err)
	}
	return n
}

// newChange returns the change of a path that the entry has not looked at yet, and that base is at.
func (o *overlay) newChange(path string, base *schema.Znode) *change {
	if o.slabUsed == len(o.slab) {
		o.slab, o.slabUsed = make([]change, changeSlab), 0
	}
	c := &o.slab[o.slabUsed]
	o.slabUsed++
	c.path, c.base, c.cur = path, base, base
	o.at[path] = c
	o.changes.znodes = append(o.changes.znodes, c)
	return c
}

// touch prepares c for a change: inside a multi its present state goes to the journal.
func (o *overlay) touch(c *change) {
	if o.journalling && c.epoch != o.epoch {
		o.journal = append(o.journal, undo{c, *c})
		c.epoch = o.epoch
		c.own = false
	}
}

// modify returns c's znode for changing it.
func (o *overlay) modify(c *change) *schema.Znode {
	o.touch(c)
	if !c.own {
		n := *c.cur
		c.cur, c.own = &n, true
	}
	return c.cur
}

// beginMulti has what follows go to the journal.
func (o *overlay) beginMulti() {
	o.epoch++
	o.journalling = true
}

// endMulti forgets the journal, and undoes what it holds if undone says so.
func (o *overlay) endMulti(undone bool) {
	o.journalling = false
	if undone {
		for i := len(o.journal) - 1; i >= 0; i-- {
			u := &o.journal[i]
			*u.c = u.prev
		}
	}
	clear(o.journal)
	o.journal = o.journal[:0]
}

// data returns the data of c's znode.
func (o *overlay) data(c *change) []byte {
	if c.cur.DataLoaded {
		return c.cur.Data
	}
	data, err := o.store.Data(c.cur)
	if err != nil {
		o.fail(err)
	}
	return data
}

// piece bounds a list of paths. 0: it is whole.
type piece struct{ paths, bytes int }

// full tells whether a list of so many paths, of so many bytes, is as long as it may be.
func (p piece) full(paths, bytes int) bool {
	return p.paths > 0 && paths >= p.paths || p.bytes > 0 && bytes >= p.bytes
}

// ephemeralsOf returns the paths of the session's ephemerals as the entry sees them, sorted; of a piece the first ones,
// at least one, and whether there are more.
func (o *overlay) ephemeralsOf(id jute.SessionID, most piece) (paths []string, more bool) {
	o.keyBuf = schema.AppendEphemeralKey(o.keyBuf[:0], id, "")
	upper := schema.PrefixEnd(o.keyBuf)
	if after := o.endedTo[id]; after != "" {
		o.keyBuf = append(schema.AppendEphemeralKey(o.keyBuf[:0], id, after), 0)
	}
	bytes := 0
	err := scan(o.store, o.keyBuf, upper, func(key, _ []byte) (bool, error) {
		path := key[schema.EphemeralPrefixBytes:]
		if c, ok := o.at[entry.ViewString(path)]; ok && (c.cur == nil || c.cur.Owner != id) {
			return true, nil
		}
		if more = most.full(len(paths), bytes); more {
			return false, nil
		}
		paths = append(paths, string(path))
		bytes += len(path)
		return true, nil
	})
	if err != nil {
		o.fail(err)
	}
	last := ""
	if len(paths) > 0 {
		last = paths[len(paths)-1]
	}
	for _, c := range o.ephemerals {
		made := c.cur != nil && c.cur.Owner == id && (c.base == nil || c.base.Owner != id)
		if made && (!more || c.path < last) {
			paths = append(paths, strings.Clone(c.path))
		}
	}
	slices.SortFunc(paths, strings.Compare)
	if paths = slices.Compact(paths); most.paths > 0 && len(paths) > most.paths {
		return paths[:most.paths], true
	}
	return paths, more
}

// arena is memory for strings and bytes that live as long as an entry.
type arena struct {
	chunk []byte
}

// arenaChunkBytes is the size of what an arena allocates at once.
const arenaChunkBytes = 64 << 10

// alloc returns n bytes with a capacity of n.
func (a *arena) alloc(n int) []byte {
	if cap(a.chunk)-len(a.chunk) < n {
		a.chunk = make([]byte, 0, max(n, arenaChunkBytes))
	}
	start := len(a.chunk)
	a.chunk = a.chunk[:start+n]
	return a.chunk[start : start+n : start+n]
}

// reset forgets all that was allocated.
func (a *arena) reset() {
	a.chunk = a.chunk[:0]
	if cap(a.chunk) > arenaChunkBytes {
		a.chunk = nil
	}
}
