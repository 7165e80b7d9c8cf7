package quorum

import "go.etcd.io/raft/v3/raftpb"

// A group of two cannot take out a member that has lost its disk, and needs not: each has all that was ever committed.
// The one that has forgotten may give its vote again. It must not lead in a term in which it may have led before, with
// entries of that term that somebody has and it has not.

// otherOfTwo tells whether this member and another one are the two voters of the group.
func (l *loop) otherOfTwo(id uint64) bool { return id != l.id && l.member.votes(l.id) && l.ofTwo(id) }

// ofTwo tells whether a member is one of two voters, and that there are no others by a change of membership that this
// member's log holds: none is committed without being in the logs of both.
func (l *loop) ofTwo(id uint64) bool {
	if !l.member.votes(id) || len(l.member.voters()) > 2 {
		return false
	}
	for next := max(l.raw.BasicStatus().Applied+1, l.view.log.FirstIndex()); next <= l.view.log.LastIndex(); {
		entries, err := l.view.Entries(next, l.view.log.LastIndex()+1, scanBytes)
		if err != nil || len(entries) == 0 {
			return false
		}
		for _, e := range entries {
			if e.GetType() != raftpb.EntryNormal {
				return false
			}
		}
		next += uint64(len(entries))
	}
	return true
}

// scanBytes is how much of the log is read at once to look for changes of membership.
const scanBytes = 1 << 20

// votedFor tells whether the sender asks for a vote that it has got in this term. It has forgotten that, and may have
// led in this term: its log would have other entries of it. It is told the term, to ask for a later one.
func (l *loop) votedFor(m *raftpb.Message) bool {
	hard := l.raw.BasicStatus().HardState
	if m.GetTerm() != hard.GetTerm() || m.GetFrom() != hard.GetVote() {
		return false
	}
	if m.GetType() == raftpb.MsgPreVote {
		refused, to, term := true, m.GetFrom(), hard.GetTerm()
		l.sendRaft(&raftpb.Message{
			Type: raftpb.MsgPreVoteResp.Enum(), From: &l.id, To: &to, Term: &term, Reject: &refused,
		})
	}
	return true
}
