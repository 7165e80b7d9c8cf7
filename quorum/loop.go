package quorum

import (
	"log/slog"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"zkd/quorum/batcher"
	"zkd/quorum/clock"
	"zkd/quorum/member"
	"zkd/storage/entry"
)

// loop drives raft. Everything in it is the loop goroutine's alone, but for the mailboxes and progress.
type loop struct {
	facts
	raw       *raft.RawNode
	view      *logView
	batcher   *batcher.Batcher
	transport Transport // nil in a group of one

	wake           chan struct{}           // of size 1; set by proposers and by the mailboxes
	inbox          *inbox                  // from other members, and requests
	stored         *mailbox[stored]        // from the append goroutine
	applied        *mailbox[applyNews]     // from the apply goroutine
	toAppend       *mailbox[appendWork]    // to the append goroutine
	toApply        *mailbox[applyWork]     // to the apply goroutine
	toCheckpointer *mailbox[checkpointJob] // to the checkpointer goroutine
	chunks         *mailbox[chunk]         // from the read goroutine
	progress       progress

	late              lateState // hard state with a newer commit index, to be stored with the next append
	vote              uint64    // as of the last hard state handed to the append goroutine
	voteTerm          uint64    // likewise
	bootstrapProposed bool      // this leader has proposed the bootstrap
	stopping          bool      // nothing more is taken
	staged            *staged   // the snapshot that raft is looking at

	members       members
	admission     admission
	reconfig      reconfiguring
	leaving       leaving
	inForce       inForce
	checkpoints   checkpoints
	forwarding    forwarding
	reads         readIndex
	election      election
	transfer      transfer
	health        health
	space         spaceControl
	clocks        clocks
	levels        levels
	compare       comparison
	retention     retention
	counting      counting
	uncachedReads uncachedReads
	sender        sender
	voterWatch    voterWatch
	commits       commitWatch
	status        status

	batches    []*batcher.Batch
	entries    []*raftpb.Entry
	storedBuf  []stored
	appliedBuf []applyNews
	arrivals   []arrival
}

// lateState is raft's hard state as a message has it; nil pointers: none.
type lateState struct{ term, vote, commit *uint64 }

// run is the loop goroutine: it sleeps until something has come, takes all of it, and hands on what raft makes of it.
func (l *loop) run(ticker clock.Ticker, halt <-chan struct{}) error {
	defer ticker.Stop()
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
	l.status.publish()
	l.turn()
}

// turn is one round: what has come goes into raft, what raft wants done goes out.
func (l *loop) turn() {
	defer l.admission.beginTurn()()
	l.receive()
	l.election.campaignAlone()
	if l.transport != nil {
		l.handOut() // so that term and leader, with which batches are marked, are raft's own
	}
	if l.admission.bootstrapsFirst() {
		l.admission.tick()
	}
	if l.mayPropose() {
		l.letBatchGrow()
		switch { // letBatchGrow has handed out
		case !l.mayPropose():
		case l.leads():
			l.propose()
		default:
			l.forwarding.send()
		}
	}
	l.handOut()
	l.inForce.tell()
}

// handOut hands on what raft wants done, and what that leads to.
func (l *loop) handOut() {
	for {
		l.reads.ask()
		if !l.raw.HasReady() {
			return
		}
		l.view.applying = true
		rd := l.raw.Ready()
		l.view.applying = false
		l.handle(rd)
	}
}

// shrinkTicks is how many ticks without a proposal make the batcher give its free buffers back.
const shrinkTicks = 50

// tick passes one tick of raft's time.
func (l *loop) tick() {
	defer l.admission.beginTurn()()
	if l.ticking() && (l.soft.RaftState == raft.StateLeader || l.admission.mayLead()) {
		l.raw.Tick()
	}
	l.reads.tick()
	l.progress.tick.Add(1)
	if l.now++; l.now%shrinkTicks == 0 {
		l.batcher.Shrink()
	}
	l.levels.tick()
	l.counting.tick()
	l.health.tick()
	l.uncachedReads.tick()
	l.space.judge()
	if l.transport == nil {
		return
	}
	l.election.stepDownAlone()
	l.handOut()
	l.forwarding.tick()
	l.election.tick()
	l.health.tickDisks()
	l.transfer.tick()
	l.checkpoints.tick()
	l.admission.tickFounders()
	l.admission.tick()
	l.reconfig.tick()
	l.clocks.tick()
	l.compare.tick()
	l.reconfig.tickPrepare()
	l.voterWatch.tick()
	l.commits.tick()
	l.status.publish() // the ensemble may have been founded since
	l.tickGroup()
}

