package quorum

import (
	"errors"

	"go.etcd.io/raft/v3/raftpb"

	"zkd/storage/raftlog"
)

// What a member has acknowledged to a leader raft never sends it again in that term, and the leader's heartbeats take
// it to be there: raft commits it without a look at the log. A member that lacks it has forgotten it, as its disk was
// emptied or is what it was some time ago. It may have other entries in that place, of a leader that got them
// committed nowhere, and would apply those. So each heartbeat bears the last entry that its receiver has acknowledged,
// and its term: if two logs have an entry of the same index and term they are the same up to it (raft, section 5.3).

// tellAcknowledged adds to a heartbeat what its receiver has acknowledged to this leader. raft has no use for these
// fields of a heartbeat, and members that know nothing of them leave them alone. If that cannot be told, as the log
// begins behind it or this leader no longer leads, nothing is committed by this heartbeat: who goes on hears of that
// with an append.
func (a *admission) tellAcknowledged(m *raftpb.Message) {
	if m.GetType() != raftpb.MsgHeartbeat {
		return
	}
	_, pr, _ := a.progressOf(m.GetTo())
	index := pr.Match
	term, known := a.ownTermOf(index)
	if !known || index < m.GetCommit() || !a.leads() || m.GetTerm() != a.term {
		none := uint64(0)
		m.Commit = &none
		return
	}
	m.Index, m.LogTerm = &index, &term
}

// lacksAcknowledged tells whether a heartbeat shows that this member lacks what it has acknowledged to the leader, or
// commits what it does not have, over which raft would panic.
func (a *admission) lacksAcknowledged(m *raftpb.Message) bool {
	if m.GetCommit() > a.commit && m.GetCommit() > a.lastIndex() {
		return true
	}
	index := m.GetIndex()
	if m.GetLogTerm() == 0 || index <= a.commit || m.GetTerm() < a.term {
		return false // not told, the same in all logs, or of a leader after whom the log has changed
	}
	term, err := a.log.Term(index) // what was acknowledged is on disk
	return errors.Is(err, raftlog.ErrUnavailable) || err == nil && term != m.GetLogTerm()
}

// A leader that goes on while the other one of two voters is emptied and comes back cannot have it taken out and in
// again. So what that one refuses is not heard, and the leader stops leading as if it were away, until another term
// begins.

// refusesAcknowledged tells whether an answer refuses what its sender has acknowledged to this leader.
func (a *admission) refusesAcknowledged(m *raftpb.Message) bool {
	if m.GetType() != raftpb.MsgAppResp || !m.GetReject() || !a.leads() {
		return false
	}
	_, pr, ok := a.progressOf(m.GetFrom())
	return ok && pr.Match >= m.GetIndex()
}
