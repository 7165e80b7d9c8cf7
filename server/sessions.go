package server

import (
	"log/slog"
	"sync"
	"time"

	"zkd/jute"
	"zkd/server/watch"
	"zkd/storage"
)

// sessions maps the sessions that have a connection here to it.
type sessions struct {
	mu    sync.Mutex
	bound map[jute.SessionID]*conn
}

// init makes the map empty.
func (s *sessions) init() { s.bound = map[jute.SessionID]*conn{} }

// bind makes c the connection of its session, and closes the one before: the client has come back, with the right
// password. The apply goroutine calls it.
func (s *Server) bind(c *conn) {
	s.sessions.mu.Lock()
	before := s.sessions.bound[c.session]
	s.sessions.bound[c.session] = c
	s.sessions.mu.Unlock()
	if before != nil && before != c {
		before.out.close()
	}
	c.live.Store(s.tracker.Load().Add(c.session, time.Duration(c.timeout.Load())))
}

// unbind takes c's session from it, unless another connection has it.
func (s *Server) unbind(c *conn) {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	if s.sessions.bound[c.session] == c {
		delete(s.sessions.bound, c.session)
	}
}

// connectionOf returns the connection of a session, or nil.
func (s *Server) connectionOf(id jute.SessionID) *conn {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	return s.sessions.bound[id]
}

// Committed fires the watches of a write and keeps the tracker in step with the sessions. The apply goroutine calls
// it, before the write is visible and before its client is answered; during the node's start too, when nobody
// watches.
func (s *Server) Committed(r *storage.Result) {
	for i := range r.Events {
		s.watches.Fire((*watch.Event)(&r.Events[i]))
	}
	tracker := s.tracker.Load()
	if tracker == nil {
		return
	}
	if info := r.NewSession; info != nil {
		tracker.Add(info.ID, time.Duration(info.TimeoutMillis)*time.Millisecond)
	}
	if info := r.ClosedSession; info != nil {
		tracker.Remove(info.ID)
		s.sessions.mu.Lock()
		c := s.sessions.bound[info.ID]
		delete(s.sessions.bound, info.ID)
		s.sessions.mu.Unlock()
		if c != nil && !c.closing.Load() { // expired; a client that asked for it is answered first
			c.out.close()
		}
	}
}

// adoptSessions gives every session of the state its full timeout, as ZooKeeper does at a start.
func (s *Server) adoptSessions() {
	tracker := s.tracker.Load()
	v := s.opts.Machine.View()
	defer v.Close()
	v.Sessions(func(info storage.SessionInfo) {
		tracker.Add(info.ID, time.Duration(info.TimeoutMillis)*time.Millisecond)
	})
}

// expire proposes the end of sessions that were silent for too long. The tracker calls it. A session whose end is not
// taken is gone with the node.
func (s *Server) expire(ids []jute.SessionID) {
	for _, id := range ids {
		s.metrics.expired.Add(1)
		s.opts.Logger.Info("session expired", session(id))
		p := &storage.Proposal{Op: jute.OpCloseSession, Session: id, Time: s.millis(), Flags: s.opts.Flags}
		if err := s.opts.node.Propose(p, nil); err != nil {
			s.opts.Logger.Warn("cannot end an expired session", session(id), slog.Any("err", err))
			return
		}
	}
}
