package instance

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"zkd/quorum/clock"
	"zkd/server/stats"
	"zkd/server/stats/catalog"
	"zkd/storage/space"
	"zkd/storage/state"
)

// scrubDelay is how long after its start a server begins the first scrub: a start has better to do. A guess.
const scrubDelay = 5 * time.Minute

// scrubFigures are what scrubs have found and cost.
type scrubFigures struct {
	bytes, failures stats.Counter
	last            atomic.Int64 // seconds since 1970, of the end of the last one that found nothing
}

// set sets the metrics.
func (f *scrubFigures) set(v *catalog.Values) {
	v.Set("zkd_scrub_bytes_total", f.bytes.Load())
	v.Set("zkd_scrub_failures_total", f.failures.Load())
	v.Set("zkd_scrub_last_seconds", f.last.Load())
}

// scrubber reads the state of a server again and again, slowly.
type scrubber struct {
	machine    *state.Machine
	clock      clock.Clock
	logger     *slog.Logger
	figures    *scrubFigures
	rate       int64 // bytes a second
	interval   time.Duration
	damaged    func(error)        // told what a scrub has found
	spaceLevel func() space.Level // of the disks; any goroutine may call it
}

// scrubSpaceWait is how long a scrub that little room has ended, or kept from its beginning, waits for the next look.
const scrubSpaceWait = time.Minute

// errLittleSpace ends a scrub. What it reads as it was at one moment is kept on disk although it is written anew or
// removed meanwhile, which is what a store that is to give room back does.
var errLittleSpace = errors.New("there is little room on the disk")

// start scrubs until ctx ends, or end is called, which waits for a scrub under way, but no longer than its own context
// lasts: while the disk that it reads hangs, a scrub does not end.
func (s *scrubber) start(ctx context.Context) (end func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); s.run(ctx) }()
	return func(waiting context.Context) {
		cancel()
		select {
		case <-ended:
		case <-waiting.Done():
		}
	}
}

// run scrubs until ctx ends.
func (s *scrubber) run(ctx context.Context) {
	wait := scrubDelay
	for s.sleep(ctx, wait) == nil {
		began := s.clock.Now()
		if s.once(ctx) {
			wait = max(s.interval-s.clock.Since(began), 0)
		} else {
			wait = min(scrubSpaceWait, s.interval)
		}
	}
}

// once makes one scrub, and tells whether the next one has time. If the state is replaced meanwhile, that one reads the
// new state.
func (s *scrubber) once(ctx context.Context) bool {
	if s.spaceLevel() != space.Ample {
		return false
	}
	began := s.clock.Now()
	report, err := s.machine.Scrub(ctx, s.pace)
	took := slog.Duration("took", s.clock.Since(began))
	switch {
	case err == nil:
		s.figures.last.Store(s.clock.Now().Unix())
		s.logger.Info("scrub finished", slog.Int64("znodes", report.Znodes), slog.Int64("bytes", report.Bytes),
			slog.Uint64("index", report.Index), took)
	case ctx.Err() != nil, errors.Is(err, state.ErrScrubHalted):
	case errors.Is(err, errLittleSpace):
		return false
	default:
		s.figures.failures.Inc()
		s.logger.Error("scrub failed: state store corrupt", slog.Any("err", err), took)
		s.damaged(err)
	}
	return true
}

// pace lets the time pass that reading so many bytes takes, and ends the scrub when room becomes short.
func (s *scrubber) pace(ctx context.Context, bytes int) error {
	s.figures.bytes.Add(int64(bytes))
	if s.spaceLevel() != space.Ample {
		return errLittleSpace
	}
	return s.sleep(ctx, time.Duration(float64(bytes)/float64(s.rate)*float64(time.Second)))
}

// sleep waits, or until ctx ends.
func (s *scrubber) sleep(ctx context.Context, d time.Duration) error {
	timer := s.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
