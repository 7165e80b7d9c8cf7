package server

import (
	"errors"
	"log/slog"
	"time"

	"zkd/jute"
	"zkd/server/limits"
	"zkd/server/socket"
)

// request is one request as it stands in the input buffer.
type request struct {
	xid  jute.Xid
	op   jute.Op
	body []byte // a view of the frame
}

// records are the request records that the reader decodes into, so that decoding allocates nothing.
type records struct {
	create    jute.CreateRequest
	createTTL jute.CreateTTLRequest
	version   jute.PathVersionRequest
	pathWatch jute.PathWatchRequest
	path      jute.PathRequest
	setData   jute.SetDataRequest
	setACL    jute.SetACLRequest
	decoder   jute.Decoder
}

// decodable is a request record.
type decodable interface{ Decode(*jute.Decoder) }

// decode reads a record from the body of r. An error means that it cannot be read.
func (q *records) decode(r *request, record decodable) error {
	d := &q.decoder
	d.Reset(r.body)
	record.Decode(d)
	err := d.Err()
	d.Reset(nil)
	return err
}

// handler answers one request, or takes it for an answer later: one of the three. An error ends the connection.
type handler struct {
	query func(c *queries, r *request) error
	write func(c *writes, r *request) error
	login func(c *login, r *request) error
}

// handlers is the table of opcodes that clients may send. What is not here is answered Unimplemented, and the
// connection closed: unknown opcodes, check outside a multi, and what only servers propose. (Quirk not kept: 3.9.5
// takes deleteContainer and createSession from clients, without any check.) lowestOp is the first one's.
var handlers = [...]handler{
	jute.OpPing - lowestOp:                 {query: (*queries).ping},
	jute.OpAuth - lowestOp:                 {login: (*login).auth},
	jute.OpCreate - lowestOp:               {write: (*writes).create},
	jute.OpCreate2 - lowestOp:              {write: (*writes).create},
	jute.OpCreateContainer - lowestOp:      {write: (*writes).create},
	jute.OpCreateTTL - lowestOp:            {write: (*writes).createTTL},
	jute.OpDelete - lowestOp:               {write: (*writes).remove},
	jute.OpSetData - lowestOp:              {write: (*writes).setData},
	jute.OpSetACL - lowestOp:               {write: (*writes).setACL},
	jute.OpMulti - lowestOp:                {write: (*writes).multi},
	jute.OpReconfig - lowestOp:             {write: (*writes).reconfig},
	jute.OpCloseSession - lowestOp:         {write: (*writes).closeSession},
	jute.OpSync - lowestOp:                 {write: (*writes).sync},
	jute.OpExists - lowestOp:               {query: (*queries).exists},
	jute.OpGetData - lowestOp:              {query: (*queries).getData},
	jute.OpGetChildren - lowestOp:          {query: (*queries).getChildren},
	jute.OpGetChildren2 - lowestOp:         {query: (*queries).getChildren},
	jute.OpGetACL - lowestOp:               {query: (*queries).getACL},
	jute.OpGetAllChildrenNumber - lowestOp: {query: (*queries).getAllChildrenNumber},
	jute.OpGetEphemerals - lowestOp:        {query: (*queries).getEphemerals},
	jute.OpMultiRead - lowestOp:            {query: (*queries).multiRead},
	jute.OpWhoAmI - lowestOp:               {query: (*queries).whoAmI},
	jute.OpAddWatch - lowestOp:             {query: (*queries).addWatch},
	jute.OpCheckWatches - lowestOp:         {query: (*queries).checkWatches},
	jute.OpRemoveWatches - lowestOp:        {query: (*queries).removeWatches},
	jute.OpSetWatches - lowestOp:           {query: (*queries).setWatches},
	jute.OpSetWatches2 - lowestOp:          {query: (*queries).setWatches},
	jute.OpSASL - lowestOp:                 {login: (*login).sasl},
}

// lowestOp is the least opcode that clients may send.
const lowestOp = jute.OpCloseSession

// handlerOf returns the handler of an opcode; known is false if there is none.
func handlerOf(op jute.Op) (h handler, known bool) {
	i := int64(op) - int64(lowestOp) // a client may send any
	if i < 0 || i >= int64(len(handlers)) {
		return handler{}, false
	}
	h = handlers[i]
	return h, h.query != nil || h.write != nil || h.login != nil
}

// isWrite says which requests are proposals: they do not wait for one another. deleteContainer and check are never
// here.
func isWrite(op jute.Op) bool {
	switch op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL, jute.OpDelete, jute.OpSetData,
		jute.OpSetACL, jute.OpMulti, jute.OpReconfig, jute.OpCloseSession:
		return true
	default:
		return false
	}
}

// answer has the request answered.
func (h handler) answer(c *conn, r *request) error {
	switch {
	case h.query != nil:
		return h.query(&c.queries, r)
	case h.write != nil:
		return h.write(&c.writes, r)
	default:
		return h.login(&c.login, r)
	}
}

// errGone means that the connection ended while a request waited for its turn.
var errGone = errors.New("connection ended before its request was answered")

// dispatch answers a request in its turn.
func (c *conn) dispatch(r *request) error {
	s := c.server
	h, known := handlerOf(r.op)
	c.queueWait, c.barrierWait = c.admitter.waited, 0
	authenticates := r.op == jute.OpAuth || r.op == jute.OpSASL
	if !isWrite(r.op) && !authenticates && !c.awaitTurn() {
		return errGone
	}
	if !known {
		s.bad.Warn("closed connection: unknown operation", slog.String("peer", c.remote.String()),
			session(c.session), slog.Int("op", int(r.op)))
		return c.closingReply(r.xid, -1, jute.Unimplemented)
	}
	if !authenticates && s.opts.Registry.Enforces() && !s.opts.Registry.Admits(c.login.ids.Snapshot()) {
		s.bad.Warn("closed connection: not authenticated", slog.String("peer", c.remote.String()),
			session(c.session))
		return c.closingReply(r.xid, 0, jute.SessionClosedAuth)
	}
	switch {
	case authenticates:
		return c.handle(r, h)
	case s.frames.IsLarge(len(r.body)):
		return c.admitter.large(r, h)
	default:
		return c.admitter.admit(r, h)
	}
}

