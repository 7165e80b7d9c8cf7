package storage

import (
	"bytes"
	"encoding/binary"
	"strings"

	"zkd/jute"
)

// View shows one consistent state: that after some entry. It holds a shared lock that Apply waits for: read, Close,
// and only then write to a client. A View is for one goroutine and must be closed exactly once.
//
// Paths are taken as they come: one that no znode can have is a znode that does not exist. The empty path is the
// root.
type View struct{ m *Machine }

// Node is one znode in a View. What it returns is immutable and may be kept.
type Node struct{ n *znode }

// View takes the lock and shows the present state.
func (m *Machine) View() View {
	m.mu.RLock()
	return View{m}
}

// Close gives the lock back.
func (v View) Close() { v.m.mu.RUnlock() }

// Err returns an error if the store could not be read: what this View has shown must not be used.
func (v View) Err() error { return v.m.err() }

// Stat returns the Stat that clients see.
func (n Node) Stat() jute.Stat { return n.n.stat() }

// Data returns the data; nil if it is null, or if the Node is from Exists.
func (n Node) Data() []byte { return n.n.data }

// ACL returns the ACL list.
func (n Node) ACL() []jute.ACL { return n.n.acl }

// Exists returns the znode at path, whose data may be missing. It allocates nothing if the znode is in the cache.
func (v View) Exists(path string) (Node, bool) {
	n := v.node(path)
	return Node{n}, n != nil
}

// Get returns the znode at path with its data. It allocates nothing if the znode is in the cache.
func (v View) Get(path string) (Node, bool) {
	n := v.node(path)
	if n == nil {
		return Node{}, false
	}
	if !n.dataLoaded {
		full, err := v.m.store.withData(n)
		if err != nil {
			v.m.fail(err)
			return Node{}, false
		}
		v.m.cache.put(full)
		n = full
	}
	return Node{n}, true
}

// node returns the znode at path, or nil.
func (v View) node(path string) *znode {
	if path == "" {
		path = rootPath
	}
	if n := v.m.cache.get(path); n != nil {
		return n
	}
	if path[0] != '/' {
		return nil
	}
	n, err := v.m.store.node(path)
	if err != nil {
		v.m.fail(err)
		return nil
	}
	if n != nil {
		v.m.cache.put(n)
	}
	return n
}

// Children adds the names of the children of path to dst, sorted by their bytes; false if there is no such znode. It
// reads the headers of all of them.
func (v View) Children(path string, dst []string) ([]string, bool) {
	if path == "" {
		path = rootPath
	}
	n := v.node(path)
	if n == nil {
		return dst, false
	}
	if n.children == 0 {
		return dst, true
	}
	prefix := appendChildrenPrefix(make([]byte, 0, 64), path)
	dst = growStrings(dst, int(n.children))
	names := nameBuffer{left: int(n.children)}
	err := v.m.store.scan(prefix, func(key, _ []byte) (bool, error) {
		if name := key[len(prefix):]; len(name) > 0 { // the root's own key has no name
			dst = append(dst, names.add(name))
		}
		return true, nil
	})
	if err != nil {
		v.m.fail(err)
		return dst, false
	}
	return dst, true
}

// growStrings returns dst with room for n more.
func growStrings(dst []string, n int) []string {
	if cap(dst)-len(dst) >= n {
		return dst
	}
	return append(make([]string, 0, len(dst)+n), dst...)
}

// nameBuffer copies many short names into few allocations.
type nameBuffer struct {
	buf  []byte
	left int // names to come, about
}

// add returns name in memory of its own.
func (b *nameBuffer) add(name []byte) string {
	if cap(b.buf)-len(b.buf) < len(name) {
		b.buf = make([]byte, 0, max(len(name), min(b.left*len(name), 32<<10)))
	}
	b.left--
	start := len(b.buf)
	b.buf = append(b.buf, name...)
	return viewString(b.buf[start:])
}

// EphemeralsOf adds the paths of the session's ephemerals that begin with prefix to dst, sorted.
func (v View) EphemeralsOf(id jute.SessionID, prefix string, dst []string) []string {
	key := appendEphemeralKey(make([]byte, 0, 64), id, prefix)
	upper := append(appendEphemeralKey(nil, id, ""), 0xff) // paths begin with '/'
	err := v.m.store.scanRange(key, upper, func(key, _ []byte) (bool, error) {
		path := string(key[ephemeralPrefixBytes:])
		if !strings.HasPrefix(path, prefix) {
			return false, nil
		}
		dst = append(dst, path)
		return true, nil
	})
	if err != nil {
		v.m.fail(err)
	}
	return dst
}

// Ephemerals calls f with each ephemeral znode, sorted by session and path.
func (v View) Ephemerals(f func(id jute.SessionID, path string)) {
	err := v.m.store.scan([]byte{kindEphemeral}, func(key, _ []byte) (bool, error) {
		f(jute.SessionID(binary.BigEndian.Uint64(key[1:])), string(key[ephemeralPrefixBytes:]))
		return true, nil
	})
	if err != nil {
		v.m.fail(err)
	}
}

