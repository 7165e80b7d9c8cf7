package server

import (
	"bytes"
	"slices"
	"time"

	"zkd/jute"
	"zkd/quorum/batcher"
	"zkd/server/socket"
	"zkd/server/watch"
	"zkd/storage/apply"
	"zkd/storage/entry"
)

// writes are the requests of a connection that the group decides on. It is what is told of their ends, by the apply
// goroutine; the rest is the reader's.
type writes struct {
	*conn
	proposal       entry.Proposal // the present one
	identification identification

	refusals struct { // for want of room
		any        bool
		came, last time.Duration // when the request of the last one came, and when it was refused
	}
}

// create proposes create, create2 and createContainer.
func (c *writes) create(r *request) error { return c.checked(r, &c.req.create) }

// createTTL proposes createTTL.
func (c *writes) createTTL(r *request) error { return c.checked(r, &c.req.createTTL) }

// remove proposes delete.
func (c *writes) remove(r *request) error { return c.checked(r, &c.req.version) }

// setData proposes setData.
func (c *writes) setData(r *request) error { return c.checked(r, &c.req.setData) }

// setACL proposes setACL.
func (c *writes) setACL(r *request) error { return c.checked(r, &c.req.setACL) }

// checked proposes a write whose body can be read. All other checks are made when it is applied.
func (c *writes) checked(r *request, record decodable) error {
	if c.req.decode(r, record) != nil {
		return c.unreadable(r)
	}
	if c.grows(r) {
		return c.rejectForSpace(r)
	}
	return c.propose(r)
}

// reconfigurer is a Node of a group whose members can change.
type reconfigurer interface {
	// Reconfigure has the group brought to the membership that p, an OpReconfig, asks for, and tells w as Propose does.
	Reconfigure(p *entry.Proposal, w batcher.Waiter) error
	// InForce tells when the configuration of this version, or a later one, is in force on this member. told is called
	// once, on any goroutine; an error says that it will not be known.
	InForce(version int64, told func(error))
}

// reconfiguring waits until a reconfig that has come out well is in force on this server, and only then has it
// answered. Nothing of its connection is under way behind it meanwhile.
type reconfiguring struct {
	batcher.Waiter
	node reconfigurer
}

// Applied implements batcher.Waiter.
func (w *reconfiguring) Applied(r *apply.Result) {
	if r.Code != jute.OK {
		w.Waiter.Applied(r)
		return
	}
	kept := apply.Result{Op: r.Op, Session: r.Session, Xid: r.Xid, Zxid: r.Zxid, Stat: r.Stat,
		Data: bytes.Clone(r.Data), Bytes: r.Bytes}
	w.node.InForce(int64(r.Zxid), func(err error) {
		if err != nil {
			w.Dropped(err)
			return
		}
		w.Waiter.Applied(&kept)
	})
}

