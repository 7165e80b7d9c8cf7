package storage

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"zkd/jute"
	"zkd/storage/acl"
	"zkd/storage/raftlog"
	"zkd/storage/schema"
	"zkd/storage/zkdata"
)

// What a batch of an import holds before it is committed; guesses.
const (
	importBatchChanges = 1000
	importBatchBytes   = 1 << 20
	importFlushBytes   = 16 << 20
)

// importer makes a state out of a snapshot and transactions of Apache ZooKeeper. It uses the overlay by which entries
// are applied, so that counters, indexes and digest come about as they do there; what a transaction does is
// ZooKeeper's: its effect was found when it was proposed (org.apache.zookeeper.server.DataTree.processTxn).
type importer struct {
	m *Machine
	t *txn

	index, term uint64 // of the entry that the state counts as the effect of

	digest  uint64 // of the tree as the open batch has it
	seen    map[string]bool
	missing int // znodes whose ACL has not come yet
	bytes   int // of the data in the open batch
	txns    int64
	err     error // of the source; ends the import

	failed    <-chan struct{} // closed when the store has stopped; nil: nobody says so
	flushing  <-chan struct{} // closed when the flush that was begun last is durable; nil before the first
	unflushed int64           // bytes committed since it was begun
}

// missingACL stands for a list that a snapshot does not have: no client can make it.
var missingACL = []jute.ACL{{ID: jute.ID{Scheme: "zkd", ID: "missing"}}}

// isMissing tells whether list stands for one that has not come yet.
func isMissing(list []jute.ACL) bool { return len(list) == 1 && list[0] == missingACL[0] }

// newImporter returns an importer into m, whose state is that of an empty server.
func newImporter(m *Machine) *importer {
	return newImporterAt(m, raftlog.ImportedIndex, raftlog.ImportedTerm)
}

// newImporterAt returns one whose state counts as the effect of an entry.
func newImporterAt(m *Machine, index, term uint64) *importer {
	im := &importer{m: m, t: &m.txn, index: index, term: term, digest: m.mu.pos.Digest, seen: map[string]bool{}}
	im.t.begin(index, term)
	return im
}

// fail keeps the first error.
func (im *importer) fail(err error) {
	if im.err == nil {
		im.err = err
	}
}

// settled commits the open batch if it is large, and returns what has gone wrong.
func (im *importer) settled() error {
	if err := errors.Join(im.err, im.t.err); err != nil {
		return err
	}
	if len(im.t.order) < importBatchChanges && im.bytes < importBatchBytes {
		return nil
	}
	return im.commit()
}

// commit writes the open batch and begins another one.
func (im *importer) commit() error {
	if err := errors.Join(im.err, im.t.err, im.m.err()); err != nil {
		return err
	}
	t := im.t
	zxid := t.pos.Zxid
	err := errors.Join(t.reader.close(), t.prepare())
	size := int64(t.batch.Len())
	if err == nil {
		err = t.publish(nil)
	}
	t.end()
	if err != nil {
		return fmt.Errorf("import into state store %s: %w", im.m.opts.Dir, err)
	}
	t.begin(im.index, im.term)
	t.pos.Zxid, im.bytes = zxid, 0
	return im.pace(size)
}

// pace begins a flush whenever enough was committed, and waits for the one before it: so what waits for the disk stays
// bounded.
func (im *importer) pace(committed int64) error {
	if im.unflushed += committed; im.unflushed < importFlushBytes {
		return nil
	}
	return im.flush()
}

// flush begins a flush when the one before it is durable.
func (im *importer) flush() error {
	if im.flushing != nil {
		select {
		case <-im.flushing:
		case <-im.failed:
			return im.m.err()
		}
	}
	done, err := im.m.store.asyncFlush()
	im.flushing, im.unflushed = done, 0
	return err
}

