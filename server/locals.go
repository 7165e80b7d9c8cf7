package server

import (
	"sync"

	"zkd/jute"
	"zkd/quorum/liveness"
	"zkd/storage/entry"
)

// locals are the sessions that only this server knows: those of the read-only mode, and local sessions
// (org.apache.zookeeper.server.quorum.UpgradeableSessionTracker). They are no part of the state and own no znodes.
type locals struct {
	server *Server

	mu      sync.Mutex
	byID    map[jute.SessionID]*localSession
	tracker *liveness.Tracker // set by Start if there can be any
}

// localSession is one of them. Guarded by locals.mu.
type localSession struct {
	passwd   entry.Passwd
	readOnly bool // it ends with the read-only mode
}

// init makes the set empty.
func (l *locals) init(s *Server) { l.server, l.byID = s, map[jute.SessionID]*localSession{} }

// start begins to expire them.
func (l *locals) start() {
	o := &l.server.opts
	if o.ReadOnlyMode || o.LocalSessions {
		l.tracker = liveness.Start(liveness.Options{Clock: o.Clock, Tick: o.TickTime, Expire: l.expire,
			Logger: o.Logger})
	}
}

// stop ends that.
func (l *locals) stop() {
	if l.tracker != nil {
		l.tracker.Stop()
	}
}

// count returns how many there are.
func (l *locals) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.byID)
}

// buckets is when they expire.
func (l *locals) buckets() []liveness.Bucket {
	if l.tracker == nil {
		return nil
	}
	return l.tracker.Buckets()
}

// has reports whether id is one of them.
func (l *locals) has(id jute.SessionID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byID[id] != nil
}

// open makes a session, or finds the one of that id if passwd is its password. false means that there is none.
func (l *locals) open(id jute.SessionID, passwd entry.Passwd, create, readOnly bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if create {
		l.byID[id] = &localSession{passwd: passwd, readOnly: readOnly}
		return true
	}
	s := l.byID[id]
	return s != nil && s.passwd.Equal(passwd)
}

// take forgets a session that is to be one of the group, and returns its password; false if it is gone. It is none of
// these any more, whatever becomes of that (UpgradeableSessionTracker.upgradeSession): a client that came back to it
// here would not be heard for the session that the group may know by then.
func (l *locals) take(id jute.SessionID) (entry.Passwd, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.byID[id]
	if s == nil {
		return entry.Passwd{}, false
	}
	delete(l.byID, id)
	l.tracker.Remove(id)
	return s.passwd, true
}

// remove forgets a session; false if it is gone already.
func (l *locals) remove(id jute.SessionID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.byID[id]
	delete(l.byID, id)
	l.tracker.Remove(id) // maybe alone: it went while its client came back
	return ok
}

// expire ends sessions that were silent for too long. The tracker calls it.
func (l *locals) expire(ids []jute.SessionID) {
	for _, id := range ids {
		if !l.remove(id) {
			continue
		}
		l.server.metrics.expired.Add(1)
		l.server.opts.Logger.Info("local session expired", session(id))
		l.server.cut(id, false)
	}
}

// endReadOnly forgets the sessions of the read-only mode: their clients want a server with a quorum, and get a session
// there.
func (l *locals) endReadOnly() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, s := range l.byID { // order: each goes by itself
		if s.readOnly {
			delete(l.byID, id)
			l.tracker.Remove(id)
		}
	}
}
