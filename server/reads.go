package server

import (
	"zkd/jute"
	"zkd/storage"
	"zkd/storage/acl"
)

// answer appends the reply to a read while its View is open, so that no event of a later change gets before it.
func (c *conn) answer(r *request, v storage.View, code jute.Code, body func(b []byte) []byte) error {
	zxid := v.Zxid()
	err := v.Err()
	if err == nil {
		c.out.mu.Lock()
		b, mark := c.beginLocked(r.xid, zxid, code)
		if body != nil {
			b = body(b)
		}
		c.endLocked(b, mark)
		c.out.mu.Unlock()
	}
	v.Close()
	if err != nil {
		return err
	}
	c.readDone(r, zxid)
	return nil
}

// readDone counts a read.
func (c *conn) readDone(r *request, zxid jute.Zxid) {
	now := c.server.elapsed()
	c.answered(r.xid, zxid)
	c.latency(r.op, c.now, now)
	c.server.metrics.reads.Add((now - c.now).Milliseconds())
}

// decode reads a record from the body of r; false means that it cannot be read.
func decode(r *request, record decodable) bool {
	var d jute.Decoder
	d.Reset(r.body)
	record.Decode(&d)
	return d.Err() == nil
}

// exists answers exists. The watch is set even when the znode is missing, but not without READ.
func (c *conn) exists(r *request) error {
	p := &c.req.pathWatch
	if !decode(r, p) || p.Nulls != 0 {
		return c.unreadable(r)
	}
	v := c.server.opts.Machine.View()
	if jute.HasNUL(p.Path) {
		return c.answer(r, v, jute.BadArguments, nil)
	}
	n, ok := v.Exists(p.Path)
	if ok && !c.allowed(n.ACL(), jute.PermRead) {
		return c.answer(r, v, jute.NoAuth, nil)
	}
	if p.Watch {
		c.server.watches.AddData(&c.watch, p.Path)
	}
	if !ok {
		return c.answer(r, v, jute.NoNode, nil)
	}
	stat := n.Stat()
	return c.answer(r, v, jute.OK, stat.Append)
}

// find looks a znode up and checks READ. code is OK if it may be shown.
func (c *conn) find(v storage.View, path string) (n storage.Node, code jute.Code) {
	n, ok := v.Get(path)
	switch {
	case !ok:
		return n, jute.NoNode
	case !c.allowed(n.ACL(), jute.PermRead):
		return n, jute.NoAuth
	}
	return n, jute.OK
}

// getData answers getData.
func (c *conn) getData(r *request) error {
	p := &c.req.pathWatch
	if !decode(r, p) || p.Nulls != 0 {
		return c.unreadable(r)
	}
	v := c.server.opts.Machine.View()
	n, code := c.find(v, p.Path)
	if code != jute.OK {
		return c.answer(r, v, code, nil)
	}
	if p.Watch {
		c.server.watches.AddData(&c.watch, p.Path)
	}
	stat, data := n.Stat(), n.Data()
	return c.answer(r, v, jute.OK, func(b []byte) []byte { return stat.Append(jute.AppendBuffer(b, data)) })
}

// getChildren answers getChildren and getChildren2.
func (c *conn) getChildren(r *request) error {
	p := &c.req.pathWatch
	if !decode(r, p) || p.Nulls != 0 {
		return c.unreadable(r)
	}
	v := c.server.opts.Machine.View()
	n, code := c.find(v, p.Path)
	if code != jute.OK {
		return c.answer(r, v, code, nil)
	}
	if p.Watch {
		c.server.watches.AddChild(&c.watch, p.Path)
	}
	children := c.children(v, p.Path)
	stat := n.Stat()
	return c.answer(r, v, jute.OK, func(b []byte) []byte {
		b = jute.AppendUstrings(b, children)
		if r.op == jute.OpGetChildren2 {
			b = stat.Append(b)
		}
		return b
	})
}

// keptChildren is how long a list of children a connection keeps the memory of.
const keptChildren = 64

// children lists the children of a znode that is there.
func (c *conn) children(v storage.View, path string) []string {
	children, _ := v.Children(path, c.req.children[:0])
	if children == nil {
		children = []string{}
	}
	c.req.children = nil
	if cap(children) <= keptChildren {
		c.req.children = children
	}
	return children
}

// getACL answers getACL: READ or ADMIN will do, and without ADMIN the digests are not shown.
func (c *conn) getACL(r *request) error {
	p := &c.req.path
	if !decode(r, p) || p.Nulls != 0 {
		return c.unreadable(r)
	}
	v := c.server.opts.Machine.View()
	n, ok := v.Exists(p.Path)
	if !ok {
		return c.answer(r, v, jute.NoNode, nil)
	}
	list := n.ACL()
	if !c.allowed(list, jute.PermRead|jute.PermAdmin) {
		return c.answer(r, v, jute.NoAuth, nil)
	}
	if !c.allowed(list, jute.PermAdmin) {
		list = acl.Redact(list)
	}
	resp := jute.GetACLResponse{ACL: list, Stat: n.Stat()}
	return c.answer(r, v, jute.OK, resp.Append)
}