// mayCampaign tells whether this member may ask for votes, and could store what comes of it.
func (l *loop) mayCampaign() bool {
	return !l.admission.quarantined() && !l.health.stalled() && l.admission.mayLead()
}

// ticking tells whether raft's time passes: not while the disk hangs and this member does not lead, so that it does not
// campaign.
func (l *loop) ticking() bool {
	return !l.admission.quarantined() && (l.leads() || !l.health.stalled())
}

// receive takes what has come: from the storage goroutines and from outside. Arrivals are taken first and looked at
// last: what the storage goroutines had told before a checkpoint was made is known before it.
func (l *loop) receive() {
	l.arrivals = l.inbox.take(l.arrivals)
	l.storedBuf = l.stored.take(l.storedBuf)
	for _, s := range l.storedBuf {
		l.syncing -= s.messages
		l.health.noteStored(s.bytes, s.last)
		l.step(s.responses)
		for _, then := range s.then {
			then()
		}
	}
	l.appliedBuf = l.applied.take(l.appliedBuf)
	for i := range l.appliedBuf {
		if c := l.appliedBuf[i].change; c != nil {
			l.members.change(c)
		}
		if m := l.appliedBuf[i].point; m != nil {
			l.compare.reachedPoint(m)
		}
		l.step(l.appliedBuf[i].responses)
		l.noteApplied(l.appliedBuf[i].responses)
	}
	l.uncachedReads.take()
	for i := range l.arrivals {
		l.arrive(&l.arrivals[i])
	}
}

// arrive does what an arrival asks for.
func (l *loop) arrive(a *arrival) {
	switch what := a.what.(type) {
	case *raftpb.Message:
		l.receiveRaft(what)
	case *forward:
		l.forwarding.take(a.from, what)
	case refusal:
		l.forwarding.refused(a.from, what)
	case member.Hello:
		l.admission.greeted(a.from, what)
	case *member.Membership:
		l.toldMembers(what)
	case *entry.CompareTxn:
		l.compare.takeSums(a.from, what)
	case *addressQuestion:
		l.reconfig.prepareFor(a.from, what)
	case *addressAnswer:
		l.reconfig.answered(a.from, what)
	case permissionFound:
		l.reconfig.notePermission(what)
	case connected:
		l.peerConnected(a.from)
	case lost:
		l.peerLost(a.from, what.left)
	case spaceFrame:
		l.space.hear(a.from, what)
	case spaceChanged:
		l.space.judge()
	case transferRequest:
		l.transfer.begin(what.told)
	case inForceRequest:
		l.inForce.waiting = append(l.inForce.waiting, what)
	case stopping:
		l.stopping = true
		l.dropBarriers()
	case *staged:
		l.receiveSnapshot(what)
	case outdated:
		l.answerOutdated(what.message)
	case checkpointMade:
		l.checkpoints.made(what)
	case checkpointLeft:
		l.checkpoints.notRemoved(what)
	case transferEnded:
		l.checkpoints.transferEnded(what)
	}
}

// receiveRaft takes a message of another member's raft.
func (l *loop) receiveRaft(m *raftpb.Message) {
	if l.admission.screen(m) || l.reads.deferQuestion(m) {
		return
	}
	if m.GetType() == raftpb.MsgTimeoutNow && l.health.stalled() {
		return // the leader transfers the leadership to another one, or leads on
	}
	l.reconfig.noteHeard(m.GetFrom())
	if m.GetReject() {
		l.sender.forget(m.GetFrom())
	}
	l.health.heard(m)
	l.checkpoints.heard(m)
	if l.space.withheld(m) {
		return
	}
	l.election.notePreVote(m)
	l.election.hearCommitted(m)
	l.retention.hear(m)
	l.stepRaft(m)
}

// noteApplied tells the compactor how much raft knows to be applied.
func (l *loop) noteApplied(responses []*raftpb.Message) {
	for _, m := range responses {
		if n := len(m.GetEntries()); n > 0 && m.GetType() == raftpb.MsgStorageApplyResp {
			l.health.noteApplying(-1)
			l.retention.applied(m.GetEntries()[n-1].GetIndex())
		}
	}
}

// step delivers responses: those to this member to raft, the others to the transport.
func (l *loop) step(responses []*raftpb.Message) {
	for _, m := range responses {
		if m.GetTo() != l.id {
			l.sender.send(m)
			continue
		}
		l.stepRaft(m)
	}
}

