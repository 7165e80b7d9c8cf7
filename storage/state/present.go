package state

import (
	"fmt"
	"strings"

	"zkd/jute"
	"zkd/storage/schema"
)

// Present is the present state, under a shared lock that Apply waits for: it shows what is in memory alone, so that
// nobody waits for a disk. Take it, do what must come between two entries, and close it, or have it give the lock up
// for a View of the same moment. A Present is for one goroutine, which opens nothing else meanwhile.
type Present struct{ m *Machine }

// Present takes the lock.
func (m *Machine) Present() Present {
	m.mu.RLock()
	return Present{m}
}

// Look takes the lock with the znode at path, whose data may be missing; false if there is none. A znode that is not in
// the cache is read before the lock is taken. It allocates nothing if the znode is in the cache.
//
// Paths are taken as they come: one that no znode can have is a znode that does not exist. The empty path is the root.
func (m *Machine) Look(path string) (Present, Node, bool) {
	n := m.look(path, false)
	return Present{m}, Node{n}, n != nil
}

// LookData is Look with the znode's data.
func (m *Machine) LookData(path string) (Present, Node, bool) {
	n := m.look(path, true)
	return Present{m}, Node{n}, n != nil
}

// LookChildren is Look for who will ask for the List of the children, which needs little time then.
func (m *Machine) LookChildren(path string) (Present, Node, bool) {
	m.lists.catchUp(path)
	return m.Look(path)
}

// LookAll takes the lock with the znodes at all paths, whose data may be missing. It adds one to dst for each path:
// Found says whether there is one. The lock is held for the look-ups in memory, so the caller bounds their number.
func (m *Machine) LookAll(paths []string, dst []Node) (Present, []Node) {
	found := make([]uncachedRead, len(paths))
	var cold []int
	for {
		cold = cold[:0]
		m.mu.RLock()
		for i, path := range paths {
			c := &found[i]
			if path == "" {
				path = schema.RootPath
			}
			n, known := m.cache.look(path)
			if !known && path[0] == '/' {
				if n, known = m.settleLocked(c, path, false); !known {
					cold = append(cold, i)
					continue
				}
			}
			c.n = n
		}
		if len(cold) == 0 {
			for i := range found {
				dst = append(dst, Node{found[i].n})
			}
			return Present{m}, dst
		}
		m.mu.RUnlock()
		m.readAllUncached(paths, cold, found)
	}
}

// readAllUncached reads those of the znodes at paths from the store, as it is at one moment: one iterator is made for
// all, which for a path that is not there mostly asks the filters of the tables alone.
func (m *Machine) readAllUncached(paths []string, which []int, found []uncachedRead) {
	v := m.View()
	defer v.Close()
	c := uncachedRead{done: true, generation: m.generation.Load(), index: v.at.pos.Index}
	for _, i := range which {
		path := paths[i]
		if path == "" {
			path = schema.RootPath
		}
		c.n, c.err = v.at.stored(path)
		found[i] = c
	}
}

// Close gives the lock back.
func (p Present) Close() { p.m.mu.RUnlock() }

// Err returns an error if the store could not be read: what was shown must not be used.
func (p Present) Err() error { return p.m.err() }

// Zxid returns the zxid of the last write.
func (p Present) Zxid() jute.Zxid { return p.m.mu.Position.Zxid }

// LoadedZxid returns the zxid with which a load has replaced the state last; 0 if none has. What a client has seen
// before is of another tree, whatever the Stats of both say.
func (p Present) LoadedZxid() jute.Zxid { return p.m.mu.Loaded }

// SessionCount returns the number of sessions.
func (p Present) SessionCount() int { return len(p.m.mu.Sessions) }

// Session returns a session, and whether there is one.
func (p Present) Session(id jute.SessionID) (info schema.SessionInfo, ok bool) {
	if s := p.m.mu.Sessions[id]; s != nil {
		return *s, true
	}
	return info, false
}

// Sessions calls f with every session, in no order. Apply waits for all of it.
func (p Present) Sessions(f func(schema.SessionInfo)) {
	for _, info := range p.m.mu.Sessions { // any order: the caller is told so
		f(*info)
	}
}

