package quorum

import (
	"math"
	"sync/atomic"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// retention is what the loop tells the keeper about the log.
type retention struct {
	pin   atomic.Uint64 // entries behind it are kept whatever they take
	floor atomic.Uint64 // entries behind it are kept within Options.LagBytes
	wide  atomic.Bool   // the tail is followerTail times as long
	// applied is the last entry that raft knows to be applied: it reads those behind it, when it campaigns.
	applied atomic.Uint64
}

// followerTail is how many tails a member keeps that does not lead: if it comes to lead, that is what it can give to
// those that are behind. A guess.
const followerTail = 8

// newRetention keeps the tail only.
func newRetention() *retention {
	r := &retention{}
	r.pin.Store(math.MaxUint64)
	r.floor.Store(math.MaxUint64)
	return r
}

// publishRetention tells the keeper what the members need. A member that has not answered this leader yet may need
// anything that there was when the leader was elected; one that is behind the log needs nothing of it.
func (l *loop) publishRetention() {
	pin, floor := uint64(math.MaxUint64), uint64(math.MaxUint64)
	for _, c := range l.checkpoints.list {
		pin = min(pin, c.pin)
	}
	for _, c := range l.checkpoints.catching { // order: a minimum
		pin = min(pin, c.pin)
	}
	leads := l.soft.RaftState == raft.StateLeader
	if leads {
		first := l.view.log.FirstIndex()
		l.raw.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
			has := pr.Match
			if has == 0 {
				has = l.elected - 1
			}
			if id != l.id && has+1 >= first {
				floor = min(floor, has)
			}
		})
	}
	l.retain.pin.Store(pin)
	l.retain.floor.Store(floor)
	l.retain.wide.Store(!leads)
}
