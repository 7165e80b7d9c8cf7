package quorum

import (
	"fmt"
	"log/slog"

	"go.etcd.io/raft/v3"
)

// A member that does not lead forwards its batches to the leader in a stream. The leader takes a batch for its own term
// only, and only in the stream's order: what is lost, sent twice or overtaken is never applied twice or out of order.
// The member sends a batch again until it is applied, or until an entry of a later term is: then the batch can never be
// applied any more, and goes to the next leader before all that was gathered after it.

// forwardWindow is how many forwarded batches of one member may be on their way and not applied: while one is on its
// way to disk and back, the next one travels. Measured 2026-11 (BenchmarkGroup, three members on two cores, a machine
// with other work): with 1 less throughput at 32 × 100, with 4 no more than with 2.
const forwardWindow = 2

// forwarder is the loop's side of the stream to the leader.
type forwarder struct {
	term    uint64 // of the leadership that the stream is for
	epoch   uint64 // of the stream; only ever larger
	last    uint64 // the number of the last batch in the stream, 0 at the beginning
	resend  bool   // something was dropped on the way: at the next tick all is sent again
	oldest  uint64 // the number of the oldest batch not applied, at the last tick
	waiting int    // ticks that it has been so
	alone   int    // ticks without a leader
}

// resendTicks is after how many ticks without an answer all is sent again. A refusal or a new connection comes sooner.
const resendTicks = 5

// How long writes and barriers wait: without a leader, and with one that does not take them, in election timeouts. Then
// they are dropped, so that clients look for another member. Guesses.
const (
	leaderlessTimeouts = 3
	stuckTimeouts      = 10
)

// forward sends the leader what was gathered, as far as the window allows.
func (l *loop) forward() {
	f := &l.forwarder
	if l.soft.RaftState == raft.StateLeader || !l.mayPropose() {
		return // letGather has handed out
	}
	l.batches = l.gather.take(l.term, forwardWindow, l.batches[:0])
	if len(l.batches) == 0 {
		return
	}
	l.beginStream()
	for _, b := range l.batches {
		if b.change != nil { // gathered while this member led
			l.refuseBatch(b, ErrNotLeader)
			continue
		}
		b.prev, f.last = f.last, b.number
		l.sendBatch(b)
	}
	clear(l.batches)
}

// beginStream begins a stream if the present one is not for this term.
func (l *loop) beginStream() {
	if f := &l.forwarder; f.term != l.term {
		f.term, f.last = l.term, 0
		f.epoch++
	}
}

// sendBatch sends the leader one batch.
func (l *loop) sendBatch(b *batch) {
	f := &l.forwarder
	sent := l.transport.Send(l.soft.Lead, frameForward, func(buffer []byte) []byte {
		return appendForward(buffer, f.term, f.epoch, b.prev, b.data)
	})
	if !sent {
		f.resend = true
	}
}

// resendAfter sends the leader again what has come after the batch last and is not applied. What the leader has taken
// already it passes over.
func (l *loop) resendAfter(last uint64) {
	f := &l.forwarder
	f.resend, f.waiting = false, 0
	if l.soft.Lead == raft.None || l.soft.RaftState == raft.StateLeader || f.term != l.term {
		return
	}
	l.gather.eachProposed(l.term, func(b *batch) {
		if b.number > last {
			l.sendBatch(b)
		}
	})
}

// refused is told that the leader lacks a batch.
func (l *loop) refused(from uint64, r refusal) {
	f := &l.forwarder
	if from == l.soft.Lead && r.origin == l.gather.origin && r.term == f.term && r.epoch == f.epoch {
		l.resendAfter(r.last)
	}
}

// tickForward looks whether what was gathered or forwarded has waited for too long.
func (l *loop) tickForward() {
	f := &l.forwarder
	if l.soft.Lead == raft.None {
		if l.member.soleVoter(l.id) {
			return // it waits for nobody
		}
		if f.alone++; f.alone == leaderlessTimeouts*l.options.ElectionTicks {
			l.giveUp(ErrNoLeader)
		}
		return
	}
	f.alone = 0
	l.gather.resume()
	if l.soft.RaftState == raft.StateLeader {
		return
	}
	if oldest := l.gather.oldest(); oldest != f.oldest || oldest == 0 {
		f.oldest, f.waiting = oldest, 0
	}
	f.waiting++
	switch {
	case f.oldest != 0 && f.waiting >= stuckTimeouts*l.options.ElectionTicks:
		l.giveUp(ErrLeadershipLost)
	case f.resend || f.oldest != 0 && f.waiting%resendTicks == 0:
		waiting := f.waiting
		l.resendAfter(0)
		f.waiting = waiting
	}
}

// giveUp drops all that is gathered and all whose outcome is not known, and takes nothing until the next tick with a
// leader: what a client proposed after something that was dropped must not be applied without it. The stream begins
// anew.
func (l *loop) giveUp(err error) {
	l.gather.suspend(err)
	batches, barriers := l.gather.abandon()
	barriers = append(barriers, l.reads.gathered...)
	barriers = append(barriers, l.reads.asked...)
	l.reads.gathered, l.reads.asked = nil, nil
	if len(batches)+len(barriers) > 0 {
		l.logger.Warn("gave up on writes", slog.Int("batches", len(batches)), slog.Int("barriers", len(barriers)),
			slog.Any("err", err))
	}
	for _, b := range batches {
		dropBatch(b, fmt.Errorf("%w: %w", ErrLeadershipLost, err))
		l.gather.release(b)
	}
	for _, w := range barriers {
		w.Dropped(fmt.Errorf("%w: %w", ErrLeadershipLost, err))
	}
	l.gather.releaseBarriers(len(barriers))
	l.forwarder.term = 0
}

// maxForwardedBytes is how much of other members' batches a leader takes before it proposes them. Each member's window
// bounds it, but for those that have given batches up. A guess.
const maxForwardedBytes = 64 << 20

// intake is the leader's side of the members' streams, in one leadership.
type intake struct {
	streams map[uint64]*stream // by origin: one for each process that has forwarded in this leadership
	pending []*forward         // accepted and not proposed
	bytes   int                // of pending
}

// stream is what the leader has accepted from one process.
type stream struct{ epoch, last uint64 }

// reset forgets everything: another term has begun.
func (t *intake) reset() { *t = intake{} }

// accept takes f if it continues its process's stream, or begins one of a higher epoch. If not, missing says whether
// one before it is missing, all behind last; a frame that is merely old is not wanted any more.
func (t *intake) accept(f *forward) (accepted, missing bool, last uint64) {
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
func (t *intake) clear(n int) {
	for _, f := range t.pending[:n] {
		t.bytes -= len(f.data)
	}
	rest := copy(t.pending, t.pending[n:])
	clear(t.pending[rest:])
	t.pending = t.pending[:rest]
}

// forwarded takes a batch from another member.
func (l *loop) forwarded(from uint64, f *forward) {
	if l.soft.RaftState != raft.StateLeader || f.term != l.term {
		return // who sent it will hear of the leader
	}
	_, missing, last := l.intake.accept(f)
	if !missing {
		return
	}
	answer := refusal{term: f.term, origin: f.origin, epoch: f.epoch, last: last}
	l.transport.Send(from, frameRefusal, answer.append) // lost, it is sent for the next frame
}
