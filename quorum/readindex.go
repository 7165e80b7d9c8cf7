package quorum

import (
	"bytes"
	"encoding/binary"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// readIndex is the state of the barriers: at most one read index is asked for at a time, for all barriers that had come
// until then.
type readIndex struct {
	gathered []Waiter // not asked for yet
	asked    []Waiter // a read index is asked for
	number   uint64   // of the question
	ticks    int      // since it was asked
	context  []byte   // of the question: this process's origin and the number
	// postponed are other members' questions that came before this leader had committed an entry of its term; bounded
	// by one for each member and readIndexTicks.
	postponed []*raftpb.Message
}

// readIndexTicks is after how many ticks a read index that was not answered is asked for again: messages to a leader
// can be lost.
const readIndexTicks = 10

// mayAsk tells whether this leader may let raft answer questions. raft asks nobody if there is only one voter, without
// looking whether it is this member, and whether an entry of its own term is committed: the commit index may be older
// than what was acknowledged. So a leader that votes no more, which hands over, leaves all questions to the next.
func (l *loop) mayAsk() bool { return l.termReached && l.member.votes(l.id) }

// askReadIndex asks for one read index for all barriers that have gathered.
func (l *loop) askReadIndex() {
	r := &l.reads
	r.gathered = l.gather.takeBarriers(r.gathered)
	again := len(r.asked) > 0 && r.ticks >= readIndexTicks
	if len(r.asked) > 0 && !again || len(r.asked)+len(r.gathered) == 0 {
		return
	}
	if l.soft.Lead == raft.None || l.soft.RaftState == raft.StateLeader && !l.mayAsk() {
		return
	}
	r.asked = append(r.asked, r.gathered...)
	r.gathered = nil
	r.number++
	r.ticks = 0
	r.context = binary.BigEndian.AppendUint64(nil, l.gather.origin)
	r.context = binary.BigEndian.AppendUint64(r.context, r.number)
	l.raw.ReadIndex(r.context)
}

// answerReadIndex hands the barriers that a read index was asked for to the apply goroutine.
func (l *loop) answerReadIndex(states []raft.ReadState) {
	for _, s := range states {
		if len(l.reads.asked) == 0 || !bytes.Equal(s.RequestCtx, l.reads.context) {
			continue // asked again since, or by an earlier process
		}
		l.toApply.put(applyWork{barriers: l.reads.asked, index: s.Index})
		l.reads.asked = nil
	}
}

// postpone keeps another member's question if this leader cannot answer it yet. One that it cannot answer any more is
// asked again.
func (l *loop) postpone(m *raftpb.Message) bool {
	if m.GetType() != raftpb.MsgReadIndex || l.soft.RaftState != raft.StateLeader || l.mayAsk() {
		return false
	}
	if !l.termReached {
		l.reads.postponed = append(l.reads.postponed, m)
	}
	return true
}

// stepPostponed lets raft have the questions that could not be answered before.
func (l *loop) stepPostponed() {
	for _, m := range l.reads.postponed {
		if l.mayAsk() {
			l.stepRaft(m)
		}
	}
	l.reads.postponed = nil
}
