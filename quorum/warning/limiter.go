package warning

import (
	"log/slog"
	"sync"

	"golang.org/x/time/rate"

	"zkd/quorum/clock"
)

// Limiter writes a few warnings at once, then one per second, with the number of those left out.
type Limiter struct {
	logger *slog.Logger
	clock  clock.Clock

	mu      sync.Mutex
	tokens  *rate.Limiter // guarded by mu
	omitted int           // guarded by mu
}

// Burst is how many warnings may come at once. A guess.
const Burst = 10

// NewLimiter returns a Limiter that writes to logger.
func NewLimiter(logger *slog.Logger, c clock.Clock) *Limiter {
	return &Limiter{logger: logger, clock: c, tokens: rate.NewLimiter(1, Burst)}
}

// Warn writes a warning, or counts it; written tells which. message is a constant; what varies is in attrs, slog.Attr
// each.
func (l *Limiter) Warn(message string, attrs ...any) (written bool) {
	l.mu.Lock()
	if !l.tokens.AllowN(l.clock.Now(), 1) {
		l.omitted++
		l.mu.Unlock()
		return false
	}
	omitted := l.omitted
	l.omitted = 0
	l.mu.Unlock()
	if omitted > 0 {
		attrs = append(attrs, slog.Int("omitted", omitted))
	}
	l.logger.Warn(message, attrs...) //nolint:sloglint // every caller passes a constant
	return true
}
