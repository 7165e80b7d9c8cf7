package server

import (
	"strings"

	"zkd/jute"
	"zkd/quorum/batcher"
	"zkd/server/audit"
	"zkd/server/auth"
	"zkd/storage/apply"
	"zkd/storage/schema"
)

// auditor writes the lines of a connection in the audit log. A nil one writes none. Owned by the reader.
type auditor struct {
	conn  *conn
	ip    string
	users string
	ids   []jute.ID // of which users is made
}

// newAuditor returns the auditor of c, or nil without an audit log.
func newAuditor(c *conn) *auditor {
	if c.server.opts.Audit == nil {
		return nil
	}
	return &auditor{conn: c, ip: auth.HostAddress(c.remote.Addr())}
}

// audited returns w, or, if there is an audit log and r is of the requests that are in it, a waiter that writes there
// what becomes of r before it tells w. What it needs of r is copied
// (org.apache.zookeeper.audit.AuditHelper.addAuditLog).
func (a *auditor) audited(r *request, w batcher.Waiter) batcher.Waiter {
	if a == nil {
		return w
	}
	event, ok := a.event(r)
	if !ok {
		return w
	}
	log := a.conn.server.opts.Audit
	log.Await()
	write := &auditing{Waiter: w, log: log, event: a.signed(event)}
	if r.op == jute.OpMulti {
		write.parts = a.parts(r)
	}
	return write
}

// identify sets the users of the connection, as they are now (org.apache.zookeeper.server.util.AuthUtil.getUsers).
func (a *auditor) identify() {
	ids := a.conn.login.ids.Snapshot()
	if len(ids) == len(a.ids) && (len(ids) == 0 || &ids[0] == &a.ids[0]) {
		return
	}
	var names []string
	for i := range ids {
		if p := a.conn.server.opts.Registry.Provider(ids[i].Scheme); p != nil {
			if name := p.User(ids[i].ID); strings.TrimSpace(name) != "" {
				names = append(names, name)
			}
		}
	}
	a.ids, a.users = ids, strings.Join(names, ",")
}

// event describes a write. false: it is not in the audit log, or ZooKeeper fails to describe it and leaves it out.
func (a *auditor) event(r *request) (e audit.Event, ok bool) {
	q := &a.conn.req
	switch r.op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer:
		err := q.decode(r, &q.create)
		e.Operation, e.Znode = audit.OpCreate, auditPath(q.create.Path, q.create.Nulls, err)
		e.ZnodeType = audit.ZnodeType(q.create.Flags)
		ok = e.ZnodeType != ""
	case jute.OpCreateTTL:
		err := q.decode(r, &q.createTTL)
		e.Operation, e.Znode = audit.OpCreate, auditPath(q.createTTL.Path, q.createTTL.Nulls, err)
		e.ZnodeType = audit.ZnodeType(q.createTTL.Flags)
		ok = e.ZnodeType != ""
	case jute.OpDelete:
		err := q.decode(r, &q.version)
		e.Operation, e.Znode, ok = audit.OpDelete, auditPath(q.version.Path, q.version.Nulls, err), true
	case jute.OpSetData:
		err := q.decode(r, &q.setData)
		e.Operation, e.Znode, ok = audit.OpSetData, auditPath(q.setData.Path, q.setData.Nulls, err), true
	case jute.OpSetACL:
		err := q.decode(r, &q.setACL)
		e.Operation, e.Znode = audit.OpSetACL, auditPath(q.setACL.Path, q.setACL.Nulls, err)
		e.ACL, ok = audit.Of(audit.ACLText(q.setACL.ACL)), q.setACL.ACL != nil
	case jute.OpMulti:
		e.Operation, ok = audit.OpMulti, true
	case jute.OpReconfig:
		e.Operation, ok = audit.OpReconfig, true
	default:
	}
	return e, ok
}

