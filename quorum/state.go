package quorum

import (
	"log/slog"

	"go.etcd.io/raft/v3"

	"zkd/storage/serverid"
)

// Role is the part that a member plays in its group.
type Role string

// The roles.
const (
	RoleFollower  Role = "follower"
	RoleCandidate Role = "candidate"
	RoleLeader    Role = "leader"
	RoleLearner   Role = "learner" // has no vote: an observer, or a member whose vote is not in force yet
	RoleLeaving   Role = "leaving" // has no vote, nor a place in the configuration any more, and goes on for a while
	RoleRemoved   Role = "removed" // does not belong to the group any more
)

// State is how a member stands in its group.
type State struct {
	Leader uint64 // 0: none is known
	Term   uint64
	Role   Role
	// Behind says that this member lacks what the others have committed, because its disk hangs.
	Behind bool
	// Stuck says that this member leads, and for an election timeout could commit nothing.
	Stuck bool
}

// following is whom raft takes for the leader, and of which term, even while this member serves nobody.
type following struct{ leader, term uint64 }

// status is the loop's part that tells how this member stands in its group, and what is known of the others.
type status struct {
	*facts
	progress    *progress
	admission   *admission
	space       *spaceControl
	health      *health
	checkpoints *checkpoints
	retention   *retention
	leaving     *leaving
	commits     *commitWatch

	announced bool // OnState was told the state at the start
}

// role is the role of this member. Operators stop servers, and replace disks, by what it says: a member is a follower
// when the others can do without those who voted before it.
func (s *status) role() Role {
	switch s.soft.RaftState {
	case raft.StateLeader:
		return RoleLeader
	case raft.StateCandidate, raft.StatePreCandidate:
		if !s.removed { // else it was told in the middle of an election, which it takes no part in any more
			return RoleCandidate
		}
	case raft.StateFollower:
	}
	switch {
	case s.removed:
		return RoleRemoved
	case s.member.HoldsVote(s.id):
		return RoleFollower
	case s.leaving.leaves(s.id):
		return RoleLeaving
	default:
		return RoleLearner
	}
}

// state is how this member stands in its group.
func (s *status) state() *State {
	now := &State{Term: s.term, Role: s.role(), Stuck: s.commits.stuck}
	if !s.space.paused && !s.admission.notBootstrapped() && !s.admission.isPending() && !s.admission.unlisted() {
		now.Leader, now.Behind = s.soft.Lead, s.health.behind()
	}
	return now
}

// leaderAttr names a leader in the log: there is no server 0 to look for.
func leaderAttr(id uint64) slog.Attr {
	if id == raft.None {
		return slog.String("leader", "none")
	}
	return slog.Int64("leader", serverid.Number(id))
}

// publish tells of a change of leader, term or role.
func (s *status) publish() {
	if f := (following{leader: s.soft.Lead, term: s.term}); *s.progress.following.Load() != f {
		s.progress.following.Store(&f)
	}
	now, old := s.state(), s.progress.state.Load()
	if *old == *now && s.announced {
		return
	}
	s.announced = true
	s.progress.state.Store(now)
	if old.Leader != now.Leader || old.Role != now.Role && now.Role != RoleCandidate {
		s.logger.Info("raft role changed", leaderAttr(now.Leader), slog.Uint64("term", now.Term),
			slog.String("role", string(now.Role)))
	}
	if s.options.OnState != nil {
		s.options.OnState(*now)
	}
}
