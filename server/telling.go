package server

import "zkd/server/socket"

// toldBytesMax is how much of events gathers for all connections together before it is handed to them. A guess: it is
// some thousand events.
const toldBytesMax = 1 << 20

// toldTogether is from how many changes of one write on their events gather. A guess: a create, with its parent, or a
// short multi is told as fast event by event.
const toldTogether = 16

// telling gathers the events of one write, so that a connection which hears of thousands of them takes them at once: a
// multi may change a watched znode as often as fits into jute.maxbuffer, before as many watchers as there are, and
// everybody waits until all of them have it. Owned by the apply goroutine.
type telling struct {
	gathers bool
	conns   []*conn // that have some
	bytes   int     // of all of them
}

// notices are the events that have gathered for one connection.
type notices struct {
	frames *[]byte // nil: none
	count  int
}

// begin begins a write with so many changes.
func (t *telling) begin(events int) { t.gathers = events >= toldTogether }

// gather keeps an event for c until end; false: it is to be told at once.
func (t *telling) gather(c *conn, notice []byte) bool {
	if !t.gathers {
		return false
	}
	n := &c.told
	if n.frames == nil {
		n.frames = socket.TakeBuffer()
		t.conns = append(t.conns, c)
	}
	*n.frames = append(*n.frames, notice...)
	n.count++
	if t.bytes += len(notice); t.bytes >= toldBytesMax {
		t.hand()
	}
	return true
}

// end hands over what is left of the write.
func (t *telling) end() {
	if t.bytes > 0 {
		t.hand()
	}
	t.gathers = false
}

// hand hands everybody what has gathered.
func (t *telling) hand() {
	for i, c := range t.conns {
		c.push(*c.told.frames, c.told.count)
		socket.GiveBuffer(c.told.frames)
		c.told = notices{}
		t.conns[i] = nil
	}
	t.conns, t.bytes = t.conns[:0], 0
	if cap(t.conns) > toldConnsKept {
		t.conns = nil
	}
}

// toldConnsKept is for how many connections the list keeps its memory: a guess.
const toldConnsKept = 16 << 10
