package server

import (
	"slices"

	"zkd/server/socket"
	"zkd/server/watch"
)

// toldBytesMax is how much of events gathers before it is handed to those who hear of them. A guess: it is some
// thousand events.
const toldBytesMax = 1 << 20

// knownMax is how many groups of audiences are known at the most: a guess, some hundred KiB.
const knownMax = 32 << 10

// toldTogether is from how many changes of one write on their events gather. A guess: a create, with its parent, or a
// short multi is told as fast event by event.
const toldTogether = 16

// telling tells the events of one write. A write may have as many as fits into jute.maxbuffer, before as many watchers
// as there are, and everybody waits until all of them have it. So of a long one those who hear of the same events are a
// group (hearers): an event is written once for all of a group, and they have its memory together. A connection belongs
// to one group, which is split when an event is for some of it alone. Owned by the apply goroutine.
type telling struct {
	watches *watch.Table
	gathers bool // the write is long
	groups  []*hearers
	splits  int                 // counts the groups that were split
	known   map[int]knownGroups // of audiences by their numbers
	knows   int                 // groups in known
	touched []*hearers          // scratch of find
	notice  []byte              // scratch of gather
	bytes   int                 // of what all groups have not been handed yet
}

// hearers are connections that hear of the same events of a write.
type hearers struct {
	conns  []*conn
	before *passage // what they were to hear before some were split off
	last   passage  // and since

	// Scratch of telling.find.
	hit  int
	part *hearers // for those of it that an event is for
}

// passage is some of the events of a write.
type passage struct {
	before *passage
	frames []byte
	events int
}

// knownGroups are the groups of an audience, as long as none is split.
type knownGroups struct {
	groups []*hearers
	splits int
}

// begin begins a write with so many changes.
func (t *telling) begin(events int) {
	if t.gathers = events >= toldTogether; t.gathers {
		t.watches.Remember()
		t.known = make(map[int]knownGroups)
	}
}

// gather keeps an event of a long write for those who hear of it, until there is much or the write ends. It returns how
// many they are.
func (t *telling) gather(ev *watch.Event) int {
	a := t.watches.Audience(ev)
	if a.Len() == 0 {
		return 0
	}
	t.notice = watch.AppendNotice(t.notice[:0], ev.Type, ev.Path, ev.Zxid)
	for _, g := range t.find(a) {
		g.last.frames = append(g.last.frames, t.notice...)
		g.last.events++
		t.bytes += len(t.notice)
	}
	told := a.Len()
	if t.bytes >= toldBytesMax {
		t.hand()
	}
	return told
}

// find returns the groups that are an audience.
func (t *telling) find(a *watch.Audience) []*hearers {
	k, ok := t.known[a.Number]
	if ok && k.splits == t.splits {
		return k.groups
	}
	t.touch(a)
	split := false
	for _, g := range t.touched {
		if g.hit < len(g.conns) {
			g.split()
			split = true
		}
	}
	if split {
		t.splits++
		for i := range a.Len() {
			c := a.At(i).(*conn)
			if part := c.hearers.part; part != nil {
				c.hearers = part
				part.conns = append(part.conns, c)
			}
		}
	}
	for i, g := range t.touched {
		g.hit = 0
		if part := g.part; part != nil {
			g.part = nil
			g.conns = slices.DeleteFunc(g.conns, func(c *conn) bool { return c.hearers == part })
			t.groups = append(t.groups, part)
			t.touched[i] = part
		}
	}
	if a.Number > 0 {
		if t.knows += len(t.touched); t.knows > knownMax {
			clear(t.known)
			t.knows = len(t.touched)
		}
		t.known[a.Number] = knownGroups{slices.Clone(t.touched), t.splits}
	}
	return t.touched
}

// touch finds the groups that have some of an audience, and how many: hit. Those who had no group make a new one.
func (t *telling) touch(a *watch.Audience) {
	t.touched = t.touched[:0]
	var fresh *hearers
	for i := range a.Len() {
		c := a.At(i).(*conn)
		if c.hearers == nil {
			if fresh == nil {
				fresh = &hearers{}
				t.groups = append(t.groups, fresh)
			}
			fresh.conns = append(fresh.conns, c)
			c.hearers = fresh
		}
		if c.hearers.hit == 0 {
			t.touched = append(t.touched, c.hearers)
		}
		c.hearers.hit++
	}
}

// split begins a group of those who go on as a part of g.
func (g *hearers) split() {
	if g.last.events > 0 {
		g.before = &passage{g.before, g.last.frames, g.last.events}
		g.last = passage{}
	}
	g.part = &hearers{before: g.before}
}

// end hands over what is left of the write.
func (t *telling) end() {
	if !t.gathers {
		return
	}
	if t.bytes > 0 {
		t.hand()
	}
	for _, g := range t.groups {
		for _, c := range g.conns {
			c.hearers = nil
		}
	}
	clear(t.groups)
	clear(t.touched[:cap(t.touched)])
	t.groups, t.known, t.knows, t.gathers = t.groups[:0], nil, 0, false
	if cap(t.groups) > groupsKept {
		t.groups = nil
	}
	if cap(t.touched) > groupsKept {
		t.touched = nil
	}
	t.watches.Forget()
}

// groupsKept is for how many groups the lists keep their memory: a guess.
const groupsKept = 16 << 10

// hand hands everybody what has gathered.
func (t *telling) hand() {
	var frames [][]byte
	for _, g := range t.groups {
		frames = frames[:0]
		events := 0
		g.last.before = g.before
		for p := &g.last; p != nil; p = p.before {
			if p.events > 0 {
				frames = append(frames, p.frames)
				events += p.events
			}
		}
		g.before, g.last = nil, passage{}
		if events == 0 {
			continue
		}
		slices.Reverse(frames)
		for _, c := range g.conns {
			c.push(socket.Pushed{Frames: frames, Keep: true}, events)
		}
	}
	t.bytes = 0
}
