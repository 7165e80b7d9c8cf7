package server

import (
	"errors"
	"log/slog"

	"zkd/jute"
)

// handler answers one request, or takes it for an answer later. An error ends the connection.
type handler func(c *conn, r *request) error

// handlers is the table of opcodes that clients may send. What is not here is answered Unimplemented, and the
// connection closed: unknown opcodes, check outside a multi, and what only servers propose. (Quirk not kept: 3.9.5
// takes deleteContainer and createSession from clients, without any check.)
var handlers = map[jute.Op]handler{
	jute.OpPing:                 (*conn).ping,
	jute.OpAuth:                 (*conn).auth,
	jute.OpCreate:               (*conn).create,
	jute.OpCreate2:              (*conn).create,
	jute.OpCreateContainer:      (*conn).create,
	jute.OpCreateTTL:            (*conn).createTTL,
	jute.OpDelete:               (*conn).remove,
	jute.OpSetData:              (*conn).setData,
	jute.OpSetACL:               (*conn).setACL,
	jute.OpMulti:                (*conn).multi,
	jute.OpReconfig:             (*conn).reconfig,
	jute.OpCloseSession:         (*conn).closeSession,
	jute.OpSync:                 (*conn).sync,
	jute.OpExists:               (*conn).exists,
	jute.OpGetData:              (*conn).getData,
	jute.OpGetChildren:          (*conn).getChildren,
	jute.OpGetChildren2:         (*conn).getChildren,
	jute.OpGetACL:               (*conn).getACL,
	jute.OpGetAllChildrenNumber: (*conn).getAllChildrenNumber,
	jute.OpGetEphemerals:        (*conn).getEphemerals,
	jute.OpMultiRead:            (*conn).multiRead,
	jute.OpWhoAmI:               (*conn).whoAmI,
	jute.OpAddWatch:             (*conn).addWatch,
	jute.OpCheckWatches:         (*conn).checkWatches,
	jute.OpRemoveWatches:        (*conn).removeWatches,
	jute.OpSetWatches:           (*conn).setWatches,
	jute.OpSetWatches2:          (*conn).setWatches,
	jute.OpSASL:                 (*conn).sasl,
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

// errGone means that the connection ended while a request waited for its turn.
var errGone = errors.New("connection ended before its request was answered")

// dispatch answers a request in its turn.
func (s *Server) dispatch(c *conn, r *request) error {
	h := handlers[r.op]
	authenticates := r.op == jute.OpAuth || r.op == jute.OpSASL
	if !isWrite(r.op) && !authenticates && !c.settle() {
		return errGone
	}
	if h == nil {
		s.bad.Warn("closed a connection that sent an unknown operation", slog.String("peer", c.remote.String()),
			session(c.session), slog.Int("op", int(r.op)))
		return c.farewell(r.xid, -1, jute.Unimplemented)
	}
	if !authenticates && s.opts.Registry.Enforces() && !s.opts.Registry.Admits(c.ids.Snapshot()) {
		s.bad.Warn("closed a connection that has not authenticated itself", slog.String("peer", c.remote.String()),
			session(c.session))
		return c.farewell(r.xid, 0, jute.SessionClosedAuth)
	}
	switch {
	case authenticates:
		return c.handle(r, h)
	case len(r.body) > s.frames.large:
		return c.large(r, h)
	default:
		return c.admit(r, h)
	}
}

// admit has a request answered when the throttle lets it in.
func (c *conn) admit(r *request, h handler) error {
	if c.server.underWay.gate != nil {
		return c.throttled(r, h)
	}
	return c.handle(r, h)
}

// handle has a request answered, now or later.
func (c *conn) handle(r *request, h handler) error {
	if c.special != 0 {
		if answered, err := c.specially(r); answered || err != nil {
			return err
		}
	}
	if err := h(c, r); err != nil {
		return err
	}
	if c.out.unread() > flushAtBytes {
		c.out.flush()
	}
	return nil
}

// unread returns how much waits to be written.
func (o *output) unread() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lenLocked()
}

// farewell replies after what is under way, and ends the connection.
func (c *conn) farewell(xid jute.Xid, zxid jute.Zxid, code jute.Code) error {
	c.out.awaitSettled(maxInt)
	c.reply(xid, zxid, code)
	return errClose
}

// unreadable answers a request whose body cannot be decoded. It takes no zxid.
func (c *conn) unreadable(r *request) error {
	if !c.out.awaitSettled(flushAtBytes) {
		return errGone
	}
	c.server.bad.Warn("a request cannot be read", slog.String("peer", c.remote.String()), session(c.session),
		slog.String("op", r.op.String()))
	c.auditUnreadable(r)
	c.reply(r.xid, c.server.opts.Machine.LastZxid(), jute.MarshallingError)
	op := r.op
	if isWrite(op) {
		op = jute.OpError
	}
	c.latency(op, c.now, c.server.elapsed())
	return nil
}

// ping answers a ping. The reply has ping's xid, whatever was sent.
func (c *conn) ping(r *request) error {
	c.reply(jute.XidPing, c.server.opts.Machine.LastZxid(), jute.OK)
	c.latency(r.op, c.now, c.server.elapsed())
	return nil
}
