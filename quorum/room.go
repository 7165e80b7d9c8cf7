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
// voters has room, writes go on, and whoever has none follows until it is near its end, then keeps what it has and
// falls behind. When there is no such quorum, nothing that grows is taken any more (docs/decisions/0025).

// Room is what a member knows of its disks.
type Room interface {
	// Look measures them and returns the level. It may write: it is called on a goroutine of its own.
	Look() space.Level
	// Level is the level as of the last look. It does not block.
	Level() space.Level
}

// roomInterval is how often the disks are looked at, besides each time that some entries were appended: a program
// beside this one may fill them.
const roomInterval = 200 * time.Millisecond

// reclaimInterval is how often, at most, room is reclaimed while there is little. A guess: a flush and a compaction of
// what was removed meanwhile.
const reclaimInterval = 250 * time.Millisecond

// roomReportTicks is how often a level that is not Ample is told again, and roomReportsLost times that is how long it
// counts.
const (
	roomReportTicks = 10
	roomReportsLost = 3
)

// roomHandoverTicks is how long a leader whose disk is low waits before it tries again to hand over.
const roomHandoverTicks = 50

// roomHopeTicks bounds how long writes wait for room to be reclaimed. A guess: a flush and a compaction on a slow disk.
const roomHopeTicks = 20

// roomLevel is the feature level from which on all members know a frameRoom.
const roomLevel = 2

// What a frameRoom says.
const (
	roomOfMember = 1 // the level of the sender
	roomVerdict  = 2 // the level that the leader has found for all
)

// roomFrame is a frameRoom: what it says, and a level.
type roomFrame struct {
	what  uint8
	level space.Level
}

// append adds the encoding of f to b.
func (f roomFrame) append(b []byte) []byte { return append(b, f.what, byte(f.level)) }

// decodeRoom reads what append wrote. A level that is not known is the worst that is.
func decodeRoom(b []byte) (roomFrame, error) {
	if len(b) != 2 || b[0] != roomOfMember && b[0] != roomVerdict {
		return roomFrame{}, errFrame
	}
	return roomFrame{what: b[0], level: min(space.Level(b[1]), space.Critical)}, nil
}

// roomChanged is news of the goroutine that looks at the disks.
type roomChanged struct{}

// roomLooker looks at the disks of this member.
type roomLooker struct {
	room    Room
	reclaim func(ctx context.Context) error // nil: there is nothing that could be reclaimed
	clock   clock.Clock
	signal  chan struct{} // of size 1; set when a step of the log has been appended
	work    chan struct{} // of size 1; set while there is little room
	urgent  chan struct{} // of size 1; set when it has become low
	hopeful atomic.Bool   // it has become low, and what can be reclaimed is not yet
	eased   atomic.Bool   // there is ample room again, and reclaim was not called since
	applied func() uint64
	changed func()
	logger  *slog.Logger
}

// newRoomLooker returns one that tells changed of each change.
func newRoomLooker(o *Options, changed func()) *roomLooker {
	return &roomLooker{
		room: o.Room, reclaim: o.Reclaim, clock: o.Clock, applied: o.Machine.AppliedIndex, changed: changed,
		signal: make(chan struct{}, 1), work: make(chan struct{}, 1), urgent: make(chan struct{}, 1), logger: o.Logger,
	}
}

// run looks at the disks until halt.
func (r *roomLooker) run(ticker clock.Ticker, halt <-chan struct{}) error {
	defer ticker.Stop()
	last := space.Ample
	for {
		if level := r.room.Look(); level != last {
			if last < space.Low && level >= space.Low && r.reclaim != nil {
				r.hopeful.Store(true)
				notify(r.urgent)
			}
			if level == space.Ample {
				r.eased.Store(true)
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

// reclaimAll reclaims room while there is little and something was applied since it was reclaimed last, and once when
// there is ample room again, by which reclaim sees that it may stop saving, until ctx ends. What it fails with is the
// disk's, which whoever writes hears of, too.
func (r *roomLooker) reclaimAll(ctx context.Context) error {
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
		hopeful := r.hopeful.Load()
		if applied := r.applied(); first || hopeful || r.eased.Swap(false) || applied != last {
			if err := r.reclaim(ctx); err != nil && ctx.Err() == nil {
				r.logger.Warn("cannot give back the room of what was removed", slog.Any("err", err))
			}
			last, first = applied, false
		}
		if hopeful {
			r.room.Look()
			r.hopeful.Store(false)
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
