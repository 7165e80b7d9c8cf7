package liveness

import (
	"slices"
	"time"

	"zkd/jute"
)

// Lead has the tracker expire from now on, because its server leads the group, and serves. Every session, those that
// were handed to Expire and not removed included, begins with its full timeout: what the leader before had heard is not
// known here (org.apache.zookeeper.server.quorum.LeaderZooKeeperServer.createSessionTracker does the same). Called
// again, it gives full timeouts again.
func (t *Tracker) Lead() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.floor.Store(t.now())
	t.mu.expiring = true
	for _, s := range t.mu.handed {
		if s.due == 0 && t.mu.sessions[s.id] == s {
			t.placeLocked(s)
		}
	}
	t.mu.handed = nil
	for i := len(t.mu.bound) - 1; i >= 0; i-- {
		if s := t.mu.bound[i]; s.bindings == 0 {
			t.unslotLocked(s)
		}
	}
}

// Follow has the tracker expire nobody and report instead. What was handed to Expire before may still be on its way.
func (t *Tracker) Follow() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.expiring = false
}

// Expiring reports whether the tracker expires sessions; else it reports those that are heard, or is halted.
func (t *Tracker) Expiring() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.mu.expiring && !t.halted.Load()
}

// Bind is Add for a session whose client is connected to this server: from now on it is reported when it is heard,
// until Unbind. A session may be bound several times.
func (t *Tracker) Bind(id jute.SessionID, timeout time.Duration) *Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.addLocked(id, timeout)
	s.bindings++
	if s.slot == 0 {
		t.mu.bound = append(t.mu.bound, s)
		s.slot = int32(len(t.mu.bound))
	}
	return s
}

// Unbind ends one Bind. What was heard before is still reported.
func (s *Session) Unbind() {
	t := s.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	s.bindings--
	if s.bindings == 0 && t.mu.expiring {
		t.unslotLocked(s)
	}
}

// TouchAll is Touch for many: what another server reports.
func (t *Tracker) TouchAll(ids []jute.SessionID) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	now := t.now()
	for _, id := range ids {
		if s := t.mu.sessions[id]; s != nil {
			s.heard.Store(now)
		}
	}
}

// halfTick is the time between two reports, as between the pings of ZooKeeper's leader, which its learners answer with
// the sessions that they have heard (org.apache.zookeeper.server.quorum.Learner.ping).
func (t *Tracker) halfTick() int64 { return int64(t.options.Tick) / 2 }

// report hands the bound sessions that were heard since the last round to Report. buf is used for them and returned.
//
// After a round that failed, what the round before had handed out is handed out again: it may have been on its way when
// the way broke.
func (t *Tracker) report(buf []jute.SessionID) []jute.SessionID {
	if t.options.Report == nil {
		return buf
	}
	began, since := t.now(), t.reported
	if t.lossy {
		since -= int64(t.options.Tick)
	}
	t.lossy = false
	for left := t.boundCount(); left > 0; {
		if buf, left = t.collectHeard(buf[:0], left, since); len(buf) > 0 && !t.options.Report(buf) {
			t.lossy = true
			return buf
		}
	}
	t.reported = began
	return buf
}

// boundCount is the length of the list of bound sessions.
func (t *Tracker) boundCount() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.mu.bound)
}

// collectHeard appends those of the first left bound sessions that were heard at since or later, and returns how many
// are still to be looked at. It looks at a batch at a time, so that the lock is held shortly, and goes backwards: what
// leaves the list meanwhile moves sessions from the end, which it has seen, to the front. Those that are bound no more
// leave the list when they are reported.
func (t *Tracker) collectHeard(buf []jute.SessionID, left int, since int64) (heard []jute.SessionID, rest int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := min(left, len(t.mu.bound))
	for end := max(i-reportBatch, 0); i > end; {
		i--
		switch s := t.mu.bound[i]; {
		case s.heard.Load() >= since:
			buf = append(buf, s.id)
		case s.bindings == 0:
			t.unslotLocked(s)
		}
	}
	return buf, i
}

// unslotLocked takes s out of the list of bound sessions, if it is there.
func (t *Tracker) unslotLocked(s *Session) {
	if s.slot == 0 {
		return
	}
	end := len(t.mu.bound) - 1
	last := t.mu.bound[end]
	t.mu.bound[s.slot-1], last.slot = last, s.slot
	t.mu.bound[end], s.slot = nil, 0
	t.mu.bound = t.mu.bound[:end]
}

// handLocked remembers that s is handed to Expire, for Lead. Those that have been removed since are forgotten by the
// way.
func (t *Tracker) handLocked(s *Session) {
	if len(t.mu.handed) == cap(t.mu.handed) {
		t.mu.handed = slices.DeleteFunc(t.mu.handed, func(s *Session) bool {
			return s.due != 0 || t.mu.sessions[s.id] != s
		})
	}
	t.mu.handed = append(t.mu.handed, s)
}
