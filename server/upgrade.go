package server

import (
	"time"

	"zkd/jute"
	"zkd/server/socket"
	"zkd/storage/apply"
	"zkd/storage/entry"
)

// ownsEphemeral has a local session become one of the group before a write of it makes an ephemeral
// (org.apache.zookeeper.server.quorum.QuorumZooKeeperServer.checkUpgradeSession). If that is not enabled, a create is
// refused here, and a multi where it is applied, as the state does not know the session.
func (c *writes) ownsEphemeral(r *request) (answered bool, err error) {
	switch {
	case !c.makesEphemeral(r):
		return false, nil
	case c.server.opts.LocalSessionsUpgrading:
		return false, c.upgrade()
	case r.op == jute.OpMulti:
		return false, nil
	}
	return true, c.fail(r, jute.EphemeralOnLocalSession)
}

// makesEphemeral reports whether a write that can be read creates an ephemeral.
func (c *writes) makesEphemeral(r *request) bool {
	switch r.op {
	case jute.OpCreate, jute.OpCreate2:
		return c.req.decode(r, &c.req.create) == nil && c.req.create.Flags.Ephemeral()
	case jute.OpMulti:
		var d jute.Decoder
		d.Reset(r.body)
		for ops := jute.NewMultiDecoder(&d); ops.Next(); {
			record := c.req.multiRecord(ops.Header().Type)
			if record == nil {
				return false
			}
			record.Decode(&d)
			if q := &c.req.create; record == decodable(q) && d.Err() == nil && q.Flags.Ephemeral() {
				return true
			}
		}
	}
	return false
}

// upgrade makes the session of c, a local one, known to the group: same id, password and timeout. It waits until that
// is applied here.
func (c *writes) upgrade() error {
	s := c.server
	passwd, ok := s.locals.take(c.session)
	if !ok {
		return errClose // it has just expired
	}
	timeout := time.Duration(c.timeout.Load())
	txn := entry.SessionTxn{TimeoutMillis: int32(timeout.Milliseconds()), Passwd: passwd, Owner: s.opts.ServerID}
	p := &entry.Proposal{Op: jute.OpCreateSession, Session: c.session, Server: s.opts.ServerID, Time: s.millis(),
		Flags: s.opts.Flags, Body: txn.Append(nil)}
	s.inFlight.Begin()
	defer s.inFlight.End()
	w := &upgrading{newPendingSession(c.conn)}
	if err := s.opts.node.Propose(p, w); err != nil {
		return err
	}
	if err := w.wait(); err != nil {
		return err
	}
	c.flags &^= flagLocal
	return nil
}

// upgrading waits for a session to be known to the group.
type upgrading struct{ pendingSession }

// Applied has the tracker of the group's sessions listen to the connection.
func (w *upgrading) Applied(r *apply.Result) {
	w.do(func(c *conn) error {
		if r.NewSession == nil {
			return errClose
		}
		tracker := c.server.tracker.Load()
		before := c.live.Swap(tracker.Bind(c.session, time.Duration(r.NewSession.TimeoutMillis)*time.Millisecond))
		before.Unbind()
		return nil
	})
}

// closeLocal ends a local session.
func (c *writes) closeLocal(r *request) error {
	c.closing.Store(true)
	if !c.Out.AwaitSettled(socket.FlushAtBytes) {
		return errGone
	}
	c.server.locals.remove(c.session)
	c.answerShort(r, jute.OK)
	return errClose
}
