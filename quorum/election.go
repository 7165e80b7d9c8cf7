package quorum

import (
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// election is the loop's part that brings about a leader sooner than raft's timeout would. raft decides who wins.
//
// When the connection to the leader breaks, or when a member without a leader gets a connection, the voters campaign in
// turn: each has two ticks for itself, in the order of the ids. So they do not split the vote, which would cost a whole
// timeout. If the leader is alive, those who hear it refuse the pre-vote.
type election struct {
	*facts
	begin              func() error            // raft's part of it
	step               func(m *raftpb.Message) // gives raft a message
	may                func() bool             // this member may ask for votes, and could store what comes of it
	votersChangeLogged func() bool             // of members
	seen               *electionSeen

	quorumNear func() bool // enough voters are connected, or were a moment ago, to commit something

	urgent  bool
	ticks   int             // since it became urgent
	gone    uint64          // the leader that was lost, which has no turn; 0 if there was none
	refused *raftpb.Message // the last pre-vote that was asked for while this member heard a leader
	age     int             // ticks since then

	lostAt time.Time // when the last leader was lost, or the member started; zero while there is one
}

// electionSeen is what is published of elections.
type electionSeen struct {
	elections    atomic.Uint64
	lastElection atomic.Int64 // nanoseconds
	leaderless   latency
}

// refusedTicks is for how long a refused pre-vote is granted when it turns out that the leader is lost.
const refusedTicks = 3

// campaignAlone begins an election at once if nobody else could win it. raft refuses as long as a committed change of
// membership is not applied, so it is tried again each turn.
func (e *election) campaignAlone() {
	if e.soft.Lead == raft.None && e.soft.RaftState == raft.StateFollower && e.member.SoleVoter(e.id) {
		e.campaign()
	}
}

// campaign asks for votes.
func (e *election) campaign() {
	if !e.may() {
		return
	}
	if err := e.begin(); err != nil {
		e.logger.Warn("raft rejected campaign", slog.Any("err", err))
	}
}

// campaignSoon has the voters campaign in turn, as there is no leader; gone is who led until now, or 0.
func (e *election) campaignSoon(gone uint64) {
	if e.urgent && gone == 0 {
		return
	}
	e.urgent, e.ticks, e.gone = true, 0, gone
	if m := e.refused; m != nil {
		e.refused = nil
		e.step(m)
	}
	e.campaignInTurn()
}

// back is told of a new connection while nobody leads. If it is to who led last, the turns begin anew, with that one:
// both count them from now on, and do not campaign at once.
func (e *election) back(peer uint64) {
	if peer == e.gone {
		e.urgent = false
	}
	e.campaignSoon(0)
}

// campaignInTurn campaigns if it is this member's turn.
func (e *election) campaignInTurn() {
	if e.member.SoleVoter(e.id) || !e.member.Votes(e.id) || e.soft.RaftState == raft.StateCandidate {
		return
	}
	voters := slices.DeleteFunc(e.member.Voters(), func(id uint64) bool { return id == e.gone })
	rank := slices.Index(voters, e.id)
	if rank >= 0 && e.ticks%(2*len(voters)) == 2*rank {
		e.campaign()
	}
}

// stepDownAlone ends the leadership of a member that has lost the connections to a majority: it could commit nothing.
// That is raft's own check of the quorum, made now. The first forgets whom raft has heard since its last one, and the
// second finds nobody.
func (e *election) stepDownAlone() {
	if !e.leads() || e.quorumNear() {
		return
	}
	e.logger.Info("leader without a quorum: stepping down", slog.Uint64("term", e.term))
	for range 2 {
		e.step(&raftpb.Message{Type: raftpb.MsgCheckQuorum.Enum(), From: new(raft.LocalAppendThread)})
	}
}

// tick goes on with an urgent election until there is a leader, or until raft's own timeouts take over.
func (e *election) tick() {
	if e.age++; e.age > refusedTicks {
		e.refused = nil
	}
	if !e.urgent {
		return
	}
	e.ticks++
	if e.soft.Lead != raft.None || e.ticks > e.options.ElectionTicks {
		e.urgent = false
		return
	}
	e.campaignInTurn()
}

// notePreVote remembers a pre-vote that raft refuses because this member hears a leader. If the connection to that
// leader breaks a moment later, it is granted after all.
func (e *election) notePreVote(m *raftpb.Message) {
	if m.GetType() == raftpb.MsgPreVote && e.soft.Lead != raft.None {
		e.refused, e.age = m, 0
	}
}

// betterLog is told that this member refuses a pre-vote. In an urgent election that is because its own log is longer:
// then it is the one to campaign.
func (e *election) betterLog(m *raftpb.Message) {
	if m.GetType() == raftpb.MsgPreVoteResp && m.GetReject() && e.urgent && e.soft.Lead == raft.None &&
		e.soft.RaftState == raft.StateFollower && e.member.Votes(e.id) {
		e.campaign()
	}
}

// refusesVote tells whether a message is the refusal of a vote or of a pre-vote.
func refusesVote(m *raftpb.Message) bool {
	kind := m.GetType()
	return m.GetReject() && (kind == raftpb.MsgPreVoteResp || kind == raftpb.MsgVoteResp)
}

// tellCommitted has the refusal of a vote say which entry of this member's log is committed, and its term.
//
// The leader that a change of membership takes out may be the only one to know that it is committed. If it loses its
// leadership then, those who go on without it still ask for its vote, as the members before the change have to agree;
// it refuses, for its log is longer than theirs, and it may not lead itself. (raft-rs has votes say as much.)
func (e *election) tellCommitted(m *raftpb.Message) {
	if !refusesVote(m) {
		return
	}
	commit := e.commit
	if term, err := e.log.Term(commit); err == nil { // else it is not in the log any more
		m.Commit, m.LogTerm = &commit, &term
	}
}

// hearCommitted takes from such a refusal that a change of membership in this member's log is committed. If two logs
// have an entry of the same index and term they are the same up to it (raft, section 5.3), so what is committed in one
// is in the other, whoever says so.
func (e *election) hearCommitted(m *raftpb.Message) {
	index := m.GetCommit()
	if !refusesVote(m) || e.soft.Lead != raft.None || index <= e.commit || index > e.log.LastIndex() ||
		!e.votersChangeLogged() {
		return
	}
	if term, err := e.log.Term(index); err != nil || term != m.GetLogTerm() {
		return
	}
	// raft hears of what is committed from leaders alone. It is to follow the sender no longer than that.
	term := e.raft.BasicStatus().HardState.GetTerm()
	e.step(&raftpb.Message{
		Type: raftpb.MsgHeartbeat.Enum(), From: m.From, To: &e.id, Term: &term, Commit: &index,
	})
	e.step(&raftpb.Message{Type: raftpb.MsgForgetLeader.Enum()})
}

// newLeader is told of another leader, or of none, and measures how long there was none.
func (e *election) newLeader(lead uint64) {
	switch {
	case lead == raft.None && e.lostAt.IsZero():
		e.lostAt = e.options.Clock.Now()
	case lead != raft.None:
		if !e.lostAt.IsZero() {
			took := e.options.Clock.Since(e.lostAt)
			e.seen.lastElection.Store(int64(took))
			e.seen.leaderless.add(took)
		}
		e.seen.elections.Add(1)
		e.lostAt = time.Time{}
	}
}
