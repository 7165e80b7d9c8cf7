package quorum

import (
	"log/slog"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3"
)

// A disk that hangs gives no error: a write or an fsync does not return. raft does not notice, since messages to other
// members do not wait for this member's disk. So the loop, which never waits for the disk, counts its ticks while the
// oldest append is unanswered, and while the state is not applied because its store does not get on.
//
//   - From the first ticks on, a leader does not wait for its own append before it proposes more, as long as the others
//     commit what it has proposed. Entries that are committed by them are applied there, and their clients go on.
//   - After stallTimeouts, and longer if much was given to it (patienceFor), the disk hangs: it is told, a leader hands
//     over to a voter whose disk answers, and a member that does not lead keeps out of campaigns. It could store
//     neither a vote nor an entry.
//
// Ticks are counted, not time: a process that was stopped has not waited for its disk meanwhile.

const (
	// lateTicks is how long the leader's own append may take before the leader proposes more than that. Less would
	// cost the larger batches that form while a healthy disk is busy. A guess.
	lateTicks = 2
	// maxUnstoredBytes is how much a leader proposes that its disk has not taken.
	maxUnstoredBytes = maxInflightBytes
	// stallTimeouts is after how many election timeouts without an answer a disk hangs. A guess: less than clients
	// wait, and more than a disk that is merely busy.
	stallTimeouts = 2
)

// Names of the stores in what is told of their disks.
const (
	storeLog   = "raftlog"
	storeState = "state"
)

// health is the loop's part that watches whether the disks answer: this member's, and those of the voters that it leads
// (slowdisk.go).
type health struct {
	*facts
	alone        bool                                // in a group of one nobody could take over
	installs     func() uint64                       // as appender.installs
	logReads     func() (reading bool, reads uint64) // as the applier's
	patienceWith func(id, match uint64) (ticks int)  // with who gets a large entry
	forgetLeader func() error                        // raft's
	mayLead      func() bool                         // this member counts, by what it knows
	role         func() Role
	changed      func() // publishes how this member stands in its group
	transfer     *transfer

	stall stall
	disks disks
}

// stall is what is known of this member's disk.
type stall struct {
	log, state diskWait
	unstored   int  // bytes handed to the append goroutine that it has not answered
	late       bool // the append goroutine has taken longer than lateTicks, and was not quick since
	applying   int  // messages handed to the apply goroutine that it has not answered
	progress   uint64
	behind     bool // as published
	silent     int  // ticks since something was heard of the leader
}

// diskWait is how long a store has kept somebody waiting.
type diskWait struct {
	store string
	ticks int       // in which nothing was answered
	since time.Time // when it began
	told  int       // ticks at which it was warned of last; 0: it was not
	seen  *diskSeen
}

// diskSeen is what is published of a diskWait.
type diskSeen struct {
	since  atomic.Int64 // when it began to hang, in nanoseconds since 1970; 0: it answers
	stalls atomic.Uint64
}

// newStall returns what is known of disks that have not been used.
func newStall(p *progress) stall {
	return stall{
		log: diskWait{store: storeLog, seen: &p.logDisk}, state: diskWait{store: storeState, seen: &p.stateDisk},
	}
}

// hangs tells whether the disk hangs: it has been told so.
func (d *diskWait) hangs() bool { return d.told > 0 }

// stalled tells whether a disk of this member hangs.
func (h *health) stalled() bool { return h.stall.log.hangs() || h.stall.state.hangs() }

// stallTicks is after how many ticks a disk hangs.
func (h *health) stallTicks() int { return stallTimeouts * h.options.ElectionTicks }

// appendsAhead tells whether this leader proposes although its own disk has not answered: everything that it has
// proposed is committed by others.
func (h *health) appendsAhead() bool {
	return h.stall.late && h.commit >= h.appended && h.stall.unstored < maxUnstoredBytes
}

// noteHanded is told what the append goroutine is given.
func (h *health) noteHanded(bytes int) {
	h.stall.unstored += bytes
	if h.syncing == 1 { // nothing was under way
		h.stall.log.begin(h.options.Clock.Now())
	}
}

