package server

import (
	"errors"
	"log/slog"

	"zkd/jute"
	"zkd/server/limits"
	"zkd/server/socket"
	"zkd/server/watch"
	"zkd/storage/acl"
	"zkd/storage/schema"
	"zkd/storage/state"
)

// queries are the requests of a connection that this server answers by itself. Owned by the reader.
type queries struct {
	*conn
	scan   limits.Scan // of the present one
	pace   func() bool // scan.Pace; nil before the first
	making making
	shared shared // of the present answer
}

// making is an answer that is being made, as the connection's account knows it.
type making struct {
	account *limits.Account
	charged int
}

// expect counts in that the answer takes so many bytes. It may wait for others to give theirs back. false: it is not to
// be made, as the connection has ended.
func (m *making) expect(bytes int) bool {
	if bytes < limits.MemoryStepBytes || bytes <= m.charged {
		return true
	}
	more := bytes - m.charged
	m.charged = bytes
	return m.account.Take(limits.Unread, int64(more))
}

// waitsFor reports whether expect would wait.
func (m *making) waitsFor(bytes int) bool {
	return bytes >= limits.MemoryStepBytes && bytes > m.charged && !m.account.Fits(bytes-m.charged)
}

// over counts it out: it is unread by now, or dropped.
func (m *making) over() {
	if m.charged > 0 {
		m.account.Add(limits.Unread, -int64(m.charged))
		m.charged = 0
	}
}

// answer appends the reply to a read while the present is held, so that no event of a later change gets before it.
func (c *queries) answer(r *request, v state.Present, code jute.Code, body func(b []byte) []byte) error {
	zxid, out := v.Zxid(), 0
	err := v.Err()
	if err == nil {
		c.Out.Lock()
		b, mark := c.beginLocked(r.xid, zxid, code)
		if body != nil {
			b = body(b)
		}
		out = len(b) - mark
		c.Out.EndLocked(b, mark)
		c.Out.Unlock()
	}
	v.Close()
	c.letGo()
	if err != nil {
		return err
	}
	c.readDone(r, zxid, out, code)
	return nil
}

// present takes the present state, for r.
func (c *queries) present(r *request) state.Present {
	v := c.server.opts.Machine.Present()
	c.held.begin(r)
	return v
}

// look takes the present state with the znode at path.
func (c *queries) look(r *request, path string) (state.Present, state.Node, bool) {
	v, n, ok := c.server.opts.Machine.Look(path)
	c.held.begin(r)
	return v, n, ok
}

// lookData is look with the znode's data.
func (c *queries) lookData(r *request, path string) (state.Present, state.Node, bool) {
	v, n, ok := c.server.opts.Machine.LookData(path)
	c.held.begin(r)
	return v, n, ok
}

// letGo says that the read holds nothing of the state any more.
func (c *queries) letGo() {
	if since, long := c.held.end(); long {
		c.server.watchdog.readEnded(&c.held, c.conn, since)
	}
}

// answerReserved gives the present up for a View of the same moment, in which body makes the reply, of about so many
// bytes. It may take long: others read and write on, and what happens meanwhile this client hears of after the reply.
func (c *queries) answerReserved(r *request, p state.Present, bytes int,
	body func(v state.View, b []byte) ([]byte, jute.Code)) error {
	wake := c.Out.Reserve(bytes)
	v := p.View()
	if wake {
		c.server.flusher.Add(&c.Out)
	}
	zxid := v.Zxid()
	fits := c.making.expect(bytes)
	defer c.making.over()
	if !fits { // the connection has ended
		v.Close()
		c.letGo()
		c.scan.End()
		return errGone
	}
	if c.shared.may {
		bytes = 0
	}
	buf := socket.TakeBufferFor(bytes)
	b, mark := jute.BeginFrame(*buf)
	h := jute.ReplyHeader{Xid: r.xid, Zxid: zxid}
	header := len(b)
	b, h.Err = body(v, h.Append(b))
	err := v.Err()
	v.Close()
	c.letGo()
	stopped := c.scan.Stopped() || c.account.Ended()
	c.scan.End()
	*buf = jute.EndFrame(b, mark)
	if err != nil || stopped { // the connection ends: what waits behind the reply is never sent
		socket.GiveBuffer(buf)
		return errors.Join(err, errGone)
	}
	if h.Err != jute.OK {
		h.Append(b[:header])
	}
	c.making.over()
	c.readDone(r, zxid, len(b)-mark+c.shared.bytes, h.Err)
	if c.shared.bytes > 0 {
		c.insertShared(buf, mark)
	} else {
		c.Out.Insert(buf, len(b)-header)
	}
	return nil
}

