package transport

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"zkd/storage/serverid"
)

// versionGoodbye is the first in which a stream's last frame says that its sender stops.
const versionGoodbye uint16 = 3

// goodbyeWait bounds how long Stop waits for its peers. A guess: much more than a round trip, little beside a restart.
const goodbyeWait = time.Second

// errLeft says that the peer's process has said that it stops.
var errLeft = errors.New("the peer stops")

// Which of a peer's streams a line of the log is about.
var (
	directionOut = slog.String("direction", "out")
	directionIn  = slog.String("direction", "in")
)

// presence logs that a peer comes and goes. One that goes is one line, though both its streams end.
type presence struct {
	peer   uint64
	logger *slog.Logger

	mu   sync.Mutex
	gone uint64 // guarded by mu; number of the process the end of whose stream was logged; 0: none, or it is up again
}

// up logs that a stream is up.
func (e *presence) up(s *stream, direction slog.Attr) {
	e.mu.Lock()
	if e.gone == s.processID {
		e.gone = 0
	}
	e.mu.Unlock()
	e.logger.Info("peer connected", slog.Int64("peer", serverid.Number(e.peer)), direction,
		slog.String("address", s.address),
		slog.String("program", s.name))
}

// ended logs that a stream has ended, unless the end of the other one was logged and neither is up again.
func (e *presence) ended(s *stream, direction slog.Attr) {
	e.mu.Lock()
	told := e.gone == s.processID
	e.gone = s.processID
	e.mu.Unlock()
	switch {
	case told:
	case errors.Is(s.err, errLeft):
		e.logger.Info("peer left", slog.Int64("peer", serverid.Number(e.peer)))
	default:
		e.logger.Warn("peer disconnected", slog.Int64("peer", serverid.Number(e.peer)), direction,
			slog.Any("err", s.err))
	}
}
