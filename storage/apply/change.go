package apply

import (
	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// delete evaluates delete (PrepRequestProcessor.pRequest2Txn, DataTree.deleteNode).
func (t *Txn) delete(_ jute.Op, d *jute.Decoder, out *OpResult) jute.Code {
	r := &t.versionReq
	r.Decode(d)
	if d.Err() != nil {
		return jute.MarshallingError
	}
	if code := t.checkSession(); code != jute.OK {
		return code
	}
	if code := checkDeletable(r.Path, r.Nulls); code != jute.OK {
		return code
	}
	parent := t.tree.look(schema.ParentOf(r.Path))
	if parent.cur == nil {
		return jute.NoNode
	}
	if !t.access.allowed(parent.cur, jute.PermDelete) {
		return jute.NoAuth
	}
	c := t.tree.look(r.Path)
	switch {
	case c.cur == nil:
		return jute.NoNode
	case r.Version != jute.AnyVersion && r.Version != c.cur.Version:
		return jute.BadVersion
	case c.cur.Children > 0:
		return jute.NotEmpty
	}
	if code := t.mayLimit(r.Path); code != jute.OK {
		return code
	}
	t.remove(parent, c)
	out.Op = jute.OpDelete
	return jute.OK
}

// checkDeletable checks the path of a delete; unlike the other writes it may be malformed, then no znode has it
// (PrepRequestProcessor.getParentPathAndValidate).
func checkDeletable(path string, nulls jute.Nulls) jute.Code {
	if code := checkHasParent(path, nulls); code != jute.OK {
		return code
	}
	if undeletable(path) {
		return jute.BadArguments
	}
	return jute.OK
}

// deleteContainer removes a container or TTL znode whose time has come, on the server's own proposal
// (org.apache.zookeeper.server.ContainerManager). All that made it a candidate is checked again: unlike ZooKeeper it
// removes nothing else. It fails with BadVersion if the znode is of another kind or was renewed.
func (t *Txn) deleteContainer(_ jute.Op, d *jute.Decoder, out *OpResult) jute.Code {
	r := &t.pathReq
	r.Decode(d)
	if d.Err() != nil {
		return jute.MarshallingError
	}
	if code := checkDeletable(r.Path, r.Nulls); code != jute.OK {
		return code
	}
	c := t.tree.look(r.Path)
	if c.cur == nil {
		return jute.NoNode
	}
	if c.cur.Children > 0 {
		return jute.NotEmpty
	}
	switch schema.OwnerKind(c.cur.Owner) {
	case schema.OwnerContainer:
	case schema.OwnerTTL:
		if t.p.Time <= c.cur.Deadline() {
			return jute.BadVersion
		}
	default:
		return jute.BadVersion
	}
	parent := t.tree.look(schema.ParentOf(r.Path))
	if parent.cur == nil {
		return jute.NoNode
	}
	t.remove(parent, c)
	out.Op = jute.OpDelete
	return jute.OK
}

// remove deletes c, which has no children, below parent.
func (t *Txn) remove(parent, c *change) {
	up := t.tree.modify(parent)
	up.Children--
	up.Pzxid = t.Position.Zxid
	t.tree.touch(c)
	gone := c.cur
	c.cur, c.own, c.dataChanged = nil, false, false
	t.quotas.deleted(c.path, int64(gone.DataLen))
	t.event(jute.EventNodeDeleted, c.path, gone.ACL)
	t.event(jute.EventNodeChildrenChanged, parent.path, parent.cur.ACL)
}

// setData evaluates SetData. Quirk: the quota is checked before the version.
func (t *Txn) setData(_ jute.Op, d *jute.Decoder, out *OpResult) jute.Code {
	r := &t.setDataReq
	r.Decode(d)
	if d.Err() != nil {
		return jute.MarshallingError
	}
	c, code := t.checkNode(r.Path, r.Nulls, jute.PermWrite)
	if code != jute.OK {
		return code
	}
	if code := t.mayLimit(r.Path); code != jute.OK {
		return code
	}
	grown := int64(len(r.Data)) - int64(c.cur.DataLen)
	if code := t.checkQuota(r.Path, grown, 0); code != jute.OK {
		return code
	}
	if r.Version != jute.AnyVersion && r.Version != c.cur.Version {
		return jute.BadVersion
	}
	n := t.tree.modify(c)
	n.Version++
	n.Mzxid, n.Mtime = t.Position.Zxid, t.p.Time
	n.SetData(r.Data)
	c.dataChanged = true
	out.Op, out.Stat = jute.OpSetData, n.Stat()
	t.quotas.dataGrown(r.Path, grown)
	t.event(jute.EventNodeDataChanged, c.path, n.ACL)
	return jute.OK
}

// setACL evaluates setACL. It fires no watch and leaves mzxid and mtime.
func (t *Txn) setACL(_ jute.Op, d *jute.Decoder, out *OpResult) jute.Code {
	r := &t.setACLReq
	r.Decode(d)
	if d.Err() != nil {
		return jute.MarshallingError
	}
	if code := t.checkPath(r.Path, r.Nulls); code != jute.OK {
		return code
	}
	list, code := t.access.fixed(r.ACL)
	if code != jute.OK {
		return code
	}
	c, code := t.checkAccess(r.Path, jute.PermAdmin)
	if code != jute.OK {
		return code
	}
	if code := t.mayLimit(r.Path); code != jute.OK {
		return code
	}
	if r.Version != jute.AnyVersion && r.Version != c.cur.Aversion {
		return jute.BadVersion
	}
	n := t.tree.modify(c)
	n.Aversion++
	n.ACL = list
	out.Op, out.Stat = jute.OpSetACL, n.Stat()
	return jute.OK
}

// check evaluates the check of a multi.
func (t *Txn) check(_ jute.Op, d *jute.Decoder, out *OpResult) jute.Code {
	r := &t.versionReq
	r.Decode(d)
	if d.Err() != nil {
		return jute.MarshallingError
	}
	c, code := t.checkNode(r.Path, r.Nulls, jute.PermRead)
	if code != jute.OK {
		return code
	}
	if r.Version != jute.AnyVersion && r.Version != c.cur.Version {
		return jute.BadVersion
	}
	out.Op = jute.OpCheck
	return jute.OK
}

// checkNode checks session, path, existence and permission, in this order.
func (t *Txn) checkNode(path string, nulls jute.Nulls, perm jute.Perms) (*change, jute.Code) {
	if code := t.checkPath(path, nulls); code != jute.OK {
		return nil, code
	}
	return t.checkAccess(path, perm)
}

// checkPath checks the session and the path.
func (t *Txn) checkPath(path string, nulls jute.Nulls) jute.Code {
	if code := t.checkSession(); code != jute.OK {
		return code
	}
	// Quirk: a null path is BadArguments here, MarshallingError where ZooKeeper looks for a '/' in it first.
	if nulls.Has(0) || !jute.ValidPath(path) {
		return jute.BadArguments
	}
	return jute.OK
}

// checkAccess checks existence and permission.
func (t *Txn) checkAccess(path string, perm jute.Perms) (*change, jute.Code) {
	c := t.tree.look(path)
	if c.cur == nil {
		return nil, jute.NoNode
	}
	if !t.access.allowed(c.cur, perm) {
		return nil, jute.NoAuth
	}
	return c, jute.OK
}

// mayLimit fails with NoAuth if path is a znode of a quota and the caller does not administer what the quota limits:
// the path itself, or, while that is missing, the nearest one above. ZooKeeper asks the ACL of the quota's own znodes
// alone, so that anybody may lock the owner of a path out. From entry.LevelQuotaRights on.
func (t *Txn) mayLimit(path string) jute.Code {
	if t.Level < entry.LevelQuotaRights {
		return jute.OK
	}
	target, ok := schema.QuotaOf(path)
	if !ok {
		return jute.OK
	}
	there := func(path string) bool { return t.tree.look(path).cur != nil }
	if n := t.tree.look(schema.Nearest(target, there)).cur; n == nil || !t.access.allowed(n, jute.PermAdmin) {
		return jute.NoAuth
	}
	return jute.OK
}