// readDone counts a read that was answered with a frame of so many bytes.
func (c *queries) readDone(r *request, zxid jute.Zxid, out int, code jute.Code) {
	now := c.server.elapsed()
	took := now - c.now
	c.gathered.read(r, zxid, c.now, now)
	c.metered.tally(r, out, code, took)
	if c.server.isSlow(took) {
		c.server.slowRead(c.conn, r, took)
	}
}

// ping answers a ping. The reply has ping's xid, whatever was sent.
func (c *queries) ping(r *request) error {
	r.xid = jute.XidPing
	c.answerShort(r, jute.OK)
	return nil
}

// exists answers exists. The watch is set even when the znode is missing, but not without READ.
func (c *queries) exists(r *request) error {
	p := &c.req.pathWatch
	if c.req.decode(r, p) != nil || p.Nulls != 0 {
		return c.unreadable(r)
	}
	if p.Watch && !c.admitter.watchable(watch.Asked{Watches: 1, PathBytes: len(p.Path)}) {
		return c.admitter.tooManyWatches(r)
	}
	if jute.HasNUL(p.Path) {
		return c.answer(r, c.present(r), jute.BadArguments, nil)
	}
	v, n, ok := c.look(r, p.Path)
	if ok && !c.allowed(n.ACL(), jute.PermRead) {
		return c.answer(r, v, jute.NoAuth, nil)
	}
	if p.Watch {
		c.server.watches.AddData(&c.watch, p.Path)
		c.metered.watches++
	}
	if !ok {
		return c.answer(r, v, jute.NoNode, nil)
	}
	stat := n.Stat()
	return c.answer(r, v, jute.OK, stat.Append)
}

// verdict is what a read of n is answered: OK if the znode may be shown.
func (c *queries) verdict(n state.Node, ok bool) jute.Code {
	switch {
	case !ok:
		return jute.NoNode
	case !c.allowed(n.ACL(), jute.PermRead):
		return jute.NoAuth
	}
	return jute.OK
}

// lookUp finds a znode in the present state.
type lookUp func(r *request, path string) (state.Present, state.Node, bool)

// findFor finds the znode that getData, getChildren or getChildren2 is about. Unless it may be shown, ok is false, the
// present is given back and the request answered: err is what the handler returns.
func (c *queries) findFor(r *request, look lookUp) (v state.Present, n state.Node, ok bool, err error) {
	p := &c.req.pathWatch
	if c.req.decode(r, p) != nil || p.Nulls != 0 {
		return v, n, false, c.unreadable(r)
	}
	if p.Watch && !c.admitter.watchable(watch.Asked{Watches: 1, PathBytes: len(p.Path)}) {
		return v, n, false, c.admitter.tooManyWatches(r)
	}
	shown := c.mayReadQuota(p.Path) // before the present, which nothing is read under
	v, n, ok = look(r, p.Path)
	code := c.verdict(n, ok)
	if code == jute.OK && !shown {
		code = jute.NoAuth
	}
	if code != jute.OK {
		return v, n, false, c.answer(r, v, code, nil)
	}
	return v, n, true, nil
}

// largeData is the data that is copied without the present being held. A guess: some microseconds.
const largeData = 64 << 10

// aboutHeadBytes is what the header of a reply and a Stat take, about.
const aboutHeadBytes = 128

// getData answers getData.
func (c *queries) getData(r *request) error {
	v, n, ok, err := c.findFor(r, c.lookData)
	if !ok {
		return err
	}
	if p := &c.req.pathWatch; p.Watch {
		c.server.watches.AddData(&c.watch, p.Path)
		c.metered.watches++
	}
	stat, data := n.Stat(), n.Data()
	if len(data) > largeData {
		c.scanning()
		return c.answerReserved(r, v, len(data)+aboutHeadBytes, func(_ state.View, b []byte) ([]byte, jute.Code) {
			if !c.scan.Expect(limits.KeysOf(len(data))) {
				return b, jute.OK // nobody will take it
			}
			return stat.Append(jute.AppendBuffer(b, data)), jute.OK
		})
	}
	return c.answer(r, v, jute.OK, func(b []byte) []byte { return stat.Append(jute.AppendBuffer(b, data)) })
}