// Descendants counts the znodes below Path, at any depth (DataTree.getAllChildrenNumber): View.Count counts on until it
// says that it is done.
type Descendants struct {
	Path string
	N    int // so far

	from []byte // key at which to go on; nil: at the beginning
}

// Count adds at most most znodes to d.N and tells whether that was the last of them. The number is known at once for
// the root, for znodes without children and for those that do not exist; others are read over, a piece in each View,
// so that a large tree holds up no commit. Like ZooKeeper's, such a number is of no single moment.
func (v View) Count(d *Descendants, most int) (done bool) {
	if d.from == nil {
		switch n := v.node(d.Path); {
		case n == nil || n.children == 0:
			return true
		case n.path == rootPath:
			d.N = int(v.m.mu.pos.nodes) - 1
			return true
		}
	}
	from := d.from
	d.from = nil
	err := v.m.store.descendantsFrom(d.Path, from, func(key, _ []byte) (bool, error) {
		if most == 0 {
			d.from = bytes.Clone(key)
			return false, nil
		}
		most--
		d.N++
		return true, nil
	})
	if err != nil {
		v.m.fail(err)
		return true
	}
	return d.from == nil
}

// Session returns the session with this id.
func (v View) Session(id jute.SessionID) (SessionInfo, bool) {
	info := v.m.mu.sessions[id]
	if info == nil {
		return SessionInfo{}, false
	}
	return *info, true
}

// Sessions calls f with every session, in no order.
func (v View) Sessions(f func(SessionInfo)) {
	for _, info := range v.m.mu.sessions { // any order: the caller is told so
		f(*info)
	}
}

// SessionCount returns the number of sessions.
func (v View) SessionCount() int { return len(v.m.mu.sessions) }

// Zxid returns the zxid of the last write that the View shows.
func (v View) Zxid() jute.Zxid { return v.m.mu.pos.zxid }

// RestoredZxid returns the zxid with which a restore has replaced the state last; 0 if none has. What a client has seen
// before is of another tree, whatever the Stats of both say.
func (v View) RestoredZxid() jute.Zxid { return v.m.mu.restored }

// ClusterID returns the id of the ensemble that the state belongs to; zero if none was founded.
func (v View) ClusterID() ClusterID { return v.m.mu.ensemble.clusterID() }

// EnsembleConfig returns the text of the ensemble's configuration; "" if none was founded.
func (v View) EnsembleConfig() string { return v.m.mu.ensemble.configText() }

// AppliedIndex returns the index of the last entry that the View shows.
func (v View) AppliedIndex() uint64 { return v.m.mu.pos.index }

// NodeCount returns the number of znodes, the root counted once.
func (v View) NodeCount() int { return int(v.m.mu.pos.nodes) }

// EphemeralCount returns the number of znodes that belong to sessions.
func (v View) EphemeralCount() int { return int(v.m.mu.pos.ephemerals) }

// ApproximateDataBytes returns the bytes of all paths and data (DataTree.cachedApproximateDataSize).
func (v View) ApproximateDataBytes() int64 { return v.m.mu.pos.dataBytes }

// Digest returns the digest of the tree as version 2 of ZooKeeper's counts it: the sum over all znodes outside
// /zookeeper/.
func (v View) Digest() uint64 { return v.m.mu.pos.digest }

// ExpiryLimits bounds a search for znodes that may go away.
type ExpiryLimits struct {
	Max int // candidates
	// NeverUsedMillis lets containers that never had a child go when their mtime is older
	// (znode.container.maxNeverUsedIntervalMs); 0 keeps them.
	NeverUsedMillis jute.Millis
}

// Expiring calls f with the paths of containers and TTL znodes whose time has come at now
// (org.apache.zookeeper.server.ContainerManager.getCandidates): TTL znodes first, the longest overdue before the
// others. It reads little more than it finds.
func (v View) Expiring(now jute.Millis, limits ExpiryLimits, f func(path string)) {
	left := limits.Max
	upper := binary.BigEndian.AppendUint64([]byte{kindExpiry, expiryTTL}, uint64(now))
	err := v.m.store.scanRange([]byte{kindExpiry, expiryTTL}, upper, func(key, _ []byte) (bool, error) {
		if left--; left < 0 {
			return false, nil
		}
		f(string(key[expiryTTLPrefixBytes:]))
		return true, nil
	})
	if err == nil && left > 0 {
		err = v.m.store.scan([]byte{kindExpiry, expiryContainer}, func(key, _ []byte) (bool, error) {
			path := string(key[2:])
			n := v.node(path)
			unused := n != nil && n.creations == 0 && (limits.NeverUsedMillis == 0 ||
				now-n.mtime <= limits.NeverUsedMillis)
			if n != nil && !unused {
				f(path)
				left--
			}
			return left > 0, nil
		})
	}
	if err != nil {
		v.m.fail(err)
	}
}
