package sim

import (
	"slices"
	"time"
)

// network carries frames between members. Each pair of members has a connection while both are up and nothing cuts it;
// on it, frames of a direction arrive in the order in which they were sent, as over TCP, unless the run is one with
// wild frames.
type network struct {
	w     *world
	links map[[2]uint64]*link // by sender and receiver; never iterated
	// pairs are all pairs of members, the smaller id first, in order.
	pairs []*pair
}

// pair is two members and what is between them.
type pair struct {
	low, high *member
	up        bool
	epoch     int // counts connections
}

// link is one direction of a pair.
type link struct {
	from, to *member
	pair     *pair
	blocked  bool          // nothing gets through: it waits
	stalled  []*frame      // what waits
	last     time.Duration // when the newest frame on its way arrives
	known    bool          // the receiver was told that the connection is up, and not that it broke
	told     time.Duration // when the receiver is told next that it came up or broke
}

// frame is one frame on its way.
type frame struct {
	kind  uint8
	body  []byte
	epoch int
}

// newNetwork returns a network without members.
func newNetwork(w *world) *network {
	return &network{w: w, links: map[[2]uint64]*link{}}
}

// join brings a member to the network.
func (n *network) join(m *member) {
	for _, other := range n.w.members {
		if other == m {
			continue
		}
		p := &pair{low: other, high: m}
		n.pairs = append(n.pairs, p)
		n.links[[2]uint64{other.id, m.id}] = &link{from: other, to: m, pair: p}
		n.links[[2]uint64{m.id, other.id}] = &link{from: m, to: other, pair: p}
	}
}

// link returns one direction between two members.
func (n *network) link(from, to uint64) *link { return n.links[[2]uint64{from, to}] }

// send takes a frame; false: there is no connection, or no room.
func (n *network) send(from *member, to uint64, kind uint8, encode func([]byte) []byte) bool {
	l := n.link(from.id, to)
	if l == nil || !l.pair.up || !n.link(to, from.id).known {
		return false
	}
	if n.w.chance(n.w.profile.fullPercent) && !n.w.healing {
		n.w.count(drawnFullQueue)
		n.w.trace.note(n.w.now, "full", from.id, to, uint64(kind))
		return false
	}
	f := &frame{kind: kind, body: encode(nil), epoch: l.pair.epoch}
	n.w.trace.note(n.w.now, "send", from.id, to, uint64(kind), hashBytes(f.body))
	if n.w.cfg.Plant == PlantForwardTwice {
		n.forwardTwice(l, f)
	}
	if n.w.profile.wild && !n.w.healing && kind <= lastWildKind {
		n.sendWild(l, f)
		return true
	}
	n.carry(l, f)
	return true
}

// forwardTwice plants a leader without the rule of streams: a forwarded entry comes once more, from what passes for
// another process.
func (n *network) forwardTwice(l *link, f *frame) {
	const frameForward, prev, origin = 2, 2 * 8, 3*8 + 1 // as package quorum lays the frame out
	if f.kind != frameForward || !n.w.chance(20) {
		return
	}
	again := *f
	again.body = slices.Clone(f.body)
	clear(again.body[prev : prev+8])
	again.body[origin] ^= 0xff
	n.carry(l, &again)
}

// lastWildKind is the last kind of frames that may be lost, repeated and overtaken within a connection: messages of
// raft, forwarded entries and their refusals, reports. The others rely on a connection's order.
const lastWildKind = 4

// sendWild loses, repeats or delays a frame at random.
func (n *network) sendWild(l *link, f *frame) {
	switch {
	case n.w.chance(5):
		n.w.count(drawnDropped)
	case n.w.chance(5):
		n.w.count(drawnDuplicated)
		again := *f
		again.body = append([]byte(nil), f.body...)
		n.deliver(l, f, n.w.upTo(20*time.Millisecond))
		n.deliver(l, &again, n.w.upTo(300*time.Millisecond))
	case n.w.chance(10):
		n.w.count(drawnOvertaken)
		n.deliver(l, f, n.w.upTo(300*time.Millisecond))
	default:
		n.carry(l, f)
	}
}

// carry brings a frame to the other side, behind those before it.
func (n *network) carry(l *link, f *frame) {
	if l.blocked {
		l.stalled = append(l.stalled, f)
		return
	}
	at := max(n.w.now+n.latency(), l.last, l.told)
	l.last = at
	n.deliver(l, f, at-n.w.now)
}

// latency draws how long a frame takes.
func (n *network) latency() time.Duration {
	if n.w.chance(3) {
		return n.w.upTo(20 * time.Millisecond)
	}
	return n.w.between(50*time.Microsecond, n.w.profile.latencyMax)
}

