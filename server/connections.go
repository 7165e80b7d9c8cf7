package server

import (
	"net/netip"
	"slices"
	"sync"
)

// connections is the set of live connections, counted by address.
type connections struct {
	perIPMax, totalMax int // 0 for no limit

	mu    sync.Mutex
	live  map[*conn]struct{}
	perIP map[sourceAddress]int
}

// sourceAddress is what connections are counted by: ZooKeeper's ports count apart (ServerCnxnFactory).
type sourceAddress struct {
	addr   netip.Addr
	secure bool
}

// init makes the set empty.
func (s *connections) init(perIPMax, totalMax int) {
	s.perIPMax, s.totalMax = perIPMax, totalMax
	s.live, s.perIP = map[*conn]struct{}{}, map[sourceAddress]int{}
}

// add takes c in; false means that a limit is reached.
func (s *connections) add(c *conn) bool {
	from := c.source()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.totalMax > 0 && len(s.live) >= s.totalMax || s.perIPMax > 0 && s.perIP[from] >= s.perIPMax {
		return false
	}
	s.live[c] = struct{}{}
	s.perIP[from]++
	return true
}

// remove takes c out.
func (s *connections) remove(c *conn) {
	from := c.source()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, c)
	if s.perIP[from]--; s.perIP[from] == 0 {
		delete(s.perIP, from)
	}
}

// count returns the number of connections.
func (s *connections) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live)
}

// ports says of which connections is spoken: those of the port for TLS alone, of the other one, or of both.
type ports struct{ plain, secure bool }

// ofPort are the connections of one port, everybody those of all.
func ofPort(secure bool) ports { return ports{plain: !secure, secure: secure} }

var everybody = ports{plain: true, secure: true}

// has reports whether c is one of them.
func (w ports) has(c *conn) bool { return c.port.Secure && w.secure || !c.port.Secure && w.plain }

// of returns those connections that w has, in no order.
func (s *connections) of(w ports) []*conn {
	return slices.DeleteFunc(s.all(), func(c *conn) bool { return !w.has(c) })
}

// all returns the connections, in no order.
func (s *connections) all() []*conn { return s.appendAll(nil) }

// appendAll adds the connections to list, in no order.
func (s *connections) appendAll(list []*conn) []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	list = slices.Grow(list, len(s.live))
	for c := range s.live {
		list = append(list, c)
	}
	return list
}
