package quorum

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// Status describes a node at some moment. The fields are read one after the other: they need not fit together exactly.
type Status struct {
	ID, Leader, Term         uint64 // Leader is 0 while there is none
	Role                     Role
	FirstIndex, LastIndex    uint64 // of the raft log
	Commit, Applied, Durable uint64 // indexes
	Proposals                uint64 // taken since the start
	OutstandingBytes         int    // proposed and not answered
	// Entries is the number of applied entries that this process has proposed, EntryBytes what was appended to the log
	// since the start.
	Entries, EntryBytes uint64
	Fsync               LatencySummary // of appends to the raft log
	Commits             LatencySummary // of this process's entries, from the first proposal until applied

	Voters, Learners []uint64       // the members, sorted; of a change under way all that had or will have a vote
	Quorum           int            // how many voters a decision takes
	Peers            []PeerStatus   // on the leader: the other members, sorted, as of the last tick
	Elections        uint64         // how often this member has learned of a leader
	LastElection     time.Duration  // how long it knew of none before
	Leaderless       LatencySummary // all of these

	SnapshotsSent, SnapshotFailures uint64 // to other members, since the start
	SnapshotsInstalled              uint64 // that have replaced the state of this member
}

// PeerStatus is what the leader knows of another member.
type PeerStatus struct {
	ID           uint64
	Match, Next  uint64 // what it has of the log, and what it is sent next
	LagEntries   uint64 // what it lacks
	Learner      bool
	Active       bool // it has answered within the last election timeout
	Snapshotting bool // it waits for a snapshot, or gets one
}

// group is what the loop publishes of the members.
type group struct {
	voters, learners []uint64
	quorum           int
	peers            []PeerStatus
	known            []uint64 // whose incarnation is known, sorted
}

// progress is what the loop tells about raft.
type progress struct {
	commit, tick atomic.Uint64
	reconfigured atomic.Uint64 // the last entry with a reconfig whose result is known
	state        atomic.Pointer[State]
	group        atomic.Pointer[group]
	elections    atomic.Uint64
	lastElection atomic.Int64 // nanoseconds
	leaderless   latency
}

// tickGroup publishes what is known of the members, for Status and for the keeper.
func (l *loop) tickGroup() {
	l.publishGroup()
	l.publishRetention()
}

// publishGroup publishes what is known of the members.
func (l *loop) publishGroup() {
	g := &group{voters: l.member.voters(), quorum: l.member.quorum()}
	g.known = slices.Sorted(maps.Keys(l.rejoin.known))
	for _, id := range l.member.ids() {
		if !l.member.votes(id) {
			g.learners = append(g.learners, id)
		}
	}
	if l.soft.RaftState == raft.StateLeader {
		last := l.lastIndex()
		l.raw.WithProgress(func(id uint64, kind raft.ProgressType, pr tracker.Progress) {
			if id == l.id {
				return
			}
			g.peers = append(g.peers, PeerStatus{
				ID: id, Match: pr.Match, Next: pr.Next, LagEntries: last - min(last, pr.Match),
				Learner: kind == raft.ProgressTypeLearner, Active: pr.RecentActive,
				Snapshotting: pr.State == tracker.StateSnapshot,
			})
		})
		slices.SortFunc(g.peers, func(a, b PeerStatus) int {
			if a.ID < b.ID {
				return -1
			}
			return 1
		})
	}
	l.progress.group.Store(g)
}

// lastIndex is the last entry of raft's log, on disk or not.
func (l *loop) lastIndex() uint64 { return max(l.appended, l.view.log.LastIndex()) }

// Status describes the node as it is now. Any goroutine may call it.
func (n *Node) Status() Status {
	proposals, outstanding := n.gather.taken()
	commits := n.applier.commits.summary()
	p := &n.loop.progress
	s := Status{
		ID: n.options.ID, FirstIndex: n.options.Log.FirstIndex(), LastIndex: n.options.Log.LastIndex(),
		Commit: p.commit.Load(), Applied: n.options.Machine.AppliedIndex(),
		Durable: n.options.Machine.DurableIndex(), Proposals: proposals, OutstandingBytes: outstanding,
		Entries: commits.Count, EntryBytes: n.appender.bytes.Load(),
		Fsync: n.appender.fsyncs.summary(), Commits: commits,
		Elections: p.elections.Load(), LastElection: time.Duration(p.lastElection.Load()),
		Leaderless: p.leaderless.summary(), SnapshotsSent: n.shipper.sent.Load(),
		SnapshotFailures: n.shipper.failed.Load(), SnapshotsInstalled: n.appender.installs.Load() / 2,
	}
	state, g := p.state.Load(), p.group.Load()
	s.Leader, s.Term, s.Role = state.Leader, state.Term, state.Role
	s.Voters, s.Learners, s.Quorum, s.Peers = g.voters, g.learners, g.quorum, g.peers
	return s
}

// ApplyBegan is when the entry that is applied began to be. Only Waiters and the Observer may ask, while they are told
// of a result of that entry.
func (n *Node) ApplyBegan() time.Time { return n.applier.began }
