package apply

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"zkd/jute"
	"zkd/storage/acl"
	"zkd/storage/schema"
	"zkd/storage/zkdata"
)

// What a batch of an import holds before it is committed; guesses.
const (
	importBatchChanges = 1000
	importBatchBytes   = 1 << 20
)

// Target takes what an Importer has made, as long as nobody is served.
type Target interface {
	// Publish prepares what t has come to, makes it the state, and ends it: the store shows it then.
	Publish(t *Txn) error
}

// Importer makes a state out of a snapshot and transactions of Apache ZooKeeper. It uses the overlay by which entries
// are applied, so that counters, indexes and digest come about as they do there; what a transaction does is
// ZooKeeper's: its effect was found when it was proposed (org.apache.zookeeper.server.DataTree.processTxn).
type Importer struct {
	t      *Txn
	target Target

	index, term uint64 // of the entry that the state counts as the effect of

	digest    uint64 // of the tree as the open batch has it
	seen      map[string]bool
	missing   int // znodes whose ACL has not come yet
	bytes     int // of the data in the open batch
	txns      int64
	err       error        // of the source, or of each; ends the import
	each      func() error // is told of each change; may be nil
	digestBuf [schema.DigestStatBytes]byte
}

// NewImporter returns an Importer into the state of t, which is that of an empty server, and counts as the effect of
// the entry at index from then on.
func NewImporter(t *Txn, target Target, index, term uint64) *Importer {
	im := &Importer{t: t, target: target, index: index, term: term, digest: t.base.Position.Digest,
		seen: map[string]bool{}}
	t.Begin(index, term)
	return im
}

// missingACL stands for a list that a snapshot does not have: no client can make it.
var missingACL = []jute.ACL{{ID: jute.ID{Scheme: "zkd", ID: "missing"}}}

// isMissing tells whether list stands for one that has not come yet.
func isMissing(list []jute.ACL) bool { return len(list) == 1 && list[0] == missingACL[0] }

// Digest returns that of the tree as it is.
func (im *Importer) Digest() uint64 { return im.digest }

// Transactions returns how many were replayed.
func (im *Importer) Transactions() int64 { return im.txns }

// At says that the tree is that of a snapshot which was begun at zxid.
func (im *Importer) At(zxid jute.Zxid) { im.t.Position.Zxid = zxid }

// OnChange has f called after each change of a transaction, and of Finish: a single transaction may hold very many. Its
// error ends the import.
func (im *Importer) OnChange(f func() error) { im.each = f }

// changed tells of a change.
func (im *Importer) changed() {
	if im.each != nil && im.err == nil {
		im.fail(im.each())
	}
}

// fail keeps the first error.
func (im *Importer) fail(err error) {
	if im.err == nil {
		im.err = err
	}
}

// Settle commits the open batch if it is large, and returns what has gone wrong.
func (im *Importer) Settle() error {
	if err := errors.Join(im.err, im.t.tree.err); err != nil {
		return err
	}
	if len(im.t.znodes) < importBatchChanges && im.bytes < importBatchBytes {
		return nil
	}
	return im.commit()
}

// commit publishes the open batch and begins another one.
func (im *Importer) commit() error {
	if err := errors.Join(im.err, im.t.tree.err); err != nil {
		return err
	}
	zxid := im.t.Position.Zxid
	if err := im.target.Publish(im.t); err != nil {
		return err
	}
	im.t.Begin(im.index, im.term)
	im.t.Position.Zxid, im.bytes = zxid, 0
	return nil
}

// look is overlay.look for a path that may be gone after the call.
func (im *Importer) look(path string) *change {
	if path == "" {
		path = schema.RootPath
	}
	if c, ok := im.t.tree.at[path]; ok {
		return c
	}
	return im.t.tree.look(strings.Clone(path))
}

