package quorum

import (
	"log/slog"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// A member that cannot take a checkpoint, for want of room say, is not sent it again and again: after each failure in a
// row the next shipment is put off for twice as long. raft, which would ask for the next one at the member's next
// answer, is told of the failure only then.

// recipient is a member that was sent a checkpoint, or was to be.
type recipient struct {
	tried, failed uint64 // shipments, since this process has known the member
	row           int    // failures since the last success
	wait          int    // ticks until the next shipment may begin
	held          bool   // raft waits to be told of a failure
	why           string // the last failure; "" after a success
}

// The pauses between shipments to a member that fail, in ticks: the first one, and the longest. Guesses.
const (
	firstPauseTicks   = 10
	longestPauseTicks = 600
)

// recipient returns what is known of a member.
func (c *checkpoints) recipient(id uint64) *recipient {
	if c.recipients == nil {
		c.recipients = map[uint64]*recipient{}
	}
	if c.recipients[id] == nil {
		c.recipients[id] = &recipient{}
	}
	return c.recipients[id]
}

// calm forgets the failures in a row.
func (r *recipient) calm() { r.row, r.wait, r.why = 0, 0, "" }

// pause draws how many ticks to wait after so many failures in a row: from three to five quarters of a time that
// doubles, so that members that fail together do not come back together.
func (c *checkpoints) pause(row int) int {
	ticks := longestPauseTicks
	if doublings := row - 1; doublings < 10 {
		ticks = min(firstPauseTicks<<doublings, longestPauseTicks)
	}
	return ticks*3/4 + c.rand.IntN(ticks/2+1)
}

// putOff notes that a shipment has failed.
func (c *checkpoints) putOff(id uint64, cause error) {
	r := c.recipient(id)
	r.failed++
	r.row++
	r.wait, r.held, r.why = c.pause(r.row), true, cause.Error()
	c.logger.Warn("a snapshot did not reach its member", slog.Uint64("peer", id), slog.Int("failures", r.row),
		slog.Duration("again", c.ticksTake(r.wait)), slog.Any("err", cause))
}

// hasten has the next shipment to a member begin soon: something has changed there. afresh says that its disk is
// another one, so that its failures mean nothing any more.
func (c *checkpoints) hasten(id uint64, afresh bool) {
	r := c.recipients[id]
	if r == nil || r.wait == 0 {
		return
	}
	r.wait = min(r.wait, firstPauseTicks)
	if afresh {
		r.calm()
		r.wait = 1
	}
}

// describe says what is known of a member.
func (c *checkpoints) describe(id uint64, p *PeerStatus) {
	if r := c.recipients[id]; r != nil {
		p.Shipments, p.ShipmentFailures = r.tried, r.failed
		p.Pause, p.Refusal = c.ticksTake(r.wait), r.why
	}
}

// tickRecipients tells raft of the failures whose pause is over, and forgets those of members that raft has brought up
// to date without a checkpoint, and members that are gone.
func (c *checkpoints) tickRecipients() {
	if len(c.recipients) == 0 {
		return
	}
	leads := c.leads()
	for id, r := range c.recipients { // order: each is judged alone
		if !c.member.has(id) {
			delete(c.recipients, id)
			continue
		}
		if !leads {
			r.held = false
			r.calm()
			continue
		}
		if r.wait = max(r.wait-1, 0); r.wait == 0 && r.held {
			r.held = false
			c.report(id, raft.SnapshotFailure)
		}
	}
	if !leads {
		return
	}
	c.raft.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		if r := c.recipients[id]; r != nil && pr.State == tracker.StateReplicate {
			r.held = false
			r.calm()
		}
	})
}
