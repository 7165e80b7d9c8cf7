package quorum

import (
	"fmt"
	"log/slog"
	"slices"

	"go.etcd.io/raft/v3"

	"zkd/quorum/batcher"
)

// A member that does not lead forwards its batches to the leader in a stream. The leader takes a batch for its own term
// only, and only in the stream's order: what is lost, sent twice or overtaken is never applied twice or out of order.
// The member sends a batch again until it is applied, or until an entry of a later term is: then the batch can never be
// applied any more, and goes to the next leader before all that was added after it.

// forwardWindow is how many forwarded batches of one member may be on their way and not applied: while one is on its
// way to disk and back, the next one travels. Measured 2026-11 (BenchmarkGroup, three members on two cores, a machine
// with other work): with 1 less throughput at 32 × 100, with 4 no more than with 2.
const forwardWindow = 2

// forwarding is the loop's part that takes batches to the leader, and as the leader takes those of the others.
type forwarding struct {
	*facts
	transport Transport // nil in a group of one
	batcher   *batcher.Batcher
	reads     *readIndex

	out      forwarder
	receiver forwardReceiver
	batches  []*batcher.Batch // taken; of one call
}

// forwarder is the stream to the leader.
type forwarder struct {
	term    uint64 // of the leadership that the stream is for
	epoch   uint64 // of the stream; only ever larger
	last    uint64 // the number of the last batch in the stream, 0 at the beginning
	sent    uint64 // the number of the last batch on its way: the connection has taken it and all before
	resend  bool   // something was dropped: at the next tick what comes after sent is sent
	oldest  uint64 // the number of the oldest batch not applied, at the last tick
	waiting int    // ticks that it has been so
	alone   int    // ticks without a leader
}

// resendTicks is after how many ticks without an answer all is sent again, and longer if it is much (patienceFor). A
// refusal or a new connection comes sooner.
const resendTicks = 5

// How long writes and barriers wait: without a leader, and with one that does not take them, in election timeouts. Then
// they are dropped, so that clients look for another member. Guesses.
const (
	leaderlessTimeouts = 3
	stuckTimeouts      = 10
)

// send sends the leader what waits in the batcher, as far as the window allows.
func (f *forwarding) send() {
	f.batches = f.batcher.Take(f.term, forwardWindow, f.batches[:0])
	if len(f.batches) == 0 {
		return
	}
	f.beginStream()
	for _, b := range f.batches {
		if b.Change != nil { // added while this member led
			f.batcher.Reject(b, ErrNotLeader)
			continue
		}
		b.Prev, f.out.last = f.out.last, b.Number
		f.sendBatch(b)
	}
	clear(f.batches)
}

// pending are the batches of other members that were accepted and that raft has not been given.
func (f *forwarding) pending() []*forward { return f.receiver.pending }

// pendingBytes is how large they are.
func (f *forwarding) pendingBytes() int { return f.receiver.bytes }

// taken says that raft has the first n of them.
func (f *forwarding) taken(n int) { f.receiver.clear(n) }

// newTerm says that another term has begun: what was forwarded to the leader of another one is of no use.
func (f *forwarding) newTerm() { f.receiver.reset() }

// beginStream begins a stream if the present one is not for this term.
func (f *forwarding) beginStream() {
	if out := &f.out; out.term != f.term {
		out.term, out.last, out.sent, out.resend = f.term, 0, 0, false
		out.epoch++
	}
}

// sendBatch sends the leader one batch, unless one before it was not taken: without that the leader would not take it.
func (f *forwarding) sendBatch(b *batcher.Batch) {
	out := &f.out
	if out.resend {
		return
	}
	copied, kept := b.Data, []byte(nil)
	if len(b.Data) >= largeBytes {
		copied, kept, b.Kept = nil, b.Data, true
	}
	out.resend = !f.transport.SendInOrder(f.soft.Lead, frameForward, func(buffer []byte) []byte {
		return appendForward(buffer, out.term, out.epoch, b.Prev, copied)
	}, kept)
	if !out.resend {
		out.sent = b.Number
	}
}

// resendAfter sends the leader again what has come after the batch last and is not applied. What the leader has taken
// already it passes over.
func (f *forwarding) resendAfter(last uint64) {
	out := &f.out
	out.resend, out.waiting, out.sent = false, 0, last
	if f.soft.Lead == raft.None || f.leads() || out.term != f.term {
		return
	}
	f.batcher.EachProposed(f.term, func(b *batcher.Batch) {
		if b.Number > last {
			f.sendBatch(b)
		}
	})
}

// refused is told that the leader lacks a batch.
func (f *forwarding) refused(from uint64, r refusal) {
	out := &f.out
	if from == f.soft.Lead && r.origin == f.origin && r.term == out.term && r.epoch == out.epoch {
		f.resendAfter(r.last)
	}
}