// keep returns data in memory that lasts as long as the batch.
func (im *Importer) keep(data []byte) []byte {
	if data == nil {
		return nil
	}
	if len(data) == 0 { // of an arena that is empty, too, this would be nil: null
		return []byte{}
	}
	im.bytes += len(data)
	b := im.t.tree.arena.alloc(len(data))
	copy(b, data)
	return b
}

// modify changes the znode of c, and the digest with it.
func (im *Importer) modify(c *change, f func(n *schema.Znode)) {
	im.digest -= c.cur.Digest(&im.digestBuf)
	n := im.t.tree.modify(c)
	f(n)
	im.digest += n.Digest(&im.digestBuf)
}

// put makes n the znode of c, which has none.
func (im *Importer) put(c *change, n *schema.Znode) {
	im.t.tree.touch(c)
	c.cur, c.own, c.dataChanged = n, true, true
	im.digest += n.Digest(&im.digestBuf)
	if schema.SessionOwner(n) != 0 {
		im.t.tree.ephemerals = append(im.t.tree.ephemerals, c)
	}
	if isMissing(n.ACL) {
		im.missing++
	}
	im.touchQuota(c.path)
}

// setACL gives a znode its list.
func (im *Importer) setACL(c *change, list []jute.ACL) {
	if isMissing(c.cur.ACL) {
		im.missing--
	}
	im.t.tree.modify(c).ACL = list // no part of the digest
}

// touchQuota notes that a quota came or went.
func (im *Importer) touchQuota(path string) {
	if _, ok := schema.QuotaTarget(path, schema.LimitsName); ok {
		im.t.quotaTouch = true
	}
}

// Session adds a session, with the password that ZooKeeper has given it. It belongs to no server until its client
// comes.
func (im *Importer) Session(id jute.SessionID, timeoutMillis int32) {
	if schema.OwnerKind(id) != schema.OwnerSession {
		im.fail(fmt.Errorf("session %#x has an id that reads as a container or TTL znode (a server with myid 255?): "+
			"close it on the old server, then import again", uint64(id)))
		return
	}
	im.t.sessions.set(id, &schema.SessionInfo{ID: id, TimeoutMillis: timeoutMillis, Passwd: zkdata.Passwd(id)})
}

var (
	// ErrDigest says that a tree is not the one that its digest was made of.
	ErrDigest = errors.New("the digest of the tree does not fit")
	// ErrTree means a snapshot that is whole and yet holds no tree.
	ErrTree = errors.New("the snapshot holds no tree")
)

// Add adds a znode of a snapshot. The znodes that an empty server has are there already.
func (im *Importer) Add(n *zkdata.Node) {
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
		im.fail(fmt.Errorf("%w: znode %q comes before its parent: import another snapshot", ErrTree, n.Path))
		return
	}
	c := im.t.tree.lookChild(parent, n.Path)
	if c.cur != nil {
		im.fail(fmt.Errorf("%w: znode %q comes twice: import another snapshot", ErrTree, n.Path))
		return
	}
	im.t.tree.modify(parent).Children++
	im.put(c, made)
}

// addDefault gives a znode that every server has what the snapshot says.
func (im *Importer) addDefault(made *schema.Znode) {
	if im.seen[made.Path] {
		im.fail(fmt.Errorf("%w: znode %q comes twice: import another snapshot", ErrTree, made.Path))
		return
	}
	im.seen[made.Path] = true
	c := im.look(made.Path)
	made.Children = c.cur.Children
	im.digest -= c.cur.Digest(&im.digestBuf)
	im.put(c, made)
}

// shared returns list, or the one in memory that is equal.
func shared(list []jute.ACL) []jute.ACL {
	if slices.Equal(list, acl.Open) {
		return acl.Open
	}
	return list
}

