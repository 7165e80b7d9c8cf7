package quorum

import (
	"bytes"
	"encoding/binary"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// readIndex is the loop's part that lets barriers through: at most one read index is asked for at a time, for all
// barriers that had come until then.
type readIndex struct {
	*facts
	gather *gatherer
	apply  *mailbox[applyWork]
	index  func(context []byte)    // asks raft for a read index
	step   func(m *raftpb.Message) // gives raft a message

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
func (r *readIndex) mayAsk() bool { return r.termReached && r.member.votes(r.id) }

// ask asks for one read index for all barriers that have gathered.
func (r *readIndex) ask() {
	r.gathered = r.gather.takeBarriers(r.gathered)
	again := len(r.asked) > 0 && r.ticks >= readIndexTicks
	if len(r.asked) > 0 && !again || len(r.asked)+len(r.gathered) == 0 {
		return
	}
	if r.soft.Lead == raft.None || r.leads() && !r.mayAsk() {
		return
	}
	r.asked = append(r.asked, r.gathered...)
	r.gathered = nil
	r.number++
	r.ticks = 0
	r.context = binary.BigEndian.AppendUint64(nil, r.origin)
	r.context = binary.BigEndian.AppendUint64(r.context, r.number)
	r.index(r.context)
}

// answer hands the barriers that a read index was asked for to the apply goroutine.
func (r *readIndex) answer(states []raft.ReadState) {
	for _, s := range states {
		if len(r.asked) == 0 || !bytes.Equal(s.RequestCtx, r.context) {
			continue // asked again since, or by an earlier process
		}
		r.apply.put(applyWork{barriers: r.asked, index: s.Index})
		r.asked = nil
	}
}

// take takes the barriers that are not answered.
func (r *readIndex) take() []Waiter {
	barriers := slices.Concat(r.gathered, r.asked)
	r.gathered, r.asked = nil, nil
	return barriers
}

// tick counts the time since a read index was asked for.
func (r *readIndex) tick() { r.ticks++ }

// again has a read index asked for again that was not answered: the question, or the answer, is lost.
func (r *readIndex) again() { r.ticks = readIndexTicks }

// dropped is told that a question was not sent: it is asked again at the next tick.
func (r *readIndex) dropped() { r.ticks = readIndexTicks - 1 }

// newTerm says that another term has begun: who has asked asks again.
func (r *readIndex) newTerm() { r.postponed = nil }

// drop drops all barriers that are not answered.
func (r *readIndex) drop(err error) {
	barriers := append(r.gather.takeBarriers(r.asked), r.gathered...)
	r.asked, r.gathered = nil, nil
	for _, w := range barriers {
		w.Dropped(err)
	}
	r.gather.releaseBarriers(len(barriers))
}

// postpone keeps another member's question if this leader cannot answer it yet. One that it cannot answer any more is
// asked again.
func (r *readIndex) postpone(m *raftpb.Message) bool {
	if m.GetType() != raftpb.MsgReadIndex || !r.leads() || r.mayAsk() {
		return false
	}
	if !r.termReached {
		r.postponed = append(r.postponed, m)
	}
	return true
}

// stepPostponed lets raft have the questions that could not be answered before.
func (r *readIndex) stepPostponed() {
	if !r.termReached || len(r.postponed) == 0 {
		return
	}
	for _, m := range r.postponed {
		if r.mayAsk() {
			r.step(m)
		}
	}
	r.postponed = nil
}
