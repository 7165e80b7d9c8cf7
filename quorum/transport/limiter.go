package transport

import (
	"log/slog"
	"sync"

	"golang.org/x/time/rate"

	"zkd/quorum/clock"
)

// limiter writes warnings that anybody who reaches the port can cause: a few at once, then one per second, with the
// number of those left out.
type limiter struct {
	logger *slog.Logger
	clock  clock.Clock

	mu      sync.Mutex
	tokens  *rate.Limiter // guarded by mu
	omitted int           // guarded by mu
}

// warnBurst is how many warnings may come at once. A guess.
const warnBurst = 10

// newLimiter returns a limiter that writes to logger.
func newLimiter(logger *slog.Logger, c clock.Clock) *limiter {
	return &limiter{logger: logger, clock: c, tokens: rate.NewLimiter(1, warnBurst)}
}

// warn writes a warning, or counts it.
func (l *limiter) warn(message string, attrs ...any) {
	l.mu.Lock()
	if !l.tokens.AllowN(l.clock.Now(), 1) {
		l.omitted++
		l.mu.Unlock()
		return
	}
	omitted := l.omitted
	l.omitted = 0
	l.mu.Unlock()
	if omitted > 0 {
		attrs = append(attrs, slog.Int("omitted", omitted))
	}
	l.logger.Warn(message, attrs...) //nolint:sloglint // every caller passes a constant
}
