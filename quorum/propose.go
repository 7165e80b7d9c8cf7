package quorum

import (
	"fmt"
	"log/slog"
	"math"
	"runtime"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"zkd/jute"
	"zkd/storage"
	"zkd/storage/invariants"
)

// mayPropose tells whether what was gathered can go on its way: if there is a leader. The leader itself waits until its
// last append is on disk: the next batch gathers meanwhile. Of one that was removed raft takes nothing any more.
func (l *loop) mayPropose() bool {
	if l.soft.RaftState == raft.StateLeader {
		return l.syncing == 0 && l.transfer.to == 0 && !l.removed
	}
	return l.soft.Lead != raft.None && l.transport != nil
}

// With less than gatherBytes in a batch, the fixed cost of its fsync is the greater part, and the loop lets others run,
// gatherYields times at most, as long as that makes the batch grow. No time passes if nobody has anything to run.
// Measured 2026-11 (BenchmarkPropose, 64 clients with one request outstanding): 57 requests an fsync instead of 31, 7.5
// µs of CPU a request instead of 10, half the latency. Larger batches are better off when the next is written while the
// last is applied: 32 × 100 would nearly double its latency.
const (
	gatherBytes  = 128 << 10
	gatherYields = 8
)

// letGather lets a small batch grow: by those who are about to propose, and those who are answered by what raft has
// committed.
func (l *loop) letGather() {
	before := l.gather.gathered()
	if before == 0 || before+l.intake.bytes >= gatherBytes {
		return
	}
	l.handOut()
	for range gatherYields {
		runtime.Gosched()
		now := l.gather.gathered()
		if now == before || now >= gatherBytes {
			return
		}
		before = now
	}
}

// propose gives raft what was gathered here and what other members have forwarded. raft copies the entries. What it
// does not take waits for the next time, or for the next leader.
func (l *loop) propose() {
	if l.soft.RaftState != raft.StateLeader || !l.mayPropose() {
		return // letGather has handed out
	}
	l.batches = l.gather.take(l.term, 0, l.batches[:0])
	l.entries = l.entries[:0]
	lastChange, lastReconfig := l.lastChange, l.reconfig.last
	l.takeBatches()
	forwarded := l.takeForwarded()
	if e := l.foundingEntry(); e != nil {
		l.entries = append(l.entries, e)
	}
	if len(l.entries) == 0 {
		return
	}
	err := l.raw.Step(&raftpb.Message{Type: raftpb.MsgProp.Enum(), From: &l.id, Entries: l.entries})
	if err != nil {
		l.logger.Debug("raft refused a proposal", slog.Any("err", err))
		l.lastChange, l.reconfig.last = lastChange, lastReconfig
		l.gather.putBack(l.batches)
	} else {
		l.intake.clear(forwarded)
	}
	clear(l.entries)
	clear(l.batches)
}

// takeBatches makes entries of the batches gathered here. It leaves those in l.batches that have become entries; from
// one that must wait on they are gathered again.
func (l *loop) takeBatches() {
	taken := l.batches[:0]
	for n, b := range l.batches {
		if b.reconf {
			e := l.reconfigEntry(b.data)
			if e == nil {
				l.gather.putBack(l.batches[n:])
				break
			}
			l.entries, taken = append(l.entries, e), append(taken, b)
		} else if e := l.entryOf(b); e != nil {
			l.entries, taken = append(l.entries, e), append(taken, b)
		}
	}
	clear(l.batches[len(taken):])
	l.batches = taken
}

// takeForwarded makes entries of what other members have forwarded, up to one that must wait, and returns of how many.
func (l *loop) takeForwarded() int {
	for n, f := range l.intake.pending {
		e := &raftpb.Entry{Data: f.data}
		if f.reconf {
			if e = l.reconfigEntry(f.data); e == nil {
				return n
			}
		}
		l.entries = append(l.entries, e)
	}
	return len(l.intake.pending)
}

// entryOf returns the entry that b becomes, or nil if it is refused.
func (l *loop) entryOf(b *batch) *raftpb.Entry {
	if b.change == nil {
		return &raftpb.Entry{Data: b.data}
	}
	if err := l.mayChange(b.change); err != nil {
		l.refuseBatch(b, err)
		return nil
	}
	cc := raftpb.ConfChangeV2{Transition: b.change.Transition, Changes: b.change.Changes, Context: b.data}
	data, err := proto.Marshal(&cc)
	if err != nil {
		l.refuseBatch(b, fmt.Errorf("encode a change of membership: %w", err))
		return nil
	}
	l.lastChange = math.MaxUint64 // until its index is known
	return &raftpb.Entry{Type: raftpb.EntryConfChangeV2.Enum(), Data: data}
}

