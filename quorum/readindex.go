package quorum

import (
	"encoding/binary"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"zkd/quorum/batcher"
)

// readIndex is the loop's part that lets barriers through: it asks for one read index for all barriers that have come,
// and for the next when that is answered, or a tick later. Over long links that is long before the answer, which is not
// for those who come after the question.
type readIndex struct {
	*facts
	batcher *batcher.Batcher
	apply   *mailbox[applyWork]
	index   func(context []byte)    // asks raft for a read index
	step    func(m *raftpb.Message) // gives raft a message

	waiting []batcher.Waiter // not asked for yet
	asked   []question       // not answered, the oldest first
	number  uint64           // of the last question
	ticks   int              // since it was asked
	lost    bool             // it was not sent
	// deferred are other members' last questions that came before this leader had committed an entry of its term.
	deferred []*raftpb.Message
}

// question is what one read index was asked for: the barriers that had come since the one before. Each later question
// asks for them too, as this one may be lost.
type question struct {
	number   uint64
	barriers []batcher.Waiter
}

// readIndexTicks is after how many ticks a read index that was not answered is asked for again: messages to a leader
// can be lost. They can also be slower than that, so the answer to any question counts, not only the last one's.
const readIndexTicks = 10

// mayAsk tells whether this leader may let raft answer questions. raft asks nobody if there is only one voter, without
// looking whether it is this member, and whether an entry of its own term is committed: the commit index may be older
// than what was acknowledged. So a leader that votes no more, which transfers the leadership, leaves all questions to
// the next.
func (r *readIndex) mayAsk() bool { return r.termReached && r.member.Votes(r.id) }

// ask asks for one read index for all barriers that have come.
func (r *readIndex) ask() {
	r.waiting = r.batcher.TakeBarriers(r.waiting)
	first := len(r.waiting) > 0 && (len(r.asked) == 0 || r.ticks > 0)
	again := len(r.asked) > 0 && (r.ticks >= readIndexTicks || r.lost && r.ticks > 0)
	if !first && !again {
		return
	}
	if r.soft.Lead == raft.None || r.leads() && !r.mayAsk() {
		return
	}
	r.number++
	r.ticks, r.lost = 0, false
	if len(r.waiting) > 0 {
		r.asked = append(r.asked, question{number: r.number, barriers: r.waiting})
		r.waiting = nil
	}
	context := binary.BigEndian.AppendUint64(make([]byte, 0, questionSize), r.origin)
	r.index(binary.BigEndian.AppendUint64(context, r.number))
}

// questionSize is that of a question's context: this process's origin, and the question's number.
const questionSize = 16

// answer hands the barriers that a read index was asked for to the apply goroutine: those of the question that is
// answered and of all before it. The leader took the index after it had that question, so after these barriers came.
func (r *readIndex) answer(states []raft.ReadState) {
	for _, s := range states {
		if len(s.RequestCtx) != questionSize || binary.BigEndian.Uint64(s.RequestCtx) != r.origin {
			continue // asked by an earlier process
		}
		number, answered := binary.BigEndian.Uint64(s.RequestCtx[8:]), 0
		for ; answered < len(r.asked) && r.asked[answered].number <= number; answered++ {
			r.apply.put(applyWork{barriers: r.asked[answered].barriers, index: s.Index})
		}
		r.asked = slices.Delete(r.asked, 0, answered)
	}
}

// take takes the barriers that are not answered.
func (r *readIndex) take() []batcher.Waiter {
	var barriers []batcher.Waiter
	for _, q := range r.asked {
		barriers = append(barriers, q.barriers...)
	}
	barriers = append(barriers, r.waiting...)
	r.waiting, r.asked = nil, nil
	return barriers
}

// tick counts the time since a read index was asked for.
func (r *readIndex) tick() { r.ticks++ }

// again has a read index asked for again that was not answered: the question, or the answer, is lost.
func (r *readIndex) again() { r.ticks = readIndexTicks }

// dropped is told that a question was not sent: it is asked again at the next tick.
func (r *readIndex) dropped() { r.lost = true }

// newTerm says that another term has begun: who has asked asks again.
func (r *readIndex) newTerm() { r.deferred = nil }

// drop drops all barriers that are not answered.
func (r *readIndex) drop(err error) {
	barriers := r.batcher.TakeBarriers(r.take())
	for _, w := range barriers {
		w.Dropped(err)
	}
	r.batcher.ReleaseBarriers(len(barriers))
}

// deferQuestion takes another member's question from raft: it keeps the one that this leader cannot answer yet, and no
// earlier one of that member, whose barriers the same answer lets through. One that it cannot answer any more is asked
// again, and so is one that comes to a follower: raft would pass it on to the leader as if it had come from who asked
// (raft.stepFollower), and no member takes that from another.
func (r *readIndex) deferQuestion(m *raftpb.Message) bool {
	if m.GetType() != raftpb.MsgReadIndex || r.mayAsk() && r.leads() {
		return false
	}
	if r.leads() && !r.termReached {
		r.deferred = slices.DeleteFunc(r.deferred, func(d *raftpb.Message) bool { return d.GetFrom() == m.GetFrom() })
		r.deferred = append(r.deferred, m)
	}
	return true
}

// stepDeferred lets raft have the questions that could not be answered before.
func (r *readIndex) stepDeferred() {
	if !r.termReached || len(r.deferred) == 0 {
		return
	}
	for _, m := range r.deferred {
		if r.mayAsk() {
			r.step(m)
		}
	}
	r.deferred = nil
}
