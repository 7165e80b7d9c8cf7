package watch

import (
	"slices"

	"zkd/jute"
)

// Audience is who hears of a change, in order.
type Audience struct {
	// Number is that of an audience which stays: while the table remembers, one of the same number is the same
	// watchers. 0: it is valid until the next change alone.
	Number  int
	holders []*Holder
}

// Len is how many watchers there are.
func (a *Audience) Len() int { return len(a.holders) }

// At returns one of them.
func (a *Audience) At(i int) Watcher { return a.holders[i].watcher }

// or is a, or b if a is nil.
func (a *Audience) or(b *Audience) *Audience {
	if a == nil {
		return b
	}
	return a
}

// remembered is who hears of changes that come again and again in one write. So many changes of a znode before many
// watchers cost one search, and one look at who may hear of it.
type remembered struct {
	of      map[change]known // nil: nothing is remembered
	last    [jute.EventNodeChildrenChanged + 1]*Audience
	number  int    // of the newest audience
	holders int    // of all audiences of of
	added   uint64 // the table's, when they were found
}

// change is what happens to a path, by its hash.
type change struct {
	hash uint64
	typ  jute.EventType
}

// known is who hears of a change.
type known struct {
	path     string
	acl      *jute.ACL // the first of the list that says who may
	entries  int       // of it
	found    foundCounts
	audience *Audience
}

// Bounds of what is remembered: guesses, 100 and 512 KiB.
const (
	changesKept = 1 << 10
	holdersKept = 1 << 16
)

// Remember begins a write of many changes: the table may remember who hears of them until Forget. It is for the
// goroutine that fires. Who registers meanwhile is heard of; who removes a watch, proves an identity or leaves may be
// taken to have done so behind the write.
func (t *Table) Remember() { t.firing.remembered.of = make(map[change]known) }

// Forget ends what Remember has begun.
func (t *Table) Forget() {
	t.firing.remembered = remembered{}
	t.firing.drop()
}

// recall returns who hears of a change, nil if that is not remembered.
func (m *remembered) recall(of change, ev *Event, added uint64) (*Audience, foundCounts) {
	if len(m.of) == 0 {
		m.added = added
		return nil, foundCounts{}
	}
	if m.added != added {
		clear(m.of)
		m.holders, m.added = 0, added
		return nil, foundCounts{}
	}
	k, ok := m.of[of]
	if !ok || k.entries != len(ev.ACL) || k.entries > 0 && k.acl != &ev.ACL[0] || k.path != ev.Path {
		return nil, foundCounts{}
	}
	return k.audience, k.found
}

// keep remembers that these hear of a change.
func (m *remembered) keep(of change, ev *Event, holders []*Holder, found foundCounts) *Audience {
	if len(m.of) >= changesKept || m.holders > holdersKept {
		clear(m.of)
		m.holders = 0
	}
	a := m.last[ev.Type]
	if a == nil || !slices.Equal(a.holders, holders) {
		m.number++
		a = &Audience{Number: m.number, holders: slices.Clone(holders)}
		m.last[ev.Type] = a
		m.holders += len(holders)
	}
	k := known{path: ev.Path, entries: len(ev.ACL), found: found, audience: a}
	if k.entries > 0 {
		k.acl = &ev.ACL[0]
	}
	m.of[of] = k
	return a
}
