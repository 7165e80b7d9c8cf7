package quorum

import (
	"log/slog"
	"maps"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/serverid"
)

// The members compare their states. The leader proposes a checksum point now and then; each member takes the sums of
// its state there, when it applies the point, and tells the leader. When all who are there have answered, the leader
// proposes the majority checksum, the sums that most voters have, and whose state has others stops when it applies
// that. So it is the majority that is believed and not the leader, which may be the one whose state is wrong: then it
// stops and the others elect.

// A checksum point is due after so many entries, but not sooner than compareTicksMin after the last one, and after
// Options.CompareTicks if anything was written at all. Guesses: some seconds at some thousand writes a second, and half
// a minute.
const (
	compareEntries  = 10_000
	compareTicksMin = 10
)

// comparison is the loop's part that has states compared.
type comparison struct {
	*facts
	transport Transport // nil in a group of one
	compared
}

// compared is what is known of the comparison that is under way. Only a leader has one.
type compared struct {
	wanted   bool                  // a checksum point is to be proposed
	point    uint64                // the index of the point whose answers are awaited; 0: none
	majority *entry.CompareTxn     // is to be proposed; nil: none
	answers  map[uint64]entry.Sums // of the point, by member
	ticks    int                   // since the last point was proposed
	zxid     jute.Zxid             // the last one when the point was proposed
	index    uint64                // the last entry then
}

// tick proposes a checksum point when one is due, and closes the one under way when it has waited long enough for
// members that do not answer.
func (c *comparison) tick() {
	if !c.leads() {
		c.compared = compared{}
		return
	}
	c.ticks++
	if c.point != 0 {
		c.closePoint(c.ticks >= 2*c.options.ElectionTicks)
		return
	}
	machine := c.options.Machine
	if c.wanted || len(c.member.IDs()) < 2 || !c.may() {
		return
	}
	many := c.ticks >= compareTicksMin && c.lastIndex() >= c.index+compareEntries
	c.wanted = many || c.ticks >= c.options.CompareTicks && machine.LastZxid() != c.zxid
}

// may tells whether all members know what a checksum point is.
func (c *comparison) may() bool { return c.level() >= 2 }

// entry returns the entry of a checksum point or majority checksum that is to be proposed, or nil.
func (c *comparison) entry() *raftpb.Entry {
	var body entry.CompareTxn
	switch {
	case c.majority != nil:
		body, c.majority = *c.majority, nil
	case c.wanted:
		c.wanted, c.ticks, c.zxid, c.index = false, 0, c.options.Machine.LastZxid(), c.lastIndex()
		c.answers = map[uint64]entry.Sums{}
	default:
		return nil
	}
	p := entry.Proposal{
		Op: entry.OpCompareState, Time: jute.Millis(c.options.Clock.Now().UnixMilli()), Server: c.id,
		Body: body.Append(nil),
	}
	return c.ownEntry(&p)
}

// reachedPoint takes the sums that this member has at a checksum point to the leader. A frame that is lost is an answer
// that is missing; the member compares all the same, when it applies the majority checksum.
func (c *comparison) reachedPoint(m *entry.CompareTxn) {
	if c.leads() {
		if c.answers != nil && m.Index > c.index {
			c.point = m.Index
			c.takeSums(c.id, m)
		}
		return
	}
	if c.soft.Lead != raft.None && c.transport != nil {
		c.transport.Send(c.soft.Lead, frameSums, m.Append)
	}
}

// takeSums takes the sums of a member. Those of others can come before this member has applied the point itself.
func (c *comparison) takeSums(from uint64, m *entry.CompareTxn) {
	if !c.leads() || c.answers == nil || !c.member.Has(from) ||
		c.point != 0 && m.Index != c.point || c.point == 0 && m.Index <= c.index {
		return
	}
	c.answers[from] = m.Sums
	if c.point != 0 {
		c.closePoint(false)
	}
}

// closePoint makes the majority checksum of the answers when all members who are there have given theirs, or the time
// is over. With those of no majority there is none.
func (c *comparison) closePoint(over bool) {
	missing := false
	c.raft.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		_, has := c.answers[id]
		missing = missing || !has && (id == c.id || pr.RecentActive && pr.State != tracker.StateSnapshot)
	})
	if missing && !over {
		return
	}
	if most, ok := c.findMajority(); ok {
		c.majority = &entry.CompareTxn{Index: c.point, Sums: most}
		c.noteDifferences(most)
	}
	c.point, c.answers = 0, nil
}

// findMajority returns the sums that most voters have, if a majority of them has answered. Of two that as many have,
// this member's own count: it leads, so the log is what it has applied.
func (c *comparison) findMajority() (most entry.Sums, ok bool) {
	votes, answered := map[entry.Sums]int{}, 0
	for _, id := range c.member.Voters() {
		if sums, has := c.answers[id]; has {
			votes[sums]++
			answered++
		}
	}
	most = c.answers[c.id]
	for _, id := range c.member.Voters() { // in the order of ids: the same majority each time
		if sums, has := c.answers[id]; has && votes[sums] > votes[most] {
			most = sums
		}
	}
	return most, answered >= c.member.Quorum()
}

// noteDifferences says which members are about to stop.
func (c *comparison) noteDifferences(most entry.Sums) {
	for _, id := range slices.Sorted(maps.Keys(c.answers)) {
		if c.answers[id] == most {
			continue
		}
		c.logger.Error("state divergence: member stops",
			slog.Int64("peer", serverid.Number(id)), slog.Uint64("index", c.point))
	}
}

// decodeSums reads the sums of a checksum point.
func decodeSums(b []byte) (*entry.CompareTxn, error) {
	m := &entry.CompareTxn{}
	if m.Decode(b) != nil || m.Index == 0 {
		return nil, errFrame
	}
	return m, nil
}
