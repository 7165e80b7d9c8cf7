package server

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"zkd/jute"
	"zkd/quorum/liveness"
	"zkd/server/audit"
	"zkd/storage/apply"
	"zkd/storage/entry"
)

// sessions maps the sessions that have a connection here to it.
type sessions struct {
	mu    sync.Mutex
	bound map[jute.SessionID]*conn
	// ended are their last connections, of those that ended with writes under way, or were cut and may still propose.
	ended map[jute.SessionID]*conn
}

// init makes the map empty.
func (s *sessions) init() {
	s.bound, s.ended = map[jute.SessionID]*conn{}, map[jute.SessionID]*conn{}
}

// bind makes c the connection of its session, and closes the one before: the client has come back, with the right
// password. The apply goroutine calls it, or c's reader if the session is local.
func (s *Server) bind(c *conn, tracker *liveness.Tracker) {
	s.sessions.mu.Lock()
	before := s.sessions.bound[c.session]
	if before == nil {
		before = s.sessions.ended[c.session]
	}
	delete(s.sessions.ended, c.session)
	s.sessions.bound[c.session] = c
	s.sessions.mu.Unlock()
	if before != nil && before != c {
		c.former.Store(before)
		before.Out.Close()
	}
	c.live.Store(tracker.Bind(c.session, time.Duration(c.timeout.Load())))
}

// supersede ends the connections that a session has here, as its client is coming back, with this password: what they
// have sent, and is not proposed yet, never is. Behind the reattach it would be taken for the session's, which may have
// gone on elsewhere meanwhile, while this server did not run. ZooKeeper closes them before it looks at the password
// (org.apache.zookeeper.server.ZooKeeperServer.processConnectRequest).
func (s *Server) supersede(id jute.SessionID, passwd entry.Passwd) {
	s.sessions.mu.Lock()
	before := s.sessions.bound[id]
	if before == nil {
		before = s.sessions.ended[id]
	}
	s.sessions.mu.Unlock()
	if before == nil {
		return
	}
	present := s.opts.Machine.Present()
	info, ok := present.Session(id)
	present.Close()
	if !ok || !info.Passwd.Equal(passwd) {
		return
	}
	for c := before; c != nil; c = c.former.Load() {
		c.Out.Close()
		c.turn.Lock()
		c.superseded = true
		c.turn.Unlock()
	}
}

// awaitFormer waits for the writes of its session's connections before it: what the client sent there comes before what
// it sends here, and may have been proposed behind the reattach. One of them may not have waited to the end.
func (c *conn) awaitFormer() {
	for f := c.former.Load(); f != nil; f = f.former.Load() {
		f.Out.AwaitWrites()
	}
	c.former.Store(nil)
}

// unbind takes c's session from it, unless another connection has it. The next one here waits for the writes of c that
// are under way, or for those that c has not waited for.
func (s *Server) unbind(c *conn) {
	if live := c.live.Load(); live != nil {
		live.Unbind()
	}
	waits := c.Out.Writing() || c.former.Load() != nil // it begins no more
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	switch c {
	case s.sessions.bound[c.session]:
		delete(s.sessions.bound, c.session)
		if waits {
			s.sessions.ended[c.session] = c
		}
	case s.sessions.ended[c.session]: // it was cut
		if !waits {
			delete(s.sessions.ended, c.session)
		}
	}
}

// takeConnection unbinds the connection of a session, and returns it or nil. If the session goes on elsewhere, it may
// come back before the connection's reader has ended: that may be about to propose a write, which supersede must find.
func (s *Server) takeConnection(id jute.SessionID, moved bool) *conn {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	c := s.sessions.bound[id]
	delete(s.sessions.bound, id)
	switch {
	case !moved:
		delete(s.sessions.ended, id)
	case c != nil:
		s.sessions.ended[id] = c
	}
	return c
}

// cut closes the connection of a session that has ended or moved away, unless the client has asked for the end: then it
// is answered first.
func (s *Server) cut(id jute.SessionID, moved bool) {
	if c := s.takeConnection(id, moved); c != nil && !c.closing.Load() {
		c.Out.Close()
	}
}

// connectionOf returns the connection of a session, or nil.
func (s *Server) connectionOf(id jute.SessionID) *conn {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	return s.sessions.bound[id]
}

// followSessions keeps the tracker in step with the sessions, and ends the connections of those that are not this
// server's any more. leads says that it leads its group.
func (s *Server) followSessions(r *apply.Result, tracker *liveness.Tracker, leads bool) {
	if leads && s.opts.Ensemble != nil { // it hears of the clients of others by this, should the next report be lost
		tracker.Touch(r.Session)
	}
	if info := r.NewSession; info != nil {
		tracker.Add(info.ID, time.Duration(info.TimeoutMillis)*time.Millisecond)
		if info.Owner != s.opts.ServerID { // its client is at another server now, and must not see this one's past
			s.cut(info.ID, true)
		}
	}
	if info := r.ClosedSession; info != nil {
		s.auditClosed(r)
		if !r.Unfinished { // else whoever leads sees to the rest, should the proposer not
			tracker.Remove(info.ID)
		}
		s.cut(info.ID, false)
	}
}

// auditClosed writes which ephemerals have gone with a session; every server does, as in ZooKeeper
// (org.apache.zookeeper.server.DataTree.deleteNodes).
func (s *Server) auditClosed(r *apply.Result) {
	if s.opts.Audit == nil {
		return
	}
	for i := range r.Events {
		if r.Events[i].Type != jute.EventNodeDeleted {
			continue
		}
		s.opts.Audit.Write(audit.Event{Session: r.ClosedSession.ID, User: s.opts.AuditUser,
			Operation: audit.OpDeleteEphemeral, Znode: audit.Of(strings.Clone(r.Events[i].Path)),
			Result: audit.Success})
	}
}

// ErrNoSession means that there is no such session, or that it is one that its own server alone knows.
var ErrNoSession = errors.New("there is no such session")

// EndSession ends a session as its client's goodbye would: its ephemerals go, and its connection is closed, at whatever
// server it is. It is for operators: no password is asked for. It returns once the session is over here.
func (s *Server) EndSession(ctx context.Context, id jute.SessionID) error {
	if s.available.serving() != stateServing {
		return ErrNoSession
	}
	v := s.opts.Machine.Present()
	_, ok := v.Session(id)
	v.Close()
	if !ok {
		return ErrNoSession
	}
	s.opts.Logger.Info("session ended by an operator", session(id))
	waits := sessionEnd{over: make(chan error, 1)} // one of the two calls
	p := &entry.Proposal{Op: jute.OpCloseSession, Session: id, Time: s.millis(), Flags: s.opts.Flags}
	if err := (expirer{s}).end(p, waits); err != nil {
		s.opts.Logger.Warn("failed to end session", session(id), slog.Any("err", err))
		return err
	}
	select {
	case err := <-waits.over:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sessionEnd waits for the end of a session.
type sessionEnd struct{ over chan error }

// Applied implements batcher.Waiter.
func (w sessionEnd) Applied(*apply.Result) { w.over <- nil }

// Dropped implements batcher.Waiter.
func (w sessionEnd) Dropped(err error) { w.over <- err }
