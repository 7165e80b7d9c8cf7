package quorum

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"zkd/quorum/clock"
	"zkd/storage/space"
)

// A server whose disk is nearly full says so to the leader, and the leader judges for all: as long as a quorum of
// voters has space, writes go on, and whoever has none follows until it is near its end, then keeps what it has and
// falls behind. When there is no such quorum, nothing that grows is taken any more (docs/decisions/0025).

// DiskSpace is what a member knows of its disks.
type DiskSpace interface {
	// Look measures them and returns the level. It may write: it is called on a goroutine of its own.
	Look() space.Level
	// Level is the level as of the last look. It does not block.
	Level() space.Level
}

// spaceInterval is how often the disks are looked at, besides each time that some entries were appended: a program
// beside this one may fill them.
const spaceInterval = 200 * time.Millisecond

// reclaimInterval is how often, at most, space is reclaimed while there is little. A guess: a flush and a compaction of
// what was removed meanwhile.
const reclaimInterval = 250 * time.Millisecond

// spaceReportTicks is how often a level that is not Ample is told again, and spaceReportsLost times that is how long it
// counts.
const (
	spaceReportTicks = 10
	spaceReportsLost = 3
)

// spaceHearTicks is after how many ticks a new leader has heard of who has little space: all tell it on their next one.
const spaceHearTicks = 3

// spaceTransferTicks is how long a leader whose disk is low waits before it tries again to transfer the leadership.
const spaceTransferTicks = 50

// reclaimWaitTicks bounds how long writes wait for space to be reclaimed. A guess: a flush and a compaction on a slow
// disk.
const reclaimWaitTicks = 20

// spaceLevel is the feature level from which on all members know a frameSpace.
const spaceLevel = 2

// What a frameSpace says.
const (
	spaceOfMember = 1 // the level of the sender
	spaceOfGroup  = 2 // the level that the leader has found for all
)

// spaceFrame is a frameSpace: what it says, and a level.
type spaceFrame struct {
	what  uint8
	level space.Level
}

// append adds the encoding of f to b.
func (f spaceFrame) append(b []byte) []byte { return append(b, f.what, byte(f.level)) }

// decodeSpace reads what append wrote. A level that is not known is the worst that is.
func decodeSpace(b []byte) (spaceFrame, error) {
	if len(b) != 2 || b[0] != spaceOfMember && b[0] != spaceOfGroup {
		return spaceFrame{}, errFrame
	}
	return spaceFrame{what: b[0], level: min(space.Level(b[1]), space.Critical)}, nil
}

// spaceChanged is news of the goroutine that looks at the disks.
type spaceChanged struct{}

// spaceMonitor looks at the disks of this member.
type spaceMonitor struct {
	disk       DiskSpace
	reclaim    func(ctx context.Context) error // nil: there is nothing that could be reclaimed
	clock      clock.Clock
	signal     chan struct{} // of size 1; set when a step of the log has been appended
	work       chan struct{} // of size 1; set while there is little space
	urgent     chan struct{} // of size 1; set when it has become low
	reclaiming atomic.Bool   // it has become low, and what can be reclaimed is not yet
	recovered  atomic.Bool   // there is ample space again, and reclaim was not called since
	applied    func() uint64
	changed    func()
	logger     *slog.Logger
}

// newSpaceMonitor returns one that tells changed of each change.
func newSpaceMonitor(o *Options, changed func()) *spaceMonitor {
	return &spaceMonitor{
		disk: o.DiskSpace, reclaim: o.Reclaim, clock: o.Clock, applied: o.Machine.AppliedIndex, changed: changed,
		signal: make(chan struct{}, 1), work: make(chan struct{}, 1), urgent: make(chan struct{}, 1), logger: o.Logger,
	}
}

// run looks at the disks until halt.
func (r *spaceMonitor) run(ticker clock.Ticker, halt <-chan struct{}) error {
	defer ticker.Stop()
	last := space.Ample
	for {
		if level := r.disk.Look(); level != last {
			if last < space.Low && level >= space.Low && r.reclaim != nil {
				r.reclaiming.Store(true)
				notify(r.urgent)
			}
			if level == space.Ample {
				r.recovered.Store(true)
				notify(r.work)
			}
			last = level
			r.changed()
		}
		if last != space.Ample {
			notify(r.work)
		}
		select {
		case <-r.signal:
		case <-ticker.C():
		case <-halt:
			return nil
		}
	}
}

// reclaimAll reclaims space while there is little and something was applied since it was reclaimed last, and once when
// there is ample space again, by which reclaim sees that it may stop saving, until ctx ends. What it fails with is the
// disk's, which whoever writes hears of, too.
func (r *spaceMonitor) reclaimAll(ctx context.Context) error {
	if r.reclaim == nil {
		return nil
	}
	timer := r.clock.NewTimer(reclaimInterval)
	timer.Stop()
	defer timer.Stop()
	last, first := uint64(0), true
	for {
		select {
		case <-r.work:
		case <-r.urgent:
		case <-ctx.Done():
			return nil
		}
		hopeful := r.reclaiming.Load()
		if applied := r.applied(); first || hopeful || r.recovered.Swap(false) || applied != last {
			if err := r.reclaim(ctx); err != nil && ctx.Err() == nil {
				r.logger.Warn("failed to reclaim disk space", slog.Any("err", err))
			}
			last, first = applied, false
		}
		if hopeful {
			r.disk.Look()
			r.reclaiming.Store(false)
			r.changed()
		}
		timer.Reset(reclaimInterval)
		select {
		case <-timer.C():
		case <-r.urgent:
			notify(r.urgent) // for the next round
		case <-ctx.Done():
			return nil
		}
	}
}
