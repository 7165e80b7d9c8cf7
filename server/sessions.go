package server

import (
	"encoding/binary"
	"log/slog"
	"sync"
	"time"

	"zkd/jute"
	"zkd/quorum"
	"zkd/quorum/liveness"
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
// password. The apply goroutine calls it, or c's reader if the session is local.
func (s *Server) bind(c *conn, tracker *liveness.Tracker) {
	s.sessions.mu.Lock()
	before := s.sessions.bound[c.session]
	s.sessions.bound[c.session] = c
	s.sessions.mu.Unlock()
	if before != nil && before != c {
		before.out.close()
	}
	c.live.Store(tracker.Bind(c.session, time.Duration(c.timeout.Load())))
}

// unbind takes c's session from it, unless another connection has it.
func (s *Server) unbind(c *conn) {
	if live := c.live.Load(); live != nil {
		live.Unbind()
	}
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	if s.sessions.bound[c.session] == c {
		delete(s.sessions.bound, c.session)
	}
}

// take unbinds the connection of a session, and returns it or nil.
func (s *Server) takeConnection(id jute.SessionID) *conn {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	c := s.sessions.bound[id]
	delete(s.sessions.bound, id)
	return c
}

// cut closes the connection of a session that has ended or moved away, unless the client has asked for the end: then it
// is answered first.
func (s *Server) cut(id jute.SessionID) {
	if c := s.takeConnection(id); c != nil && !c.closing.Load() {
		c.out.close()
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
	if s.available.leading.Load() {
		s.metrics.proposals.add(r.Bytes, r.Bytes, r.Bytes)
	}
	for i := range r.Events {
		s.watches.Fire((*watch.Event)(&r.Events[i]))
	}
	tracker := s.tracker.Load()
	if tracker == nil {
		return
	}
	if info := r.NewSession; info != nil {
		tracker.Add(info.ID, time.Duration(info.TimeoutMillis)*time.Millisecond)
		if info.Owner != s.opts.ServerID { // its client is at another server now, and must not see this one's past
			s.cut(info.ID)
		}
	}
	if info := r.ClosedSession; info != nil {
		s.auditClosed(r)
		tracker.Remove(info.ID)
		s.cut(info.ID)
	}
}

// adoptSessions has the tracker know the sessions of the state and no others, each with its full timeout, as ZooKeeper
// does at a start. Nothing is committed while the View is open, so it fits in between what Committed is told.
func (s *Server) adoptSessions() {
	tracker := s.tracker.Load()
	v := s.opts.Machine.View()
	defer v.Close()
	known := make(map[jute.SessionID]struct{}, v.SessionCount())
	v.Sessions(func(info storage.SessionInfo) {
		known[info.ID] = struct{}{}
		tracker.Add(info.ID, time.Duration(info.TimeoutMillis)*time.Millisecond)
	})
	tracker.Retain(func(id jute.SessionID) bool {
		_, ok := known[id]
		return ok
	})
}

// expire proposes the end of sessions that were silent for too long. The tracker calls it. A session whose end is not
// taken is gone with the node, or comes again when this server leads again. The end counts in this term alone: what is
// proposed at the end of one may be committed by the next leader, who has heard what this one has not.
func (s *Server) expire(ids []jute.SessionID) {
	for _, id := range ids {
		var term []byte
		if s.opts.Ensemble != nil {
			state := s.available.latest()
			if state.Role != quorum.RoleLeader {
				return
			}
			term = binary.BigEndian.AppendUint64(nil, state.Term)
		}
		s.metrics.expired.Add(1)
		s.opts.Logger.Info("session expired", session(id))
		p := &storage.Proposal{Op: jute.OpCloseSession, Session: id, Time: s.millis(), Flags: s.opts.Flags, Body: term}
		if err := s.opts.node.Propose(p, nil); err != nil {
			s.opts.Logger.Warn("cannot end an expired session", session(id), slog.Any("err", err))
			return
		}
	}
}
