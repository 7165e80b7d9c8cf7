package quorum

import (
	"log/slog"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// election is what this member does to bring about a leader sooner than raft's timeout would. raft decides who wins.
//
// When the connection to the leader breaks, or when a member without a leader gets a connection, the voters campaign in
// turn: each has two ticks for itself, in the order of the ids. So they do not split the vote, which would cost a whole
// timeout. If the leader is alive, those who hear it refuse the pre-vote.
type election struct {
	urgent  bool
	ticks   int             // since it became urgent
	gone    uint64          // the leader that was lost, which has no turn; 0 if there was none
	refused *raftpb.Message // the last pre-vote that was asked for while this member heard a leader
	age     int             // ticks since then

	lostAt time.Time // when the last leader was lost, or the member started; zero while there is one
}

// refusedTicks is for how long a refused pre-vote is granted when it turns out that the leader is lost.
const refusedTicks = 3

// campaign begins an election at once if nobody else could win it. raft refuses as long as a committed change of
// membership is not applied, so it is tried again each turn.
func (l *loop) campaign() {
	if l.soft.Lead == raft.None && l.soft.RaftState == raft.StateFollower && l.member.soleVoter(l.id) {
		l.campaignNow()
	}
}

// campaignNow asks for votes.
func (l *loop) campaignNow() {
	if l.muted() {
		return
	}
	if err := l.raw.Campaign(); err != nil {
		l.logger.Warn("raft refused to campaign", slog.Any("err", err))
	}
}

// hurry has the voters campaign in turn, as there is no leader; gone is who led until now, or 0.
func (l *loop) hurry(gone uint64) {
	e := &l.election
	if e.urgent && gone == 0 {
		return
	}
	e.urgent, e.ticks, e.gone = true, 0, gone
	if m := e.refused; m != nil {
		e.refused = nil
		l.stepRaft(m)
	}
	l.campaignInTurn()
}

// campaignInTurn campaigns if it is this member's turn.
func (l *loop) campaignInTurn() {
	if l.member.soleVoter(l.id) || !l.member.votes(l.id) || l.soft.RaftState == raft.StateCandidate {
		return
	}
	voters := slices.DeleteFunc(l.member.voters(), func(id uint64) bool { return id == l.election.gone })
	rank := slices.Index(voters, l.id)
	if rank >= 0 && l.election.ticks%(2*len(voters)) == 2*rank {
		l.campaignNow()
	}
}

// tickElection goes on with an urgent election until there is a leader, or until raft's own timeouts take over.
func (l *loop) tickElection() {
	e := &l.election
	if e.age++; e.age > refusedTicks {
		e.refused = nil
	}
	if !e.urgent {
		return
	}
	e.ticks++
	if l.soft.Lead != raft.None || e.ticks > l.options.ElectionTicks {
		e.urgent = false
		return
	}
	l.campaignInTurn()
}

// notePreVote remembers a pre-vote that raft refuses because this member hears a leader. If the connection to that
// leader breaks a moment later, it is granted after all.
func (l *loop) notePreVote(m *raftpb.Message) {
	if m.GetType() == raftpb.MsgPreVote && l.soft.Lead != raft.None {
		l.election.refused, l.election.age = m, 0
	}
}

// betterLog is told that this member refuses a pre-vote. In an urgent election that is because its own log is longer:
// then it is the one to campaign.
func (l *loop) betterLog(m *raftpb.Message) {
	if m.GetType() == raftpb.MsgPreVoteResp && m.GetReject() && l.election.urgent && l.soft.Lead == raft.None &&
		l.soft.RaftState == raft.StateFollower && l.member.votes(l.id) {
		l.campaignNow()
	}
}

// noteLeader is told of another leader, or of none, and measures how long there was none.
func (l *loop) noteLeader(lead uint64) {
	e := &l.election
	switch {
	case lead == raft.None && e.lostAt.IsZero():
		e.lostAt = l.options.Clock.Now()
	case lead != raft.None:
		if !e.lostAt.IsZero() {
			took := l.options.Clock.Since(e.lostAt)
			l.progress.lastElection.Store(int64(took))
			l.progress.leaderless.add(took)
		}
		l.progress.elections.Add(1)
		e.lostAt = time.Time{}
	}
}
