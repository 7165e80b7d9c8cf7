package state

import (
	"bytes"
	"encoding/binary"
	"errors"

	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// View shows one consistent state: that after some entry. It holds no lock that Apply or other readers wait for, so it
// may read as much as it likes, from a slow disk too; only Install waits for its end. It keeps what it shows from being
// removed from memory and disk, so it must be closed, exactly once, and soon. A View is for one goroutine, which opens
// no Present and no second View meanwhile.
//
// Paths are taken as they come: one that no znode can have is a znode that does not exist. The empty path is the
// root.
type View struct{ at *readView }

// Node is one znode. What it returns is immutable and may be kept.
type Node struct{ n *schema.Znode }

// Close ends the View.
func (v View) Close() { v.at.close() }

// Pace has f called each time that scans of the View have read ScanPace keys: f may wait, and let others have their
// turn. If it returns false, the scan ends before its end, which only f knows.
func (v View) Pace(f func() bool) { v.at.pace = f }

// Err returns an error if the store could not be read: what this View has shown must not be used.
func (v View) Err() error { return v.at.m.err() }

// note takes note of what a scan has ended with.
func (v View) note(err error) {
	if err != nil && !errors.Is(err, errStopped) {
		v.at.m.fail(err)
	}
}

// Found reports whether there is such a znode.
func (n Node) Found() bool { return n.n != nil }

// Stat returns the Stat that clients see.
func (n Node) Stat() jute.Stat { return n.n.Stat() }

// Data returns the data; nil if it is null, or if the Node is from Exists.
func (n Node) Data() []byte { return n.n.Data }

// ACL returns the ACL list.
func (n Node) ACL() []jute.ACL { return n.n.ACL }

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
	n, err := v.at.withData(n)
	if err != nil {
		v.at.m.fail(err)
		return Node{}, false
	}
	return Node{n}, true
}

// node returns the znode at path, or nil.
func (v View) node(path string) *schema.Znode {
	if path == "" {
		path = schema.RootPath
	}
	if path[0] != '/' {
		return nil
	}
	n, err := v.at.node(path)
	if err != nil {
		v.at.m.fail(err)
		return nil
	}
	return n
}

// Children adds the names of the children of path to dst, sorted by their bytes; false if there is no such znode. It
// reads the headers of all of them.
func (v View) Children(path string, dst []string) ([]string, bool) {
	if path == "" {
		path = schema.RootPath
	}
	n := v.node(path)
	if n == nil {
		return dst, false
	}
	if n.Children == 0 {
		return dst, true
	}
	dst = growStrings(dst, int(n.Children))
	names := nameBuffer{left: int(n.Children)}
	return dst, v.EachChild(path, int(n.Children), func(name []byte) { dst = append(dst, names.add(name)) })
}

// EachChild calls f with the name of each child of path, a znode of the View that has so many, sorted by their bytes;
// false if they could not be read. Names are valid during the call. It ends with the last one: what is deleted behind
// it, and not compacted yet, is not stepped over.
func (v View) EachChild(path string, children int, f func(name []byte)) bool {
	if children == 0 {
		return true
	}
	if path == "" {
		path = schema.RootPath
	}
	prefix := schema.AppendChildrenPrefix(make([]byte, 0, 64), path)
	defer v.at.bury(path, children)()
	err := v.at.scan(prefix, func(key, _ []byte) (bool, error) {
		if name := key[len(prefix):]; len(name) > 0 { // the root's own key has no name
			f(name)
			children--
		}
		return children > 0, nil
	})
	v.note(err)
	return err == nil
}

// ListKeys returns about how many keys EachChild would read of path, a znode of the View that has so many children:
// those, and what was deleted among them, as far as an earlier list has met it.
func (v View) ListKeys(path string, children int) int {
	return children + int(v.at.m.buried.of(path).Load())
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
	return entry.ViewString(b.buf[start:])
}

// EphemeralsOf adds the paths of the session's ephemerals that begin with prefix to dst, sorted.
func (v View) EphemeralsOf(id jute.SessionID, prefix string, dst []string) []string {
	v.EachEphemeralOf(id, prefix, func(path []byte) { dst = append(dst, string(path)) })
	return dst
}

// EachEphemeralOf calls f with the path of each of the session's ephemerals that begins with prefix, sorted. It is
// valid during the call.
func (v View) EachEphemeralOf(id jute.SessionID, prefix string, f func(path []byte)) {
	key := schema.AppendEphemeralKey(make([]byte, 0, 64), id, prefix)
	upper := append(schema.AppendEphemeralKey(nil, id, ""), 0xff) // paths begin with '/'
	v.note(v.at.scanRange(key, upper, func(key, _ []byte) (bool, error) {
		path := key[schema.EphemeralPrefixBytes:]
		if !bytes.HasPrefix(path, []byte(prefix)) {
			return false, nil
		}
		f(path)
		return true, nil
	}))
}

// Ephemerals calls f with each ephemeral znode, sorted by session and path.
func (v View) Ephemerals(f func(id jute.SessionID, path string)) {
	err := v.at.scan([]byte{schema.KindEphemeral}, func(key, _ []byte) (bool, error) {
		f(jute.SessionID(binary.BigEndian.Uint64(key[1:])), string(key[schema.EphemeralPrefixBytes:]))
		return true, nil
	})
	v.note(err)
}

