package network

import (
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"
)

// Fabric is a network. Its methods may be called by any goroutine.
type Fabric struct {
	mu     sync.Mutex
	random *rand.Rand           // guarded by mu
	byName map[string]*Host     // guarded by mu
	byAddr map[netip.Addr]*Host // guarded by mu
	links  map[[2]*Host]*link   // guarded by mu; by who sends and who receives; what is not there is as it should be
	conns  map[*Host][]*pair    // guarded by mu; those that are open, by either end, in the order of their making
	least  time.Duration        // of a delay
	most   time.Duration        // likewise
	ports  map[*Host]uint16     // guarded by mu; the last that was drawn for a dialer
}

// link is what is wrong between two hosts, in one direction.
type link struct {
	cut   bool          // nothing arrives, nor does a connection open
	mute  bool          // connections open, and carry nothing
	extra time.Duration // on top of each delay
	rate  int           // bytes a second; 0: no bound
	free  time.Time     // when all has left that was sent at that rate
}

// Options says what a network is like while nothing is wrong. Random is needed.
type Options struct {
	Random      *rand.Rand
	Least, Most time.Duration // a delay in one direction
}

// New returns a network without hosts.
func New(o Options) *Fabric {
	return &Fabric{random: o.Random, least: o.Least, most: o.Most,
		byName: map[string]*Host{}, byAddr: map[netip.Addr]*Host{}, links: map[[2]*Host]*link{},
		conns: map[*Host][]*pair{}, ports: map[*Host]uint16{}}
}

// Host adds a host, which is up. Its addresses are dialed, and found by its name, in their order.
func (f *Fabric) Host(name string, addrs ...netip.Addr) *Host {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := &Host{fabric: f, name: name, addrs: addrs, up: true, listeners: map[netip.AddrPort]*listener{}}
	f.byName[name] = h
	for _, a := range addrs {
		f.byAddr[a] = h
	}
	return h
}

// Cut stops all that a sends to b: what is under way waits, and no connection opens.
func (f *Fabric) Cut(a, b *Host) { f.change(a, b, func(l *link) { l.cut = true }) }

// Mute lets connections open between a and b, and nothing that a writes arrive at b.
func (f *Fabric) Mute(a, b *Host) { f.change(a, b, func(l *link) { l.mute = true }) }

// Slow makes all that a sends to b later by extra, and bounds it to a rate in bytes a second, of all connections
// together; 0 is no bound.
func (f *Fabric) Slow(a, b *Host, extra time.Duration, rate int) {
	f.change(a, b, func(l *link) { l.extra, l.rate = extra, rate })
}

// Heal mends all between a and b, in this direction. What waited arrives, in its order.
func (f *Fabric) Heal(a, b *Host) {
	f.change(a, b, func(l *link) {
		if l.rate > 0 {
			f.hurry(a, b)
		}
		*l = link{}
	})
}

// hurry has all that waits for a rate leave at once.
func (f *Fabric) hurry(a, b *Host) {
	now := time.Now()
	for _, p := range f.between(a, b) {
		for _, c := range []*conn{p.dialer, p.accepted} {
			if c.host == b {
				c.arriveBy(now.Add(f.most))
			}
		}
	}
}

// Reset ends all connections between two hosts, for both of them at once. It returns how many there were.
func (f *Fabric) Reset(a, b *Host) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, p := range f.between(a, b) {
		p.reset()
		n++
	}
	return n
}

// Open is how many ends of connections a host has open. Those that it has closed do not count, though the other end may
// be open yet: a process that is paused closes none.
func (f *Fabric) Open(h *Host) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.ends(h) {
		if !c.closed {
			n++
		}
	}
	return n
}

// change changes a link, and lets those who wait for it look again.
func (f *Fabric) change(a, b *Host, do func(*link)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.links[[2]*Host{a, b}]
	if l == nil {
		l = &link{}
		f.links[[2]*Host{a, b}] = l
	}
	do(l)
	for _, p := range f.between(a, b) {
		p.changed()
	}
}

// between returns the connections between two hosts, in the order of their making.
func (f *Fabric) between(a, b *Host) (found []*pair) {
	for _, p := range f.conns[a] {
		if p.dialer.host == b || p.accepted.host == b {
			found = append(found, p)
		}
	}
	return found
}

// link returns how things are from a to b.
func (f *Fabric) link(a, b *Host) link {
	if l := f.links[[2]*Host{a, b}]; l != nil {
		return *l
	}
	return link{}
}

// delay draws how long n bytes take from a to b.
func (f *Fabric) delay(a, b *Host, n int) time.Duration {
	d, l := f.least, f.link(a, b)
	if spread := f.most - f.least; spread > 0 {
		d += time.Duration(f.random.Int64N(int64(spread)))
	}
	if a == b {
		d /= 10
	}
	if l.rate > 0 {
		d += f.links[[2]*Host{a, b}].send(n)
	}
	return d + l.extra
}

// send takes n bytes to be sent at the link's rate, behind those that wait already, and returns how long it takes.
func (l *link) send(n int) time.Duration {
	now := time.Now()
	if l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(time.Duration(n) * time.Second / time.Duration(l.rate))
	return l.free.Sub(now)
}
