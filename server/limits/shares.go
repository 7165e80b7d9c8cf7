package limits

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
)

// Shares bound what the connections of one address may have under way together, as long as those of others are there.
// The first half of the bytes that may be under way anybody may have; beyond it an address has no more than an equal
// part of that half, or one write. So a client with many connections fills no queue that others' writes stand in.
type Shares struct {
	half int64 // of the bytes that may be under way

	bytes     atomic.Int64 // under way, of all
	addresses atomic.Int64 // in the map
	waiting   atomic.Int32

	mu   sync.Mutex
	of   map[netip.Addr]*Share
	line []shareWaiter // first come first served; one for each reader that waits
}

// Share is what one address has under way.
type Share struct {
	all  *Shares
	addr netip.Addr

	writes, bytes, connections atomic.Int64
}

// shareWaiter waits for room in a share.
type shareWaiter struct {
	share *Share
	bytes int64
	there chan struct{} // closed when there is; the bytes are counted in then
}

// Init sets how many bytes may be under way, of all.
func (s *Shares) Init(bytes int) { s.half, s.of = int64(bytes)/2, map[netip.Addr]*Share{} }

// Enter returns the share of a new connection from addr, until Leave.
func (s *Shares) Enter(addr netip.Addr) *Share {
	s.mu.Lock()
	defer s.mu.Unlock()
	share := s.of[addr]
	if share == nil {
		share = &Share{all: s, addr: addr}
		s.of[addr] = share
		s.addresses.Add(1)
	}
	share.connections.Add(1)
	return share
}

// Bytes returns how many are under way, of all.
func (s *Shares) Bytes() int64 { return s.bytes.Load() }

// Leave says that a connection has ended. What is under way of it counts on.
func (p *Share) Leave() {
	p.connections.Add(-1)
	p.forget()
}

// forget removes a share that nobody has any more.
func (p *Share) forget() {
	if p.connections.Load() > 0 || p.writes.Load() > 0 {
		return
	}
	s := p.all
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.connections.Load() == 0 && p.writes.Load() == 0 && s.of[p.addr] == p {
		delete(s.of, p.addr)
		s.addresses.Add(-1)
	}
}

// Begin counts a write in, which waits while its address has too much under way; ok is false if the connection ends
// before.
func (p *Share) Begin(bytes int, ending func() <-chan struct{}) (waited, ok bool) {
	p.writes.Add(1)
	if p.take(int64(bytes)) {
		return false, true
	}
	if ok = p.await(int64(bytes), ending); !ok {
		p.writes.Add(-1)
		p.forget()
	}
	return true, ok
}

// End counts a write out.
func (p *Share) End(bytes int) {
	p.bytes.Add(-int64(bytes))
	p.all.bytes.Add(-int64(bytes))
	if p.all.waiting.Load() > 0 {
		p.all.letGo()
	}
	if p.writes.Add(-1) == 0 {
		p.forget()
	}
}

// take counts bytes in if there is room for them.
func (p *Share) take(n int64) bool {
	own, all := p.bytes.Add(n), p.all.bytes.Add(n)
	others := p.all.addresses.Load()
	if all <= p.all.half || others <= 1 || own == n || own <= p.all.half/others {
		return true
	}
	p.bytes.Add(-n)
	p.all.bytes.Add(-n)
	return false
}

// await stands in line; false if the connection ends before there is room.
func (p *Share) await(n int64, ending func() <-chan struct{}) bool {
	s := p.all
	w := shareWaiter{p, n, make(chan struct{})}
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	s.mu.Lock()
	s.line = append(s.line, w)
	s.mu.Unlock()
	s.letGo() // what has ended before it stood in line
	select {
	case <-w.there:
		return true
	case <-ending():
	}
	s.mu.Lock()
	before := len(s.line)
	s.line = slices.DeleteFunc(s.line, func(o shareWaiter) bool { return o.there == w.there })
	there := len(s.line) == before
	s.mu.Unlock()
	if there { // at the same moment
		p.bytes.Add(-n)
		s.bytes.Add(-n)
		s.letGo()
	}
	return false
}

// letGo lets those go on for whom there is room, first come first served within an address.
func (s *Shares) letGo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line = slices.DeleteFunc(s.line, func(w shareWaiter) bool {
		room := w.share.take(w.bytes)
		if room {
			close(w.there)
		}
		return room
	})
}

// exceeds reports whether the address has as many writes under way as its part of limit, or more, while others are
// there.
func (p *Share) exceeds(limit int64) bool {
	others := p.all.addresses.Load()
	return others > 1 && p.writes.Load() > max(1, limit/others)
}