// CountBelow returns the number of znodes below path, at any depth (DataTree.getAllChildrenNumber). It is known at once
// for the root, for znodes without children and for those that do not exist; others are read over.
func (v View) CountBelow(path string) (count int) {
	switch n := v.node(path); {
	case n == nil || n.Children == 0:
		return 0
	case n.Path == schema.RootPath:
		return int(v.at.pos.Nodes) - 1
	}
	for _, keys := range schema.Below(path) {
		v.note(v.at.scanRange(keys.Lower, keys.Upper, func(_, _ []byte) (bool, error) {
			count++
			return true, nil
		}))
	}
	return count
}

// Session returns the session with this id.
func (v View) Session(id jute.SessionID) (info schema.SessionInfo, ok bool) {
	v.eachSession(schema.AppendSessionKey(nil, id), func(found schema.SessionInfo) { info, ok = found, true })
	return info, ok
}

// Sessions calls f with every session, in the order of their ids as unsigned numbers.
func (v View) Sessions(f func(schema.SessionInfo)) { v.eachSession([]byte{schema.KindSession}, f) }

// eachSession calls f with every session whose key begins with prefix.
func (v View) eachSession(prefix []byte, f func(schema.SessionInfo)) {
	err := v.at.scan(prefix, func(key, value []byte) (bool, error) {
		info, err := schema.DecodeSession(key, value)
		if err == nil {
			f(*info)
		}
		return true, err
	})
	v.note(err)
}

// SessionCount returns the number of sessions.
func (v View) SessionCount() int { return v.at.sessions }

// Zxid returns the zxid of the last write that the View shows.
func (v View) Zxid() jute.Zxid { return v.at.pos.Zxid }

// LoadedZxid returns the zxid with which a load has replaced the state last; 0 if none has. What a client has seen
// before is of another tree, whatever the Stats of both say.
func (v View) LoadedZxid() jute.Zxid { return v.at.loaded }

// ClusterID returns the id of the ensemble that the state belongs to; zero if none was founded.
func (v View) ClusterID() entry.ClusterID { return v.at.ensemble.ClusterID() }

// EnsembleConfig returns the text of the ensemble's configuration; "" if none was founded.
func (v View) EnsembleConfig() string { return v.at.ensemble.ConfigText() }

// AppliedIndex returns the index of the last entry that the View shows.
func (v View) AppliedIndex() uint64 { return v.at.pos.Index }

// NodeCount returns the number of znodes, the root counted once.
func (v View) NodeCount() int { return int(v.at.pos.Nodes) }

// EphemeralCount returns the number of znodes that belong to sessions.
func (v View) EphemeralCount() int { return int(v.at.pos.Ephemerals) }

// ApproximateDataBytes returns the bytes of all paths and data (DataTree.cachedApproximateDataSize).
func (v View) ApproximateDataBytes() int64 { return v.at.pos.DataBytes }

// Digest returns the digest of the tree as version 2 of ZooKeeper's counts it: the sum over all znodes outside
// /zookeeper/.
func (v View) Digest() uint64 { return v.at.pos.Digest }

// ExpiryLimits bounds a search for znodes that may go away.
type ExpiryLimits struct {
	Max        int // candidates
	Containers int // that one View looks at, candidates or not; 0: all
	// NeverUsedMillis lets containers that never had a child go when their mtime is older
	// (znode.container.maxNeverUsedIntervalMs); 0 keeps them.
	NeverUsedMillis jute.Millis
}

// Expiring calls f with the paths of containers and TTL znodes whose time has come at now
// (org.apache.zookeeper.server.ContainerManager.getCandidates): TTL znodes first, the longest overdue before the
// others, then containers behind the path after; "" begins. next is where a later View is to go on, "" at the end.
//
// Of TTL znodes it reads what it finds. Of containers it reads those without children that it must not take, too:
// there may be any number of them that were never used.
func (v View) Expiring(now jute.Millis, limits ExpiryLimits, after string, f func(path string)) (next string) {
	left := limits.Max
	var err error
	if after == "" {
		upper := binary.BigEndian.AppendUint64([]byte{schema.KindExpiry, schema.ExpiryTTL}, uint64(now))
		err = v.at.scanRange([]byte{schema.KindExpiry, schema.ExpiryTTL}, upper, func(key, _ []byte) (bool, error) {
			if left--; left < 0 {
				return false, nil
			}
			f(string(key[schema.ExpiryTTLPrefixBytes:]))
			return true, nil
		})
	}
	if err == nil && left > 0 {
		limits.Max = left
		next, err = v.at.expiringContainers(now, limits, after, f)
	}
	v.note(err)
	return next
}

// expiringContainers calls f with the containers that may go, behind the path after.
func (a *readView) expiringContainers(now jute.Millis, limits ExpiryLimits, after string,
	f func(path string)) (next string, err error) {
	lower := []byte{schema.KindExpiry, schema.ExpiryContainer}
	upper := schema.PrefixEnd(lower)
	if after != "" {
		lower = append(append(lower, after...), 0)
	}
	left, seen := limits.Max, 0
	err = a.scanRange(lower, upper, func(key, _ []byte) (bool, error) {
		path := string(key[2:])
		n, err := a.following(path) // past the cache, where they would take the place of what is in use
		if err != nil {
			return false, err
		}
		unused := n != nil && n.Creations == 0 && (limits.NeverUsedMillis == 0 ||
			now-n.Mtime <= limits.NeverUsedMillis)
		if n != nil && !unused {
			f(path)
			left--
		}
		if seen++; left == 0 || seen == limits.Containers {
			next = path
			return false, nil
		}
		return true, nil
	})
	return next, err
}
