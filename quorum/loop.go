package quorum

import (
	"log/slog"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"zkd/quorum/clock"
)

// loop drives raft. Everything in it is the loop goroutine's alone, but for the mailboxes and progress.
type loop struct {
	id        uint64
	options   *Options // immutable
	raw       *raft.RawNode
	view      *logView
	gather    *gatherer
	transport Transport // nil in a group of one
	logger    *slog.Logger

	wake     chan struct{}        // of size 1; set by proposers and by the mailboxes
	inbox    *inbox               // from other members, and requests
	stored   *mailbox[stored]     // from the append goroutine
	applied  *mailbox[applyNews]  // from the apply goroutine
	toAppend *mailbox[appendWork] // to the append goroutine
	toApply  *mailbox[applyWork]  // to the apply goroutine
	toShip   *mailbox[shipWork]   // to the ship goroutine
	progress progress
	retain   *retention // tells the keeper

	member      membership
	history     []membership // the last memberships, oldest first; the present one is the last
	soft        raft.SoftState
	term        uint64
	termReached bool      // the apply goroutine was handed an entry of term
	termIndex   uint64    // the first such entry
	syncing     int       // messages handed to the append goroutine that it has not answered
	late        lateState // hard state with a newer commit index, to be stored with the next append
	lastChange  uint64    // the last entry that may change the membership, as far as this leader has appended
	ticks       uint64
	vote        uint64 // as of the last hard state handed to the append goroutine
	voteTerm    uint64 // likewise
	commit      uint64
	appended    uint64 // the last entry handed to the append goroutine
	elected     uint64 // the first entry of the log when this leader was elected
	founding    bool   // this leader has proposed the founding

	reads       readIndex
	forwarder   forwarder
	intake      intake
	election    election
	transfer    transfer
	checkpoints checkpoints
	staged      *staged // the snapshot that raft is looking at
	rejoin      rejoin
	reconfig    reconfiguring
	removed     bool // this member was told that it does not belong to the group any more

	announced  bool // OnState was told the state at the start
	sending    *raftpb.Message
	encodeRaft func(b []byte) []byte // appendSending

	batches    []*batch
	entries    []*raftpb.Entry
	storedBuf  []stored
	appliedBuf []applyNews
	arrivals   []arrival
}

// lateState is raft's hard state as a message has it; nil pointers: none.
type lateState struct{ term, vote, commit *uint64 }

