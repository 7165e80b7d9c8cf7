package apply

import (
	"encoding/binary"

	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// checkSession checks that the caller's session is there and that the request came through its owner
// (org.apache.zookeeper.server.SessionTracker.checkSession). A session of the server's own is there because the server
// says so, unless it has become one that the state knows (LeaderSessionTracker.checkSession).
func (t *Txn) checkSession() jute.Code {
	info := t.sessions.get(t.p.Session)
	if info == nil && t.p.Flags&entry.FlagLocalSession != 0 {
		return jute.OK
	}
	if info == nil {
		return jute.SessionExpired
	}
	if info.Ending {
		return jute.SessionExpired
	}
	if t.p.Server != 0 && info.Owner != t.p.Server {
		return jute.SessionMoved
	}
	return jute.OK
}

// createSession makes a session. An id that is taken, or that would read as another kind of owner in a znode, is
// refused with BadArguments: the proposer chooses another.
func (t *Txn) createSession(r *Result) {
	var body entry.SessionTxn
	if body.Decode(t.p.Body) != nil {
		r.Code = jute.MarshallingError
		return
	}
	if schema.OwnerKind(t.p.Session) != schema.OwnerSession || t.sessions.get(t.p.Session) != nil {
		r.Code = jute.BadArguments
		return
	}
	info := &schema.SessionInfo{ID: t.p.Session, TimeoutMillis: body.TimeoutMillis, Passwd: body.Passwd,
		Owner: body.Owner}
	t.sessions.set(info.ID, info)
	r.NewSession = info
}

// reattachSession lets a client come back with the right password: the session gets the new timeout and belongs to
// the server through which the client came. It fails with SessionExpired. The list that writes of the connection before
// refer to stays: some may be on their way.
func (t *Txn) reattachSession(r *Result) {
	var body entry.SessionTxn
	if body.Decode(t.p.Body) != nil {
		r.Code = jute.MarshallingError
		return
	}
	old := t.sessions.get(t.p.Session)
	if old == nil || old.Ending || !old.Passwd.Equal(body.Passwd) {
		r.Code = jute.SessionExpired
		return
	}
	info := *old
	info.TimeoutMillis, info.Owner = body.TimeoutMillis, body.Owner
	t.sessions.set(info.ID, &info)
	r.NewSession = &info
}

// setIdentities takes what the connection of a session has proven. It counts until the next list or the end of the
// session: another connection refers to it if that has proven the same.
func (t *Txn) setIdentities(r *Result) {
	list, err := schema.NewIdentities(t.p.Body)
	if err != nil {
		r.Code = jute.MarshallingError
		return
	}
	if r.Code = t.checkSession(); r.Code != jute.OK {
		return
	}
	old := t.sessions.get(t.p.Session)
	if old == nil { // one of a server's own carries its identities itself
		r.Code = jute.SessionExpired
		return
	}
	info := *old
	info.Identities = list
	t.sessions.set(info.ID, &info)
}

// resolve fills in the identities that the proposal refers to. It is false if the session has others, or none: a
// connection that has lost the session has proposed it, or one whose list has not become part of the log. Of a session
// that is not there, or not of the proposer's server, the operation finds out itself.
func (t *Txn) resolve() bool {
	p := &t.p
	info := t.sessions.get(p.Session)
	if info == nil || info.Ending || p.Server != 0 && info.Owner != p.Server {
		return true
	}
	if info.Identities == nil || info.Identities.Reference != p.Reference {
		return false
	}
	p.Identities = append(p.Identities, info.Identities.IDs...) // a copy: the memory is that of the next proposal, too
	return true
}

// EndZnodesMax and endBytesMax bound what a closeSession with entry.FlagInPieces deletes: so many ephemerals, and fewer
// where their paths are long. All servers must have the same. By measurement (2026-11): some 10 ms.
const (
	EndZnodesMax = 2000
	endBytesMax  = 1 << 20
)

// closeSession ends a session and deletes its ephemerals in the order of their paths (ZooKeeper: of a hash set), each
// as a delete of its own with the zxid of the close (DataTree.killSession). It fails with SessionExpired if there is
// no such session, and with SessionMoved if the body names another term of raft than the entry's: a leader that expires
// a session has not heard of it, but the next one, who may commit this, gives every session its full timeout.
//
// With entry.FlagInPieces it deletes the first of them only, if there are many, and leaves a session that is ending,
// which nobody can use: another closeSession goes on.
func (t *Txn) closeSession(r *Result) {
	if len(t.p.Body) == 8 && binary.BigEndian.Uint64(t.p.Body) != t.Position.Term {
		r.Code = jute.SessionMoved
		return
	}
	info := t.sessions.get(t.p.Session)
	if info == nil {
		r.Code = jute.SessionExpired
		return
	}
	r.ClosedSession = info
	if t.p.Flags&entry.FlagInPieces == 0 {
		t.endPiece(info.ID, piece{})
	} else if r.Unfinished = t.endPiece(info.ID, piece{t.endMax, endBytesMax}); r.Unfinished {
		if !info.Ending {
			ending := *info
			ending.Ending, ending.Identities = true, nil
			t.sessions.set(info.ID, &ending)
			r.ClosedSession = &ending
		}
		return
	}
	t.sessions.set(info.ID, nil)
}

// endPiece deletes the first ephemerals of a session, and reports whether there are more.
func (t *Txn) endPiece(id jute.SessionID, most piece) (more bool) {
	paths, more := t.tree.ephemeralsOf(id, most)
	for _, path := range paths {
		c := t.tree.look(path)
		parent := t.tree.look(schema.ParentOf(path))
		if c.cur != nil && parent.cur != nil {
			t.remove(parent, c)
		}
	}
	if delete(t.tree.endedTo, id); more {
		t.tree.endedTo[id] = paths[len(paths)-1]
	}
	return more
}

// leftover tells whether c's znode belongs to a session that is ending: for who makes a znode in its place it is gone.
func (t *Txn) leftover(c *change) bool {
	owner := schema.SessionOwner(c.cur)
	if owner == 0 {
		return false
	}
	info := t.sessions.get(owner)
	return info != nil && info.Ending
}
