package quorum

import (
	"bytes"
	"encoding/binary"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"zkd/quorum/batcher"
)

// readIndex is the loop's part that lets barriers through: at most one read index is asked for at a time, for all
// barriers that had come until then.
type readIndex struct {
	*facts
	batcher *batcher.Batcher
	apply   *mailbox[applyWork]
	index   func(context []byte)    // asks raft for a read index
	step    func(m *raftpb.Message) // gives raft a message

	waiting []batcher.Waiter // not asked for yet
	asked   []batcher.Waiter // a read index is asked for
	number  uint64           // of the question
	ticks   int              // since it was asked
	context []byte           // of the question: this process's origin and the number
	// deferred are other members' questions that came before this leader had committed an entry of its term; bounded
	// by one for each member and readIndexTicks.
	deferred []*raftpb.Message
}

// readIndexTicks is after how many ticks a read index that was not answered is asked for again: messages to a leader
// can be lost.
const readIndexTicks = 10

// mayAsk tells whether this leader may let raft answer questions. raft asks nobody if there is only one voter, without
// looking whether it is this member, and whether an entry of its own term is committed: the commit index may be older
// than what was acknowledged. So a leader that votes no more, which transfers the leadership, leaves all questions to
// the next.
func (r *readIndex) mayAsk() bool { return r.termReached && r.member.Votes(r.id) }

// ask asks for one read index for all barriers that have come.
func (r *readIndex) ask() {
	r.waiting = r.batcher.TakeBarriers(r.waiting)
	again := len(r.asked) > 0 && r.ticks >= readIndexTicks
	if len(r.asked) > 0 && !again || len(r.asked)+len(r.waiting) == 0 {
		return
	}
	if r.soft.Lead == raft.None || r.leads() && !r.mayAsk() {
		return
	}
	r.asked = append(r.asked, r.waiting...)
	r.waiting = nil
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
func (r *readIndex) take() []batcher.Waiter {
	barriers := slices.Concat(r.waiting, r.asked)
	r.waiting, r.asked = nil, nil
	return barriers
}

// tick counts the time since a read index was asked for.
func (r *readIndex) tick() { r.ticks++ }

// again has a read index asked for again that was not answered: the question, or the answer, is lost.
func (r *readIndex) again() { r.ticks = readIndexTicks }

// dropped is told that a question was not sent: it is asked again at the next tick.
func (r *readIndex) dropped() { r.ticks = readIndexTicks - 1 }

// newTerm says that another term has begun: who has asked asks again.
func (r *readIndex) newTerm() { r.deferred = nil }

// drop drops all barriers that are not answered.
func (r *readIndex) drop(err error) {
	barriers := append(r.batcher.TakeBarriers(r.asked), r.waiting...)
	r.asked, r.waiting = nil, nil
	for _, w := range barriers {
		w.Dropped(err)
	}
	r.batcher.ReleaseBarriers(len(barriers))
}

// deferQuestion takes another member's question from raft: it keeps the one that this leader cannot answer yet. One
// that it cannot answer any more is asked again, and so is one that comes to a follower: raft would pass it on to the
// leader as if it had come from who asked (raft.stepFollower), and no member takes that from another.
func (r *readIndex) deferQuestion(m *raftpb.Message) bool {
	if m.GetType() != raftpb.MsgReadIndex || r.mayAsk() && r.leads() {
		return false
	}
	if r.leads() && !r.termReached {
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