// Replay applies a transaction as ZooKeeper does at its start. It may be in the snapshot already, in whole or in part:
// a snapshot is written while writes go on.
func (im *Importer) Replay(x *zkdata.Txn) {
	im.txns++
	im.t.Position.Zxid = max(im.t.Position.Zxid, x.Zxid)
	switch x.Op {
	case jute.OpCreateSession:
		im.Session(x.Session, x.TimeoutMillis)
	case jute.OpCloseSession:
		im.closeSession(x)
	case jute.OpMulti:
		for i := range x.Ops {
			if !x.Failed && im.err == nil {
				im.operation(&x.Ops[i])
				im.changed()
			}
		}
	default:
		im.operation(x)
		im.changed()
	}
}

// operation applies what may be part of a multi.
func (im *Importer) operation(x *zkdata.Txn) {
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
func (im *Importer) create(x *zkdata.Txn) {
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
func (im *Importer) remove(path string, zxid jute.Zxid) {
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
func (im *Importer) drop(c *change) {
	if c.cur == nil {
		return
	}
	im.digest -= c.cur.Digest(&im.digestBuf)
	if isMissing(c.cur.ACL) {
		im.missing--
	}
	im.t.tree.touch(c)
	c.cur, c.own, c.dataChanged = nil, false, false
	im.touchQuota(c.path)
}

// removeBelow deletes what is below path. What a transaction deletes had no children then: those that are there were
// made later, below a znode of the same path that came later, and the transactions to come make them again.
func (im *Importer) removeBelow(path string) {
	if err := im.commit(); err != nil {
		im.fail(err)
		return
	}
	var paths []string
	err := eachBelow(im.t.tree.store, path, "", func(key, _ []byte) (bool, error) {
		paths = append(paths, string(schema.PathOfNodeKey(nil, key)))
		return true, nil
	})
	if err != nil {
		im.fail(err)
		return
	}
	for _, p := range paths {
		im.drop(im.look(p))
	}
	im.t.tree.modify(im.look(path)).Children = 0
}

// closeSession ends a session and deletes its ephemerals: those that the transaction names, and those it should have
// (DataTree.killSession).
func (im *Importer) closeSession(x *zkdata.Txn) {
	for _, path := range x.Paths {
		if !jute.ValidPath(path) {
			im.fail(fmt.Errorf("transaction %#x deletes %.120q, which no znode can be: import the directory of "+
				"another server", int64(x.Zxid), path))
			return
		}
		im.remove(path, x.Zxid)
		im.changed()
	}
	paths, _ := im.t.tree.ephemeralsOf(x.Session, piece{})
	for _, path := range paths {
		im.remove(path, x.Zxid)
		im.changed()
	}
	im.t.sessions.set(x.Session, nil)
}

// Finish does what ZooKeeper does before it serves: ephemerals without a session go (ZooKeeperServer.loadData), the
// quotas are counted (DataTree.setupQuota). It returns how many ephemerals went.
func (im *Importer) Finish() (orphans int, err error) {
	if err := im.commit(); err != nil {
		return 0, err
	}
	if im.missing > 0 {
		return 0, fmt.Errorf("%w: the ACLs of %d znodes are neither in it nor in the logs behind it: add the logs, or "+
			"import another snapshot", ErrTree, im.missing)
	}
	var paths []string
	prefix := []byte{schema.KindEphemeral}
	err = scan(im.t.tree.store, prefix, schema.PrefixEnd(prefix), func(key, _ []byte) (bool, error) {
		if owner := jute.SessionID(binary.BigEndian.Uint64(key[1:])); im.t.base.Sessions[owner] == nil {
			paths = append(paths, string(key[schema.EphemeralPrefixBytes:]))
		}
		return true, nil
	})
	if err != nil {
		return 0, err
	}
	for _, path := range paths {
		im.remove(path, im.t.Position.Zxid)
		im.changed()
		if err := im.Settle(); err != nil {
			return 0, err
		}
	}
	for _, target := range im.t.base.Quotas.All() {
		im.t.quotas.recountWhole(target)
		im.changed()
		if err := im.Settle(); err != nil {
			return 0, err
		}
	}
	return len(paths), im.commit()
}
