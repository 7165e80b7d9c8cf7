package quorum

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"runtime"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"zkd/quorum/clock"
)

// loop drives raft. Everything in it is the loop goroutine's alone, but for the mailboxes and progress.
type loop struct {
	id        uint64
	raw       *raft.RawNode
	view      *logView
	gather    *gatherer
	transport Transport // nil in a group of one
	logger    *slog.Logger

	wake     chan struct{}               // of size 1; set by proposers and by the mailboxes
	stored   *mailbox[stored]            // from the append goroutine
	applied  *mailbox[[]*raftpb.Message] // responses, from the apply goroutine
	changes  *mailbox[*membershipChange] // from the apply goroutine
	toAppend *mailbox[*raftpb.Message]   // to the append goroutine
	toApply  *mailbox[applyWork]         // to the apply goroutine
	progress progress

	member      membership
	soft        raft.SoftState
	term        uint64
	termReached bool            // the apply goroutine was handed an entry of term
	syncing     int             // messages handed to the append goroutine whose responses have not come back
	late        *raftpb.Message // hard state with a newer commit index, to be stored with the next append
	ticks       uint64
	vote        uint64 // as of the last hard state handed to the append goroutine
	voteTerm    uint64 // likewise
	reads       readIndex

	batches    []*batch
	storedBuf  []stored
	appliedBuf [][]*raftpb.Message
	changeBuf  []*membershipChange
}

// membershipChange asks the loop to bring a change into force and takes the answer back.
type membershipChange struct {
	change *raftpb.ConfChangeV2
	done   chan *raftpb.ConfState // of size 1: one answer, so that the loop never waits
}

// readIndex is the state of the barriers: at most one read index is asked for at a time, for all barriers that had come
// until then.
type readIndex struct {
	gathered []Waiter // not asked for yet
	asked    []Waiter // a read index is asked for
	number   uint64   // of the question
	ticks    int      // since it was asked
}

// run is the loop goroutine: it sleeps until something has come, takes all of it, and hands on what raft makes of it.
func (l *loop) run(ticker clock.Ticker, halt <-chan struct{}) (err error) {
	defer ticker.Stop()
	defer l.recoverReadError(&err)
	l.turn()
	for {
		select {
		case <-l.wake:
		case <-ticker.C():
			l.tick()
		case <-halt:
			return nil
		}
		l.turn()
	}
}

// recoverReadError turns the panic with which raft meets a raft log that cannot be read into an error.
func (l *loop) recoverReadError(err *error) {
	if cause := recover(); cause != nil {
		if l.view.err == nil {
			panic(cause)
		}
		*err = l.view.err
	}
}

// turn is one round: what has come goes into raft, what raft wants done goes out.
func (l *loop) turn() {
	l.receive()
	l.campaign()
	if l.mayPropose() {
		l.letGather()
		l.propose()
	}
	l.handOut()
}

// handOut hands on what raft wants done, and what that leads to.
func (l *loop) handOut() {
	for {
		l.askReadIndex()
		if !l.raw.HasReady() {
			return
		}
		l.handle(l.raw.Ready())
	}
}

// shrinkTicks is how many ticks without a proposal make the gatherer give its free buffers back.
const shrinkTicks = 50

// tick passes one tick of raft's time.
func (l *loop) tick() {
	l.raw.Tick()
	l.reads.ticks++
	if l.ticks++; l.ticks%shrinkTicks == 0 {
		l.gather.shrink()
	}
}

// receive steps the responses of the storage goroutines.
func (l *loop) receive() {
	l.storedBuf = l.stored.take(l.storedBuf)
	for _, s := range l.storedBuf {
		l.syncing -= s.messages
		l.step(s.responses)
	}
	l.appliedBuf = l.applied.take(l.appliedBuf)
	for _, responses := range l.appliedBuf {
		l.step(responses)
	}
	l.changeBuf = l.changes.take(l.changeBuf)
	for _, c := range l.changeBuf {
		conf := l.raw.ApplyConfChange(c.change)
		l.member.conf = conf
		c.done <- conf
	}
}

