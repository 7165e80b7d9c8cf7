package quorum

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"

	"zkd/quorum/member"
	"zkd/storage/serverid"
)

// checkpoint is a copy of the state that members who are too far behind get.
type checkpoint struct {
	dir      string
	snapshot *raftpb.Snapshot // metadata only; nil while it is made
	pin      uint64           // the log is kept behind this entry, within its bound, as long as the checkpoint is there

	transfers []*snapshotTransfer // under way
	idle      int                 // ticks without one
	newest    []byte              // the newest time in the log when it was made, as its receiver gets it
}

// checkpoints is the loop's part that has them made and sent. The log is kept behind the oldest, as far as its bound
// allows: a checkpoint that the log does not reach any more is given up, and another one made.
type checkpoints struct {
	*facts
	rand           *rand.Rand
	toCheckpointer *mailbox[checkpointJob]                           // to the checkpointer goroutine
	report         func(id uint64, status raft.SnapshotStatus)       // tells raft how a transfer went
	memberAt       func(index uint64) (m member.Membership, ok bool) // as of an entry; false: not known any more
	clocks         *clocks
	retention      *retention
	space          *spaceControl

	list   []*checkpoint // oldest first; the last one may be in the making, those before are kept for their users
	number uint64        // of the last one, for its name
	wait   int           // ticks until another one is made, after a failure
	left   []string      // directories of those that could not be removed
	since  int           // ticks since one was tried to be removed

	// catchingUp are the members that have got a checkpoint, with what they lack yet; bounded by the members.
	catchingUp map[uint64]*catchUp
	// backoffs are the members that were sent a checkpoint, or were to be; bounded by the members.
	backoffs map[uint64]*backoff
}

// catchUp is a member that has got a checkpoint and needs the log behind it.
type catchUp struct {
	pin   uint64 // what it has
	until uint64 // what there was when it had the checkpoint
	ticks int    // since then
}

// How long, in ticks, a checkpoint is kept for the next member, the log for a member that has got one, and the next try
// put off after a failure to make one, or to remove one. Guesses.
const (
	checkpointIdleTicks = 100
	catchUpTicks        = 600
	checkpointWaitTicks = 10
	removeAgainTicks    = 100
)

