package sim

import (
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"zkd/jute"
	"zkd/storage/apply"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// server is the little of a ZooKeeper server that the checks need, on one member for one life: connections, whose
// requests are served in order, a table of watches, and the expiry of sessions while the member leads.
type server struct {
	m     *member
	life  int
	conns []*conn
	// watches has the connections that wait for a change, in the order in which they came.
	watches map[watchKey][]*conn
	heard   []jute.SessionID // since the last report, in order, each once

	// While the member leads: when sessions were heard, and closed.
	leading bool
	since   time.Duration
	last    map[jute.SessionID]time.Duration
	closed  map[jute.SessionID]time.Duration
}

// watchKey names a watch: one of the two tables of org.apache.zookeeper.server.DataTree, and the path.
type watchKey struct {
	children bool
	path     string
}

// newServer returns the server of a member that starts.
func newServer(m *member) *server {
	return &server{
		m: m, life: m.life, watches: map[watchKey][]*conn{},
		last: map[jute.SessionID]time.Duration{}, closed: map[jute.SessionID]time.Duration{},
	}
}

// How often a server reports the sessions that it has heard of, and a leader looks for silent ones.
const reportInterval = 100 * time.Millisecond

// begin plans the server's periodic work.
func (s *server) begin() {
	s.m.after(s.m.w.between(reportInterval/2, reportInterval), func() {
		s.report()
		s.expire()
		s.begin()
	})
}

// report tells the leader of the sessions that were heard.
func (s *server) report() {
	if len(s.heard) == 0 {
		return
	}
	sent := s.m.stepper.Node().Report(func(b []byte) []byte {
		for _, id := range s.heard {
			b = binary.BigEndian.AppendUint64(b, uint64(id))
		}
		return b
	})
	if sent {
		s.heard = s.heard[:0]
	}
}

// onReport is told what members have heard.
func (s *server) onReport(_ uint64, body []byte) {
	for ; len(body) >= 8; body = body[8:] {
		s.last[jute.SessionID(binary.BigEndian.Uint64(body))] = s.m.w.now
	}
}

// lead begins to expire sessions: each has a full timeout from now on.
func (s *server) lead() {
	s.leading, s.since = true, s.m.w.now
	clear(s.last)
	clear(s.closed)
}

// expire proposes the end of the sessions that were silent for too long.
func (s *server) expire() {
	now := s.m.w.now
	if s.leading = s.leading && s.m.state.Leader == s.m.id; !s.leading {
		return
	}
	var silent []jute.SessionID
	view := s.m.machine.View()
	view.Sessions(func(info schema.SessionInfo) { // in no order: sorted below
		timeout := time.Duration(info.TimeoutMillis) * time.Millisecond
		again := s.closed[info.ID] == 0 || now-s.closed[info.ID] > time.Second
		if now-max(s.since, s.last[info.ID]) > timeout && again {
			silent = append(silent, info.ID)
		}
	})
	view.Close()
	slices.Sort(silent)
	for _, id := range silent {
		s.closed[id] = now
		s.m.w.trace.note(now, "expire", s.m.id, uint64(id))
		p := entry.Proposal{Op: jute.OpCloseSession, Session: id, Xid: expiryXid, Time: s.m.time()}
		if err := s.m.stepper.Node().Propose(&p, nil); err != nil {
			return
		}
	}
}

// expiryXid marks what servers propose by themselves.
const expiryXid jute.Xid = -100

// Committed implements quorum.Observer: watches fire.
func (s *server) Committed(r *apply.Result) {
	if s.m.life != s.life {
		s.m.w.fail("member %d: the observer of life %d is called in life %d", s.m.id, s.life, s.m.life)
		return
	}
	s.m.w.ledger.observed(s.m, r)
	for i := range r.Events {
		s.fire(&r.Events[i])
	}
	if r.ClosedSession != nil && r.Xid == expiryXid {
		s.endSession(r.Session)
	}
}

// endSession breaks the connections of a session that has expired.
func (s *server) endSession(id jute.SessionID) {
	for _, k := range slices.Clone(s.conns) {
		if k.c.session == id {
			k.breakOff("the session has expired")
		}
	}
}

// fire sends an event to the connections that wait for it, each once.
func (s *server) fire(e *apply.Event) {
	path := strings.Clone(e.Path)
	data, children := watchKey{false, path}, watchKey{true, path}
	var told []*conn
	if e.Type != jute.EventNodeChildrenChanged {
		told = append(told, s.watches[data]...)
		s.forget(data)
	}
	if e.Type == jute.EventNodeChildrenChanged || e.Type == jute.EventNodeDeleted {
		for _, c := range s.watches[children] {
			if !slices.Contains(told, c) {
				told = append(told, c)
			}
		}
		s.forget(children)
	}
	for _, c := range told {
		if s.m.w.cfg.Plant == PlantLostWatch && s.m.w.chance(20) {
			continue
		}
		c.event(watchEvent{e.Type, path, e.Zxid})
	}
}

// forget empties one watch's list.
func (s *server) forget(key watchKey) {
	if s.m.w.cfg.Plant != PlantWatchTwice {
		delete(s.watches, key)
	}
}

// onReplaced ends all connections: a snapshot has taken the place of entries that watches were to hear of.
func (s *server) onReplaced() {
	s.m.w.report.Snapshots++
	s.m.w.ledger.replaced(s.m)
	s.end()
}

// end breaks all connections: the clients hear of it a little later.
func (s *server) end() {
	conns := s.conns
	s.conns = nil
	clear(s.watches)
	for _, c := range conns {
		c.breakOff("server ends them all")
	}
}

// conn is a client's connection to a server.
type conn struct {
	s        *server
	c        *client
	number   int // of all of the client's
	broken   bool
	queue    []*op         // requests that have not begun
	inFlight int           // writes proposed and not answered
	waiting  bool          // a sync is under way
	skipped  bool          // PlantSkippedWrite has skipped one
	ops      []*op         // writes given to the node, in order
	inbox    time.Duration // when the newest request arrives
	outbox   time.Duration // when the newest answer does
	answered jute.Xid      // of the newest write that was answered
}

// watchEvent is what a client is told of a change. zxid is 0 if a watch fired when it was set again.
type watchEvent struct {
	kind jute.EventType
	path string
	zxid jute.Zxid
}

// dial connects a client; nil if the server turns it away because it is behind what the client has seen.
func (s *server) dial(c *client) *conn {
	if s.m.machine.LastZxid() < c.lastZxid {
		return nil
	}
	k := &conn{s: s, c: c, number: c.conns}
	c.conns++
	s.conns = append(s.conns, k)
	return k
}

// breakOff ends a connection, from either side.
func (k *conn) breakOff(why string) {
	if k.broken {
		return
	}
	k.broken = true
	w := k.s.m.w
	w.trace.note(w.now, "breakOff", uint64(k.c.id), k.s.m.id)
	w.trace.textf(w.now, "client %d loses member %d: %s", k.c.id, k.s.m.id, why)
	k.s.conns = slices.DeleteFunc(k.s.conns, func(o *conn) bool { return o == k })
	for key, list := range k.s.watches { // in any order: each key for itself
		if i := slices.Index(list, k); i >= 0 {
			k.s.watches[key] = slices.Delete(slices.Clone(list), i, i+1)
		}
	}
	for _, o := range k.queue {
		o.refuse()
	}
	k.queue = nil
	w.after(w.upTo(20*time.Millisecond), func() { k.c.lost(k) })
}

// send brings something to the client, behind what was sent before.
func (k *conn) send(deliver func()) {
	w := k.s.m.w
	k.outbox = max(w.now+w.between(50*time.Microsecond, 3*time.Millisecond), k.outbox)
	w.after(k.outbox-w.now, func() {
		if !k.broken && k.c.conn == k {
			deliver()
		}
	})
}

// event sends a watch event.
func (k *conn) event(e watchEvent) {
	w := k.s.m.w
	w.trace.note(w.now, "event", uint64(k.c.id), uint64(e.kind), uint64(e.zxid), hashString(e.path))
	k.send(func() { k.c.event(k, e) })
}

// request brings a request of the client to the server, behind those before it.
func (k *conn) request(o *op) {
	w := k.s.m.w
	k.inbox = max(w.now+w.between(50*time.Microsecond, 2*time.Millisecond), k.inbox)
	k.s.m.after(k.inbox-w.now, func() {
		if k.broken {
			o.refuse()
			return
		}
		k.queue = append(k.queue, o)
		k.serve()
	})
}

// serve begins the requests whose turn it is: writes go ahead of the answers to those before them, anything else
// waits for all of them.
func (k *conn) serve() {
	for len(k.queue) > 0 && !k.broken && !k.waiting {
		o := k.queue[0]
		if !o.writes() && k.inFlight > 0 {
			return
		}
		k.queue = k.queue[1:]
		switch {
		case o.writes():
			k.propose(o)
		case o.kind == jute.OpSync:
			k.sync(o)
		default:
			k.read(o)
		}
	}
}

// propose gives a write to the node.
func (k *conn) propose(o *op) {
	w, node := k.s.m.w, k.s.m.stepper.Node()
	o.proposed(k)
	if w.cfg.Plant == PlantSkippedWrite && !k.skipped && k.number > 0 && w.chance(10) {
		k.skipped = true
		return
	}
	p := entry.Proposal{
		Op: o.kind, Session: o.session, Xid: o.xid, Time: k.s.m.time(), Server: k.s.m.id,
		Identities: k.c.identities, Body: o.body,
	}
	if o.kind == jute.OpCreateSession || o.kind == entry.OpReattachSession {
		p.Server = 0
	}
	k.inFlight++
	give := node.Propose
	if o.kind == jute.OpReconfig {
		p.Flags, give = entry.FlagSkipACL, node.Reconfigure
		if w.profile.votersMin == 1 {
			p.Flags |= entry.FlagSingleVoter
		}
	}
	if err := give(&p, &writeWaiter{o: o, k: k}); err != nil {
		k.inFlight--
		o.refuse()
		w.trace.textf(w.now, "member %d refuses a write: %v", k.s.m.id, err)
		k.breakOff("the node refuses")
		return
	}
	if w.cfg.Plant == PlantEarlyAnswer && o.kind == jute.OpSetData && w.chance(20) {
		o.ret, o.answer.zxid, o.state = w.observe(), k.s.m.machine.LastZxid()+1, opAnswered
	}
}

// writeWaiter is told what became of a write.
type writeWaiter struct {
	o    *op
	k    *conn
	told bool
}

// once checks that a waiter is told once, and not by a node that is gone.
func (a *writeWaiter) once() bool {
	w, s := a.k.s.m.w, a.k.s
	if a.told {
		w.fail("the waiter of %v is told twice", a.o)
		return false
	}
	a.told, a.o.told = true, true
	if s.m.life != s.life || !s.m.up {
		w.fail("the waiter of %v is told by a node that is gone", a.o)
		return false
	}
	return true
}

// Applied implements batcher.Waiter.
func (a *writeWaiter) Applied(r *apply.Result) {
	if !a.once() {
		return
	}
	a.k.inFlight--
	a.o.answered(r)
	if a.o.xid <= a.k.answered {
		a.k.s.m.w.fail("%v is answered after write %d of its connection", a.o, a.k.answered)
	}
	a.k.answered = a.o.xid
	if a.k.broken {
		return
	}
	if r.Code == jute.SessionMoved {
		a.k.breakOff("the session has moved")
		return
	}
	a.k.reply(a.o)
	a.k.s.m.after(0, a.k.serve)
}

// Dropped implements batcher.Waiter: the connection ends, as nobody knows what became of the write. A node that is
// ended tells so, too, which a crash has nobody hear.
func (a *writeWaiter) Dropped(err error) {
	if !a.k.s.m.up || !a.once() {
		return
	}
	a.k.inFlight--
	a.o.dropped()
	a.k.s.m.w.trace.textf(a.k.s.m.w.now, "%v is dropped: %v", a.o, err)
	a.k.breakOff("a write was dropped")
}

// reply answers a request.
func (k *conn) reply(o *op) {
	k.send(func() { k.c.answer(k, o) })
}

// syncWaiter is told that a barrier is through.
type syncWaiter struct {
	o    *op
	k    *conn
	told bool
}

// sync asks the group how far it is; the read behind it is made then.
func (k *conn) sync(o *op) {
	w := k.s.m.w
	o.proposed(k)
	k.waiting = true
	waiter := &syncWaiter{o: o, k: k}
	if w.cfg.Plant == PlantStaleSync {
		waiter.Applied(nil)
		return
	}
	k.s.m.stepper.Node().Barrier(waiter)
}

// Applied implements batcher.Waiter.
func (a *syncWaiter) Applied(*apply.Result) {
	w, s := a.k.s.m.w, a.k.s
	if a.told || s.m.life != s.life || !s.m.up {
		w.fail("the waiter of %v is told twice, or by a node that is gone", a.o)
		return
	}
	a.told, a.o.told = true, true
	s.m.after(w.upTo(time.Millisecond), func() {
		a.k.waiting = false
		if !a.k.broken {
			a.k.read(a.o)
			a.k.serve()
		}
	})
}

// Dropped implements batcher.Waiter.
func (a *syncWaiter) Dropped(err error) {
	w := a.k.s.m.w
	if !a.k.s.m.up {
		return
	}
	if a.told {
		w.fail("the waiter of %v is told twice", a.o)
		return
	}
	a.told, a.o.told = true, true
	a.o.dropped()
	w.trace.textf(w.now, "%v is dropped: %v", a.o, err)
	a.k.waiting = false
	a.k.breakOff("a sync was dropped")
}