// step delivers responses: those to this member to raft, the others to the transport.
func (l *loop) step(responses []*raftpb.Message) {
	for _, m := range responses {
		if m.GetTo() != l.id {
			l.send(m)
			continue
		}
		// The one error possible is a response of a member that has left the group since: nobody waits for it.
		if err := l.raw.Step(m); err != nil {
			l.logger.Debug("raft refused a response", slog.Any("err", err))
		}
	}
}

// send hands messages to the transport. In a group of one there is nobody to send to.
func (l *loop) send(messages ...*raftpb.Message) {
	if l.transport != nil && len(messages) > 0 {
		l.transport.Send(messages)
	}
}

// campaign begins an election at once if nobody else could win it. raft refuses as long as a committed change of
// membership is not applied, so it is tried again each turn.
func (l *loop) campaign() {
	if l.soft.Lead != raft.None || l.soft.RaftState != raft.StateFollower || !l.member.soleVoter(l.id) {
		return
	}
	if err := l.raw.Campaign(); err != nil {
		l.logger.Warn("raft refused to campaign", slog.Any("err", err))
	}
}

// mayPropose tells whether raft can have what was gathered: if there is a leader. The leader itself waits until its
// last append is on disk: the next batch gathers meanwhile.
func (l *loop) mayPropose() bool {
	return l.soft.Lead != raft.None && (l.soft.RaftState != raft.StateLeader || l.syncing == 0)
}

// With less than gatherBytes in a batch, the fixed cost of its fsync is the greater part, and the loop lets others run,
// gatherYields times at most, as long as that makes the batch grow. No time passes if nobody has anything to run.
// Measured 2026-11 (BenchmarkPropose, 64 clients with one request outstanding): 57 requests an fsync instead of 31, 7.5
// µs of CPU a request instead of 10, half the latency. Larger batches are better off when the next is written while the
// last is applied: 32 × 100 would nearly double its latency.
const (
	gatherBytes  = 128 << 10
	gatherYields = 8
)

// letGather lets a small batch grow: by those who are about to propose, and those who are answered by what raft has
// committed.
func (l *loop) letGather() {
	before := l.gather.gathered()
	if before == 0 || before >= gatherBytes {
		return
	}
	l.handOut()
	for range gatherYields {
		runtime.Gosched()
		now := l.gather.gathered()
		if now == before || now >= gatherBytes {
			return
		}
		before = now
	}
}

// propose gives raft what was gathered. A batch that raft refuses is dropped.
func (l *loop) propose() {
	l.batches = l.gather.take(l.term, l.batches[:0])
	if len(l.batches) == 0 {
		return
	}
	entries := make([]*raftpb.Entry, len(l.batches))
	for i, b := range l.batches {
		entries[i] = &raftpb.Entry{Data: b.data} // a leader's log gets its own copy: raft makes it
		if l.transport != nil {
			entries[i].Data = slices.Clone(b.data) // the message may go to another leader and outlive the batch
		}
	}
	err := l.raw.Step(&raftpb.Message{Type: raftpb.MsgProp.Enum(), From: &l.id, Entries: entries})
	if err != nil {
		for _, b := range l.batches {
			l.gather.retract(b)
			dropBatch(b, fmt.Errorf("%w: %w", ErrLeadershipLost, err))
			l.gather.release(b)
		}
	}
	clear(l.batches)
}

// dropBatch tells the waiters of b that are left that nothing will be known.
func dropBatch(b *batch, err error) {
	for n, w := range b.waiters {
		if w != nil {
			b.waiters[n] = nil
			w.Dropped(err)
		}
	}
}

// readIndexTicks is after how many ticks a read index that was not answered is asked for again: messages to a leader
// can be lost.
const readIndexTicks = 10