// refuseBatch answers a batch that can never be proposed.
func (l *loop) refuseBatch(b *batch, err error) {
	l.gather.retract(b)
	dropBatch(b, err)
	l.gather.release(b)
}

// dropBatch tells the waiters of b that are left that nothing will be known.
func dropBatch(b *batch, err error) {
	for n, w := range b.waiters {
		if w != nil {
			b.waiters[n] = nil
			w.Dropped(err)
		}
	}
}

// foundingEntry returns the entry that founds the group, if this leader has seen, in the first entry of its term, that
// it is not founded. Two leaders may propose it: the state takes the first.
func (l *loop) foundingEntry() *raftpb.Entry {
	o := l.options
	if l.founding || len(o.Founding) == 0 || !l.termReached || o.Machine.AppliedIndex() < l.termIndex {
		return nil
	}
	l.founding = true
	if o.Machine.ClusterID() != [16]byte{} {
		return nil
	}
	p := storage.Proposal{
		Op: storage.OpFoundEnsemble, Time: jute.Millis(o.Clock.Now().UnixMilli()), Server: l.id, Body: o.Founding,
	}
	return &raftpb.Entry{Data: storage.AppendProposal(storage.AppendEntryHeader(nil, l.gather.origin, 0), &p)}
}

// ProposeChange proposes a change of membership together with p, which decides about it: when the entry is applied and
// p comes out with jute.OK, the change comes into force, on every member at the same entry. w is told as for Propose;
// it is dropped with ErrChangePending if another change is under way, and with ErrNotLeader if this member does not
// lead when its turn comes.
func (n *Node) ProposeChange(cc *raftpb.ConfChangeV2, p *storage.Proposal, w Waiter) error {
	if s := n.loop.progress.state.Load(); s.Role != RoleLeader {
		return ErrNotLeader
	}
	return n.gather.addChange(cc, p, w)
}

// mayChange tells what speaks against proposing a change now. raft would make an empty entry of a change that comes
// while another one is under way, and panic on one that leads to no membership.
func (l *loop) mayChange(cc *raftpb.ConfChangeV2) error {
	if !l.termReached || l.raw.BasicStatus().Applied < max(l.lastChange, l.termIndex) {
		return ErrChangePending
	}
	joint := len(l.member.conf.GetVotersOutgoing()) > 0
	if joint != (len(cc.GetChanges()) == 0) {
		return ErrChangePending
	}
	_, err := l.member.after(cc)
	return err
}

// noteChanges notes the changes of membership that are appended: raft takes no other one until they are applied.
func (l *loop) noteChanges(m *raftpb.Message) {
	if l.soft.RaftState != raft.StateLeader {
		return
	}
	for _, e := range m.GetEntries() {
		if e.GetType() == raftpb.EntryNormal {
			continue
		}
		l.lastChange = e.GetIndex()
		if l.reconfig.last == math.MaxUint64 { // it is the only change that was proposed
			l.reconfig.last = e.GetIndex()
		}
	}
}

// changeMembership has raft bring a change into force that is in the state and on disk. A snapshot that came meanwhile
// has it already.
func (l *loop) changeMembership(c *membershipChange) {
	if c.after.index <= l.member.index {
		return
	}
	before := l.member
	conf := l.raw.ApplyConfChange(c.change)
	if err := conf.Equivalent(c.after.conf); err != nil {
		invariants.Violated("raft has another membership", slog.Any("err", err))
	}
	l.setMember(c.after)
	l.logger.Info("the membership changed", slog.Uint64("index", c.after.index), slog.Any("members", c.after.ids()))
	l.membersChanged(&before, c.change)
}

// historyLength is how many memberships are remembered, for checkpoints that were made before the last change. A guess:
// a change takes longer than this fraction of a checkpoint.
const historyLength = 16

// setMember notes who belongs to the group.
func (l *loop) setMember(m membership) {
	l.member = m
	if len(l.history) == historyLength {
		l.history = append(l.history[:0], l.history[1:]...)
	}
	l.history = append(l.history, m)
	if m.has(l.id) {
		l.removed = false
	} else if !m.empty() {
		l.removed = true
	}
}
