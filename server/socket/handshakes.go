package socket

import (
	"sync/atomic"

	"zkd/server/limits"
)

// Handshakes bounds the TLS handshakes that are under way. Each has a goroutine of its own and a bounded time, and most
// of that it waits for the client; so many may wait. Only few compute at once, for signatures cost a thousand times
// what a request does, and a crowd of clients that come back must not starve those that are there.
type Handshakes struct {
	max   int // netty.server.outstandingHandshake.limit; 0 or less for no limit
	turns limits.Turns

	outstanding atomic.Int64
	exceeded    atomic.Int64
}

// Init sets the bounds. One computes at least.
func (s *Handshakes) Init(most, computing int) {
	s.max = most
	s.turns.Init(computing)
}

// Enter counts a connection to a port with TLS in; false means that there are too many.
func (s *Handshakes) Enter() bool {
	if n := s.outstanding.Add(1); s.max > 0 && n > int64(s.max) {
		s.outstanding.Add(-1)
		s.exceeded.Add(1)
		return false
	}
	return true
}

// Leave counts it out.
func (s *Handshakes) Leave() { s.outstanding.Add(-1) }

// Outstanding returns how many there are.
func (s *Handshakes) Outstanding() int64 { return s.outstanding.Load() }

// InLine returns how many wait for a turn to compute.
func (s *Handshakes) InLine() int64 { return s.turns.InLine() }

// Exceeded returns how many were too many so far.
func (s *Handshakes) Exceeded() int64 { return s.exceeded.Load() }
