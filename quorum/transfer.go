package quorum

import (
	"log/slog"
	"sync/atomic"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"

	"zkd/storage/serverid"
)

// transfer is the loop's part that transfers the leadership. raft proposes nothing while a transfer is under way:
// what is added waits, and goes to whoever leads then.
type transfer struct {
	*facts
	transferLeader func(to uint64)      // raft's part of it
	answers        func(id uint64) bool // a member is there, and its disks answer
	hasSpace       func(id uint64) bool // a member has ample space
	forDisk        *atomic.Uint64       // counts transfers because of this leader's disk

	to    uint64          // 0: none is under way
	ticks int             // since it began
	disk  bool            // it is because of this leader's disk
	again uint64          // not before this tick does a leader whose disk hangs try once more
	tried map[uint64]bool // who has not taken over, in this leadership
	told  []chan error    // who waits; each of size 1, told once
}

// transferRequest asks the loop for a transfer; told is of size 1.
type transferRequest struct{ told chan error }

// begin begins a transfer, or joins the one that is under way.
func (t *transfer) begin(told chan error) {
	if !t.leads() {
		tell(told, ErrNotLeader)
		return
	}
	if told != nil {
		t.told = append(t.told, told)
	}
	if t.to != 0 {
		return
	}
	to := t.target()
	if to == 0 {
		t.end(ErrTransferFailed)
		return
	}
	t.ask(to)
}

// ask has raft hand the leadership to a member.
func (t *transfer) ask(to uint64) {
	t.logger.Info("transferring leadership", slog.Int64("peer", serverid.Number(to)))
	t.to, t.ticks = to, 0
	t.transferLeader(to)
}

// inProgress tells whether a transfer is under way.
func (t *transfer) inProgress() bool { return t.to != 0 }

// beginForDisk begins a transfer because of this leader's disk.
func (t *transfer) beginForDisk() {
	t.disk = true
	t.begin(nil)
}

// tryForDisk transfers the leadership because this leader's disk hangs, if anybody can take over, or tries again after
// some election timeouts.
func (t *transfer) tryForDisk() {
	if t.inProgress() || t.now < t.again || t.target() == 0 {
		return
	}
	// Nothing is proposed during a try, so tries that fail become rare.
	t.again = t.now + uint64(t.options.ElectionTicks*(1+2*len(t.tried)))
	t.beginForDisk()
}

// target is the voter that is most caught up among those that answer, and whose disks do, or 0. One that has not
// taken over before comes last, before it one whose disk is low.
func (t *transfer) target() uint64 {
	best, match, rank := uint64(0), uint64(0), 0
	t.raft.WithProgress(func(id uint64, kind raft.ProgressType, pr tracker.Progress) {
		able := id != t.id && kind == raft.ProgressTypePeer && pr.State == tracker.StateReplicate && t.answers(id)
		its := 0
		if !t.tried[id] {
			its += 2
		}
		if t.hasSpace(id) {
			its++
		}
		if able && (best == 0 || its > rank || its == rank && pr.Match > match) {
			best, match, rank = id, pr.Match, its
		}
	})
	return best
}

// left is told that a member stops, which is not asked for anything any more: who waits for it to take over waits for
// another one, if there is one, and else no longer. So servers that all stop at once do not wait for each other.
func (t *transfer) left(id uint64) {
	if t.to != id {
		return
	}
	if to := t.target(); t.leads() && to != 0 {
		t.ask(to)
		return
	}
	t.end(ErrTransferFailed)
}

// end tells who waits how it went.
func (t *transfer) end(err error) {
	asked := len(t.told) > 0 // who asked says how it went
	for _, c := range t.told {
		tell(c, err)
	}
	if err == nil && t.disk {
		t.forDisk.Add(1)
	}
	if err != nil && t.to != 0 {
		if !asked {
			t.logger.Warn("leadership transfer failed", slog.Int64("peer", serverid.Number(t.to)))
		}
		if t.tried == nil {
			t.tried = map[uint64]bool{}
		}
		t.tried[t.to] = true
	}
	t.to, t.ticks, t.disk, t.told = 0, 0, false, nil
}

// tell answers a request; nil wants no answer.
func tell(c chan error, err error) {
	if c != nil {
		c <- err
	}
}

// newLeadership says that this member comes to lead, or does not any more.
func (t *transfer) newLeadership() { t.tried = nil }

// newLeader is told that another member leads, or that nobody does.
func (t *transfer) newLeader(lead uint64) {
	if lead != raft.None && lead != t.id && (t.to != 0 || len(t.told) > 0) {
		t.end(nil)
	}
}

// tick ends a transfer that raft has given up, and transfers the leadership if this leader does not belong to the group
// any more: it still tells the others that this is so.
func (t *transfer) tick() {
	if t.to == 0 {
		if t.leads() && !t.member.Votes(t.id) {
			t.begin(nil)
		}
		return
	}
	t.ticks++
	if t.leads() && t.raft.BasicStatus().LeadTransferee == raft.None ||
		t.ticks > 2*t.options.ElectionTicks {
		t.end(ErrTransferFailed)
	}
}
