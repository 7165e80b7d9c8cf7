package quorum

import (
	"bytes"
	"fmt"
	"log/slog"
	"runtime"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"zkd/jute"
	"zkd/quorum/batcher"
	"zkd/quorum/member"
	"zkd/storage/entry"
)

// mayPropose tells whether what was added can go on its way: if there is a leader. The leader itself waits until its
// last append is on disk: the next batch grows meanwhile. It does not wait for a disk that takes long, if the others
// commit without it (stall.go). Of one that was removed raft takes nothing any more.
func (l *loop) mayPropose() bool {
	if l.soft.RaftState == raft.StateLeader {
		return (l.syncing == 0 || l.health.appendsAhead()) && !l.transfer.inProgress() && !l.removed &&
			!l.space.waits() && !l.admission.bootstrapsFirst()
	}
	return l.soft.Lead != raft.None && l.transport != nil
}

// With less than smallBatchBytes in a batch, the fixed cost of its fsync is the greater part, and the loop lets others
// run, growYields times at most, as long as that makes the batch grow. No time passes if nobody has anything to run.
// Measured 2026-11 (BenchmarkPropose, 64 clients with one request outstanding): 57 requests an fsync instead of 31, 7.5
// µs of CPU a request instead of 10, half the latency. Larger batches are better off when the next is written while the
// last is applied: 32 × 100 would nearly double its latency.
const (
	smallBatchBytes = 128 << 10
	growYields      = 8
)

// letBatchGrow lets a small batch grow: by those who are about to propose, and those who are answered by what raft has
// committed.
func (l *loop) letBatchGrow() {
	before := l.batcher.AddedBytes()
	if before == 0 || before+l.forwarding.pendingBytes() >= smallBatchBytes {
		return
	}
	l.handOut()
	for range growYields {
		runtime.Gosched()
		now := l.batcher.AddedBytes()
		if now == before || now >= smallBatchBytes {
			return
		}
		before = now
	}
}

// propose gives raft what was added here and what other members have forwarded. raft copies the entries. What it
// does not take waits for the next time, or for the next leader.
func (l *loop) propose() {
	l.batches = l.batcher.Take(l.term, 0, l.batches[:0])
	l.entries = l.entries[:0]
	lastChange, lastReconfig := l.members.lastChange, l.reconfig.last
	now := l.clocks.next()
	held := l.takeBatches(now)
	forwarded := l.takeForwarded(now, held)
	if e := l.bootstrapEntry(); e != nil {
		l.addOwn(e, now)
		l.addOwn(l.levels.bootstrapEntry(), now)
	}
	l.addOwn(l.levels.entry(), now)
	l.addOwn(l.compare.entry(), now)
	l.addOwn(l.counting.entry(len(l.entries) > 0), now)
	if len(l.entries) == 0 {
		return
	}
	err := l.raw.Step(&raftpb.Message{Type: raftpb.MsgProp.Enum(), From: &l.id, Entries: l.entries})
	if err != nil {
		l.logger.Debug("raft rejected proposal", slog.Any("err", err))
		l.members.takeBack(lastChange)
		l.reconfig.takeBack(lastReconfig)
		l.levels.refused()
		l.batcher.PutBack(l.batches)
	} else {
		l.forwarding.taken(forwarded)
	}
	clear(l.entries)
	clear(l.batches)
}

// addOwn adds an entry that the leader itself proposes, of the time now; nil is none.
func (l *loop) addOwn(e *raftpb.Entry, now jute.Millis) {
	if e != nil {
		entry.StampEntry(e.GetData(), now)
		l.entries = append(l.entries, e)
	}
}