// askReadIndex asks for one read index for all barriers that have gathered. A leader asks only when an entry of its own
// term is committed: a single member is answered by raft even before, with a commit index that may be older than what
// was acknowledged.
func (l *loop) askReadIndex() {
	l.reads.gathered = l.gather.takeBarriers(l.reads.gathered)
	again := len(l.reads.asked) > 0 && l.reads.ticks >= readIndexTicks
	if len(l.reads.asked) > 0 && !again || len(l.reads.asked)+len(l.reads.gathered) == 0 {
		return
	}
	if l.soft.Lead == raft.None || l.soft.RaftState == raft.StateLeader && !l.termReached {
		return
	}
	l.reads.asked = append(l.reads.asked, l.reads.gathered...)
	l.reads.gathered = nil
	l.reads.number++
	l.reads.ticks = 0
	l.raw.ReadIndex(binary.BigEndian.AppendUint64(nil, l.reads.number))
}

// answerReadIndex hands the barriers that a read index was asked for to the apply goroutine.
func (l *loop) answerReadIndex(states []raft.ReadState) {
	for _, s := range states {
		if len(s.RequestCtx) != 8 || binary.BigEndian.Uint64(s.RequestCtx) != l.reads.number {
			continue // asked again since
		}
		l.toApply.put(applyWork{barriers: l.reads.asked, index: s.Index})
		l.reads.asked = nil
	}
}

// handle hands on what raft wants done.
func (l *loop) handle(rd raft.Ready) {
	if !raft.IsEmptyHardState(rd.HardState) {
		l.setTerm(rd.HardState)
	}
	if rd.SoftState != nil {
		l.setSoft(*rd.SoftState)
	}
	others := rd.Messages[:0]
	for _, m := range rd.Messages {
		switch m.GetTo() {
		case raft.LocalAppendThread:
			l.append(m)
		case raft.LocalApplyThread:
			l.apply(m)
		default:
			others = append(others, m)
		}
	}
	l.send(others...)
	l.answerReadIndex(rd.ReadStates)
}

// setTerm notes a change of raft's hard state.
func (l *loop) setTerm(hard *raftpb.HardState) {
	if hard.GetTerm() != l.term {
		l.term = hard.GetTerm()
		l.termReached = false
	}
	l.progress.term.Store(hard.GetTerm())
	l.progress.commit.Store(hard.GetCommit())
}

// setSoft notes a change of leadership.
func (l *loop) setSoft(soft raft.SoftState) {
	if soft.Lead != l.soft.Lead {
		l.logger.Info("leader changed", slog.Uint64("leader", soft.Lead), slog.Uint64("term", l.term))
	}
	l.soft = soft
	l.progress.leader.Store(soft.Lead)
	l.progress.role.Store(uint32(soft.RaftState))
	l.reads.ticks = readIndexTicks // a question to the leader before will not be answered
}

// append hands a message to the append goroutine. A hard state that is new in its commit index only needs no write of
// its own: whatever is committed then is found to be so again after a crash.
func (l *loop) append(m *raftpb.Message) {
	alone := len(m.GetEntries()) == 0 && len(m.GetResponses()) == 0 && m.GetSnapshot() == nil
	if alone && m.GetTerm() == l.voteTerm && m.GetVote() == l.vote {
		l.late = m
		return
	}
	if m.Term == nil && l.late != nil {
		m.Term, m.Vote, m.Commit = l.late.Term, l.late.Vote, l.late.Commit
	}
	if m.Term != nil {
		l.late = nil
		l.voteTerm, l.vote = m.GetTerm(), m.GetVote()
	}
	if len(m.GetResponses()) > 0 {
		l.syncing++
	}
	l.toAppend.put(m)
}

// apply hands committed entries to the apply goroutine.
func (l *loop) apply(m *raftpb.Message) {
	entries := m.GetEntries()
	if last := entries[len(entries)-1]; last.GetTerm() == l.term {
		l.termReached = true
	}
	l.toApply.put(applyWork{message: m})
}