// tick looks whether what was added or forwarded has waited for too long.
func (f *forwarding) tick() {
	out := &f.out
	if f.soft.Lead == raft.None {
		if f.member.SoleVoter(f.id) {
			return // it waits for nobody
		}
		if out.alone++; out.alone == leaderlessTimeouts*f.options.ElectionTicks {
			f.dropUnanswered(ErrNoLeader)
		}
		return
	}
	out.alone = 0
	f.batcher.Resume()
	if f.leads() {
		return
	}
	if oldest := f.batcher.Oldest(); oldest != out.oldest || oldest == 0 {
		out.oldest, out.waiting = oldest, 0
	}
	out.waiting++
	more := patienceFor(f.batcher.InFlightBytes())
	waiting, sent := out.waiting, out.sent
	switch {
	case out.oldest != 0 && out.waiting >= stuckTimeouts*f.options.ElectionTicks+more:
		f.dropUnanswered(ErrLeadershipLost)
		return
	case out.oldest != 0 && out.waiting%(resendTicks+more) == 0:
		f.resendAfter(0)
	case out.resend:
		f.resendAfter(sent)
	}
	out.waiting = waiting
}

// dropUnanswered drops all that waits in the batcher and all whose outcome is not known. If there was anything it takes
// nothing until the next tick with a leader: what a client proposed after something that was dropped must not be
// applied without it. The stream begins anew.
func (f *forwarding) dropUnanswered(err error) {
	turnedAway := f.batcher.Suspend(err)
	batches, barriers := f.batcher.Abandon()
	barriers = append(barriers, f.reads.take()...)
	switch {
	case len(batches)+len(barriers) > 0:
		f.logger.Warn("writes dropped: no leader took them", slog.Int("batches", len(batches)),
			slog.Int("barriers", len(barriers)), slog.Any("err", err))
	case turnedAway == 0 && f.soft.Lead != raft.None:
		f.batcher.Resume() // of a member that has just come, say
	}
	for _, b := range batches {
		b.Drop(fmt.Errorf("%w: %w", ErrLeadershipLost, err))
		f.batcher.Release(b)
	}
	for _, w := range barriers {
		w.Dropped(fmt.Errorf("%w: %w", ErrLeadershipLost, err))
	}
	f.batcher.ReleaseBarriers(len(barriers))
	f.out.term = 0
}

// maxForwardedBytes is how much of other members' batches a leader takes before it proposes them. Each member's window
// bounds it, but for those that have given batches up. A guess.
const maxForwardedBytes = 64 << 20

// forwardReceiver is the leader's side of the members' streams, in one leadership.
type forwardReceiver struct {
	streams map[uint64]*stream // by origin: one for each process that has forwarded in this leadership
	pending []*forward         // accepted and not proposed
	bytes   int                // of pending
}

// stream is what the leader has accepted from one process.
type stream struct{ epoch, last uint64 }

// reset forgets everything: another term has begun.
func (t *forwardReceiver) reset() { *t = forwardReceiver{} }

// accept takes f if it continues its process's stream, or begins one of a higher epoch. If not, missing says whether
// one before it is missing, all behind last; a frame that is merely old is not wanted any more.
func (t *forwardReceiver) accept(f *forward) (accepted, missing bool, last uint64) {
	s := t.streams[f.origin]
	if s == nil {
		s = &stream{}
	}
	switch {
	case f.epoch < s.epoch || f.number <= s.last:
		return false, false, s.last
	case t.bytes >= maxForwardedBytes:
		return false, true, s.last
	case f.epoch == s.epoch && f.prev != s.last, f.epoch > s.epoch && f.prev != 0:
		return false, true, s.last
	}
	if t.streams == nil {
		t.streams = map[uint64]*stream{}
	}
	s.epoch, s.last = f.epoch, f.number
	t.streams[f.origin] = s
	t.pending = append(t.pending, f)
	t.bytes += len(f.data)
	return true, false, s.last
}

// clear says that raft has the first n batches.
func (t *forwardReceiver) clear(n int) {
	for _, f := range t.pending[:n] {
		t.bytes -= len(f.data)
	}
	t.pending = slices.Delete(t.pending, 0, n)
}

// take takes a batch from another member.
func (f *forwarding) take(from uint64, w *forward) {
	if !f.leads() || w.term != f.term {
		return // who sent it will hear of the leader
	}
	_, missing, last := f.receiver.accept(w)
	if !missing {
		return
	}
	answer := refusal{term: w.term, origin: w.origin, epoch: w.epoch, last: last}
	f.transport.Send(from, frameRefusal, answer.append) // lost, it is sent for the next frame
}
