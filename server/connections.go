package server

import (
	"net/netip"
	"sync"
)

// connections is the set of live connections, counted by address.
type connections struct {
	perIPMax, totalMax int // 0 for no limit

	mu    sync.Mutex
	live  map[*conn]struct{}
	perIP map[netip.Addr]int
}

// init makes the set empty.
func (s *connections) init(perIPMax, totalMax int) {
	s.perIPMax, s.totalMax = perIPMax, totalMax
	s.live, s.perIP = map[*conn]struct{}{}, map[netip.Addr]int{}
}

// add takes c in; false means that a limit is reached.
func (s *connections) add(c *conn) bool {
	addr := c.remote.Addr()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.totalMax > 0 && len(s.live) >= s.totalMax || s.perIPMax > 0 && s.perIP[addr] >= s.perIPMax {
		return false
	}
	s.live[c] = struct{}{}
	s.perIP[addr]++
	return true
}

// remove takes c out.
func (s *connections) remove(c *conn) {
	addr := c.remote.Addr()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, c)
	if s.perIP[addr]--; s.perIP[addr] == 0 {
		delete(s.perIP, addr)
	}
}

// count returns the number of connections.
func (s *connections) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live)
}

// all returns the connections, in no order.
func (s *connections) all() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*conn, 0, len(s.live))
	for c := range s.live {
		list = append(list, c)
	}
	return list
}
