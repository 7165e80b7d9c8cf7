package quorum

import (
	"maps"
	"slices"
	"sort"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"

	"zkd/storage/entry"
	"zkd/storage/space"
)

// Status describes a node at some moment. The fields are read one after the other: they need not fit together exactly.
type Status struct {
	ID, Leader, Term         uint64 // Leader is 0 while there is none
	Role                     Role
	FirstIndex, LastIndex    uint64      // of the raft log
	Commit, Applied, Durable uint64      // indexes
	Level                    entry.Level // the feature level of the group
	Proposals                uint64      // taken since the start
	OutstandingBytes         int         // proposed and not answered
	// Entries is the number of applied entries that this process has proposed, EntryBytes what was appended to the log
	// since the start.
	Entries, EntryBytes uint64
	Fsync               LatencySummary // of appends to the raft log
	Commits             LatencySummary // of this process's entries, from the first proposal until applied

	Voters, Learners []uint64       // the members, sorted; of a change under way all that had or will have a vote
	Strangers        []uint64       // members that came since, as others tell this one, sorted
	Quorum           int            // how many voters a decision takes
	Peers            []PeerStatus   // on the leader: the other members, sorted, as of the last tick
	Clocks           []ClockStatus  // of the other members that have told theirs of late, sorted
	Elections        uint64         // how often this member has learned of a leader
	LastElection     time.Duration  // how long it knew of none before
	Leaderless       LatencySummary // all of these

	LogDisk, StateDisk DiskStatus // of the raft log, of the state
	DiskTransfers      uint64     // times that this member did not want to lead on with its disk
	// MissingVoters is why there has been no leader for long; nil: there is one, or nothing is known to be in its way.
	MissingVoters *MissingVoters

	SnapshotsSent, SnapshotFailures uint64 // to other members, since the start
	SnapshotsInstalled              uint64 // that have replaced the state of this member

	// LogBytes is what the entries of the log have, and LogBytesMax its bound (Options.RetainBytes). LogHolder is the
	// member that most of it is kept for, as the leader knows; 0: none.
	LogBytes, LogBytesMax, LogHolder uint64
	Space                            space.Level // what there is for all, as the leader has found
	Refused                          uint64      // writes that this member has refused as leader for want of it
}

// DiskStatus says whether a disk answers.
type DiskStatus struct {
	Hangs  time.Duration // for how long it has not answered; 0: it does
	Stalls uint64        // times that it has hung since the start
}

// PeerStatus is what the leader knows of another member.
type PeerStatus struct {
	ID           uint64
	Match, Next  uint64 // what it has of the log, and what it is sent next
	LagEntries   uint64 // what it lacks
	Learner      bool   // it has no vote, or none that is in force yet
	Leaving      bool   // it is not in the configuration any more
	Active       bool   // it has answered within the last election timeout
	Snapshotting bool   // it waits for a snapshot, or gets one
	Stalled      bool   // it answers and acknowledges nothing: its disk may hang

	// Transfers are the snapshots that it was sent, since this process leads it, and TransferFailures
	// those that it has not taken. After one, Pause is how long it is until the next, and Refusal why it has failed; ""
	// after a success.
	Transfers, TransferFailures uint64
	Pause                       time.Duration
	Refusal                     string
}

// group is what the loop publishes of the members.
type group struct {
	voters, learners []uint64
	strangers        []uint64 // as Status.Strangers
	quorum           int
	peers            []PeerStatus
	known            []uint64 // whose incarnation is known, sorted
	holder           uint64   // as Status.LogHolder
}

// progress is what the loop tells about raft.
type progress struct {
	commit, tick  atomic.Uint64
	reconfigured  atomic.Uint64 // the last entry with a reconfig whose result is known
	state         atomic.Pointer[State]
	following     atomic.Pointer[following]
	group         atomic.Pointer[group]
	missingVoters atomic.Pointer[MissingVoters]
	electionSeen

	logDisk, stateDisk diskSeen
	diskTransfers      atomic.Uint64
	space              atomic.Uint32 // a space.Level
	refused            atomic.Uint64 // proposals that were refused here, while this member led, for want of space
}

// publishGroup publishes what is known of the members.
func (s *status) publishGroup() {
	g := &group{voters: s.member.Voters(), quorum: s.member.Quorum(), holder: s.retention.holder,
		strangers: s.admission.members.strangers()}
	g.known = slices.Sorted(maps.Keys(s.admission.known))
	for _, id := range s.member.IDs() {
		if !s.member.Votes(id) {
			g.learners = append(g.learners, id)
		}
	}
	if s.leads() {
		last := s.lastIndex()
		s.raft.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
			if id == s.id {
				return
			}
			p := PeerStatus{
				ID: id, Match: pr.Match, Next: pr.Next, LagEntries: last - min(last, pr.Match),
				Learner: !s.member.HoldsVote(id), Leaving: s.leaving.leaves(id),
				Active: pr.RecentActive, Snapshotting: pr.State == tracker.StateSnapshot, Stalled: s.health.stands(id),
			}
			s.checkpoints.describe(id, &p)
			g.peers = append(g.peers, p)
		})
		sort.Slice(g.peers, func(i, j int) bool { return g.peers[i].ID < g.peers[j].ID })
	}
	s.progress.group.Store(g)
}

// Status describes the node as it is now. Any goroutine may call it.
func (n *Node) Status() Status {
	writes := n.batcher.Status()
	commits := n.applier.commits.summary()
	p := &n.loop.progress
	s := Status{
		ID: n.options.ID, FirstIndex: n.options.Log.FirstIndex(), LastIndex: n.options.Log.LastIndex(),
		Commit: p.commit.Load(), Applied: n.options.Machine.AppliedIndex(),
		Durable:   n.options.Machine.DurableIndex(),
		Proposals: writes.Proposals, OutstandingBytes: writes.OutstandingBytes,
		Level:   n.Level(),
		Entries: commits.Count, EntryBytes: n.appender.bytes.Load(),
		Fsync: n.appender.fsyncs.summary(), Commits: commits,
		Elections: p.elections.Load(), LastElection: time.Duration(p.lastElection.Load()),
		Leaderless: p.leaderless.summary(), SnapshotsSent: n.checkpointer.sent.Load(),
		SnapshotFailures: n.checkpointer.failed.Load(), SnapshotsInstalled: n.appender.installs.Load() / 2,
		LogBytes: n.loop.retention.shared.kept.Load(), LogBytesMax: n.loop.retention.shared.limit.Load(),
		Space: n.SpaceLevel(), Refused: p.refused.Load(),
	}
	s.Clocks, s.MissingVoters = n.loop.clocks.skew.status(), p.missingVoters.Load()
	s.LogDisk, s.StateDisk = n.diskStatus(&p.logDisk), n.diskStatus(&p.stateDisk)
	s.DiskTransfers = p.diskTransfers.Load()
	state, g := p.state.Load(), p.group.Load()
	s.Leader, s.Term, s.Role = state.Leader, state.Term, state.Role
	s.LogHolder = g.holder
	s.Voters, s.Learners, s.Quorum, s.Peers = g.voters, g.learners, g.quorum, g.peers
	s.Strangers = g.strangers
	return s
}

// diskStatus is what is published of a disk.
func (n *Node) diskStatus(d *diskSeen) DiskStatus {
	s := DiskStatus{Stalls: d.stalls.Load()}
	if since := d.since.Load(); since != 0 {
		s.Hangs = max(n.options.Clock.Since(time.Unix(0, since)), 1)
	}
	return s
}