// getAllChildrenNumber answers the number of descendants.
func (c *conn) getAllChildrenNumber(r *request) error {
	p := &c.req.path
	if !decode(r, p) || p.Nulls != 0 {
		return c.unreadable(r)
	}
	v := c.server.opts.Machine.View()
	if _, code := c.find(v, p.Path); code != jute.OK {
		return c.answer(r, v, code, nil)
	}
	n, _ := v.DescendantCount(p.Path)
	if p.Path == "" {
		n++ // Quirk: ZooKeeper's count of the root's other name includes the root itself
	}
	return c.answer(r, v, jute.OK, func(b []byte) []byte { return jute.AppendInt(b, int32(n)) })
}

// getEphemerals answers the session's own ephemerals; null, blank and "/" ask for all of them.
func (c *conn) getEphemerals(r *request) error {
	p := &c.req.path
	if !decode(r, p) {
		return c.unreadable(r)
	}
	prefix := p.Path
	if isBlank(prefix) || prefix == "/" {
		prefix = ""
	}
	v := c.server.opts.Machine.View()
	paths := v.EphemeralsOf(c.session, prefix, []string{})
	return c.answer(r, v, jute.OK, func(b []byte) []byte { return jute.AppendUstrings(b, paths) })
}

// isBlank reports whether s has nothing but white space in it, as commons-lang's StringUtils.isBlank means it.
func isBlank(s string) bool {
	for _, r := range s {
		if r > ' ' {
			return false
		}
	}
	return true
}

// whoAmI answers the connection's identities.
func (c *conn) whoAmI(r *request) error {
	resp := jute.WhoAmIResponse{ClientInfo: c.server.opts.Registry.WhoAmI([]jute.ClientInfo{}, c.ids.Snapshot())}
	return c.answer(r, c.server.opts.Machine.View(), jute.OK, resp.Append)
}

// multiRead answers many getData and getChildren from one View. A failure of one does not stop the others; a null
// path does, behind the results before it (FinalRequestProcessor, OpCode.multiRead).
func (c *conn) multiRead(r *request) error {
	readable, foreign := c.readableMultiRead(r)
	if !readable {
		return c.unreadable(r)
	}
	v := c.server.opts.Machine.View()
	if foreign {
		return c.answer(r, v, jute.MarshallingError, jute.AppendMultiEnd)
	}
	var d jute.Decoder
	d.Reset(r.body)
	body := *takeBuffer()
	code := jute.OK
	for ops := jute.NewMultiDecoder(&d); code == jute.OK && ops.Next(); {
		p := &c.req.pathWatch
		p.Decode(&d)
		if p.Nulls != 0 {
			code = jute.MarshallingError
			break
		}
		body = c.appendRead(body, v, ops.Header().Type, p.Path)
	}
	err := c.answer(r, v, code, func(b []byte) []byte { return jute.AppendMultiEnd(append(b, body...)) })
	giveBuffer(&body)
	return err
}

// readableMultiRead reports whether the whole of a multiRead can be read: it has operations of one kind. foreign
// means that they are writes.
func (c *conn) readableMultiRead(r *request) (readable, foreign bool) {
	var d jute.Decoder
	d.Reset(r.body)
	ops := jute.NewMultiDecoder(&d)
	for first := true; ops.Next(); first = false {
		record := c.multiRecord(ops.Header().Type)
		write := record != nil
		if op := ops.Header().Type; op == jute.OpGetData || op == jute.OpGetChildren {
			record = &c.req.pathWatch
		}
		if record == nil || !first && write != foreign {
			return false, false
		}
		foreign = write
		record.Decode(&d)
	}
	return d.Err() == nil, foreign
}

// appendRead appends the result of one operation of a multiRead.
func (c *conn) appendRead(b []byte, v storage.View, op jute.Op, path string) []byte {
	n, code := c.find(v, path)
	if code != jute.OK {
		h := jute.MultiHeader{Type: jute.OpError, Err: code}
		return (&jute.ErrorResponse{Err: code}).Append(h.Append(b))
	}
	h := jute.MultiHeader{Type: op}
	b = h.Append(b)
	if op == jute.OpGetChildren {
		return jute.AppendUstrings(b, c.children(v, path))
	}
	stat := n.Stat()
	return stat.Append(jute.AppendBuffer(b, n.Data()))
}