// look is txn.look for a path that may be gone after the call.
func (im *importer) look(path string) *change {
	if path == "" {
		path = schema.RootPath
	}
	if c, ok := im.t.changes[path]; ok {
		return c
	}
	return im.t.look(strings.Clone(path))
}

// keep returns data in memory that lasts as long as the batch.
func (im *importer) keep(data []byte) []byte {
	if data == nil {
		return nil
	}
	if len(data) == 0 { // of an arena that is empty, too, this would be nil: null
		return []byte{}
	}
	im.bytes += len(data)
	b := im.t.arena.alloc(len(data))
	copy(b, data)
	return b
}

// modify changes the znode of c, and the digest with it.
func (im *importer) modify(c *change, f func(n *schema.Znode)) {
	im.digest -= c.cur.Digest(&im.t.digestBuf)
	n := im.t.modify(c)
	f(n)
	im.digest += n.Digest(&im.t.digestBuf)
}

// put makes n the znode of c, which has none.
func (im *importer) put(c *change, n *schema.Znode) {
	im.t.touch(c)
	c.cur, c.own, c.dataChanged = n, true, true
	im.digest += n.Digest(&im.t.digestBuf)
	if schema.SessionOwner(n) != 0 {
		im.t.ephemerals = append(im.t.ephemerals, c)
	}
	if isMissing(n.ACL) {
		im.missing++
	}
	im.touchQuota(c.path)
}

// setACL gives a znode its list.
func (im *importer) setACL(c *change, list []jute.ACL) {
	if isMissing(c.cur.ACL) {
		im.missing--
	}
	im.t.modify(c).ACL = list // no part of the digest
}

// touchQuota notes that a quota came or went.
func (im *importer) touchQuota(path string) {
	if _, ok := quotaTarget(path, schema.LimitsName); ok {
		im.t.quotaTouch = true
	}
}

// session adds a session, with the password that ZooKeeper has given it. It belongs to no server until its client
// comes.
func (im *importer) session(id jute.SessionID, timeoutMillis int32) {
	if schema.OwnerKind(id) != schema.OwnerSession {
		im.fail(fmt.Errorf("session %#x has an id that reads as a container or TTL znode (a server with myid 255?): "+
			"close it on the old server, then import again", uint64(id)))
		return
	}
	im.t.setSession(id, &schema.SessionInfo{ID: id, TimeoutMillis: timeoutMillis, Passwd: zkdata.Passwd(id)})
}

// errTree means a snapshot that is whole and yet holds no tree.
var errTree = errors.New("the snapshot holds no tree")

// add adds a znode of a snapshot. The znodes that an empty server has are there already.
func (im *importer) add(n *zkdata.Node) {
	list := n.ACL
	if n.ACLMissing {
		list = missingACL
	}
	made := &schema.Znode{Path: n.Path, Czxid: n.Czxid, Mzxid: n.Mzxid, Pzxid: n.Pzxid, Ctime: n.Ctime, Mtime: n.Mtime,
		Version: n.Version, Aversion: n.Aversion, Creations: n.Creations, Owner: n.Owner, ACL: shared(list)}
	made.SetData(im.keep(n.Data))
	if undeletable(n.Path) {
		im.addDefault(made)
		return
	}
	parent := im.look(schema.ParentOf(n.Path))
	if parent.cur == nil {
		im.fail(fmt.Errorf("%w: znode %q comes before its parent: import another snapshot", errTree, n.Path))
		return
	}
	c := im.t.lookChild(parent, n.Path)
	if c.cur != nil {
		im.fail(fmt.Errorf("%w: znode %q comes twice: import another snapshot", errTree, n.Path))
		return
	}
	im.t.modify(parent).Children++
	im.put(c, made)
}

