package faults

import (
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"zkd/jute"
)

// watched is how many znodes the watchers share, and how many children the first of them has at most.
const watched = 3

// watchers are clients with persistent watches that change znodes which they share, and read them.
type watchers struct {
	part
	mu  sync.Mutex
	all []Watching // guarded by mu
}

// Watching is what a client with persistent watches was told on one connection.
type Watching struct {
	Session jute.SessionID
	Watches []Standing
	Since   jute.Zxid // of the answer by which all of them were set
	Told    []Told    // in the order in which it came
}

// Told is an event, or what exists has answered.
type Told struct {
	Event  jute.EventType // EventNone: it is an answer
	Path   string
	Zxid   jute.Zxid // of the change, or of the answer
	Exists bool
	Stat   jute.Stat
}

func (w *watchers) node(i int) string  { return fmt.Sprintf("%s/n%d", w.root, i) }
func (w *watchers) child(i int) string { return fmt.Sprintf("%s/x%d", w.node(0), i) }

// Plant implements Role.
func (w *watchers) Plant(s *Session) error {
	if err := s.Plant(w.root, ""); err != nil {
		return err
	}
	for i := range watched {
		if err := s.Plant(w.node(i), ""); err != nil {
			return err
		}
	}
	return nil
}

// Run implements Role.
func (w *watchers) Run(id int, pace time.Duration, o SessionOptions) {
	c := &watcher{role: w}
	(&shift{part: &w.part, id: id, pace: 2 * pace, o: o, connected: c.begin, step: c.step, last: c.finish}).run()
	c.turn(nil)
}

// watcher is one of the clients.
type watcher struct {
	role *watchers
	now  *Watching // of the present connection; nil before the first
	s    *Session  // of now
	nth  int       // of its connections now is
}

// turn notes what was told on the connection before, if s has another one.
func (c *watcher) turn(s *Session) {
	if s != nil && c.s == s && c.nth == s.Connects {
		return
	}
	if c.now != nil && c.now.Since != 0 {
		c.role.mu.Lock()
		c.role.all = append(c.role.all, *c.now)
		c.role.mu.Unlock()
	}
	if c.s, c.now = s, nil; s != nil {
		c.now, c.nth = &Watching{Session: s.ID, Watches: s.Standing}, s.Connects
	}
}

// begin sets the watches of a new session; those of another are set again by its new connection.
func (c *watcher) begin(s *Session) {
	c.turn(s)
	s.Told = func(zxid jute.Zxid, e *jute.WatcherEvent) bool {
		c.turn(s)
		c.now.Told = append(c.now.Told, Told{Event: e.Type, Path: strings.Clone(e.Path), Zxid: zxid})
		return true
	}
	wanted := []Standing{{c.role.node(0), false}, {c.role.root, true}}
	if n := s.o.Rand.IntN(3); n < len(wanted) {
		wanted = wanted[n : n+1]
	}
	if len(s.Standing) == 0 {
		for _, one := range wanted {
			reply, err := s.AddWatch(one.Path, one.Recursive)
			if c.role.outcome("addWatch", reply, err) != Done {
				s.Drop()
				return
			}
		}
	}
	// All changes after this answer are told.
	if reply, _, err := s.Exists(c.role.root); c.role.outcome("exists", reply, err) == Done {
		c.now.Watches, c.now.Since = s.Standing, reply.Zxid
	}
}

// step changes something, or looks.
func (c *watcher) step(s *Session) {
	w, r := c.role, s.o.Rand
	node, child := w.node(r.IntN(watched)), w.child(r.IntN(watched))
	switch r.IntN(8) {
	case 0, 1:
		reply, _, err := s.SetData(node, "x", jute.AnyVersion)
		w.outcome("setData", reply, err)
	case 2:
		reply, _, err := s.Create(child, "", jute.ModePersistent)
		w.outcome("create", reply, err, jute.NodeExists)
	case 3:
		reply, err := s.Delete(child)
		w.outcome("delete", reply, err, jute.NoNode)
	case 4, 5:
		c.look(s, node)
	default:
		c.look(s, child)
	}
}

// look notes what exists answers.
func (c *watcher) look(s *Session, path string) {
	reply, stat, err := s.Exists(path)
	if o := c.role.outcome("exists", reply, err, jute.NoNode); o == Done || o == Refused {
		c.now.Told = append(c.now.Told, Told{Path: path, Zxid: reply.Zxid, Exists: o == Done, Stat: stat,
			Event: jute.EventNone})
	}
}

// finish looks at all that is watched, so that no event is missing at the end.
func (c *watcher) finish(s *Session) {
	if reply, err := s.Sync(c.role.root); err != nil || reply.Err != jute.OK {
		return
	}
	for i := range watched {
		c.look(s, c.role.node(i))
		c.look(s, c.role.child(i))
	}
}

