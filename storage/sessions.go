package storage

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// session returns the session as the entry sees it, or nil.
func (t *txn) session(id jute.SessionID) *schema.SessionInfo {
	if len(t.sessions) > 0 {
		if info, ok := t.sessions[id]; ok {
			return info
		}
	}
	return t.m.mu.sessions[id] // written by this goroutine only
}

// setSession makes info, or nothing, the session id.
func (t *txn) setSession(id jute.SessionID, info *schema.SessionInfo) {
	if _, ok := t.sessions[id]; !ok {
		t.newOrder = append(t.newOrder, id)
	}
	t.sessions[id] = info
}

// checkSession checks that the caller's session is there and that the request came through its owner
// (org.apache.zookeeper.server.SessionTracker.checkSession). A session of the server's own is there because the server
// says so, unless it has become one that the state knows (LeaderSessionTracker.checkSession).
func (t *txn) checkSession() jute.Code {
	info := t.session(t.p.Session)
	if info == nil && t.p.Flags&entry.FlagLocalSession != 0 {
		return jute.OK
	}
	if info == nil {
		return jute.SessionExpired
	}
	if t.p.Server != 0 && info.Owner != t.p.Server {
		return jute.SessionMoved
	}
	return jute.OK
}

// createSession makes a session. An id that is taken, or that would read as another kind of owner in a znode, is
// refused with BadArguments: the proposer chooses another.
func (t *txn) createSession(r *Result) {
	var body entry.SessionTxn
	if body.Decode(t.p.Body) != nil {
		r.Code = jute.MarshallingError
		return
	}
	if schema.OwnerKind(t.p.Session) != schema.OwnerSession || t.session(t.p.Session) != nil {
		r.Code = jute.BadArguments
		return
	}
	info := &schema.SessionInfo{ID: t.p.Session, TimeoutMillis: body.TimeoutMillis, Passwd: body.Passwd,
		Owner: body.Owner}
	t.setSession(info.ID, info)
	r.NewSession = info
}

// reattachSession lets a client come back with the right password: the session gets the new timeout and belongs to
// the server through which the client came. It fails with SessionExpired.
func (t *txn) reattachSession(r *Result) {
	var body entry.SessionTxn
	if body.Decode(t.p.Body) != nil {
		r.Code = jute.MarshallingError
		return
	}
	old := t.session(t.p.Session)
	if old == nil || !old.Passwd.Equal(body.Passwd) {
		r.Code = jute.SessionExpired
		return
	}
	info := &schema.SessionInfo{ID: old.ID, TimeoutMillis: body.TimeoutMillis, Passwd: old.Passwd, Owner: body.Owner}
	t.setSession(info.ID, info)
	r.NewSession = info
}

// closeSession ends a session and deletes its ephemerals in the order of their paths (ZooKeeper: of a hash set), each
// as a delete of its own with the zxid of the close (DataTree.killSession). It fails with SessionExpired if there is
// no such session, and with SessionMoved if the body names another term of raft than the entry's: a leader that expires
// a session has not heard of it, but the next one, who may commit this, gives every session its full timeout.
func (t *txn) closeSession(r *Result) {
	if len(t.p.Body) == 8 && binary.BigEndian.Uint64(t.p.Body) != t.pos.Term {
		r.Code = jute.SessionMoved
		return
	}
	info := t.session(t.p.Session)
	if info == nil {
		r.Code = jute.SessionExpired
		return
	}
	for _, path := range t.ephemeralsOf(info.ID) {
		c := t.look(path)
		parent := t.look(schema.ParentOf(path))
		if c.cur != nil && parent.cur != nil {
			t.remove(parent, c)
		}
	}
	t.setSession(info.ID, nil)
	r.ClosedSession = info
}

// ephemeralsOf returns the paths of the session's ephemerals as the entry sees them, sorted.
func (t *txn) ephemeralsOf(id jute.SessionID) []string {
	var paths []string
	t.keyBuf = schema.AppendEphemeralKey(t.keyBuf[:0], id, "")
	err := t.m.store.scan(t.keyBuf, func(key, _ []byte) (bool, error) {
		path := key[schema.EphemeralPrefixBytes:]
		if c, ok := t.changes[entry.ViewString(path)]; !ok || c.cur != nil && c.cur.Owner == id {
			paths = append(paths, string(path))
		}
		return true, nil
	})
	if err != nil && t.err == nil {
		t.err = err
	}
	for _, c := range t.ephemerals {
		if c.cur != nil && c.cur.Owner == id && (c.base == nil || c.base.Owner != id) {
			paths = append(paths, c.path)
		}
	}
	slices.SortFunc(paths, strings.Compare)
	return slices.Compact(paths)
}

// writeSessions adds the entry's changes of sessions to the batch.
func (t *txn) writeSessions() error {
	for _, id := range t.newOrder {
		t.keyBuf = schema.AppendSessionKey(t.keyBuf[:0], id)
		var err error
		if info := t.sessions[id]; info != nil {
			t.scratch = schema.AppendSession(t.scratch[:0], info)
			err = t.batch.Set(t.keyBuf, t.scratch, nil)
		} else {
			err = t.batch.Delete(t.keyBuf, nil)
		}
		if err != nil {
			return fmt.Errorf("write session %#x: %w", uint64(id), err)
		}
		t.sumSession(id, t.sessions[id])
	}
	return nil
}

// publishSessionsLocked makes the entry's changes of sessions visible.
func (t *txn) publishSessionsLocked() {
	for _, id := range t.newOrder {
		if info := t.sessions[id]; info != nil {
			t.m.mu.sessions[id] = info
		} else {
			delete(t.m.mu.sessions, id)
		}
	}
}