// run is the loop goroutine: it sleeps until something has come, takes all of it, and hands on what raft makes of it.
func (l *loop) run(ticker clock.Ticker, halt <-chan struct{}) (err error) {
	defer ticker.Stop()
	defer l.recoverReadError(&err)
	l.begin()
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

// begin is the first turn.
func (l *loop) begin() {
	l.publishState()
	l.turn()
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
	if l.transport != nil {
		l.handOut() // so that term and leader, with which batches are marked, are raft's own
	}
	if l.mayPropose() {
		l.letGather()
		if l.soft.RaftState == raft.StateLeader {
			l.propose()
		} else {
			l.forward()
		}
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
	if !l.muted() {
		l.raw.Tick()
	}
	l.reads.ticks++
	l.progress.tick.Add(1)
	if l.ticks++; l.ticks%shrinkTicks == 0 {
		l.gather.shrink()
	}
	if l.transport == nil {
		return
	}
	l.handOut()
	l.tickForward()
	l.tickElection()
	l.tickTransfer()
	l.tickCheckpoint()
	l.tickRejoin()
	l.tickReconfigure()
	l.tickGroup()
}

// receive takes what has come: from the storage goroutines and from outside. Arrivals are taken first and looked at
// last: what the storage goroutines had told before a checkpoint was made is known before it.
func (l *loop) receive() {
	l.arrivals = l.inbox.take(l.arrivals)
	l.storedBuf = l.stored.take(l.storedBuf)
	for _, s := range l.storedBuf {
		l.syncing -= s.messages
		l.step(s.responses)
	}
	l.appliedBuf = l.applied.take(l.appliedBuf)
	for i := range l.appliedBuf {
		if c := l.appliedBuf[i].change; c != nil {
			l.changeMembership(c)
		}
		l.step(l.appliedBuf[i].responses)
		l.noteApplied(l.appliedBuf[i].responses)
	}
	for i := range l.arrivals {
		l.arrive(&l.arrivals[i])
	}
}

// noteApplied tells the keeper how much raft knows to be applied.
func (l *loop) noteApplied(responses []*raftpb.Message) {
	for _, m := range responses {
		if n := len(m.GetEntries()); n > 0 && m.GetType() == raftpb.MsgStorageApplyResp {
			l.retain.applied.Store(m.GetEntries()[n-1].GetIndex())
		}
	}
}

// step delivers responses: those to this member to raft, the others to the transport.
func (l *loop) step(responses []*raftpb.Message) {
	for _, m := range responses {
		if m.GetTo() != l.id {
			l.sendRaft(m)
			continue
		}
		l.stepRaft(m)
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
	l.publishState()
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
	l.sendRaft(others...)
	l.answerReadIndex(rd.ReadStates)
}

// setTerm notes a change of raft's hard state.
func (l *loop) setTerm(hard *raftpb.HardState) {
	if hard.GetTerm() != l.term {
		l.term = hard.GetTerm()
		l.termReached, l.founding = false, false
		l.lastChange, l.reconfig.last = 0, 0 // of changes of earlier terms, the first entry of this one tells
		l.intake.reset()
		l.reads.postponed = nil
	}
	l.commit = hard.GetCommit()
	l.progress.commit.Store(l.commit)
}

// setSoft notes a change of leadership.
func (l *loop) setSoft(soft raft.SoftState) {
	before := l.soft
	l.soft = soft
	l.reads.ticks = readIndexTicks // a question to the leader before will not be answered
	if soft.Lead != before.Lead {
		l.noteLeader(soft.Lead)
		l.transferTo(soft.Lead)
	}
	if (soft.RaftState == raft.StateLeader) != (before.RaftState == raft.StateLeader) {
		l.leadershipChanged()
	}
}

// leadershipChanged follows this member's coming to lead, or its end.
func (l *loop) leadershipChanged() {
	if l.soft.RaftState == raft.StateLeader {
		l.elected = l.view.log.FirstIndex()
	} else {
		l.checkpoints.catching = nil
		l.toShip.put(shipWork{cancel: true})
	}
	if l.transport != nil {
		l.tickGroup()
	}
}

// append hands a message to the append goroutine. A hard state that is new in its commit index only needs no write of
// its own: whatever is committed then is found to be so again after a crash. What needs no write at all and waits for
// none is answered at once.
func (l *loop) append(m *raftpb.Message) {
	if m.GetSnapshot() != nil {
		l.install(m)
		return
	}
	l.noteChanges(m)
	sameVote := m.Term == nil || m.GetTerm() == l.voteTerm && m.GetVote() == l.vote
	if len(m.GetEntries()) == 0 && sameVote {
		if m.Term != nil {
			l.late = lateState{m.Term, m.Vote, m.Commit}
			m.Term, m.Vote, m.Commit = nil, nil, nil
		}
		if l.syncing == 0 {
			l.step(m.GetResponses())
			return
		}
	}
	if m.Term == nil && len(m.GetEntries()) > 0 {
		m.Term, m.Vote, m.Commit = l.late.term, l.late.vote, l.late.commit
	}
	l.handToAppend(m, nil)
}

// handToAppend puts a message into the append goroutine's mailbox.
func (l *loop) handToAppend(m *raftpb.Message, in *install) {
	if m.Term != nil {
		l.late = lateState{}
		l.voteTerm, l.vote = m.GetTerm(), m.GetVote()
	}
	if n := len(m.GetEntries()); n > 0 {
		l.appended = m.GetEntries()[n-1].GetIndex()
	} else if in != nil {
		l.appended = in.member.index
	}
	l.syncing++
	l.toAppend.put(appendWork{message: m, install: in})
}

// apply hands committed entries to the apply goroutine.
func (l *loop) apply(m *raftpb.Message) {
	entries := m.GetEntries()
	if last := entries[len(entries)-1]; last.GetTerm() == l.term && !l.termReached {
		l.termReached, l.termIndex = true, last.GetIndex()
	}
	l.toApply.put(applyWork{message: m})
	if l.termReached && len(l.reads.postponed) > 0 {
		l.stepPostponed()
	}
}