// reconfig has the members changed. ZooKeeper looks at reconfigEnabled before anything else, and a standalone server
// has not implemented it.
func (c *writes) reconfig(r *request) error {
	if c.req.decode(r, &jute.ReconfigRequest{}) != nil {
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
	w = c.auditor.audited(r, &reconfiguring{w, node})
	if err := c.begun(w, node.Reconfigure(&c.proposal, w)); err != nil {
		return err
	}
	if !c.Out.AwaitSettled(maxInt) { // its reply comes late: nothing may come before it
		return errGone
	}
	return nil
}

// multi proposes a multi. One that cannot be read is a transaction, too, and takes a zxid; but not one that creates
// with a null ACL list, which ZooKeeper cannot even log.
func (c *writes) multi(r *request) error {
	if c.req.readList(r).nullACL {
		return c.unreadable(r)
	}
	if c.grows(r) {
		return c.rejectForSpace(r)
	}
	return c.propose(r)
}

// closeSession proposes the end of the session. What the client sends behind it is dropped.
func (c *writes) closeSession(r *request) error {
	c.closing.Store(true)
	r = &request{xid: r.xid, op: r.op}
	w, err := c.begin(r, jute.OK)
	if err != nil {
		return err
	}
	w = c.auditor.audited(r, w)
	return c.begun(w, expirer{c.server}.end(&c.proposal, w))
}

// propose has a write committed; Applied answers it.
func (c *writes) propose(r *request) error {
	w, err := c.begin(r, jute.OK)
	if err != nil {
		return err
	}
	w = c.auditor.audited(r, w)
	return c.begun(w, c.server.opts.node.Propose(&c.proposal, w))
}

// fail answers r, a write, with code: as a transaction that changes nothing and takes a zxid.
func (c *writes) fail(r *request, code jute.Code) error {
	w, err := c.begin(&request{xid: r.xid, op: jute.OpError}, code)
	if err != nil {
		return err
	}
	w = c.auditor.audited(r, w)
	return c.begun(w, c.server.opts.node.Propose(&c.proposal, w))
}

// begin counts r in as a write under way, and makes the proposal for it. It takes the connection's turn, which begun
// ends; not with an error.
func (c *writes) begin(r *request, code jute.Code) (batcher.Waiter, error) {
	s := c.server
	write := socket.Write{Came: c.now, Bytes: len(r.body) + c.identification.bytes(c.login.ids.Proven()),
		Frame: requestHeadBytes + len(r.body)}
	c.gathered.add() // before it can be answered
	if !c.Out.BeginWrite(write, &s.inFlight, s.elapsed) {
		return nil, errGone
	}
	flags := s.opts.Flags
	if c.flags&flagLocal != 0 {
		flags |= entry.FlagLocalSession
	}
	c.proposal = entry.Proposal{
		Op: r.op, Session: c.session, Xid: r.xid, Time: c.dated(), Flags: flags, Code: code,
		Server: s.opts.ServerID, Body: r.body,
	}
	c.metered.Begun(write.Frame, c.proposal.Path)
	w := c.waiter()
	c.turn.Lock()
	err := errGone
	if !c.superseded {
		err = c.identify(&c.proposal)
	}
	if err != nil {
		return nil, c.begun(w, err)
	}
	return w, nil
}

// dated is the time of day at which the requests in the input buffer came: the time of a proposal, until the leader
// sets that of its entry.
func (c *writes) dated() jute.Millis {
	if c.date == 0 {
		c.date = c.server.millis()
	}
	return c.date
}

// begun ends the turn, and a write that the node has not taken.
func (c *writes) begun(w batcher.Waiter, err error) error {
	c.turn.Unlock()
	if err != nil {
		w.Dropped(err)
	}
	return err
}

// largeWrite is the waiter of a large write.
type largeWrite struct {
	*writes
	bytes int
}

// waiter returns whom to tell of a write's end: the connection, or a largeWrite that takes the reservation over.
func (c *writes) waiter() batcher.Waiter {
	if c.admitter.reserved == 0 {
		return c
	}
	w := &largeWrite{writes: c, bytes: c.admitter.reserved}
	c.admitter.reserved = 0
	return w
}

// Applied ends the reservation and answers.
func (w *largeWrite) Applied(r *apply.Result) {
	w.server.frames.Give(w.bytes)
	w.writes.Applied(r)
}

// Dropped ends the reservation and the connection.
func (w *largeWrite) Dropped(err error) {
	w.server.frames.Give(w.bytes)
	w.writes.Dropped(err)
}

// Committed fires the watches of a write, and tells of members and sessions that it has changed. The apply goroutine
// calls it, before the write is visible and before its client is answered; during the node's start too, when nobody
// watches.
func (s *Server) Committed(r *apply.Result) {
	leads := s.available.leading.Load()
	if leads {
		s.metrics.proposals.Add(r.Bytes, r.Bytes, r.Bytes)
	}
	if r.First {
		s.watches.Begin()
	}
	s.telling.begin(len(r.Events))
	for i := range r.Events {
		ev := (*watch.Event)(&r.Events[i])
		told := 0
		if s.telling.gathers {
			told = s.telling.gather(ev)
		} else {
			told = s.watches.Fire(ev)
		}
		s.traffic.Noticed(ev.Path, told)
	}
	s.telling.end()
	s.tellOfMembers(r)
	if tracker := s.tracker.Load(); tracker != nil {
		s.traffic.Applied(r.Op, applyShare(s.opts.node), func() string { return changedPath(r) })
		s.followSessions(r, tracker, leads)
	}
}

// tellOfMembers tells that who belongs to the ensemble has changed, if it has.
func (s *Server) tellOfMembers(r *apply.Result) {
	changed := r.Code == jute.OK && (r.Op == jute.OpReconfig || r.Op == entry.OpFoundEnsemble)
	if e := s.opts.Ensemble; changed && e != nil && e.MembersChanged != nil {
		e.MembersChanged()
	}
}

// Applied appends the reply to a write. The apply goroutine calls it, after the write's events; of a reconfig any
// goroutine.
func (c *writes) Applied(r *apply.Result) {
	c.server.inFlight.End()
	if r.Code == jute.SessionMoved {
		c.Out.DropWrite() // the session's next connection may wait for it
		return
	}
	closes := r.Op == jute.OpCloseSession
	o := &c.Out
	o.Lock()
	arrival, open := o.EndWriteLocked(closes)
	out := 0
	if open {
		b, mark := c.beginLocked(r.Xid, r.Zxid, headerCode(r))
		b = appendResult(b, r)
		out = len(b) - mark
		o.EndLocked(b, mark)
	} else {
		c.server.metrics.staleReplies.Add(1)
	}
	// It is counted before it can leave: its client may send the next request, and ask for the figures, at once.
	now := c.server.elapsed()
	c.answered(r.Xid, r.Zxid)
	c.latency(opOf(r), arrival.At, now)
	wake := o.QueueLocked()
	o.Unlock()
	if wake {
		c.server.flusher.Add(&c.Out)
	}
	c.written(r, arrival, out, now)
}

// opOf is the operation that cons shows of a write: one that has failed has no name there.
func opOf(r *apply.Result) jute.Op {
	if headerCode(r) != jute.OK {
		return jute.OpError
	}
	return r.Op
}

// written records how long a write took that was answered now, and the answer in a frame of so many bytes.
func (c *writes) written(r *apply.Result, came socket.Arrival, out int, now time.Duration) {
	took := now - came.At
	c.server.metrics.updates.Add(took.Milliseconds())
	c.metered.tallyWrite(r, came, out, now)
	if c.server.isSlow(took) && r.Op != jute.OpReconfig { // which has waited for other members
		c.server.slowWrite(c.conn, r, came, now)
	}
}

// Dropped ends the connection: whether the write will be applied is not known, and a client knows what that means.
func (c *writes) Dropped(error) {
	c.server.inFlight.End()
	c.Out.DropWrite()
}

// headerCode is the code in the header of the reply: OK for a multi that could be read, whatever became of it.
func headerCode(r *apply.Result) jute.Code {
	if r.Op == jute.OpMulti && len(r.Ops) > 0 {
		return jute.OK
	}
	return r.Code
}

// opResultBytes is what the result of one operation of a multi takes that has a Stat and no path.
const opResultBytes = 9 + 68

// appendResult appends the body of a write's reply.
func appendResult(b []byte, r *apply.Result) []byte {
	if r.Op == jute.OpMulti {
		if headerCode(r) != jute.OK {
			return b
		}
		b = slices.Grow(b, len(r.Ops)*opResultBytes)
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
func appendOpResult(b []byte, r *apply.OpResult) []byte {
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