// scanning prepares the connection's scan. A connection has one at most.
func (c *queries) scanning() {
	if c.pace == nil {
		c.pace = c.scan.Pace
	}
	c.scan = c.server.readTurns.Scan(&c.Out, &c.held.waits)
}

// mayPause prepares a read that turns out to be large.
func (c *queries) mayPause() {
	if !c.scan.Ready() {
		c.scanning()
	}
}

// getACL answers getACL: READ or ADMIN will do, and without ADMIN the digests are not shown.
func (c *queries) getACL(r *request) error {
	p := &c.req.path
	if c.req.decode(r, p) != nil || p.Nulls != 0 {
		return c.unreadable(r)
	}
	v, n, ok := c.look(r, p.Path)
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
func (c *queries) getAllChildrenNumber(r *request) error {
	p := &c.req.path
	if c.req.decode(r, p) != nil || p.Nulls != 0 {
		return c.unreadable(r)
	}
	v, n, ok := c.look(r, p.Path)
	if code := c.verdict(n, ok); code != jute.OK {
		return c.answer(r, v, code, nil)
	}
	c.scanning()
	return c.answerReserved(r, v, 0, func(v state.View, b []byte) ([]byte, jute.Code) {
		v.Pace(c.pace)
		count := v.CountBelow(p.Path)
		if p.Path == "" {
			count++ // Quirk: ZooKeeper's count of the root's other name includes the root itself
		}
		return jute.AppendInt(b, int32(count)), jute.OK
	})
}

// getEphemerals answers the session's own ephemerals; null, blank and "/" ask for all of them.
func (c *queries) getEphemerals(r *request) error {
	p := &c.req.path
	if c.req.decode(r, p) != nil {
		return c.unreadable(r)
	}
	prefix := p.Path
	if isBlank(prefix) || prefix == "/" {
		prefix = ""
	}
	c.scanning()
	return c.answerReserved(r, c.present(r), 0, func(v state.View, b []byte) ([]byte, jute.Code) {
		v.Pace(c.pace)
		mark, count := len(b), 0
		b = jute.AppendInt(b, 0)
		v.EachEphemeralOf(c.session, prefix, func(path []byte) {
			b = jute.AppendBuffer(b, path)
			count++
		})
		jute.AppendInt(b[:mark], int32(count))
		return b, jute.OK
	})
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
func (c *queries) whoAmI(r *request) error {
	resp := jute.WhoAmIResponse{ClientInfo: c.server.opts.Registry.WhoAmI([]jute.ClientInfo{}, c.login.ids.Snapshot())}
	return c.answer(r, c.present(r), jute.OK, resp.Append)
}

// mayReadQuota tells whether the client may see path as far as it is a znode of a quota: what that says is for who may
// read what it is about, or, while that is missing, the nearest above. ZooKeeper tells it to everybody.
func (c *queries) mayReadQuota(path string) bool {
	if _, ok := schema.QuotaOf(path); !ok {
		return true
	}
	v := c.server.opts.Machine.View()
	defer v.Close()
	return c.mayReadQuotaIn(v, path)
}

// mayReadQuotaIn is mayReadQuota in a View.
func (c *queries) mayReadQuotaIn(v state.View, path string) bool {
	target, ok := schema.QuotaOf(path)
	if !ok {
		return true
	}
	there := func(path string) bool {
		_, ok := v.Exists(path)
		return ok
	}
	n, ok := v.Exists(schema.Nearest(target, there))
	return ok && c.allowed(n.ACL(), jute.PermRead)
}

// multiReadTimes is how many times the longest request the answer of a multiRead may be, unless it is that of one
// operation. A guess: a client takes four times as much by default. Without a bound a request of a megabyte, each
// operation of which reads the same megabyte, asks for more than any server has.
const multiReadTimes = 16

// multiRead answers many getData and getChildren of one moment. A failure of one does not stop the others; a null
// path does, behind the results before it (FinalRequestProcessor, OpCode.multiRead). An answer that would be too long
// has none of them.
func (c *queries) multiRead(r *request) error {
	list := c.req.readList(r)
	if !list.readable {
		return c.unreadable(r)
	}
	v := c.present(r)
	if list.writes {
		return c.answer(r, v, jute.MarshallingError, jute.AppendMultiEnd)
	}
	c.scanning()
	return c.answerReserved(r, v, 0, func(v state.View, b []byte) ([]byte, jute.Code) {
		v.Pace(c.pace)
		b, code := c.appendReads(b, v, r)
		return jute.AppendMultiEnd(b), code
	})
}

// readsPerPace is how many operations of a multiRead count as much as a stretch of a scan.
const readsPerPace = state.ScanPace / 8

// appendReads appends the results of the operations of a multiRead.
func (c *queries) appendReads(b []byte, v state.View, r *request) ([]byte, jute.Code) {
	var d jute.Decoder
	d.Reset(r.body)
	begin := len(b)
	seen := verdicts{}
	results := map[oneRead]span{}
	done, paced := 0, 0
	for ops := jute.NewMultiDecoder(&d); ops.Next() && !c.scan.Stopped(); done++ {
		if len(b)-begin > multiReadTimes*c.server.opts.MaxFrameBytes {
			c.server.bad.Warn("rejected multiRead: response too large",
				slog.String("peer", c.remote.String()), session(c.session))
			return b[:begin], jute.MarshallingError
		}
		p := &c.req.pathWatch
		p.Decode(&d)
		if p.Nulls != 0 {
			return b, jute.MarshallingError
		}
		one := oneRead{ops.Header().Type, p.Path}
		if same, known := results[one]; known {
			b = append(b, b[same.from:same.to]...)
		} else {
			from := len(b)
			b = c.appendRead(b, v, one.op, one.path, seen)
			results[one] = span{from, len(b)}
		}
		for due := done/readsPerPace + limits.KeysOf(len(b)-begin)/state.ScanPace; paced < due && c.pace(); paced++ {
		}
		if !c.expectMore(cap(b)) {
			return b, jute.OK // nobody will take it
		}
	}
	return b, jute.OK
}

// expectMore is making.expect for an answer that grows: who waits for memory keeps no turn meanwhile.
func (c *queries) expectMore(bytes int) bool {
	if !c.making.waitsFor(bytes) {
		return c.making.expect(bytes)
	}
	rests := c.scan.Rest()
	return c.making.expect(bytes) && (!rests || c.scan.Resume())
}

// oneRead is an operation of a multiRead. All of them are of one moment: what was asked before is not read again.
type oneRead struct {
	op   jute.Op
	path string
}

// span is where a result is in the answer to a multiRead.
type span struct{ from, to int }

// verdicts are what a multiRead has found out: whether READ is allowed to its client by a list, known by its first
// entry. A multiRead shows one moment, and its client chooses how long lists are, and how often it asks.
type verdicts map[*jute.ACL]bool

// readable reports whether c may read a znode with that list.
func (v verdicts) readable(c *conn, list []jute.ACL) bool {
	if len(list) <= 1 {
		return c.allowed(list, jute.PermRead)
	}
	may, known := v[&list[0]]
	if !known {
		may = c.allowed(list, jute.PermRead)
		v[&list[0]] = may
	}
	return may
}

// appendRead appends the result of one operation of a multiRead.
func (c *queries) appendRead(b []byte, v state.View, op jute.Op, path string, seen verdicts) []byte {
	n, ok := v.Get(path)
	code := jute.OK
	switch {
	case !ok:
		code = jute.NoNode
	case !seen.readable(c.conn, n.ACL()), !c.mayReadQuotaIn(v, path):
		code = jute.NoAuth
	}
	if code != jute.OK {
		h := jute.MultiHeader{Type: jute.OpError, Err: code}
		return (&jute.ErrorResponse{Err: code}).Append(h.Append(b))
	}
	h := jute.MultiHeader{Type: op}
	b = h.Append(b)
	stat := n.Stat()
	if op == jute.OpGetChildren {
		list := v.List(path, int(stat.NumChildren))
		return c.appendChildren(b, v, path, int(stat.NumChildren), &list)
	}
	return stat.Append(jute.AppendBuffer(b, n.Data()))
}
