package quorum

import (
	"go.etcd.io/raft/v3/raftpb"

	"zkd/jute"
	"zkd/storage/entry"
)

// Every entry counts a piece of a quota on a large subtree (entry.OpCountQuota). While nobody writes anything the
// leader proposes entries for it, one at a time, so that a write finds at most one before it.

// countsPerTick is how many it proposes in a tick at the most: enough to count 300,000 znodes in two seconds, and few
// enough that counts without an end leave disks and processors to others. A guess.
const countsPerTick = 16

// counting is the loop's part that lets counts go on.
type counting struct {
	*facts
	pieces int // how many may still be proposed in this tick
}

// tick lets the leader propose pieces of counts again.
func (c *counting) tick() { c.pieces = countsPerTick }

// entry returns an entry that lets a count go on, if one is under way and nothing else is; or nil. others says that
// there are other entries.
func (c *counting) entry(others bool) *raftpb.Entry {
	machine := c.options.Machine
	if c.pieces == 0 || others || machine.CountingQuotas() == 0 || machine.AppliedIndex() < c.lastIndex() {
		return nil
	}
	c.pieces--
	p := entry.Proposal{
		Op: entry.OpCountQuota, Time: jute.Millis(c.options.Clock.Now().UnixMilli()), Server: c.id,
	}
	return c.ownEntry(&p)
}
