package transport

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"zkd/quorum/clock"
	"zkd/quorum/warning"
	"zkd/storage/serverid"
)

// rejectedError says whose connection was refused in a handshake, and why.
type rejectedError struct {
	from    uint64
	name    string
	refusal *RefusalError
}

func (e *rejectedError) Error() string {
	return fmt.Sprintf("server %d (%q) was refused: %s", serverid.Number(e.from), e.name, e.refusal.Text)
}

// joiner is a server that is no peer and has called: it may become one, and calls all the while.
type joiner struct {
	at    time.Time     // when that was logged last
	again time.Duration // from then to when it is logged again
}

// joiners are those of late. A server that is no member yet is told of when it comes, and again as one is that cannot
// be reached.
type joiners struct {
	logger *slog.Logger
	clock  clock.Clock

	mu    sync.Mutex
	known map[uint64]joiner // guarded by mu
}

// joinersMax bounds those that are remembered: who calls says itself which server it is.
const joinersMax = 256

// tell logs a connection that was rejected because a server that is no member has made it; it reports false if that is
// not why.
func (s *joiners) tell(remote string, err error) bool {
	var rejected *rejectedError
	if !errors.As(err, &rejected) || rejected.refusal.Code != NotMember {
		return false
	}
	if again := s.next(rejected.from); again > 0 {
		s.logger.Info("a server that is no member calls", slog.Int64("peer", serverid.Number(rejected.from)),
			slog.String("remote", remote), slog.Any("err", err), slog.Duration("again", again))
	}
	return true
}

// next returns when a server is to be told of again, if it is to be told of now, else 0.
func (s *joiners) next(id uint64) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	j, known := s.known[id]
	known = known && now.Sub(j.at) < 2*warning.AgainMost // else it has gone meanwhile
	if len(s.known) >= joinersMax {
		maps.DeleteFunc(s.known, func(_ uint64, j joiner) bool { return now.Sub(j.at) >= j.again })
	}
	switch {
	case known && now.Sub(j.at) < j.again, !known && len(s.known) >= joinersMax:
		return 0
	case !known:
		j.again = 0
	}
	j.at, j.again = now, warning.NextAgain(j.again)
	s.known[id] = j
	return j.again
}
