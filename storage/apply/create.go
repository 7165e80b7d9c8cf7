package apply

import (
	"strconv"
	"strings"

	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// undeletable reports whether path is one of the znodes that a server cannot be without
// (PrepRequestProcessor.isSpecialPath).
func undeletable(path string) bool {
	return path == schema.RootPath || path == schema.ZookeeperPath || path == schema.QuotaPath ||
		path == schema.ConfigPath
}

// create evaluates the four opcodes that make a znode (PrepRequestProcessor.pRequest2TxnCreate, DataTree.createNode).
func (t *Txn) create(op jute.Op, d *jute.Decoder, out *OpResult) jute.Code {
	r := &t.createTTLReq
	if !t.decodeCreate(op, d) {
		return jute.MarshallingError
	}
	if code := t.checkCreateMode(op, r); code != jute.OK {
		return code
	}
	if code := checkHasParent(r.Path, r.Nulls); code != jute.OK {
		return code
	}
	list, code := t.access.fixed(r.ACL)
	if code != jute.OK {
		return code
	}
	parent := t.tree.look(schema.ParentOf(r.Path))
	if parent.cur == nil {
		return jute.NoNode
	}
	if !t.access.allowed(parent.cur, jute.PermCreate) {
		return jute.NoAuth
	}
	path := r.Path
	if r.Flags.Sequential() {
		path = t.sequentialName(path, int32(parent.cur.Creations))
	}
	if !jute.ValidPath(path) || path == schema.RootLimitsPath {
		return jute.BadArguments
	}
	child := t.tree.lookChild(parent, path)
	if child.cur != nil && !t.leftover(child) {
		return jute.NodeExists
	}
	if schema.OwnerKind(parent.cur.Owner) == schema.OwnerSession {
		return jute.NoChildrenForEphemerals
	}
	if code := t.mayLimit(path); code != jute.OK {
		return code
	}
	if code := t.checkQuota(path, int64(len(r.Data)), 1); code != jute.OK {
		return code
	}
	if child.cur != nil {
		t.remove(parent, child)
	}
	t.addChild(parent, child, list, r)
	out.Op, out.Path, out.Stat = jute.OpCreate2, path, child.cur.Stat()
	if op == jute.OpCreate && !(t.tree.journalling && r.Flags == jute.ModeContainer) {
		// Quirk: a multi takes a create of a container for a createContainer
		// (org.apache.zookeeper.Op.Create.getOpcode).
		out.Op = op
	}
	t.quotas.created(path, int64(len(r.Data)))
	t.event(jute.EventNodeCreated, path, list)
	t.event(jute.EventNodeChildrenChanged, parent.path, parent.cur.ACL)
	return jute.OK
}

// checkHasParent checks what must be so before a parent can be looked for; the rest of the path's rules come later
// (PrepRequestProcessor.validatePathForCreate).
func checkHasParent(path string, nulls jute.Nulls) jute.Code {
	if nulls.Has(0) {
		// Quirk: ZooKeeper dereferences the null and reports what its catch-all reports.
		return jute.MarshallingError
	}
	if strings.IndexByte(path, '/') < 0 || jute.HasNUL(path) {
		return jute.BadArguments
	}
	return jute.OK
}

// decodeCreate reads the record of op into t.createTTLReq; TTL is -1 where the record has none.
func (t *Txn) decodeCreate(op jute.Op, d *jute.Decoder) bool {
	r := &t.createTTLReq
	if op == jute.OpCreateTTL {
		r.Decode(d)
		return d.Err() == nil
	}
	c := &t.createReq
	c.Decode(d)
	r.Path, r.Data, r.ACL, r.Flags, r.Nulls, r.TTL = c.Path, c.Data, c.ACL, c.Flags, c.Nulls, -1
	return d.Err() == nil
}

// checkCreateMode checks what does not depend on the tree: that flags, opcode, ttl and session fit together
// (PrepRequestProcessor.validateCreateRequest). That the opcode must fit is zkd's own rule: ZooKeeper makes something
// else, then.
func (t *Txn) checkCreateMode(op jute.Op, r *jute.CreateTTLRequest) jute.Code {
	if !r.Flags.Known() {
		return jute.BadArguments
	}
	if r.Flags.TTL() && op != jute.OpCreateContainer && t.p.Flags&entry.FlagExtendedTypes == 0 {
		return jute.Unimplemented // also where the opcode does not fit
	}
	if !modeFits(op, r.Flags) {
		return jute.BadArguments
	}
	if r.Flags.TTL() {
		if r.TTL < 1 || r.TTL > schema.TTLMax {
			return jute.BadArguments
		}
	} else if r.TTL >= 0 {
		return jute.BadArguments
	}
	if r.Flags.Ephemeral() && t.sessions.get(t.p.Session) == nil {
		// The server of a local session makes it one that the state knows first.
		return jute.SessionExpired
	}
	return t.checkSession()
}

// modeFits reports whether a create with this opcode may make this kind of znode.
func modeFits(op jute.Op, mode jute.CreateMode) bool {
	switch op {
	case jute.OpCreateTTL:
		return mode.TTL()
	case jute.OpCreateContainer:
		return mode == jute.ModeContainer
	}
	return !mode.TTL()
}

// addChild makes child below parent.
func (t *Txn) addChild(parent, child *change, list []jute.ACL, r *jute.CreateTTLRequest) {
	up := t.tree.modify(parent)
	up.Creations++
	up.Children++
	up.Pzxid = t.Position.Zxid
	t.tree.touch(child)
	n := &schema.Znode{
		Path: child.path, Czxid: t.Position.Zxid, Mzxid: t.Position.Zxid, Pzxid: t.Position.Zxid,
		Ctime: t.p.Time, Mtime: t.p.Time, ACL: list,
	}
	switch {
	case r.Flags == jute.ModeContainer:
		n.Owner = schema.ContainerOwner
	case r.Flags.TTL():
		n.Owner = schema.TTLOwnerMask | jute.SessionID(r.TTL)
	case r.Flags.Ephemeral():
		n.Owner = t.p.Session
		t.tree.ephemerals = append(t.tree.ephemerals, child)
	}
	n.SetData(r.Data)
	child.cur, child.own, child.dataChanged = n, true, true
}

// sequenceDigits is the width of the counter in a sequential name.
const sequenceDigits = 10

// sequentialName returns path with the parent's counter, as Java's format %010d writes it: a sign counts as a digit.
func (t *Txn) sequentialName(path string, counter int32) string {
	var digits [16]byte
	number := strconv.AppendUint(digits[:0], magnitude(counter), 10)
	zeros := sequenceDigits - len(number)
	if counter < 0 {
		zeros--
	}
	b := t.tree.arena.alloc(len(path) + max(sequenceDigits, len(number)+1))[:0]
	b = append(b, path...)
	if counter < 0 {
		b = append(b, '-')
	}
	for range zeros {
		b = append(b, '0')
	}
	return entry.ViewString(append(b, number...))
}

// magnitude returns v without its sign.
func magnitude(v int32) uint64 {
	if v < 0 {
		return uint64(-int64(v))
	}
	return uint64(v)
}