// stepRaft gives raft a message of another member.
func (l *loop) stepRaft(m *raftpb.Message) {
	// The errors possible are an answer of a member that has left the group, and what nobody leads for.
	if err := l.raw.Step(m); err != nil {
		l.logger.Debug("raft rejected message", slog.Any("type", m.GetType()), slog.Any("err", err))
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
	l.status.publish()
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
	l.sender.send(others...)
	l.reads.answer(rd.ReadStates)
}

// setTerm notes a change of raft's hard state.
func (l *loop) setTerm(hard *raftpb.HardState) {
	if hard.GetTerm() != l.term {
		l.term = hard.GetTerm()
		l.termReached, l.bootstrapProposed, l.own = false, false, 0
		l.levels.newTerm()
		l.reconfig.newTerm()
		l.members.newTerm()
		l.forwarding.newTerm()
		l.reads.newTerm()
	}
	l.commit = hard.GetCommit()
	l.progress.commit.Store(l.commit)
}

// setSoft notes a change of leadership.
func (l *loop) setSoft(soft raft.SoftState) {
	before := l.soft
	l.soft = soft
	l.reads.again() // a question to the leader before will not be answered
	if soft.Lead != before.Lead {
		l.space.newLeader()
		l.health.newLeader()
		l.election.newLeader(soft.Lead)
		l.transfer.newLeader(soft.Lead)
	}
	if (soft.RaftState == raft.StateLeader) != (before.RaftState == raft.StateLeader) {
		l.leadershipChanged()
	}
}

// leadershipChanged follows this member's coming to lead, or its end.
func (l *loop) leadershipChanged() {
	l.health.newLeadership()
	l.transfer.newLeadership()
	if l.soft.RaftState == raft.StateLeader {
		l.elected, l.led = l.log.FirstIndex(), l.term
	} else {
		l.uncachedReads.endLeadership()
		l.checkpoints.endLeadership()
	}
	if l.transport != nil {
		l.tickGroup()
	}
}

// tickGroup publishes what is known of the members, for Status and for the compactor.
func (l *loop) tickGroup() {
	l.retention.publish()
	l.status.publishGroup()
}

// append hands a message to the append goroutine. A hard state that is new in its commit index only needs no write of
// its own: whatever is committed then is found to be so again after a crash. What needs no write at all and waits for
// none is answered at once.
func (l *loop) append(m *raftpb.Message) {
	if m.GetSnapshot() != nil {
		l.install(m)
		return
	}
	l.members.noteChanges(m.GetEntries())
	l.clocks.noteTimes(m.GetEntries())
	l.reconfig.tellProposed(m.GetEntries())
	l.members.noteLogged(m.GetEntries())
	l.noteOwn(m.GetEntries())
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

// noteOwn notes the first entry of this leader's own among those that are appended.
func (l *loop) noteOwn(entries []*raftpb.Entry) {
	if l.own != 0 || !l.leads() {
		return
	}
	own := func(e *raftpb.Entry) bool { return e.GetTerm() == l.term }
	if n := slices.IndexFunc(entries, own); n >= 0 {
		l.own = entries[n].GetIndex()
	}
}

// handToAppend puts a message into the append goroutine's mailbox.
func (l *loop) handToAppend(m *raftpb.Message, in *install) {
	if m.Term != nil {
		l.late = lateState{}
		l.voteTerm, l.vote = m.GetTerm(), m.GetVote()
	}
	bytes := 0
	if n := len(m.GetEntries()); n > 0 {
		l.appended = m.GetEntries()[n-1].GetIndex()
		for _, e := range m.GetEntries() {
			bytes += len(e.GetData())
		}
		l.health.beginProbe(l.appended)
	} else if in != nil {
		l.appended = in.member.Index
	}
	l.syncing++
	l.health.noteHanded(bytes)
	l.toAppend.put(appendWork{message: m, install: in})
}

// store has the append goroutine make a blob durable, and then does what depends on it; nil: nothing.
func (l *loop) store(key string, blob []byte, then func()) {
	l.syncing++
	l.toAppend.put(appendWork{key: key, blob: blob, then: then})
}

// apply hands committed entries to the apply goroutine.
func (l *loop) apply(m *raftpb.Message) {
	entries := m.GetEntries()
	if last := entries[len(entries)-1]; last.GetTerm() == l.term && !l.termReached {
		l.termReached, l.termIndex = true, last.GetIndex()
	}
	l.health.noteApplying(1)
	l.toApply.put(applyWork{message: m, at: l.options.Clock.Now()})
	l.reads.stepDeferred()
}
