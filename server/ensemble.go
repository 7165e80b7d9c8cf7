package server

import (
	"strconv"
	"time"

	"zkd/quorum"
	"zkd/server/fourletter"
	"zkd/server/stats/catalog"
	"zkd/storage/serverid"
)

// Ensemble says that this server is a member of a group of several, or may become one: it serves clients when SetState
// has told a leader, and while it has one.
type Ensemble struct {
	Observer bool // peerType=observer: this member never votes
	// Members is what this member knows of the others; nil for nothing. Any goroutine may call it.
	Members func() Members
	// MembersChanged is told when what is applied has changed who the members are: on the apply goroutine, so it must
	// not block; nil: nobody is.
	MembersChanged func()
}

// Members is what a member knows of its group, for the four-letter commands.
type Members struct {
	Voters, Learners []uint64
	Peers            []Peer        // the others, as the leader knows them; empty elsewhere
	Elections        int64         // begun by this member since its start
	LastElection     time.Duration // how long the last one took
	MissingVoters    string        // why there has been no leader for long; empty: nothing is known to be in its way
}

// Peer is another member as the leader knows it.
type Peer struct {
	ID           uint64
	LagEntries   uint64 // of the log, that it has not confirmed
	Learner      bool
	Leaving      bool // it is not in the configuration any more
	Active       bool // heard of lately
	Snapshotting bool // it is being sent a checkpoint, or waits for one
	Stalled      bool // it answers and acknowledges nothing: its disk may hang

	Transfers, TransferFailures uint64        // checkpoints that it was sent, and those that it has not taken
	Pause                       time.Duration // until it is sent the next, after a failure
}

// members is what this server knows of its group.
func (s figures) members() Members {
	if s.opts.Ensemble.Members == nil {
		return Members{}
	}
	return s.opts.Ensemble.Members()
}

// describeRole sets what the four-letter commands show of the part that this server plays (QuorumPeer.getServerState
// and getDetailedPeerState).
func (s figures) describeRole(info *fourletter.Info, p servingState) {
	if s.opts.LocalSessions || p == stateReadOnly {
		info.LocalSessions = func() []fourletter.SessionBucket { return s.sessionBuckets(s.locals.tracker) }
	}
	if s.opts.Ensemble == nil {
		info.Mode = "standalone"
		return
	}
	if p == stateReadOnly {
		info.Mode, info.GlobalSessions = "read-only", s.globalSessions
		return
	}
	state := s.available.latest()
	switch {
	case state.Role == quorum.RoleLeader:
		info.Mode, info.PeerState = "leader", "leading - broadcast"
		last, least, greatest := s.metrics.proposals.Sizes()
		info.Proposals = &fourletter.ProposalSizes{Last: last, Min: least, Max: greatest}
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
func (s figures) observes(state quorum.State) bool {
	return s.opts.Ensemble.Observer || state.Role == quorum.RoleLearner
}

// setMemberMetrics sets what only a member of an ensemble shows (Leader and LeaderZooKeeperServer.registerMetrics).
func (s figures) setMemberMetrics(v *catalog.Values) {
	members, state := s.members(), s.available.latest()
	if s.available.serving() == stateServing {
		v.Set("quorum_size", int64(len(members.Voters))) // Quirk: ZooKeeper's is the number of voters
	}
	if state.Role == quorum.RoleLeader {
		s.setLeaderMetrics(v, &members)
	}
	v.Set("looking_count", members.Elections)
	v.Set("zkd_term", int64(state.Term))
	v.Set("zkd_leader_id", serverid.Number(state.Leader))
	v.SetFloat("zkd_last_election_seconds", members.LastElection.Seconds())
}

// setLeaderMetrics sets what only a leader shows.
func (s figures) setLeaderMetrics(v *catalog.Values, members *Members) {
	var learners, followers, observers, leaving int64
	for _, p := range members.Peers {
		peer := strconv.FormatInt(serverid.Number(p.ID), 10)
		v.SetKeyed("zkd_peer_lag_entries", peer, int64(p.LagEntries))
		v.SetKeyed("zkd_peer_active", peer, flag(p.Active))
		v.SetKeyed("zkd_peer_snapshotting", peer, flag(p.Snapshotting))
		v.SetKeyed("zkd_peer_disk_hangs", peer, flag(p.Stalled))
		v.SetKeyed("zkd_peer_snapshots_total", peer, int64(p.Transfers))
		v.SetKeyed("zkd_peer_snapshot_failures_total", peer, int64(p.TransferFailures))
		v.SetKeyed("zkd_peer_snapshot_pause_seconds", peer, int64(p.Pause.Round(time.Second)/time.Second))
		if !p.Active {
			continue
		}
		learners++ // ZooKeeper's word for whoever follows
		switch {
		case p.Snapshotting:
		case p.Leaving: // ZooKeeper counts those among the followers, too
			leaving++
			followers++
		case p.Learner:
			observers++
		default:
			followers++
		}
	}
	v.Set("learners", learners)
	v.Set("synced_followers", followers)
	v.Set("synced_observers", observers)
	v.Set("synced_non_voting_followers", leaving)
	v.Set("pending_syncs", 0)
	v.Set("leader_uptime", (s.elapsed() - time.Duration(s.ledSince.Load())).Milliseconds())
	last, least, greatest := s.metrics.proposals.Sizes()
	v.Set("last_proposal_size", last)
	v.Set("min_proposal_size", least)
	v.Set("max_proposal_size", greatest)
}

// flag is 1 or 0.
func flag(on bool) int64 {
	if on {
		return 1
	}
	return 0
}