// Check implements Role.
func (w *watchers) Check([]Tree) {
	for i := range w.all {
		CheckWatching(&w.all[i], w.violated)
	}
}

// CheckWatching holds what was told on one connection against what persistent watches are: each change of a watched
// znode that a read shows was told before, once, with its zxid; the events come in the order of the zxids, and a read
// shows what events before it have told.
func CheckWatching(w *Watching, violated func(string, ...any)) {
	c := watchCheck{Watching: w, known: map[string]Told{}, changed: map[string]int{}, told: map[eventKey]bool{},
		listed: map[eventKey]bool{},
		violated: func(format string, t Told) {
			violated("session %#x, watching %v since zxid %#x: "+format+": %+v", w.Session, w.Watches, w.Since, t)
		}}
	for _, t := range w.Told {
		if t.Event != jute.EventNone {
			c.event(t)
		} else {
			c.read(t)
		}
	}
}

// eventKey names an event.
type eventKey struct {
	path string
	kind jute.EventType
	zxid jute.Zxid
}

// watchCheck goes through what was told.
type watchCheck struct {
	*Watching
	told     map[eventKey]bool
	listed   map[eventKey]bool // changes of children, by an event of the parent or of the child
	known    map[string]Told   // the last answer about a znode
	changed  map[string]int    // since that: how often its data was said to have changed
	last     jute.Zxid         // of the events
	violated func(string, Told)
}

// event takes one in.
func (c *watchCheck) event(t Told) {
	key := eventKey{t.Path, t.Event, t.Zxid}
	switch {
	case !c.covers(t.Path, t.Event):
		c.violated("an event without a watch", t)
	case t.Zxid <= 0:
		c.violated("an event without a zxid", t)
	case t.Zxid < c.last:
		c.violated("an event out of order", t)
	case c.told[key]:
		c.violated("an event twice", t)
	}
	c.told[key] = true
	c.last = max(c.last, t.Zxid)
	switch t.Event {
	case jute.EventNodeDataChanged:
		c.changed[t.Path]++
	case jute.EventNodeCreated, jute.EventNodeDeleted:
		c.listed[eventKey{path.Dir(t.Path), jute.EventNodeChildrenChanged, t.Zxid}] = true
	case jute.EventNodeChildrenChanged:
		c.listed[key] = true
	}
}

// covers reports whether a watch tells such an event.
func (c *watchCheck) covers(path string, kind jute.EventType) bool {
	for _, w := range c.Watches {
		isBelow := w.Recursive && kind != jute.EventNodeChildrenChanged && strings.HasPrefix(path, w.Path+"/")
		if isBelow || path == w.Path && (!w.Recursive || kind != jute.EventNodeChildrenChanged) {
			return true
		}
	}
	return false
}

// read takes an answer in.
func (c *watchCheck) read(t Told) {
	if t.Zxid < c.last {
		c.violated("an answer from before an event", t)
	}
	if !c.covers(t.Path, jute.EventNodeDataChanged) {
		return
	}
	before, isKnown := c.known[t.Path]
	switch {
	case t.Exists && t.Stat.Mzxid > c.Since && !c.was(t.Path, jute.EventNodeDataChanged, t.Stat.Mzxid) &&
		!c.was(t.Path, jute.EventNodeCreated, t.Stat.Mzxid):
		c.violated("a change was not told before it was read", t)
	case t.Exists && t.Stat.Pzxid > c.Since && t.Stat.Pzxid != t.Stat.Czxid &&
		!c.listed[eventKey{t.Path, jute.EventNodeChildrenChanged, t.Stat.Pzxid}]:
		c.violated("a change of the children was not told before it was read", t)
	case t.Exists && isKnown && before.Exists && before.Stat.Czxid == t.Stat.Czxid &&
		int(t.Stat.Version-before.Stat.Version) != c.changed[t.Path]:
		c.violated(fmt.Sprintf("%d changes were told since version %d", c.changed[t.Path], before.Stat.Version), t)
	case !t.Exists && isKnown && before.Exists && !c.deleted(t.Path, before.Zxid):
		c.violated("a delete was not told before it was read", t)
	}
	c.known[t.Path] = t
	c.changed[t.Path] = 0
}

// was reports whether an event has come.
func (c *watchCheck) was(path string, kind jute.EventType, zxid jute.Zxid) bool {
	return c.told[eventKey{path, kind, zxid}]
}

// deleted reports whether a delete after a zxid was told.
func (c *watchCheck) deleted(path string, after jute.Zxid) bool {
	for key := range c.told { // order: any will do
		if key.path == path && key.kind == jute.EventNodeDeleted && key.zxid > after {
			return true
		}
	}
	return false
}
