package quorum

import (
	"log/slog"

	"go.etcd.io/raft/v3"
)

// Role is the part that a member plays in its group.
type Role string

// The roles.
const (
	RoleFollower  Role = "follower"
	RoleCandidate Role = "candidate"
	RoleLeader    Role = "leader"
	RoleLearner   Role = "learner" // has no vote: an observer, or a member that waits for its first snapshot
	RoleRemoved   Role = "removed" // does not belong to the group any more
)

// State is how a member stands in its group.
type State struct {
	Leader uint64 // 0: none is known
	Term   uint64
	Role   Role
}

// role is the role of this member.
func (l *loop) role() Role {
	switch l.soft.RaftState {
	case raft.StateLeader:
		return RoleLeader
	case raft.StateCandidate, raft.StatePreCandidate:
		if !l.removed { // else it was told in the middle of an election, which it takes no part in any more
			return RoleCandidate
		}
	case raft.StateFollower:
	}
	switch {
	case l.removed:
		return RoleRemoved
	case l.member.votes(l.id):
		return RoleFollower
	default:
		return RoleLearner
	}
}

// state is how this member stands in its group.
func (l *loop) state() *State { return &State{Leader: l.soft.Lead, Term: l.term, Role: l.role()} }

// publishState tells of a change of leader, term or role.
func (l *loop) publishState() {
	s, old := l.state(), l.progress.state.Load()
	if *old == *s && l.announced {
		return
	}
	l.announced = true
	l.progress.state.Store(s)
	if old.Leader != s.Leader || old.Role != s.Role && s.Role != RoleCandidate {
		l.logger.Info("state changed", slog.Uint64("leader", s.Leader), slog.Uint64("term", s.Term),
			slog.String("role", string(s.Role)))
	}
	if l.options.OnState != nil {
		l.options.OnState(*s)
	}
}