// noteStored is told that the append goroutine has stored something, with entries up to last; 0: with none.
func (h *health) noteStored(bytes int, last uint64) {
	s, now := &h.stall, h.options.Clock.Now()
	s.unstored -= bytes
	s.late = s.late && now.Sub(s.log.since) >= h.options.TickInterval
	h.diskAnswered(&s.log, now)
	s.log.begin(now)
	h.probeStored(last)
}

// begin says that somebody waits from now on.
func (d *diskWait) begin(now time.Time) { d.ticks, d.since = 0, now }

// diskAnswered says that a disk has answered.
func (h *health) diskAnswered(d *diskWait, now time.Time) {
	if d.hangs() {
		h.logger.Info("disk stall ended", slog.String("store", d.store), slog.Duration("took", now.Sub(d.since)))
		d.told = 0
		d.seen.since.Store(0)
	}
	d.ticks = 0
}

// wait counts a tick in which a disk has not answered that was given so much.
func (h *health) wait(d *diskWait, bytes int) {
	d.ticks++
	if d.ticks < h.stallTicks()+patienceFor(bytes) || d.ticks < 2*d.told {
		return
	}
	if !d.hangs() {
		d.seen.since.Store(d.since.UnixNano())
		d.seen.stalls.Add(1)
	}
	d.told = d.ticks
	h.logger.Warn("disk stalled: check volume, controller, file system",
		slog.String("store", d.store), slog.Duration("took", h.options.Clock.Since(d.since)),
		slog.String("role", string(h.role())))
}

// behind tells whether this member lacks what the others have committed because its disk hangs, as published.
func (h *health) behind() bool { return h.stall.behind }

// tick looks at the disks.
func (h *health) tick() {
	s := &h.stall
	s.silent++
	if h.syncing > 0 && h.installs()%2 == 0 { // the apply goroutine is at an install, which may take long
		h.wait(&s.log, s.unstored)
		s.late = s.late || s.log.ticks >= lateTicks
	}
	h.tickState()
	h.publishBehind()
	switch {
	case !h.stalled() && (h.leads() || h.mayLead()):
	case h.leads():
		h.transfer.tryForDisk()
	case h.soft.Lead != raft.None && s.silent > h.options.ElectionTicks:
		// raft has no ticks meanwhile, and would take it for alive for ever: who asks for a vote would get none.
		if err := h.forgetLeader(); err != nil {
			h.logger.Debug("raft rejected forget-leader", slog.Any("err", err))
		}
	}
}

// newLeader says that another member leads, or none: who is known to lead was heard just now.
func (h *health) newLeader() { h.stall.silent = 0 }

// tickState looks whether the store of the state gets on: nothing is applied although there is something to apply, and
// operations on its files are under way of which none ends, or entries are read from the log to be applied. An entry
// that takes long is no reason, and neither is an install.
func (h *health) tickState() {
	s := &h.stall
	reading, reads := h.logReads()
	busy, progress := h.options.Machine.DiskProgress()
	busy, progress = busy || reading, progress+reads
	if s.applying == 0 || !busy || progress != s.progress || h.installs()%2 != 0 {
		now := h.options.Clock.Now()
		h.diskAnswered(&s.state, now)
		s.state.begin(now)
		s.progress = progress
		return
	}
	if s.state.store = storeState; reading {
		s.state.store = storeLog
	}
	h.wait(&s.state, 0)
}

// noteApplying counts the messages that the apply goroutine has not answered.
func (h *health) noteApplying(n int) {
	h.stall.applying += n
	if n < 0 && h.stall.state.ticks > 0 {
		now := h.options.Clock.Now()
		h.diskAnswered(&h.stall.state, now)
		h.stall.state.begin(now)
	}
}

// publishBehind tells when this member lacks what the others have committed because its disk hangs.
func (h *health) publishBehind() {
	if behind := h.stalled() && h.commit > h.options.Machine.AppliedIndex(); behind != h.stall.behind {
		h.stall.behind = behind
		h.changed()
	}
}
