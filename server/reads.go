package server

import (
	"log/slog"

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
	took := now - c.now
	c.server.metrics.reads.Add(took.Milliseconds())
	if c.server.isSlow(took) {
		c.server.slowRead(c, r, took)
	}
}

// decode reads a record from the body of r. An error means that it cannot be read.
func (c *conn) decode(r *request, record decodable) error {
	d := &c.req.decoder
	d.Reset(r.body)
	record.Decode(d)
	err := d.Err()
	d.Reset(nil)
	return err
}

// exists answers exists. The watch is set even when the znode is missing, but not without READ.
func (c *conn) exists(r *request) error {
	p := &c.req.pathWatch
	if c.decode(r, p) != nil || p.Nulls != 0 {
		return c.unreadable(r)
	}
	if p.Watch && !c.watchable(1) {
		return c.tooManyWatches(r)
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

// findFor finds the znode that getData, getChildren or getChildren2 is about. Unless it may be shown, ok is false, the
// view is closed and the request answered: err is what the handler returns.
func (c *conn) findFor(r *request) (v storage.View, n storage.Node, ok bool, err error) {
	p := &c.req.pathWatch
	if c.decode(r, p) != nil || p.Nulls != 0 {
		return v, n, false, c.unreadable(r)
	}
	if p.Watch && !c.watchable(1) {
		return v, n, false, c.tooManyWatches(r)
	}
	v = c.server.opts.Machine.View()
	n, code := c.find(v, p.Path)
	if code != jute.OK {
		return v, n, false, c.answer(r, v, code, nil)
	}
	return v, n, true, nil
}

// getData answers getData.
func (c *conn) getData(r *request) error {
	v, n, ok, err := c.findFor(r)
	if !ok {
		return err
	}
	if p := &c.req.pathWatch; p.Watch {
		c.server.watches.AddData(&c.watch, p.Path)
	}
	stat, data := n.Stat(), n.Data()
	return c.answer(r, v, jute.OK, func(b []byte) []byte { return stat.Append(jute.AppendBuffer(b, data)) })
}

// getChildren answers getChildren and getChildren2.
func (c *conn) getChildren(r *request) error {
	v, n, ok, err := c.findFor(r)
	if !ok {
		return err
	}
	p := &c.req.pathWatch
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
	if c.decode(r, p) != nil || p.Nulls != 0 {
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

// descendantsPerView is how many znodes are counted before commits have their turn: some milliseconds.
const descendantsPerView = 4096

// getAllChildrenNumber answers the number of descendants.
func (c *conn) getAllChildrenNumber(r *request) error {
	p := &c.req.path
	if c.decode(r, p) != nil || p.Nulls != 0 {
		return c.unreadable(r)
	}
	v := c.server.opts.Machine.View()
	if _, code := c.find(v, p.Path); code != jute.OK {
		return c.answer(r, v, code, nil)
	}
	d := storage.Descendants{Path: p.Path}
	for !v.Count(&d, descendantsPerView) {
		v.Close()
		v = c.server.opts.Machine.View()
	}
	if p.Path == "" {
		d.N++ // Quirk: ZooKeeper's count of the root's other name includes the root itself
	}
	return c.answer(r, v, jute.OK, func(b []byte) []byte { return jute.AppendInt(b, int32(d.N)) })
}

// getEphemerals answers the session's own ephemerals; null, blank and "/" ask for all of them.
func (c *conn) getEphemerals(r *request) error {
	p := &c.req.path
	if c.decode(r, p) != nil {
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

// multiReadTimes is how many times the longest request the answer of a multiRead may be, unless it is that of one
// operation. A guess: a client takes four times as much by default. Without a bound a request of a megabyte, each
// operation of which reads the same megabyte, asks for more than any server has.
const multiReadTimes = 16

// multiRead answers many getData and getChildren from one View. A failure of one does not stop the others; a null
// path does, behind the results before it (FinalRequestProcessor, OpCode.multiRead). An answer that would be too long
// has none of them.
func (c *conn) multiRead(r *request) error {
	list := c.readList(r)
	if !list.readable {
		return c.unreadable(r)
	}
	v := c.server.opts.Machine.View()
	if list.writes {
		return c.answer(r, v, jute.MarshallingError, jute.AppendMultiEnd)
	}
	var d jute.Decoder
	d.Reset(r.body)
	body := *takeBuffer()
	code := jute.OK
	seen := verdicts{}
	for ops := jute.NewMultiDecoder(&d); code == jute.OK && ops.Next(); {
		if len(body) > multiReadTimes*c.server.opts.MaxFrameBytes {
			c.server.bad.Warn("refused a multiRead whose answer is too long: it asks for too much at once",
				slog.String("peer", c.remote.String()), session(c.session))
			body, code = body[:0], jute.MarshallingError
			break
		}
		p := &c.req.pathWatch
		p.Decode(&d)
		if p.Nulls != 0 {
			code = jute.MarshallingError
			break
		}
		body = c.appendRead(body, v, ops.Header().Type, p.Path, seen)
	}
	err := c.answer(r, v, code, func(b []byte) []byte { return jute.AppendMultiEnd(append(b, body...)) })
	giveBuffer(&body)
	return err
}

// verdicts are what a multiRead has found out: whether READ is allowed to its client by a list, known by its first
// entry. No write is made visible while a multiRead looks, and its client chooses how long lists are, and how often it
// asks.
type verdicts map[*jute.ACL]bool

// readable reports whether c may read a znode with that list.
func (v verdicts) readable(c *conn, list []jute.ACL) bool {
	if len(list) <= 1 {
		return c.CanRead(list)
	}
	may, known := v[&list[0]]
	if !known {
		may = c.CanRead(list)
		v[&list[0]] = may
	}
	return may
}

// appendRead appends the result of one operation of a multiRead.
func (c *conn) appendRead(b []byte, v storage.View, op jute.Op, path string, seen verdicts) []byte {
	n, ok := v.Get(path)
	code := jute.OK
	switch {
	case !ok:
		code = jute.NoNode
	case !seen.readable(c, n.ACL()):
		code = jute.NoAuth
	}
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
