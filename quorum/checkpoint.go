package quorum

import (
	"fmt"
	"log/slog"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"
)

// checkpoint is a copy of the state that members who are too far behind get.
type checkpoint struct {
	dir      string
	snapshot *raftpb.Snapshot // metadata only; nil while it is made
	pin      uint64           // the log is kept behind this entry, as long as the checkpoint is there
	users    int              // shipments under way
	idle     int              // ticks without one
}

// checkpoints is the loop's side of them. The log is kept behind the oldest.
type checkpoints struct {
	list   []*checkpoint // oldest first; the last one may be in the making, those before are kept for their users
	number uint64        // of the last one, for its name
	wait   int           // ticks until another one is made, after a failure

	// catching are the members that have got a checkpoint, with what they lack yet; bounded by the members.
	catching map[uint64]*catching
}

// catching is a member that has got a checkpoint and needs the log behind it.
type catching struct {
	pin   uint64 // what it has
	until uint64 // what there was when it had the checkpoint
	ticks int    // since then
}

// How long, in ticks, a checkpoint is kept for the next member, the log for a member that has got one, and the next try
// put off after a failure. Guesses.
const (
	checkpointIdleTicks = 100
	catchingTicks       = 600
	checkpointWaitTicks = 10
)

// offer is logView.Snapshot: the newest checkpoint, if it can be used, or else it has one made.
func (l *loop) offer() (*raftpb.Snapshot, error) {
	c := &l.checkpoints
	if n := len(c.list); n > 0 {
		last := c.list[n-1]
		if last.snapshot == nil {
			return nil, raft.ErrSnapshotTemporarilyUnavailable
		}
		if l.usable(last) {
			last.idle = 0
			return last.snapshot, nil
		}
	}
	if l.options.Shipper == nil || c.wait > 0 {
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	c.number++
	dir := l.options.FS.PathJoin(l.options.CheckpointDir, fmt.Sprintf("checkpoint-%d", c.number))
	c.list = append(c.list, &checkpoint{dir: dir, pin: l.options.Machine.AppliedIndex()})
	l.publishRetention()
	l.toShip.put(shipWork{make: dir})
	return nil, raft.ErrSnapshotTemporarilyUnavailable
}

// usable tells whether all present members are in the membership of c: raft ignores a snapshot that its receiver is not
// in.
func (l *loop) usable(c *checkpoint) bool {
	m := membership{conf: c.snapshot.GetMetadata().GetConfState()}
	for _, id := range l.member.ids() {
		if !m.has(id) {
			return false
		}
	}
	return true
}

// checkpointMade is the ship goroutine's news of a checkpoint that it was to make.
type checkpointMade struct {
	dir         string
	index, term uint64
	err         error
}

// checkpointMade makes a snapshot of a checkpoint: the membership as of its entry is one of the last ones.
func (l *loop) checkpointMade(made checkpointMade) {
	c := &l.checkpoints
	i := slices.IndexFunc(c.list, func(p *checkpoint) bool { return p.dir == made.dir })
	m := slices.IndexFunc(l.history, func(m membership) bool { return m.index > made.index })
	if m < 0 {
		m = len(l.history)
	}
	if made.err == nil && m == 0 {
		made.err = fmt.Errorf("the membership as of entry %d is not known any more", made.index)
	}
	if made.err != nil {
		l.logger.Warn("cannot make a checkpoint for another member", slog.Any("err", made.err))
		c.list = slices.Delete(c.list, i, i+1)
		c.wait = checkpointWaitTicks
		l.toShip.put(shipWork{remove: made.dir})
		return
	}
	p := c.list[i]
	p.pin = made.index
	p.snapshot = &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{
		Index: &made.index, Term: &made.term, ConfState: l.history[m-1].conf,
	}}
	l.publishRetention()
}

// ship sends a member the checkpoint that raft has chosen for it.
func (l *loop) ship(m *raftpb.Message) {
	index := m.GetSnapshot().GetMetadata().GetIndex()
	i := slices.IndexFunc(l.checkpoints.list, func(c *checkpoint) bool {
		return c.snapshot.GetMetadata().GetIndex() == index
	})
	header, err := proto.Marshal(m)
	if i < 0 || err != nil {
		l.logger.Error("cannot send a snapshot", slog.Uint64("index", index), slog.Any("err", err))
		l.raw.ReportSnapshot(m.GetTo(), raft.SnapshotFailure)
		return
	}
	c := l.checkpoints.list[i]
	c.users++
	c.idle = 0
	l.logger.Info("sending a snapshot", slog.Uint64("peer", m.GetTo()), slog.Uint64("index", index))
	l.toShip.put(shipWork{ship: &shipment{to: m.GetTo(), header: header, dir: c.dir, index: index}})
}

// shipped is the ship goroutine's news of a shipment.
type shipped struct {
	*shipment
	err error
}

// shipped tells raft how a shipment went.
func (l *loop) shipped(s shipped) {
	c := &l.checkpoints
	for _, p := range c.list {
		if p.dir == s.dir {
			p.users--
			p.idle = 0
		}
	}
	if s.err != nil {
		l.logger.Warn("a snapshot did not reach its member", slog.Uint64("peer", s.to), slog.Any("err", s.err))
		l.raw.ReportSnapshot(s.to, raft.SnapshotFailure)
		return
	}
	l.logger.Info("a snapshot has reached its member", slog.Uint64("peer", s.to), slog.Uint64("index", s.index))
	if l.soft.RaftState == raft.StateLeader {
		if c.catching == nil {
			c.catching = map[uint64]*catching{}
		}
		c.catching[s.to] = &catching{pin: s.index, until: l.commit}
	}
	l.raw.ReportSnapshot(s.to, raft.SnapshotFinish)
}

// tickCheckpoint lets go of checkpoints that nobody needs, and of the log for members that have caught up.
func (l *loop) tickCheckpoint() {
	c := &l.checkpoints
	c.wait = max(c.wait-1, 0)
	for i := 0; i < len(c.list); {
		p := c.list[i]
		if p.users == 0 && p.snapshot != nil {
			p.idle++
		}
		newest := i == len(c.list)-1
		if p.users > 0 || p.snapshot == nil || newest && p.idle < checkpointIdleTicks {
			i++
			continue
		}
		c.list = slices.Delete(c.list, i, i+1)
		l.toShip.put(shipWork{remove: p.dir})
	}
	if len(c.catching) == 0 {
		return
	}
	for id, m := range c.catching { // order: each is judged alone
		if m.ticks++; m.ticks > catchingTicks || l.soft.RaftState != raft.StateLeader {
			delete(c.catching, id)
		}
	}
	l.raw.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		if m := c.catching[id]; m != nil && pr.Match >= m.until {
			delete(c.catching, id)
		}
	})
}