// takeBatches makes entries of the batches filled here, of the time now. It leaves those in l.batches that have
// become entries; from one that must wait on they are put back, and it reports that there is one: a reconfig.
func (l *loop) takeBatches(now jute.Millis) (held bool) {
	taken := l.batches[:0]
	for n, b := range l.batches {
		if b.Kept { // it was on its way to another leader
			b.Data, b.Kept = bytes.Clone(b.Data), false
		}
		entry.StampEntry(b.Data, now)
		if b.Reconf {
			e := l.reconfig.entry(b.Data)
			if e == nil {
				l.batcher.PutBack(l.batches[n:])
				held = true
				break
			}
			l.entries, taken = append(l.entries, e), append(taken, b)
		} else if e := l.entryOf(b); e != nil {
			l.entries, taken = append(l.entries, e), append(taken, b)
		}
	}
	clear(l.batches[len(taken):])
	l.batches = taken
	return held
}

// takeForwarded makes entries, of the time now, of what other members have forwarded, up to one that must wait, and
// returns of how many. A reconfig waits while one is held that was asked for here: two that are prepared in turns would
// begin each other's preparation anew for ever.
func (l *loop) takeForwarded(now jute.Millis, held bool) int {
	pending := l.forwarding.pending()
	for n, f := range pending {
		entry.StampEntry(f.data, now)
		e := &raftpb.Entry{Data: l.space.admitted(f.data)}
		if f.reconf {
			if held {
				return n
			}
			if e = l.reconfig.entry(f.data); e == nil {
				return n
			}
		}
		l.entries = append(l.entries, e)
	}
	return len(pending)
}

// entryOf returns the entry that b becomes, or nil if it is refused.
func (l *loop) entryOf(b *batcher.Batch) *raftpb.Entry {
	if b.Change == nil {
		return &raftpb.Entry{Data: l.space.admitted(b.Data)}
	}
	if err := l.members.mayChange(b.Change); err != nil {
		l.batcher.Reject(b, err)
		return nil
	}
	context, err := l.admission.withAdmissions(b.Change.Changes, b.Data)
	if err != nil {
		l.batcher.Reject(b, err)
		return nil
	}
	cc := raftpb.ConfChangeV2{Transition: b.Change.Transition, Changes: b.Change.Changes, Context: context}
	data, err := proto.Marshal(&cc)
	if err != nil {
		l.batcher.Reject(b, fmt.Errorf("encode a change of membership: %w", err))
		return nil
	}
	l.members.changing()
	return &raftpb.Entry{Type: raftpb.EntryConfChangeV2.Enum(), Data: data}
}

// bootstrapEntry returns the entry that bootstraps the group, if this leader has seen, in the first entry of its term,
// that it is not founded. Two leaders may propose it: the state takes the first.
func (l *loop) bootstrapEntry() *raftpb.Entry {
	o := l.options
	if l.bootstrapProposed || len(o.Bootstrap) == 0 || !l.termReached || o.Machine.AppliedIndex() < l.termIndex {
		return nil
	}
	l.bootstrapProposed = true
	if o.Machine.ClusterID() != [16]byte{} {
		return nil
	}
	p := entry.Proposal{Op: entry.OpFoundEnsemble, Server: l.id, Body: o.Bootstrap}
	return l.ownEntry(&p)
}

// membersChanged follows a change of membership.
func (l *loop) membersChanged(before *member.Membership) {
	l.admission.membersChanged(before)
	l.inForce.tell() // before this member's part is told
	l.status.publishGroup()
	l.status.publish()
}

// proposeOwnChange proposes a change that depends on no proposal, if raft takes one now.
func (l *loop) proposeOwnChange(cc *raftpb.ConfChangeV2) {
	l.handOut()
	if l.soft.RaftState != raft.StateLeader || l.members.mayChange(cc) != nil {
		return
	}
	data, err := proto.Marshal(cc)
	if err != nil {
		return // a change that cannot be encoded is none of raftpb's
	}
	entry := &raftpb.Entry{Type: raftpb.EntryConfChangeV2.Enum(), Data: data}
	l.logger.Info("proposing a change of membership", slog.String("change", member.Describe(cc)))
	err = l.raw.Step(&raftpb.Message{Type: raftpb.MsgProp.Enum(), From: &l.id, Entries: []*raftpb.Entry{entry}})
	if err != nil {
		l.logger.Debug("raft rejected proposal", slog.Any("err", err))
	}
	l.handOut()
}