// addDefault gives a znode that every server has what the snapshot says.
func (im *importer) addDefault(made *schema.Znode) {
	if im.seen[made.Path] {
		im.fail(fmt.Errorf("%w: znode %q comes twice: import another snapshot", errTree, made.Path))
		return
	}
	im.seen[made.Path] = true
	c := im.look(made.Path)
	made.Children = c.cur.Children
	im.digest -= c.cur.Digest(&im.t.digestBuf)
	im.put(c, made)
}

// shared returns list, or the one in memory that is equal.
func shared(list []jute.ACL) []jute.ACL {
	if slices.Equal(list, acl.Open) {
		return acl.Open
	}
	return list
}

// replay applies a transaction as ZooKeeper does at its start. It may be in the snapshot already, in whole or in part:
// a snapshot is written while writes go on.
func (im *importer) replay(x *zkdata.Txn) {
	im.txns++
	im.t.pos.Zxid = max(im.t.pos.Zxid, x.Zxid)
	switch x.Op {
	case jute.OpCreateSession:
		im.session(x.Session, x.TimeoutMillis)
	case jute.OpCloseSession:
		im.closeSession(x)
	case jute.OpMulti:
		for i := range x.Ops {
			if !x.Failed {
				im.operation(&x.Ops[i])
			}
		}
	default:
		im.operation(x)
	}
}

// operation applies what may be part of a multi.
func (im *importer) operation(x *zkdata.Txn) {
	if x.Op != jute.OpError && x.Op != jute.OpCheck && !jute.ValidPath(x.Path) {
		im.fail(fmt.Errorf("transaction %#x is about %.120q, which no znode can be: import the directory of another "+
			"server", int64(x.Zxid), x.Path))
		return
	}
	switch x.Op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		im.create(x)
	case jute.OpDelete, jute.OpDeleteContainer:
		im.remove(x.Path, x.Zxid)
	case jute.OpSetData, jute.OpReconfig:
		if c := im.look(x.Path); c.cur != nil {
			im.modify(c, func(n *schema.Znode) {
				n.Version, n.Mzxid, n.Mtime = x.Version, x.Zxid, x.Time
				n.SetData(im.keep(x.Data))
			})
			c.dataChanged = true
		}
	case jute.OpSetACL:
		if c := im.look(x.Path); c.cur != nil {
			im.setACL(c, shared(x.ACL))
			im.modify(c, func(n *schema.Znode) { n.Aversion = x.Version })
		}
	}
}

// create makes a znode (DataTree.createNode). One that is there already is as new or newer; but its ACL may have been
// missing, and the parent may have been written before it came (DataTree.setCversionPzxid). ZooKeeper does the latter
// for opcode 1 alone.
func (im *importer) create(x *zkdata.Txn) {
	if x.Path == schema.RootPath {
		return
	}
	parent := im.look(schema.ParentOf(x.Path))
	if parent.cur == nil {
		return
	}
	c := im.look(x.Path)
	exists := c.cur != nil
	list := shared(x.ACL)
	if x.ACL == nil {
		list = acl.Open // ReferenceCountedACLCache.convertAcls
	}
	if exists {
		im.setACL(c, list)
	}
	im.modify(parent, func(n *schema.Znode) {
		creations := x.ParentCversion
		if creations == -1 {
			creations = n.Creations + 1
		}
		if creations > n.Creations {
			n.Creations, n.Pzxid = creations, x.Zxid
		}
		if !exists {
			n.Children++
		}
	})
	if exists {
		return
	}
	n := &schema.Znode{Path: c.path, Czxid: x.Zxid, Mzxid: x.Zxid, Pzxid: x.Zxid, Ctime: x.Time, Mtime: x.Time,
		ACL: list}
	switch {
	case x.Op == jute.OpCreateContainer:
		n.Owner = schema.ContainerOwner
	case x.Op == jute.OpCreateTTL:
		n.Owner = schema.TTLOwnerMask | jute.SessionID(x.TTL)
	case x.Ephemeral:
		n.Owner = x.Session
	}
	n.SetData(im.keep(x.Data))
	im.put(c, n)
}

