package quorum

import (
	"sync/atomic"

	"go.etcd.io/raft/v3"
)

// Role is the part that a member plays in its group.
type Role string

// The roles.
const (
	RoleFollower  Role = "follower"
	RoleCandidate Role = "candidate"
	RoleLeader    Role = "leader"
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
}

// progress is what the loop tells about raft.
type progress struct {
	term, commit, leader atomic.Uint64
	role                 atomic.Uint32 // raft.StateType
}

// role is the role of raft's state.
func role(s raft.StateType) Role {
	switch s {
	case raft.StateLeader:
		return RoleLeader
	case raft.StateCandidate, raft.StatePreCandidate:
		return RoleCandidate
	default:
		return RoleFollower
	}
}

// Status describes the node as it is now. Any goroutine may call it.
func (n *Node) Status() Status {
	proposals, outstanding := n.gather.taken()
	commits := n.applier.commits.summary()
	return Status{
		ID: n.options.ID, Leader: n.loop.progress.leader.Load(), Term: n.loop.progress.term.Load(),
		Role:       role(raft.StateType(n.loop.progress.role.Load())),
		FirstIndex: n.options.Log.FirstIndex(), LastIndex: n.options.Log.LastIndex(),
		Commit: n.loop.progress.commit.Load(), Applied: n.options.Machine.AppliedIndex(),
		Durable: n.options.Machine.DurableIndex(), Proposals: proposals, OutstandingBytes: outstanding,
		Entries: commits.Count, EntryBytes: n.appender.bytes.Load(),
		Fsync: n.appender.fsyncs.summary(), Commits: commits,
	}
}
