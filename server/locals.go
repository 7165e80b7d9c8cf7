package server

import (
	"log/slog"
	"sync"
	"time"

	"zkd/jute"
	"zkd/quorum/liveness"
	"zkd/server/auth"
	"zkd/storage"
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
	passwd   storage.Passwd
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
func (l *locals) open(id jute.SessionID, passwd storage.Passwd, create, readOnly bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if create {
		l.byID[id] = &localSession{passwd: passwd, readOnly: readOnly}
		return true
	}
	s := l.byID[id]
	return s != nil && s.passwd.Equal(passwd)
}

// passwd returns the password of a session; false if it is gone.
func (l *locals) passwd(id jute.SessionID) (storage.Passwd, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.byID[id]; s != nil {
		return s.passwd, true
	}
	return storage.Passwd{}, false
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
		l.server.cut(id)
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

// connectLocal makes or takes over a local session. readOnly says that the server is in read-only mode; there a session
// that is not known here is no dead one, and its client is sent away without an answer
// (org.apache.zookeeper.server.quorum.ReadOnlyZooKeeperServer).
func (c *conn) connectLocal(req *jute.ConnectRequest, timeout time.Duration, readOnly bool) error {
	s := c.server
	var passwd storage.Passwd
	id, create := req.SessionID, req.SessionID == 0
	if create {
		random, err := auth.NewPassword(s.opts.Random)
		if err != nil {
			s.opts.Logger.Error("no randomness for a session password", slog.Any("err", err))
			return errClose
		}
		passwd, id = storage.Passwd(random), s.ids.next()
	} else {
		copy(passwd[:], req.Passwd)
	}
	known := len(req.Passwd) == len(passwd) || create
	if !known || !s.locals.open(id, passwd, create, readOnly) {
		if !readOnly {
			c.refuse(req.HasReadOnly)
		}
		return errClose
	}
	c.session, c.established = id, s.millis()
	c.special |= specialLocal
	if readOnly {
		c.special |= specialReadOnly
	}
	c.timeout.Store(int64(timeout))
	s.bind(c, s.locals.tracker)
	c.welcomeSession(&jute.ConnectResponse{TimeoutMillis: int32(timeout.Milliseconds()), SessionID: id,
		Passwd: passwd[:], HasReadOnly: req.HasReadOnly, ReadOnly: readOnly})
	if create {
		c.sessionMade(s.opts.Machine.LastZxid())
	}
	return nil
}

// closeLocal ends a local session.
func (c *conn) closeLocal(r *request) error {
	c.closing.Store(true)
	if !c.out.awaitSettled(flushAtBytes) {
		return errGone
	}
	c.server.locals.remove(c.session)
	c.reply(r.xid, c.server.opts.Machine.LastZxid(), jute.OK)
	c.latency(r.op, c.now, c.server.elapsed())
	return errClose
}