// awaitTurn waits for the turn of a request that is no write. It returns false if the connection has ended.
func (c *conn) awaitTurn() bool {
	ok, waited := c.Out.AwaitTurn(socket.FlushAtBytes)
	if waited {
		c.queueWait = c.server.elapsed() - c.now
	}
	return ok
}

// admitter lets in what a connection asks for, as far as limits allow. Owned by the reader.
type admitter struct {
	*conn
	waited   time.Duration // how long the requests in the input buffer have waited in the throttle
	reserved int           // bytes of the large request that the reader is at, unless its write gives them back
}

// large answers a large request, whose bytes count until it is answered.
func (c *admitter) large(r *request, h handler) error {
	frames := &c.server.frames
	if err := frames.Take(len(r.body)); err != nil {
		return err
	}
	c.reserved = len(r.body)
	err := c.admit(r, h)
	frames.Give(c.reserved) // nothing if a write has taken it over
	c.reserved = 0
	return err
}

// admit has a request answered when the throttle lets it in.
func (c *admitter) admit(r *request, h handler) error {
	if c.server.inFlight.Gate != nil {
		return c.throttled(r, h)
	}
	return c.handle(r, h)
}

// throttled answers a request when its turn has come.
func (c *admitter) throttled(r *request, h handler) error {
	if err := c.enterLine(r.op); err != nil {
		return err
	}
	defer c.server.inFlight.End() // a write has been counted by itself
	if !c.server.inFlight.Gate.Refuses(r.op, c.waited) {
		return c.handle(r, h)
	}
	if !c.Out.AwaitSettled(socket.FlushAtBytes) {
		return errGone
	}
	c.server.bad.Warn("rejected request: throttled_op_wait_time exceeded",
		slog.String("peer", c.remote.String()), session(c.session), slog.String("op", r.op.String()))
	c.answerShort(r, jute.Throttled)
	return nil
}

// enterLine waits until the throttle lets a request begin, and counts it in.
func (c *admitter) enterLine(op jute.Op) (err error) {
	r := limits.Queued{Op: op, Timeout: time.Duration(c.timeout.Load()), Waited: c.waited}
	c.waited, err = c.server.inFlight.Gate.Enter(&c.Out, r)
	return err
}

// handle has a request answered, now or later.
func (c *conn) handle(r *request, h handler) error {
	if c.flags != 0 {
		if answered, err := c.byFlags(r); answered || err != nil {
			return err
		}
	}
	if err := h.answer(c, r); err != nil {
		return err
	}
	if c.Out.Unread() > socket.FlushAtBytes {
		c.server.memory.relieve()
		c.gathered.add()
		c.Out.Flush()
	}
	return nil
}

// byFlags does what the flags of a connection ask for before its request, or instead of it: then answered is true.
func (c *conn) byFlags(r *request) (answered bool, err error) {
	switch {
	case c.flags&flagReadOnly != 0 && refusedReadOnly(r.op):
		c.answerShort(r, jute.NotReadOnly)
		return true, nil
	case c.flags&flagLocal != 0 && r.op == jute.OpCloseSession:
		return true, c.writes.closeLocal(r)
	case c.flags&flagLocal != 0 && isWrite(r.op):
		return c.writes.ownsEphemeral(r)
	case c.flags&(flagLinearizable|flagReadOnly) == flagLinearizable && isLinearized(r.op):
		return false, c.linearize()
	}
	return false, nil
}

// isLinearized says which requests read the tree. (setWatches and checkWatches are about what the client has seen
// before.)
func isLinearized(op jute.Op) bool {
	switch op {
	case jute.OpExists, jute.OpGetData, jute.OpGetChildren, jute.OpGetChildren2, jute.OpGetACL, jute.OpMultiRead,
		jute.OpGetEphemerals, jute.OpGetAllChildrenNumber:
		return true
	default:
		return false
	}
}

// linearize waits until all is applied here that was committed when the read came. One wait serves all requests that
// are in the input buffer with it: they had come before it began.
func (c *conn) linearize() error {
	if c.linearized {
		return nil
	}
	begun := c.server.elapsed()
	_, err := newBarrier().await(c)
	c.linearized, c.barrierWait = err == nil, c.server.elapsed()-begun
	return err
}

// closingReply replies after what is under way, and ends the connection.
func (c *conn) closingReply(xid jute.Xid, zxid jute.Zxid, code jute.Code) error {
	c.Out.AwaitSettled(maxInt)
	c.reply(xid, zxid, code)
	return errClose
}

// unreadable answers a request whose body cannot be decoded. It takes no zxid.
func (c *conn) unreadable(r *request) error {
	if !c.Out.AwaitSettled(socket.FlushAtBytes) {
		return errGone
	}
	c.server.bad.Warn("malformed request", slog.String("peer", c.remote.String()), session(c.session),
		slog.String("op", r.op.String()))
	c.auditor.failed(r)
	c.reply(r.xid, c.server.opts.Machine.LastZxid(), jute.MarshallingError)
	op := r.op
	if isWrite(op) {
		op = jute.OpError
	}
	now := c.server.elapsed()
	c.latency(op, c.now, now)
	c.metered.tally(r, replyHeadBytes, jute.MarshallingError, now-c.now)
	return nil
}
