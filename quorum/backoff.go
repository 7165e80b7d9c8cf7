package quorum

import (
	"log/slog"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"zkd/storage/serverid"
)

// A member that cannot take a checkpoint, for want of room say, is not sent it again and again: after each failure in a
// row the next transfer is put off for twice as long. raft, which would ask for the next one at the member's next
// answer, is told of the failure only then.

// backoff is a member that was sent a checkpoint, or was to be.
type backoff struct {
	tried, failed uint64 // transfers, since this process has known the member
	row           int    // failures since the last success
	wait          int    // ticks until the next transfer may begin
	unreported    bool   // raft waits to be told of a failure
	why           string // the last failure; "" after a success
}

// The pauses between transfers to a member that fail, in ticks: the first one, and the longest. Where the log goes
// beyond each checkpoint before the sender has tried for long, the next transfer may be all that finds out that the
// member takes it again. Guesses.
const (
	firstPauseTicks     = 10
	longestPauseTicks   = 300
	overtakenPauseTicks = 100
)

// backoffOf returns what is known of a member.
func (c *checkpoints) backoffOf(id uint64) *backoff {
	if c.backoffs == nil {
		c.backoffs = map[uint64]*backoff{}
	}
	if c.backoffs[id] == nil {
		c.backoffs[id] = &backoff{}
	}
	return c.backoffs[id]
}

// reset forgets the failures in a row.
func (r *backoff) reset() { r.row, r.wait, r.why = 0, 0, "" }

// pause draws how many ticks to wait after so many failures in a row: from three to five quarters of a time that
// doubles up to the longest, so that members that fail together do not come back together.
func (c *checkpoints) pause(row, longest int) int {
	ticks := longest
	if doublings := row - 1; doublings < 10 {
		ticks = min(firstPauseTicks<<doublings, longest)
	}
	return ticks*3/4 + c.rand.IntN(ticks/2+1)
}

// backOff notes that a transfer has failed, and puts the next one off for up to about so many ticks.
func (c *checkpoints) backOff(id uint64, cause error, longest int) {
	r := c.backoffOf(id)
	r.failed++
	r.row++
	r.wait, r.unreported, r.why = c.pause(r.row, longest), true, cause.Error()
	c.logger.Warn("snapshot transfer failed: will retry", slog.Int64("peer", serverid.Number(id)),
		slog.Int("failures", r.row),
		slog.Duration("again", c.ticksTake(r.wait)), slog.Any("err", cause))
}

// retrySoon has the next transfer to a member begin soon: something has changed there. afresh says that its disk is
// another one, so that its failures mean nothing any more.
func (c *checkpoints) retrySoon(id uint64, afresh bool) {
	r := c.backoffs[id]
	if r == nil || r.wait == 0 {
		return
	}
	r.wait = min(r.wait, firstPauseTicks)
	if afresh {
		r.reset()
		r.wait = 1
	}
}

// heard is told what another member's raft says. It answers an append when its disk has stored all that came before, so
// its disk answers: what it refused while that hung it may take now.
func (c *checkpoints) heard(m *raftpb.Message) {
	if m.GetType() == raftpb.MsgAppResp {
		c.retrySoon(m.GetFrom(), false)
	}
}

// describe says what is known of a member.
func (c *checkpoints) describe(id uint64, p *PeerStatus) {
	if r := c.backoffs[id]; r != nil {
		p.Transfers, p.TransferFailures = r.tried, r.failed
		p.Pause, p.Refusal = c.ticksTake(r.wait), r.why
	}
}

// tickBackoffs tells raft of the failures whose pause is over, and forgets those of members that raft has brought up
// to date without a checkpoint, and members that are gone.
func (c *checkpoints) tickBackoffs() {
	if len(c.backoffs) == 0 {
		return
	}
	leads := c.leads()
	for id, r := range c.backoffs { // order: each is judged alone
		if !c.member.Has(id) {
			delete(c.backoffs, id)
			continue
		}
		if !leads {
			r.unreported = false
			r.reset()
			continue
		}
		if r.wait = max(r.wait-1, 0); r.wait == 0 && r.unreported {
			r.unreported = false
			c.report(id, raft.SnapshotFailure)
		}
	}
	if !leads {
		return
	}
	c.raft.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		if r := c.backoffs[id]; r != nil && pr.State == tracker.StateReplicate {
			r.unreported = false
			r.reset()
		}
	})
}