// deliver hands a frame to its receiver, d from now, if the connection is still the one that it was sent on.
func (n *network) deliver(l *link, f *frame, d time.Duration) {
	l.to.after(max(d, l.told-n.w.now), func() {
		if f.epoch != l.pair.epoch || !l.known {
			return
		}
		if l.blocked {
			l.stalled = append(l.stalled, f)
			return
		}
		n.w.trace.note(n.w.now, "receive", l.from.id, l.to.id, uint64(f.kind), hashBytes(f.body))
		l.to.stepper.Node().Receive(l.from.id, f.kind, f.body)
		for i := range f.body { // it was valid during the call only
			f.body[i] ^= 0xa5
		}
	})
}

// connect brings up a pair, if both are there and nothing is in the way.
func (n *network) connect(p *pair) {
	if p.up || !p.low.up || !p.high.up || n.link(p.low.id, p.high.id).blocked || n.link(p.high.id, p.low.id).blocked {
		return
	}
	if p.low.retired || p.high.retired {
		return
	}
	p.up = true
	p.epoch++
	n.w.trace.note(n.w.now, "connect", p.low.id, p.high.id)
	n.tell(p, n.link(p.low.id, p.high.id), true, n.w.upTo(2*time.Millisecond))
	n.tell(p, n.link(p.high.id, p.low.id), true, n.w.upTo(2*time.Millisecond))
}

// tell tells the receiver of l that the connection came up or broke, after what it is told before.
func (n *network) tell(p *pair, l *link, up bool, d time.Duration) {
	at := max(n.w.now+d, l.told)
	l.told = at
	epoch := p.epoch
	l.to.after(at-n.w.now, func() {
		switch {
		case up && p.up && p.epoch == epoch && !l.known:
			l.known, l.last = true, n.w.now
			n.w.trace.note(n.w.now, "connected", l.to.id, l.from.id)
			l.to.stepper.Node().Connected(l.from.id)
		case !up && l.known:
			l.known = false
			n.w.trace.note(n.w.now, "lost", l.to.id, l.from.id)
			l.to.stepper.Node().Lost(l.from.id)
		}
	})
}

// cut breaks a pair's connection: what is on its way is lost, and each side hears of it some time later. It is made
// anew when it can be.
func (n *network) cut(p *pair, notice time.Duration) {
	if !p.up {
		return
	}
	p.up = false
	p.epoch++
	n.w.trace.note(n.w.now, "cut", p.low.id, p.high.id)
	for _, l := range []*link{n.link(p.low.id, p.high.id), n.link(p.high.id, p.low.id)} {
		l.stalled = nil
		n.tell(p, l, false, n.w.upTo(notice))
	}
	n.retry(p)
}

// reconnectMax is the longest time between two attempts to connect.
const reconnectMax = 100 * time.Millisecond

// retry tries to connect a pair until it is.
func (n *network) retry(p *pair) {
	n.w.after(n.w.between(time.Millisecond, reconnectMax), func() {
		a, b := n.link(p.low.id, p.high.id), n.link(p.high.id, p.low.id)
		if p.up || !p.low.up || !p.high.up || p.low.retired || p.high.retired {
			return // another attempt, or the start of the member, takes over
		}
		if a.known || b.known || a.blocked || b.blocked {
			n.retry(p)
			return
		}
		n.connect(p)
	})
}

// memberUp begins to connect a member that has started; nobody holds it for connected.
func (n *network) memberUp(m *member) {
	for _, p := range n.pairs {
		if p.low == m || p.high == m {
			n.retry(p)
		}
	}
}

// memberDown breaks the connections of a member that is gone. The others hear of it at once if its operating system is
// there to say so, and late otherwise.
func (n *network) memberDown(m *member, notice time.Duration) {
	for _, p := range n.pairs {
		if p.low != m && p.high != m {
			continue
		}
		other := p.low
		if other == m {
			other = p.high
		}
		in := n.link(other.id, m.id)
		in.known, in.told, in.stalled = false, 0, nil
		if p.up {
			p.up = false
			p.epoch++
			n.tell(p, n.link(m.id, other.id), false, n.w.upTo(notice))
		}
	}
}

// block stops or lets go one direction. What waits goes on in order.
func (n *network) block(from, to uint64, blocked bool) {
	l := n.link(from, to)
	if l.blocked == blocked {
		return
	}
	l.blocked = blocked
	n.w.trace.note(n.w.now, "block", from, to, boolNumber(blocked))
	if blocked {
		epoch := l.pair.epoch
		n.w.after(n.w.between(300*time.Millisecond, 3*time.Second), func() { // as a keep-alive finds out
			if l.blocked && l.pair.epoch == epoch {
				n.cut(l.pair, 500*time.Millisecond)
			}
		})
		return
	}
	stalled := l.stalled
	l.stalled = nil
	for _, f := range stalled {
		n.carry(l, f)
	}
}

// boolNumber is a truth as the trace has it.
func boolNumber(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
