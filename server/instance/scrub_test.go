package instance

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/quorum/clock"
	"zkd/storage/space"
	"zkd/storage/state"
)

// newScrubber returns one of a new state, which the test's end closes; that has to be when nobody scrubs any more.
func newScrubber(t *testing.T, spaceLevel func() space.Level) *scrubber {
	machine, err := state.OpenMachine(state.MachineOptions{Dir: "state", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := machine.Close(); err != nil {
			t.Error(err)
		}
	})
	return &scrubber{machine: machine, clock: clock.Real(), logger: slog.New(slog.DiscardHandler),
		figures: new(scrubFigures), rate: 1, interval: time.Hour, spaceLevel: spaceLevel,
		damaged: func(err error) { t.Errorf("damaged: %v", err) }}
}

// TestScrubsComeAgain: the first scrub begins some minutes after the start, the next one an interval after that one's
// beginning, and what they found is in the metrics.
func TestScrubsComeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScrubber(t, func() space.Level { return space.Ample })
		end := s.start(t.Context())
		at := func(d time.Duration) int64 {
			<-time.NewTimer(d).C
			synctest.Wait()
			return s.figures.last.Load()
		}
		if last := at(scrubDelay - time.Second); last != 0 {
			t.Errorf("a scrub has ended at %d, before the first was due", last)
		}
		first := at(2 * time.Second)
		if first == 0 {
			t.Error("the first scrub has not ended")
		}
		if second := at(time.Hour); second != first+3600 {
			t.Errorf("the first scrub has ended at %d, the second at %d", first, second)
		}
		end(t.Context())
	})
}

// TestAHungScrubIsGivenUp: a stop does not wait for a scrub whose disk hangs for longer than it may take.
func TestAHungScrubIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan struct{})
		s := newScrubber(t, func() space.Level { <-answers; return space.Ample })
		end := s.start(t.Context())
		<-time.NewTimer(scrubDelay).C
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if end(ctx); ctx.Err() == nil {
			t.Error("a scrub that hangs has ended")
		}
		close(answers)
		end(t.Context())
	})
}

// TestScrubsLeaveSpace: a scrub ends when room becomes short, and none begins before there is room again.
func TestScrubsLeaveSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var level atomic.Uint32
		s := newScrubber(t, func() space.Level { return space.Level(level.Load()) })
		if err := s.pace(t.Context(), 1); err != nil {
			t.Errorf("a scrub that has room: %v", err)
		}
		level.Store(uint32(space.Tight))
		if err := s.pace(t.Context(), 1); !errors.Is(err, errLittleSpace) {
			t.Errorf("a scrub goes on while room is short: %v", err)
		}
		end := s.start(t.Context())
		<-time.NewTimer(10 * scrubDelay).C
		synctest.Wait()
		if s.figures.last.Load() != 0 {
			t.Error("a scrub was made while room was short")
		}
		level.Store(uint32(space.Ample))
		<-time.NewTimer(2 * scrubSpaceWait).C
		synctest.Wait()
		if s.figures.last.Load() == 0 {
			t.Error("no scrub was made when there was room again")
		}
		end(t.Context())
	})
}
