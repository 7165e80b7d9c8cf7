package sim

import (
	"encoding/binary"
	"slices"
	"time"

	"zkd/jute"
	"zkd/storage/entry"
)

// client is one simulated client: a session that is attached to one member at a time, as those of ZooKeeper are. When
// its session has expired it makes another.
type client struct {
	w          *world
	id         int
	identities []jute.ID
	patience   time.Duration // how long it waits for an answer before it looks for another member
	timeout    time.Duration // of its sessions

	session  jute.SessionID
	passwd   entry.Passwd
	sessions int // counts those that it has asked for
	xid      jute.Xid
	conn     *conn
	conns    int
	dialling bool
	attached bool // conn has its session, and its watches
	begun    time.Duration
	silent   time.Duration // it does nothing until then
	lastZxid jute.Zxid
	watches  map[watchKey]*watch
	waits    []waiting // requests without an answer, in order
	last     lastWish
}

// waiting is a request that the client has made and is not answered.
type waiting struct {
	o  *op
	at time.Duration
}

// lastWish is what a client does after the faults have stopped: a write, then a read behind a sync.
type lastWish uint8

// The steps of a last wish.
const (
	wishNothing lastWish = iota
	wishAsked
	wishGranted
)

// makeClients makes the clients, none of which has a session.
func (w *world) makeClients() {
	for i := range w.profile.clients {
		c := &client{
			w: w, id: i, watches: map[watchKey]*watch{},
			patience:   w.between(time.Second, 3*time.Second),
			timeout:    w.between(w.profile.timeoutMin, w.profile.timeoutMin+2*time.Second),
			identities: []jute.ID{{Scheme: "ip", ID: "127.0.0.1"}},
		}
		if i%2 == 1 {
			c.identities = append(c.identities, jute.ID{Scheme: "digest", ID: "user:secret"})
		}
		w.clients = append(w.clients, c)
	}
}

// think has the client do something after a while, again and again.
func (c *client) think() {
	c.w.after(c.w.between(time.Millisecond, c.w.profile.thinkMax), func() {
		c.act()
		c.think()
	})
}

// act is the client's next step.
func (c *client) act() {
	switch {
	case c.w.now < c.silent && !c.w.healing:
	case c.conn == nil:
		c.dial()
	case len(c.waits) > 0 && c.w.now-c.waits[0].at > c.patience, !c.attached && c.w.now-c.begun > c.patience:
		c.conn.breakOff("the client has no more patience")
	case !c.attached:
	case c.w.healing:
		c.heartbeat()
		c.wish()
	default:
		c.heartbeat()
		c.work()
	}
}

// heartbeat lets the server know that the session lives.
func (c *client) heartbeat() {
	s, session := c.conn.s, c.session
	s.m.after(c.w.upTo(time.Millisecond), func() {
		if !slices.Contains(s.heard, session) {
			s.heard = append(s.heard, session)
		}
	})
}

// dial tries to connect to any member that is up.
func (c *client) dial() {
	m := draw(c.w, c.w.members)
	if c.dialling || !m.up || m.retired {
		return
	}
	c.dialling = true
	c.w.after(c.w.between(50*time.Microsecond, 5*time.Millisecond), func() { c.dialling = false })
	m.after(0, func() {
		if c.conn != nil {
			return
		}
		k := m.server.dial(c)
		c.w.trace.note(c.w.now, "dial", uint64(c.id), m.id, boolNumber(k != nil))
		if k == nil {
			return
		}
		c.conn, c.begun, c.attached = k, c.w.now, false
		c.attach(k)
	})
}

// attach asks for a session, or for the client's one.
func (c *client) attach(k *conn) {
	body := entry.SessionTxn{TimeoutMillis: int32(c.timeout / time.Millisecond), Owner: k.s.m.id}
	if c.session == 0 {
		c.sessions++
		id := jute.SessionID(c.id+1)<<32 | jute.SessionID(c.sessions)
		binary.BigEndian.PutUint64(body.Passwd[:], c.w.rng.Uint64())
		c.request(&op{kind: jute.OpCreateSession, session: id, body: body.Append(nil)})
		c.passwd = body.Passwd
		return
	}
	body.Passwd = c.passwd
	c.request(&op{kind: entry.OpReattachSession, session: c.session, body: body.Append(nil)})
}

// request sends a request on the present connection.
func (c *client) request(o *op) {
	o.c, o.asked = c, c.w.observe()
	if o.session == 0 {
		o.session = c.session
	}
	c.xid++
	o.xid = c.xid
	c.waits = append(c.waits, waiting{o, c.w.now})
	c.conn.request(o)
}

// forget takes a request out of those that wait.
func (c *client) forget(o *op) {
	c.waits = slices.DeleteFunc(c.waits, func(w waiting) bool { return w.o == o })
}

// lost is told that a connection has broken. What is not answered on it is not known.
func (c *client) lost(k *conn) {
	if c.conn != k {
		return
	}
	c.conn, c.attached = nil, false
	c.waits = nil
	if c.last == wishAsked {
		c.last = wishNothing
	}
}

// answer takes the answer to a request.
func (c *client) answer(k *conn, o *op) {
	c.forget(o)
	code := o.answer.code
	c.w.trace.note(c.w.now, "answered", uint64(c.id), uint64(o.xid), uint64(code))
	switch o.kind {
	case jute.OpCreateSession:
		if code != jute.OK {
			c.w.fail("%v: %v", o, code)
			return
		}
		c.session, c.attached = o.session, true
		c.saw(o)
		for _, parent := range []string{ephemeralParent, sequentialParent} { // one of all clients makes them
			c.request(c.w.create(parent, jute.ModePersistent))
		}
		return
	case entry.OpReattachSession:
		if code == jute.OK {
			c.request(&op{kind: jute.OpSetWatches, rel: c.lastZxid})
			return
		}
	case jute.OpSetWatches:
		c.attached = true
		c.saw(o)
		return
	}
	if code == jute.SessionExpired {
		c.expired(k)
		return
	}
	c.saw(o)
	c.noteWatch(o)
	if o.kind == jute.OpCloseSession {
		c.expired(k)
	}
	if c.last == wishAsked && o.kind == jute.OpSync {
		c.last = wishGranted
	}
}

// noteWatch notes the watch that a read has registered.
func (c *client) noteWatch(o *op) {
	if !o.watch || !o.answer.found && o.kind != jute.OpExists {
		return
	}
	key := watchKey{o.kind == jute.OpGetChildren, o.path}
	if c.watches[key] == nil {
		c.watches[key] = &watch{key: key, exist: !o.answer.found, since: o.answer.zxid}
	}
}

// expired ends the client's session: it begins anew.
func (c *client) expired(k *conn) {
	c.session, c.attached = 0, false
	c.lastZxid = 0
	clear(c.watches)
	k.breakOff("its session is over")
}

// wish does the client's last operations, once, and again if they are lost.
func (c *client) wish() {
	if c.last != wishNothing || len(c.waits) > 0 {
		return
	}
	c.last = wishAsked
	c.request(c.w.setData(draw(c.w, registers), jute.AnyVersion))
	c.request(&op{kind: jute.OpSync, path: draw(c.w, registers)})
}
