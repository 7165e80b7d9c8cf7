package server

import (
	"strconv"
	"time"

	"zkd/quorum"
	"zkd/server/fourletter"
)

// Ensemble says that this server is a member of a group of several, or may become one: it serves clients when SetState
// has told a leader, and while it has one.
type Ensemble struct {
	Observer bool // peerType=observer: this member never votes
	// Members is what this member knows of the others; nil for nothing. Any goroutine may call it.
	Members func() Members
}

// Members is what a member knows of its group, for the four-letter words.
type Members struct {
	Voters, Learners []uint64
	Peers            []Peer                   // the others, as the leader knows them; empty elsewhere
	Proposals        fourletter.ProposalSizes // of the leader's log entries, bytes
	Elections        int64                    // begun by this member since its start
	LastElection     time.Duration            // how long the last one took
}

// Peer is another member as the leader knows it.
type Peer struct {
	ID           uint64
	LagEntries   uint64 // of the log, that it has not confirmed
	Learner      bool
	Active       bool // heard of lately
	Snapshotting bool // it is being sent a checkpoint
}

// members is what this server knows of its group.
func (s *Server) members() Members {
	if s.opts.Ensemble.Members == nil {
		return Members{Proposals: noProposals}
	}
	return s.opts.Ensemble.Members()
}

// noProposals are sizes before the first proposal.
var noProposals = fourletter.ProposalSizes{Last: -1, Min: -1, Max: -1}

// describeRole sets what the four-letter words show of the part that this server plays (QuorumPeer.getServerState and
// getDetailedPeerState).
func (s *Server) describeRole(info *fourletter.Info, p phase) {
	if s.opts.LocalSessions || p == phaseReadOnly {
		info.LocalSessions = func() []fourletter.SessionBucket { return s.sessionBuckets(s.locals.tracker) }
	}
	if s.opts.Ensemble == nil {
		info.Mode = "standalone"
		return
	}
	if p == phaseReadOnly {
		info.Mode, info.GlobalSessions = "read-only", s.globalSessions
		return
	}
	state := s.available.latest()
	switch {
	case state.Role == quorum.RoleLeader:
		info.Mode, info.PeerState = "leader", "leading - broadcast"
		sizes := s.members().Proposals
		info.Proposals = &sizes
		return
	case s.observes(state):
		info.Mode, info.PeerState, info.ObserverMaster = "observer", "observing - broadcast", state.Leader
	default:
		info.Mode, info.PeerState = "follower", "following - broadcast"
	}
	if state.Leader == 0 {
		info.PeerState = "looking - election"
	}
	info.GlobalSessions = s.globalSessions
}

// observes reports whether this server is an observer.
func (s *Server) observes(state quorum.State) bool {
	return s.opts.Ensemble.Observer || state.Role == quorum.RoleLearner
}

// setMemberMetrics sets what mntr shows of a member of an ensemble, after ZooKeeper's names (Leader and
// LeaderZooKeeperServer.registerMetrics). What only zkd has begins with zk_zkd_ there, and with zk_<id>_zkd_ if there
// is one for each other member:
//
//	zkd_term, zkd_leader_id              raft's term, and who leads; 0 is nobody
//	zkd_commit_index, zkd_applied_index  of the raft log, as known here
//	zkd_durable_index                    up to which no crash takes back what was applied
//	zkd_elections, zkd_last_election_ms  begun here since the start, and how long the last one took
//	zkd_fsync_p50_us, zkd_fsync_p99_us   of appends to the raft log, microseconds
//	zkd_commit_p50_us, zkd_commit_p99_us of this server's proposals, until they are applied here
//	<id>_zkd_lag_entries                 log entries that the member has not confirmed; on the leader
func (s *Server) setMemberMetrics(m *fourletter.Metrics) {
	members, state := s.members(), s.available.latest()
	if s.available.phase() == phaseServing {
		m.SetGauge("quorum_size", int64(len(members.Voters))) // Quirk: ZooKeeper's is the number of voters
	}
	if state.Role == quorum.RoleLeader {
		s.setLeaderMetrics(m, &members)
	}
	m.SetCounter("looking_count", members.Elections)
	m.SetGauge("zkd_term", int64(state.Term))
	m.SetGauge("zkd_leader_id", int64(state.Leader))
	m.SetGauge("zkd_elections", members.Elections)
	m.SetGauge("zkd_last_election_ms", members.LastElection.Milliseconds())
	if s.opts.Status == nil {
		return
	}
	status := s.opts.Status()
	m.SetGauge("zkd_commit_index", int64(status.Commit))
	m.SetGauge("zkd_applied_index", int64(status.Applied))
	m.SetGauge("zkd_durable_index", int64(status.Durable))
	m.SetGauge("zkd_fsync_p50_us", status.Fsync.P50.Microseconds())
	m.SetGauge("zkd_fsync_p99_us", status.Fsync.P99.Microseconds())
	m.SetGauge("zkd_commit_p50_us", status.Commits.P50.Microseconds())
	m.SetGauge("zkd_commit_p99_us", status.Commits.P99.Microseconds())
}

// setLeaderMetrics sets what only a leader shows.
func (s *Server) setLeaderMetrics(m *fourletter.Metrics, members *Members) {
	var learners, followers, observers int64
	for _, p := range members.Peers {
		m.SetKeyedGauge("zkd_lag_entries", strconv.FormatUint(p.ID, 10), int64(p.LagEntries))
		if !p.Active {
			continue
		}
		learners++ // ZooKeeper's word for whoever follows
		switch {
		case p.Snapshotting:
		case p.Learner:
			observers++
		default:
			followers++
		}
	}
	m.SetGauge("learners", learners)
	m.SetGauge("synced_followers", followers)
	m.SetGauge("synced_observers", observers)
	m.SetGauge("synced_non_voting_followers", 0) // whoever does not vote is an observer here
	m.SetGauge("pending_syncs", 0)               // a sync waits where it was asked for
	m.SetGauge("leader_uptime", (s.elapsed() - time.Duration(s.ledSince.Load())).Milliseconds())
	m.SetGauge("last_proposal_size", members.Proposals.Last)
	m.SetGauge("min_proposal_size", members.Proposals.Min)
	m.SetGauge("max_proposal_size", members.Proposals.Max)
}
