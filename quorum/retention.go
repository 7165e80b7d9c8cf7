package quorum

import (
	"math"
	"sync/atomic"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// What a log keeps is decided by the leader, and is the same on all members, within the bound that each has: so a new
// leader has what those that are behind need, and a change of leaders makes nobody fetch the whole state. The leader
// tells it with its heartbeats. A member that does not know it, because it has just started or because its leader is of
// a version that does not tell, keeps all that the bound allows.

// retained is what the loop tells the compactor about the log, and the compactor the loop.
type retained struct {
	floor atomic.Uint64 // entries behind it are kept, within the bound
	// awaited is the floor of the members that answer the leader. They are on their way to it, and those behind it may
	// have as little space as there is here, which a snapshot needs: it holds while space is low, too.
	awaited atomic.Uint64
	// applied is the last entry that raft knows to be applied: it reads those behind it, when it campaigns.
	applied atomic.Uint64

	kept, limit atomic.Uint64 // bytes of entries that the log has, and the bound; of the compactor
}

// Bounds of what is kept if Options.RetainBytes does not say it: a share of the room on the log's disk, that which the
// log takes included. Guesses: the most is what a start reads in a second or two, and a member applies in less time
// than a larger state is fetched in; the least is what members lack after a restart.
const (
	retainShare = 8
	retainLeast = 64 << 20
	retainMost  = 256 << 20
	// retainUnknown is for a file system that does not tell its room.
	retainUnknown = 128 << 20
)

// newRetained keeps the tail only, or, in a group whose needs are not known yet, all.
func newRetained(alone bool) *retained {
	r := &retained{}
	r.awaited.Store(math.MaxUint64)
	if alone {
		r.floor.Store(math.MaxUint64)
	}
	return r
}

// retention is the loop's part that decides what the log keeps.
type retention struct {
	*facts
	shared *retained
	// pins tells which entries the log is kept behind for the sake of checkpoints: for a member, or 0.
	pins func(keep func(id, has uint64))

	told   uint64 // the floor that the leader has told, or had as the last leader; 0: not known
	holder uint64 // the member for which the leader keeps the most; 0: none
}

// applied tells the compactor how much raft knows to be applied.
func (r *retention) applied(index uint64) { r.shared.applied.Store(index) }

// publish tells the compactor what the members need. A member that has not answered this leader yet may need
// anything that there was when the leader was elected; one that is behind the log needs nothing of it. Behind a
// checkpoint the log is kept as for a member that has what is in it.
func (r *retention) publish() {
	if !r.leads() {
		r.holder = 0
		r.shared.floor.Store(r.told)
		r.shared.awaited.Store(math.MaxUint64)
		return
	}
	floor, holder, awaited := uint64(math.MaxUint64), uint64(0), uint64(math.MaxUint64)
	keep := func(id, has uint64) {
		if has < floor {
			floor, holder = has, id
		}
	}
	first := r.log.FirstIndex()
	r.pins(keep)
	r.raft.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		has := pr.Match
		if has == 0 {
			has = r.elected - 1
		}
		if id != r.id && has+1 >= first {
			keep(id, has)
			if pr.RecentActive {
				awaited = min(awaited, has)
			}
		}
	})
	if r.holder = holder; floor >= r.lastIndex() {
		r.holder = 0
	}
	r.told = min(floor, r.lastIndex())
	r.shared.floor.Store(floor)
	r.shared.awaited.Store(awaited)
}

// tell adds to a heartbeat what the log keeps: raft has no use for the hint of a heartbeat, and members that
// know nothing of it leave it alone.
func (r *retention) tell(m *raftpb.Message) {
	if m.GetType() == raftpb.MsgHeartbeat {
		hint := r.told + 1
		m.RejectHint = &hint
	}
}

// hear notes what the leader keeps.
func (r *retention) hear(m *raftpb.Message) {
	if m.GetType() != raftpb.MsgHeartbeat || m.GetTerm() < r.term {
		return
	}
	r.told = max(m.GetRejectHint(), 1) - 1
}