// remove deletes a znode (DataTree.deleteNode). The parent learns of it even if the znode is gone already.
func (im *importer) remove(path string, zxid jute.Zxid) {
	if undeletable(path) {
		return
	}
	if c := im.look(path); c.cur != nil && c.cur.Children > 0 {
		im.removeBelow(path)
	}
	parent := im.look(schema.ParentOf(path))
	if parent.cur == nil {
		return
	}
	c := im.look(path)
	im.modify(parent, func(n *schema.Znode) {
		n.Pzxid = max(n.Pzxid, zxid)
		if c.cur != nil {
			n.Children--
		}
	})
	im.drop(c)
}

// drop takes c's znode away.
func (im *importer) drop(c *change) {
	if c.cur == nil {
		return
	}
	im.digest -= c.cur.Digest(&im.t.digestBuf)
	if isMissing(c.cur.ACL) {
		im.missing--
	}
	im.t.touch(c)
	c.cur, c.own, c.dataChanged = nil, false, false
	im.touchQuota(c.path)
}

// removeBelow deletes what is below path. What a transaction deletes had no children then: those that are there were
// made later, below a znode of the same path that came later, and the transactions to come make them again.
func (im *importer) removeBelow(path string) {
	if err := im.commit(); err != nil {
		im.fail(err)
		return
	}
	var below []string
	err := im.m.store.descendants(path, func(key, _ []byte) (bool, error) {
		below = append(below, string(schema.PathOfNodeKey(nil, key)))
		return true, nil
	})
	if err != nil {
		im.fail(err)
		return
	}
	for _, p := range below {
		im.drop(im.look(p))
	}
	im.t.modify(im.look(path)).Children = 0
}

// closeSession ends a session and deletes its ephemerals: those that the transaction names, and those it should have
// (DataTree.killSession).
func (im *importer) closeSession(x *zkdata.Txn) {
	for _, path := range x.Paths {
		if !jute.ValidPath(path) {
			im.fail(fmt.Errorf("transaction %#x deletes %.120q, which no znode can be: import the directory of "+
				"another server", int64(x.Zxid), path))
			return
		}
		im.remove(path, x.Zxid)
	}
	for _, path := range im.t.ephemeralsOf(x.Session) {
		im.remove(path, x.Zxid)
	}
	im.t.setSession(x.Session, nil)
}

// finish does what ZooKeeper does before it serves: ephemerals without a session go (ZooKeeperServer.loadData), the
// quotas are counted (DataTree.setupQuota). It returns how many ephemerals went, and makes the state durable.
func (im *importer) finish() (orphans int, err error) {
	if err := im.commit(); err != nil {
		return 0, err
	}
	if im.missing > 0 {
		return 0, fmt.Errorf("%w: the ACLs of %d znodes are neither in it nor in the logs behind it: add the logs, or "+
			"import another snapshot", errTree, im.missing)
	}
	var paths []string
	err = im.m.store.scan([]byte{schema.KindEphemeral}, func(key, _ []byte) (bool, error) {
		path := string(key[schema.EphemeralPrefixBytes:])
		if n, err := im.m.store.node(path); err != nil || im.m.mu.sessions[n.Owner] == nil {
			paths = append(paths, path)
			return err == nil, err
		}
		return true, nil
	})
	if err != nil {
		return 0, err
	}
	for _, path := range paths {
		im.remove(path, im.t.pos.Zxid)
		if err := im.settled(); err != nil {
			return 0, err
		}
	}
	for _, target := range slices.Sorted(maps.Keys(im.m.mu.quotas)) {
		im.t.recountWhole(target)
		if err := im.settled(); err != nil {
			return 0, err
		}
	}
	if err := im.commit(); err != nil {
		return 0, err
	}
	// The second flush waits for the first one, which makes all of it durable.
	return len(paths), errors.Join(im.flush(), im.flush(), im.m.err())
}