// auditPath copies the path of a request. A null one is no field, nor is that of a request which cannot be read that
// far; of one that ends later it is. (Quirk: org.apache.zookeeper.server.ByteBufferRequestRecord keeps what it read.)
func auditPath(path string, nulls jute.Nulls, err error) audit.Text {
	return audit.Text{Value: strings.Clone(path), Set: path != "" || err == nil && !nulls.Has(0)}
}

// failed writes that a write which was not proposed has failed.
func (a *auditor) failed(r *request) {
	if a == nil {
		return
	}
	if event, ok := a.event(r); ok {
		log := a.conn.server.opts.Audit
		log.Await()
		event.Result = audit.Failure
		log.Write(a.signed(event))
	}
}

// signed adds to an event whose it is.
func (a *auditor) signed(e audit.Event) audit.Event {
	a.identify()
	e.Session, e.IP, e.User = a.conn.session, a.ip, a.users
	return e
}

// auditPart is one operation of a multi.
type auditPart struct {
	op        audit.Operation // "" for a check, which is not in the audit log
	path      string
	znodeType string // of a create that has no time to live
}

// parts reads the operations of a multi, up to the first that cannot be read: then there is none that succeeds.
func (a *auditor) parts(r *request) []auditPart {
	q := &a.conn.req
	var d jute.Decoder
	d.Reset(r.body)
	var parts []auditPart
	for ops := jute.NewMultiDecoder(&d); ops.Next(); {
		op := ops.Header().Type
		record := q.multiRecord(op)
		if record == nil {
			break
		}
		record.Decode(&d)
		var part auditPart
		switch op {
		case jute.OpCreateTTL:
			part = auditPart{op: audit.OpCreate, path: q.createTTL.Path}
		case jute.OpDelete:
			part = auditPart{op: audit.OpDelete, path: q.version.Path}
		case jute.OpSetData:
			part = auditPart{op: audit.OpSetData, path: q.setData.Path}
		case jute.OpCheck:
		default:
			part = auditPart{audit.OpCreate, q.create.Path, audit.ZnodeType(q.create.Flags)}
		}
		part.path = strings.Clone(part.path)
		parts = append(parts, part)
	}
	return parts
}

// auditing is the waiter of a write that is in the audit log.
type auditing struct {
	batcher.Waiter
	log   *audit.Log
	event audit.Event // all but the result
	parts []auditPart // of a multi
}

// Applied writes what became of the write, and tells the waiter.
func (a *auditing) Applied(r *apply.Result) {
	e := a.event
	e.Result = audit.Success
	switch {
	case r.Code != jute.OK:
		e.Result = audit.Failure
		a.log.Write(e)
	case r.Op == jute.OpMulti:
		a.succeed(r)
	case r.Op == jute.OpReconfig:
		e.Znode = audit.Of(schema.ConfigPath)
		a.log.Write(e)
	default:
		if e.Operation == audit.OpCreate {
			e.Znode = audit.Of(strings.Clone(r.Path))
		}
		a.log.Write(e)
	}
	a.Waiter.Applied(r)
}

// succeed writes the operations of a multi that has succeeded. (Quirk: ZooKeeper looks for the type of a znode by the
// name that it got, so that a sequential one has none, and of two creates of one name both have the later's.)
func (a *auditing) succeed(r *apply.Result) {
	types := map[string]string{}
	for _, p := range a.parts {
		if p.znodeType != "" {
			types[p.path] = p.znodeType
		}
	}
	for i := range r.Ops {
		p := a.parts[i]
		if p.op == "" {
			continue
		}
		e := a.event
		e.Operation, e.Znode, e.Result = p.op, audit.Of(p.path), audit.Success
		if p.op == audit.OpCreate {
			e.Znode.Value = strings.Clone(r.Ops[i].Path)
			e.ZnodeType = types[e.Znode.Value]
		}
		a.log.Write(e)
	}
}

// Dropped writes that nobody here knows what became of the write: it may be done later. (ZooKeeper writes nothing.)
func (a *auditing) Dropped(err error) {
	e := a.event
	e.Result = audit.Invoked
	a.log.Write(e)
	a.Waiter.Dropped(err)
}