// offer is logView.Snapshot: the newest checkpoint, if it can be used, or else it has one made. None is made of a state
// in which nothing was applied: who is to found a group with one that joins has nothing for it.
func (c *checkpoints) offer() (*raftpb.Snapshot, error) {
	if n := len(c.list); n > 0 {
		last := c.list[n-1]
		if last.snapshot == nil {
			return nil, raft.ErrSnapshotTemporarilyUnavailable
		}
		if c.usable(last) {
			last.idle = 0
			return last.snapshot, nil
		}
	}
	applied := c.options.Machine.AppliedIndex()
	if c.options.SnapshotSender == nil || c.wait > 0 || c.space.noneHasSpace() || applied <= bootstrapIndex {
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	c.number++
	dir := c.options.FS.PathJoin(c.options.CheckpointDir, fmt.Sprintf("checkpoint-%d", c.number))
	c.list = append(c.list, &checkpoint{dir: dir, pin: applied})
	c.retention.publish()
	c.toCheckpointer.put(checkpointJob{make: dir})
	return nil, raft.ErrSnapshotTemporarilyUnavailable
}

// usable tells whether the log goes on where p ends, and all present members are in the membership of p: raft ignores a
// snapshot that its receiver is not in.
func (c *checkpoints) usable(p *checkpoint) bool {
	if c.overtaken(p) {
		return false
	}
	m := member.Membership{Conf: p.snapshot.GetMetadata().GetConfState()}
	for _, id := range c.member.IDs() {
		if !m.Has(id) {
			return false
		}
	}
	return true
}

// checkpointMade is the checkpointer goroutine's news of a checkpoint that it was to make.
type checkpointMade struct {
	dir         string
	index, term uint64
	err         error
}

// made makes a snapshot of a checkpoint: the membership as of its entry is one of the last ones.
func (c *checkpoints) made(made checkpointMade) {
	i := slices.IndexFunc(c.list, func(p *checkpoint) bool { return p.dir == made.dir })
	m, known := c.memberAt(made.index)
	if made.err == nil && !known {
		made.err = fmt.Errorf("the membership as of entry %d is not known any more", made.index)
	}
	if made.err != nil {
		c.logger.Warn("failed to create checkpoint", slog.Any("err", made.err))
		c.list = slices.Delete(c.list, i, i+1)
		c.wait = checkpointWaitTicks
		c.toCheckpointer.put(checkpointJob{remove: made.dir})
		return
	}
	p := c.list[i]
	p.pin = made.index
	p.newest = appendTime(c.clocks.newest())
	data := snapshotData(c.level(), &m.Admissions)
	p.snapshot = &raftpb.Snapshot{Data: data, Metadata: &raftpb.SnapshotMetadata{
		Index: &made.index, Term: &made.term, ConfState: m.Conf,
	}}
	c.retention.publish()
}

// checkpointLeft is the checkpointer goroutine's news of a checkpoint that it could not remove.
type checkpointLeft struct{ dir string }

// notRemoved notes that the disk had no checkpoint removed: until it has, the checkpoint keeps the room of all files
// that the state has given up since.
func (c *checkpoints) notRemoved(l checkpointLeft) { c.left, c.since = append(c.left, l.dir), 0 }

// tickLeft has those removed that could not be.
func (c *checkpoints) tickLeft() {
	if c.since++; len(c.left) == 0 || c.since < removeAgainTicks {
		return
	}
	for _, dir := range c.left {
		c.toCheckpointer.put(checkpointJob{remove: dir})
	}
	c.left = nil
}

// overtaken tells whether the log begins behind the end of p: who installs it lacks entries that are gone.
func (c *checkpoints) overtaken(p *checkpoint) bool {
	return p.snapshot != nil && p.pin+1 < c.log.FirstIndex()
}

// send sends a member the checkpoint that raft has chosen for it, unless that is put off. raft waits for
// ReportSnapshot meanwhile.
func (c *checkpoints) send(m *raftpb.Message) {
	to, index := m.GetTo(), m.GetSnapshot().GetMetadata().GetIndex()
	for _, p := range c.list { // raft does not want it any more: the member was added anew
		p.giveUp(to, errNotWanted)
	}
	i := slices.IndexFunc(c.list, func(p *checkpoint) bool {
		return p.snapshot.GetMetadata().GetIndex() == index
	})
	if i >= 0 {
		m.Context = c.list[i].newest // of no meaning to raft
	}
	header, err := proto.Marshal(m)
	if i < 0 || err != nil {
		c.logger.Error("failed to send snapshot", slog.Uint64("index", index), slog.Any("err", err))
		c.report(to, raft.SnapshotFailure)
		return
	}
	r := c.backoffOf(to)
	if r.wait > 0 {
		r.unreported = true
		return
	}
	r.tried++
	p := c.list[i]
	s := &snapshotTransfer{to: to, header: header, dir: p.dir, index: index}
	s.ctx, s.giveUp = context.WithCancelCause(context.Background())
	p.transfers = append(p.transfers, s)
	p.idle = 0
	c.logger.Info("sending a snapshot", slog.Int64("peer", serverid.Number(to)), slog.Uint64("index", index))
	c.toCheckpointer.put(checkpointJob{send: s})
}

// Why the loop gives a transfer up.
var (
	errNotWanted = errors.New("the member has no use for it any more")
	errOvertaken = errors.New("the raft log has gone on beyond what zkd.log.retainBytes keeps: another one is made")
)

// giveUp ends the transfers to a member, or to all if that is 0.
func (c *checkpoint) giveUp(to uint64, cause error) {
	for _, s := range c.transfers {
		if (to == 0 || s.to == to) && s.ended == nil {
			s.ended = cause
			s.giveUp(cause)
		}
	}
}

// transferEnded is the checkpointer goroutine's news of a transfer.
type transferEnded struct {
	*snapshotTransfer
	err error
}

// transferEnded tells raft how a transfer went; of one that has failed later, when another may begin. One that the log
// has outrun has failed if the member had refused it before that, as one whose disk hangs does for hours.
func (c *checkpoints) transferEnded(s transferEnded) {
	for _, p := range c.list {
		if i := slices.Index(p.transfers, s.snapshotTransfer); i >= 0 {
			p.transfers = slices.Delete(p.transfers, i, i+1)
			p.idle = 0
		}
	}
	s.giveUp(nil)
	switch {
	case s.err == nil:
		c.delivered(s.snapshotTransfer)
	case s.ended == nil:
		c.backOff(s.to, s.err, longestPauseTicks)
	case errors.Is(s.ended, errOvertaken) && !errors.Is(s.err, errOvertaken):
		c.backOff(s.to, s.err, overtakenPauseTicks)
	default:
		c.logger.Info("snapshot transfer abandoned", slog.Int64("peer", serverid.Number(s.to)),
			slog.Uint64("index", s.index),
			slog.Any("err", s.ended))
		if errors.Is(s.ended, errOvertaken) {
			c.report(s.to, raft.SnapshotFailure)
		}
	}
}

// delivered notes that a member has a checkpoint, and keeps the log behind it for a while.
func (c *checkpoints) delivered(s *snapshotTransfer) {
	c.logger.Info("snapshot delivered", slog.Int64("peer", serverid.Number(s.to)), slog.Uint64("index", s.index))
	c.backoffOf(s.to).reset()
	if c.leads() {
		if c.catchingUp == nil {
			c.catchingUp = map[uint64]*catchUp{}
		}
		c.catchingUp[s.to] = &catchUp{pin: s.index, until: c.commit}
	}
	c.report(s.to, raft.SnapshotFinish)
}

// pins tells which entries the log is kept behind: for a member that gets or has got a checkpoint, or for 0.
func (c *checkpoints) pins(keep func(id, has uint64)) {
	for _, p := range c.list {
		for _, s := range p.transfers {
			keep(s.to, p.pin)
		}
		keep(0, p.pin)
	}
	for id, m := range c.catchingUp { // order: a minimum; of equal ones any is told
		keep(id, m.pin)
	}
}

// endLeadership ends all transfers: this member does not lead any more.
func (c *checkpoints) endLeadership() {
	c.catchingUp = nil
	c.tickBackoffs()
	c.toCheckpointer.put(checkpointJob{cancel: true})
}

// tick lets go of checkpoints that nobody needs or that are of no use any more, and of the log for members
// that have caught up.
func (c *checkpoints) tick() {
	c.wait = max(c.wait-1, 0)
	for i := 0; i < len(c.list); {
		p := c.list[i]
		if c.overtaken(p) {
			p.giveUp(0, errOvertaken)
		}
		if len(p.transfers) == 0 && p.snapshot != nil {
			p.idle++
		}
		newest := i == len(c.list)-1 && !c.overtaken(p)
		if len(p.transfers) > 0 || p.snapshot == nil || newest && p.idle < checkpointIdleTicks {
			i++
			continue
		}
		c.list = slices.Delete(c.list, i, i+1)
		c.toCheckpointer.put(checkpointJob{remove: p.dir})
	}
	c.tickBackoffs()
	c.tickCatchUps()
	c.tickLeft()
}

// tickCatchUps lets go of the log for members that have caught up.
func (c *checkpoints) tickCatchUps() {
	if len(c.catchingUp) == 0 {
		return
	}
	for id, m := range c.catchingUp { // order: each is judged alone
		if m.ticks++; m.ticks > catchUpTicks || !c.leads() {
			delete(c.catchingUp, id)
		}
	}
	c.raft.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		if m := c.catchingUp[id]; m != nil && pr.Match >= m.until {
			delete(c.catchingUp, id)
		}
	})
}
