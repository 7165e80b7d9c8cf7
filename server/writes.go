package server

import (
	"errors"

	"zkd/jute"
	"zkd/quorum"
	"zkd/storage"
)

// maxOutstanding is how many writes of one connection may be under way before its next request waits. A guess: many
// times what clients pipeline.
const maxOutstanding = 4096

// create proposes create, create2 and createContainer.
func (c *conn) create(r *request) error { return c.checked(r, &c.req.create) }

// createTTL proposes createTTL.
func (c *conn) createTTL(r *request) error { return c.checked(r, &c.req.createTTL) }

// remove proposes delete.
func (c *conn) remove(r *request) error { return c.checked(r, &c.req.version) }

// setData proposes setData.
func (c *conn) setData(r *request) error { return c.checked(r, &c.req.setData) }

// setACL proposes setACL.
func (c *conn) setACL(r *request) error { return c.checked(r, &c.req.setACL) }

// decodable is a request record.
type decodable interface{ Decode(*jute.Decoder) }

// checked proposes a write whose body can be read. All other checks are made when it is applied.
func (c *conn) checked(r *request, record decodable) error {
	if c.decode(r, record) != nil {
		return c.unreadable(r)
	}
	return c.propose(r)
}

// reconfigurer is a Node of a group whose members can change.
type reconfigurer interface {
	// Reconfigure has the group brought to the membership that p, an OpReconfig, asks for, and tells w as Propose does.
	Reconfigure(p *storage.Proposal, w quorum.Waiter) error
}

// reconfig has the members changed. ZooKeeper looks at reconfigEnabled before anything else, and a standalone server
// has not implemented it.
func (c *conn) reconfig(r *request) error {
	if c.decode(r, &jute.ReconfigRequest{}) != nil {
		return c.unreadable(r)
	}
	s := c.server
	if !s.opts.ReconfigEnabled {
		return c.fail(r, jute.ReconfigDisabled)
	}
	node, ok := s.opts.node.(reconfigurer)
	if !ok || s.opts.Ensemble == nil {
		return c.fail(r, jute.Unimplemented)
	}
	w, err := c.begin(r, jute.OK)
	if err != nil {
		return err
	}
	w = c.audited(r, w)
	return c.begun(w, node.Reconfigure(&c.req.proposal, w))
}

// multi proposes a multi. One that cannot be read is a transaction, too, and takes a zxid; but not one that creates
// with a null ACL list, which ZooKeeper cannot even log.
func (c *conn) multi(r *request) error {
	if c.readList(r).nullACL {
		return c.unreadable(r)
	}
	return c.propose(r)
}

// operationList is what reading the operations of a multi or a multiRead through has shown.
type operationList struct {
	readable bool
	writes   bool // the kind of the first operation, and so of all of a list that is readable
	nullACL  bool // the first that is wrong is a null ACL list
}

// readList reads the operations of r through, up to the first that is wrong
// (org.apache.zookeeper.MultiOperationRecord.deserialize). Within one create, unknown flags come before a null ACL
// list, and that before flags with a time to live and before standing beside reads.
func (c *conn) readList(r *request) operationList {
	var d jute.Decoder
	d.Reset(r.body)
	ops := jute.NewMultiDecoder(&d)
	var list operationList
	for first := true; ops.Next(); first = false {
		record := c.multiRecord(ops.Header().Type)
		write := record != nil
		if op := ops.Header().Type; op == jute.OpGetData || op == jute.OpGetChildren {
			record = &c.req.pathWatch
		}
		if record == nil {
			return list
		}
		record.Decode(&d)
		if q := &c.req.create; record == decodable(q) && d.Err() == nil {
			list.nullACL = q.ACL == nil && q.Flags.Known()
			if q.ACL == nil || !q.Flags.Known() || q.Flags.TTL() {
				return list
			}
		}
		if !first && write != list.writes {
			return list
		}
		list.writes = write
	}
	list.readable = d.Err() == nil
	return list
}

// multiRecord returns the record of an operation that a multi may hold, or nil.
func (c *conn) multiRecord(op jute.Op) decodable {
	switch op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer:
		return &c.req.create
	case jute.OpCreateTTL:
		return &c.req.createTTL
	case jute.OpDelete, jute.OpCheck:
		return &c.req.version
	case jute.OpSetData:
		return &c.req.setData
	default:
		return nil
	}
}

// closeSession proposes the end of the session. What the client sends behind it is dropped.
func (c *conn) closeSession(r *request) error {
	c.closing.Store(true)
	return c.propose(&request{xid: r.xid, op: r.op})
}

// propose has a write committed; Applied answers it. A multi that cannot be read is a transaction, too: it takes a
// zxid.
func (c *conn) propose(r *request) error {
	w, err := c.begin(r, jute.OK)
	if err != nil {
		return err
	}
	w = c.audited(r, w)
	return c.begun(w, c.server.opts.node.Propose(&c.req.proposal, w))
}

// fail answers r, a write, with code: as a transaction that changes nothing and takes a zxid.
func (c *conn) fail(r *request, code jute.Code) error {
	w, err := c.begin(&request{xid: r.xid, op: jute.OpError}, code)
	if err != nil {
		return err
	}
	w = c.audited(r, w)
	return c.begun(w, c.server.opts.node.Propose(&c.req.proposal, w))
}

// begin counts r in as a write under way, and makes the proposal for it in c.req.
func (c *conn) begin(r *request, code jute.Code) (quorum.Waiter, error) {
	s := c.server
	if !c.out.beginWrite(c.now, &s.underWay, s.elapsed) {
		return nil, errGone
	}
	flags := s.opts.Flags
	if c.special&specialLocal != 0 {
		flags |= storage.FlagLocalSession
	}
	c.req.proposal = storage.Proposal{
		Op: r.op, Session: c.session, Xid: r.xid, Time: s.millis(), Flags: flags, Code: code,
		Server: s.opts.ServerID, Identities: c.ids.Snapshot(), Body: r.body,
	}
	return c.waiter(), nil
}

