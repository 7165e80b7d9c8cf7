package server

import "sync/atomic"

// shaking bounds the TLS handshakes that are under way. Each has a goroutine of its own and a bounded time, and most of
// that it waits for the client; so many may wait. Only few compute at once, for signatures cost a thousand times what a
// request does, and a crowd of clients that come back must not starve those that are there.
type shaking struct {
	max   int           // netty.server.outstandingHandshake.limit; 0 or less for no limit
	turns chan struct{} // as many as compute at once; immutable after init

	outstanding atomic.Int64
	exceeded    counter
}

// init sets the bounds. computing is at least one.
func (s *shaking) init(most, computing int) {
	s.max, s.turns = most, make(chan struct{}, max(computing, 1))
}

// enter counts a connection to a port with TLS in; false means that there are too many.
func (s *shaking) enter(c *conn) bool {
	if c.port.TLS == nil {
		return true
	}
	if n := s.outstanding.Add(1); s.max > 0 && n > int64(s.max) {
		s.outstanding.Add(-1)
		s.exceeded.Add(1)
		return false
	}
	return true
}

// leave counts it out.
func (s *shaking) leave(c *conn) {
	if c.port.TLS != nil {
		s.outstanding.Add(-1)
	}
}