// look takes the lock with the znode at path in memory, and with its data if data is set; nil if there is none, or if
// the store cannot be read.
func (m *Machine) look(path string, data bool) *schema.Znode {
	if path == "" {
		path = schema.RootPath
	}
	m.mu.RLock()
	if n, known := m.cache.look(path); known && (n == nil || n.DataLoaded || !data) {
		return n
	}
	if path[0] != '/' {
		return nil
	}
	return m.lookUncached(path, data)
}

// lookUncached is look for a znode that is not in the cache. The lock is held when it is called.
//
// It reads the store without the lock, and takes what it has read if nothing has changed it meanwhile. Otherwise it
// tries again: what was changed is in the cache now, or in the memtable, where it is read fast. So each new try means
// that others have got on.
func (m *Machine) lookUncached(path string, data bool) *schema.Znode {
	for {
		m.mu.RUnlock()
		c := m.readUncached(path, data)
		m.mu.RLock()
		if n, known := m.settleLocked(&c, path, data); known {
			return n
		}
	}
}

// uncachedRead is what was read of a znode without the lock, not before the entry at index was published.
type uncachedRead struct {
	n          *schema.Znode
	err        error
	done       bool
	index      uint64
	generation uint64
}

// readUncached reads the znode at path from the store as it happens to be.
func (m *Machine) readUncached(path string, data bool) uncachedRead {
	c := uncachedRead{done: true, generation: m.generation.Load(), index: m.applied.Load()}
	m.reading.RLock()
	defer m.reading.RUnlock()
	c.n, c.err = m.store.node(path)
	if c.n != nil && data && !c.n.DataLoaded {
		// Header and data may be of different moments: then the path has changed.
		full, err := m.store.withData(c.n)
		if c.err = err; err == nil {
			c.n = full
		}
	}
	return c
}

// settleLocked decides what c is worth under the lock: known says that n is the znode at path at present.
func (m *Machine) settleLocked(c *uncachedRead, path string, data bool) (n *schema.Znode, known bool) {
	if !c.done {
		return nil, false
	}
	index := m.mu.Position.Index
	if c.generation == m.generation.Load() && !m.cache.changed(path, c.index) {
		if c.err != nil {
			m.fail(c.err)
			return nil, true
		}
		if c.n != nil {
			m.cache.fill(c.n, index)
		}
		return c.n, true
	}
	n, known = m.cache.look(path)
	switch {
	case n == nil || n.DataLoaded || !data:
		return n, known
	case c.err != nil || c.n == nil || !sameData(c.n, n):
		return nil, false
	}
	full := *n
	full.Data, full.DataLoaded = c.n.Data, true
	m.cache.fill(&full, index)
	return &full, true
}

// sameData reports whether n, whose header and then data were read, has the data of later. A parent of znodes that come
// and go changes all the time, and its data does not. Only the stats of quotas change their data without a sign.
func sameData(n, later *schema.Znode) bool {
	return n.DataLoaded && n.Czxid == later.Czxid && n.Mzxid == later.Mzxid && n.DataLen == later.DataLen &&
		n.CRC == later.CRC && !strings.HasPrefix(n.Path, schema.QuotaPrefix)
}

// View shows the state of now.
func (m *Machine) View() View { return m.Present().View() }

// View gives the lock back and goes on to show the same state.
func (p Present) View() View {
	v := View{p.m.readViewLocked()}
	p.m.mu.RUnlock()
	return v
}

// readViewLocked takes the present moment. The caller holds mu, shared.
func (m *Machine) readViewLocked() *readView {
	a := readViews.Get().(*readView)
	a.m, a.pos, a.ensemble, a.loaded = m, m.mu.Position, m.mu.Ensemble, m.mu.Loaded
	a.sessions = len(m.mu.Sessions)
	m.reading.RLock() // waits for nobody: Install holds mu before it takes it
	if err := m.store.usable(); err != nil {
		m.fail(err)
		return a
	}
	it, err := m.store.db.NewIter(&readViewOptions)
	if err != nil {
		m.fail(fmt.Errorf("read state store %s: %w", m.store.dir, err))
		return a
	}
	a.it = it
	return a
}