// begun ends a write that the node has not taken.
func (c *conn) begun(w quorum.Waiter, err error) error {
	if err != nil {
		w.Dropped(err)
	}
	return err
}

// Applied appends the reply to a write. The apply goroutine calls it, after the write's events.
func (c *conn) Applied(r *storage.Result) {
	c.server.underWay.end()
	if r.Code == jute.SessionMoved {
		c.out.close()
		return
	}
	closes := r.Op == jute.OpCloseSession
	o := &c.out
	o.mu.Lock()
	o.outstanding--
	arrival, _ := o.arrivals.pop()
	if !o.closed {
		b, mark := c.beginLocked(r.Xid, r.Zxid, headerCode(r))
		c.endLocked(appendResult(b, r), mark)
	} else {
		c.server.metrics.staleReplies.Add(1)
	}
	if o.outstanding == 0 || o.outstanding == maxOutstanding {
		o.settled.Broadcast()
	}
	o.finish = o.finish || closes
	wake := c.queueLocked()
	o.mu.Unlock()
	if wake {
		c.server.flusher.add(c)
	}
	c.answered(r.Xid, r.Zxid)
	c.written(r, arrival)
}

// written records a write's latency. One that has failed has no name in cons.
func (c *conn) written(r *storage.Result, came arrival) {
	now := c.server.elapsed()
	op := r.Op
	if headerCode(r) != jute.OK {
		op = jute.OpError
	}
	c.latency(op, came.at, now)
	took := now - came.at
	c.server.metrics.updates.Add(took.Milliseconds())
	if c.server.isSlow(took) {
		c.server.slowWrite(c, r, came, now)
	}
}

// Dropped ends the connection: whether the write will be applied is not known, and a client knows what that means.
func (c *conn) Dropped(error) {
	c.server.underWay.end()
	c.out.mu.Lock()
	c.out.outstanding--
	c.out.closeLocked()
	c.out.mu.Unlock()
}

// headerCode is the code in the header of the reply: OK for a multi that could be read, whatever became of it.
func headerCode(r *storage.Result) jute.Code {
	if r.Op == jute.OpMulti && len(r.Ops) > 0 {
		return jute.OK
	}
	return r.Code
}

// appendResult appends the body of a write's reply.
func appendResult(b []byte, r *storage.Result) []byte {
	if r.Op == jute.OpMulti {
		if headerCode(r) != jute.OK {
			return b
		}
		for i := range r.Ops {
			b = appendOpResult(b, &r.Ops[i])
		}
		return jute.AppendMultiEnd(b)
	}
	if r.Code != jute.OK {
		return b
	}
	if r.Op == jute.OpReconfig {
		return appendConfig(b, r)
	}
	return appendBody(b, r.Op, r.Path, &r.Stat)
}

// appendOpResult appends the result of one operation of a multi.
func appendOpResult(b []byte, r *storage.OpResult) []byte {
	h := jute.MultiHeader{Type: r.Op, Err: r.Code}
	b = h.Append(b)
	if r.Op == jute.OpError {
		return (&jute.ErrorResponse{Err: r.Code}).Append(b)
	}
	return appendBody(b, r.Op, r.Path, &r.Stat)
}

// appendBody appends what a successful write answers.
func appendBody(b []byte, op jute.Op, path string, stat *jute.Stat) []byte {
	switch op {
	case jute.OpCreate:
		return jute.AppendString(b, path)
	case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		return stat.Append(jute.AppendString(b, path))
	case jute.OpSetData, jute.OpSetACL:
		return stat.Append(b)
	default: // delete, check and closeSession answer with the header alone
		return b
	}
}

// sync answers when this server has applied all that was committed when it came.
func (c *conn) sync(r *request) error {
	p := &c.req.path
	if c.decode(r, p) != nil {
		return c.unreadable(r)
	}
	zxid, err := c.barrier()
	if err != nil {
		return err
	}
	now := c.server.elapsed()
	c.out.mu.Lock()
	b, mark := c.beginLocked(r.xid, zxid, jute.OK)
	c.endLocked((&jute.SyncResponse{Path: p.Path, Nulls: p.Nulls}).Append(b), mark)
	c.out.mu.Unlock()
	c.answered(r.xid, zxid)
	c.latency(r.op, c.now, now)
	if took := now - c.now; c.server.isSlow(took) {
		c.barred = took - c.held
		c.server.slowRead(c, r, took)
	}
	return nil
}

// barrier waits until this server has applied all that was committed at the call, or the connection ends. It returns
// the last zxid then.
func (c *conn) barrier() (jute.Zxid, error) {
	w := newBarrier()
	c.server.opts.node.Barrier(w)
	select {
	case err := <-w.done:
		return w.zxid, err
	case <-c.out.ending():
		return 0, errGone
	}
}

// newBarrier returns a waiter for one barrier.
func newBarrier() *barrier { return &barrier{done: make(chan error, 1)} }

// barrier waits for one. It is told once, and nobody needs to listen.
type barrier struct {
	zxid jute.Zxid
	done chan error
}

// errNoBarrier means a barrier that was given up.
var errNoBarrier = errors.New("sync was given up")

// Applied ends the wait.
func (w *barrier) Applied(r *storage.Result) {
	w.zxid = r.Zxid
	w.done <- nil
}

// Dropped ends the wait.
func (w *barrier) Dropped(err error) { w.done <- errors.Join(errNoBarrier, err) }
