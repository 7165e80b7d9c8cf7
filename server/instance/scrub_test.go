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

// TestScrubsComeAgain: the first scrub begins some minutes after the start, the next one an interval after that one's
// beginning, and what they found is in the metrics.
func TestScrubsComeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		machine, err := state.OpenMachine(state.MachineOptions{Dir: "state", FS: vfs.NewMem()})
		if err != nil {
			t.Fatal(err)
		}
		var figures scrubFigures
		s := &scrubber{machine: machine, clock: clock.Real(), logger: slog.New(slog.DiscardHandler), figures: &figures,
			rate: 1, interval: time.Hour, damaged: func(err error) { t.Errorf("damaged: %v", err) },
			spaceLevel: func() space.Level { return space.Ample }}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.run(ctx) }()
		at := func(d time.Duration) int64 {
			<-time.NewTimer(d).C
			synctest.Wait()
			return figures.last.Load()
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
		cancel()
		<-ended
		if err := machine.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestScrubsLeaveSpace: a scrub ends when room becomes short, and none begins before there is room again.
func TestScrubsLeaveSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		machine, err := state.OpenMachine(state.MachineOptions{Dir: "state", FS: vfs.NewMem()})
		if err != nil {
			t.Fatal(err)
		}
		var figures scrubFigures
		var level atomic.Uint32
		s := &scrubber{machine: machine, clock: clock.Real(), logger: slog.New(slog.DiscardHandler), figures: &figures,
			rate: 1, interval: time.Hour, damaged: func(err error) { t.Errorf("damaged: %v", err) },
			spaceLevel: func() space.Level { return space.Level(level.Load()) }}
		if err := s.pace(t.Context(), 1); err != nil {
			t.Errorf("a scrub that has room: %v", err)
		}
		level.Store(uint32(space.Tight))
		if err := s.pace(t.Context(), 1); !errors.Is(err, errLittleSpace) {
			t.Errorf("a scrub goes on while room is short: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.run(ctx) }()
		<-time.NewTimer(10 * scrubDelay).C
		synctest.Wait()
		if figures.last.Load() != 0 {
			t.Error("a scrub was made while room was short")
		}
		level.Store(uint32(space.Ample))
		<-time.NewTimer(2 * scrubSpaceWait).C
		synctest.Wait()
		if figures.last.Load() == 0 {
			t.Error("no scrub was made when there was room again")
		}
		cancel()
		<-ended
		if err := machine.Close(); err != nil {
			t.Error(err)
		}
	})
}
