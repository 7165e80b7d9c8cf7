package warning

import (
	"log/slog"
	"sync"
	"time"

	"zkd/quorum/clock"
)

// Repeated writes a warning of something that many run into as long as it goes on: when it begins, and again at growing
// intervals, with the number of those left out. After a minute in which nobody has it begins anew.
type Repeated struct {
	logger *slog.Logger
	clock  clock.Clock

	mu      sync.Mutex
	again   time.Duration // guarded by mu; from told to when it is told again; 0: never told
	told    time.Time     // guarded by mu
	last    time.Time     // guarded by mu; when somebody ran into it
	omitted int           // guarded by mu
}

// NewRepeated returns a Repeated that writes to logger.
func NewRepeated(logger *slog.Logger, c clock.Clock) *Repeated {
	return &Repeated{logger: logger, clock: c}
}

// Warn writes a warning, or counts it. message is a constant; what varies is in attrs, slog.Attr each.
func (r *Repeated) Warn(message string, attrs ...any) {
	omitted, tell := r.next()
	if !tell {
		return
	}
	if omitted > 0 {
		attrs = append(attrs, slog.Int("omitted", omitted))
	}
	r.logger.Warn(message, attrs...) //nolint:sloglint // every caller passes a constant
}

// next counts a warning, and tells whether it is written, and how many were left out before it.
func (r *Repeated) next() (omitted int, tell bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	if now.Sub(r.last) >= againFirst {
		r.again = 0
	}
	r.last = now
	if r.again > 0 && now.Sub(r.told) < r.again {
		r.omitted++
		return 0, false
	}
	r.told, r.again = now, NextAgain(r.again)
	omitted, r.omitted = r.omitted, 0
	return omitted, true
}
