package simulation

import (
	"fmt"
	"path/filepath"
	"strings"
)

// beforeMends are defects of the version before, mended since, that end the program, and not a server alone, or keep
// it, or an ensemble without a fault, from going on, or break by a server of that version what is checked of all.
var beforeMends = []Patch{
	// Pebble panics over a file of values that cannot be finished (storage/state.TestBlobFileThatCannotBeFinished).
	{File: "storage/disk/fence.go", Old: "IsManifest(name) || isMarker(name)",
		New: `IsManifest(name) || isMarker(name) || filepath.Ext(name) == ".blob"`},
	// It reads the statistics of a damaged table again and again (storage/disk.TestStatisticsOfADamagedTableWait).
	{File: "storage/state/store.go", Old: "DisableWAL: true,", New: "DisableWAL: true, DisableTableStats: true,"},
	{File: "storage/raftlog/log.go", Old: "opts := &pebble.Options{",
		New: "opts := &pebble.Options{DisableTableStats: true,"},
	// It waits for a flush whose disk has failed (storage/state.TestAFailedDiskEndsTheWaitForAFlush).
	{File: "storage/state/flush.go", Old: "f.under, f.before = false, 0\n\t\tcase <-f.stopped:",
		New: "f.under, f.before = false, 0\n\t\tcase <-f.m.store.fault.Tripped:\n" +
			"\t\t\treturn f.m.store.fault.Stopped()\n\t\tcase <-f.stopped:"},
	// It copies no MANIFEST before it has begun one (storage/state.TestACheckpointRightAfterAStart).
	{File: "storage/state/store.go", Old: "errors.Join(s.db.Checkpoint(dir),",
		New: "errors.Join(s.flushed(), s.db.Checkpoint(dir),"},
	// On a disk that is an older one it applies what was committed nowhere, and then goes on no more
	// (quorum.TestAnOlderDiskWithOtherEntriesIsAddedAnew).
	{File: "quorum/send.go", Old: "s.retention.tell(m)",
		New: "s.retention.tell(m)\n\t\ts.admission.tellAcknowledged(m)"},
	{File: "quorum/admit.go", Old: "// records tells whether incarnations can be made part of the membership",
		New: beforeTells + "// records tells whether incarnations can be made part of the membership"},
	{File: "quorum/rejoin.go", Old: "	return m.GetCommit() > a.commit &&",
		New: beforeLacks + "	return m.GetCommit() > a.commit &&"},
	// It ends a session whose end waited for room, or behind a reconfig that was prepared, and whose client wrote by
	// another server meanwhile (server.TestAnEndThatIsHeldUpComesAgain): seed 11359219.
	{File: "server/expirer.go", Old: "s.opts.node.Propose(p, nil)",
		New: "s.opts.node.Propose(p, silent{s.tracker.Load(), id})"},
	{File: "server/sessions.go", Old: "// sessions maps the sessions",
		New: beforeSilent + "// sessions maps the sessions"},
	{File: "quorum/liveness/tracker.go", Old: "if alive {\n\t\ts.Touch()", New: "if s != nil {\n\t\ts.Touch()"},
	{File: "quorum/liveness/report.go", Old: "s != nil && s.due != 0 {", New: "s != nil {"},
	{File: "quorum/liveness/tracker.go", Old: "// SetTimeout changes", New: beforeVoid + "// SetTimeout changes"},
	{File: "quorum/liveness/tracker.go", Old: "due := t.deadline(s)\n\tif s.due == due",
		New: "due := max(t.deadline(s), t.now()/int64(t.options.Tick)+1)\n\tif s.due == due"},
	{File: "quorum/batcher/batcher.go", Old: "mu struct {\n\t\tsync.Mutex\n",
		New: "mu struct {\n\t\tsync.Mutex\n\t\treconfigs int\n"},
	{File: "quorum/batcher/batcher.go", Old: "batch.Change, batch.Reconf = cc, cc == nil",
		New: "batch.Change, batch.Reconf = cc, cc == nil\n\tif batch.Reconf {\n\t\tb.mu.reconfigs++\n\t}"},
	{File: "quorum/batcher/queue.go", Old: "b.freeLocked(batch.bytes)",
		New: "b.freeLocked(batch.bytes)\n\tif batch.Reconf {\n\t\tb.mu.reconfigs--\n\t}"},
	{File: "quorum/batcher/batcher.go", Old: "if size >= b.options.MaxEntryBytes {",
		New: beforeTaken + "if size >= b.options.MaxEntryBytes {"},
	// It says that there is space once, or not at all, and who has not heard it refuses writes
	// (quorum.TestANewLeaderTellsThatThereIsSpace, TestThatThereIsSpaceIsToldAgain): seed 11464045.
	{File: "quorum/spacecontrol.go", Old: "again := f.level != space.Ample && s.now-s.toldAt >= spaceReportTicks",
		New: "again := s.now-s.toldAt >= spaceReportTicks\n\tif f.level == space.Ample {\n\t\t" +
			"again = s.tellsAmple()\n\t}"},
	{File: "quorum/spacecontrol.go", Old: "s.told, s.toldAt = f.level, s.now\n",
		New: "if f.level != s.told {\n\t\ts.since = s.now\n\t}\n\ts.told, s.toldAt = f.level, s.now\n"},
	{File: "quorum/spacecontrol.go", Old: "s.told, s.toldAt, s.heard = space.Ample, s.now, s.now",
		New: "s.told, s.toldAt, s.heard, s.since = space.Ample, s.now, s.now, s.now"},
	{File: "quorum/spacecontrol.go", Old: "heard        uint64", New: "since, heard uint64"},
	{File: "quorum/spacecontrol.go", Old: "// newLeader begins", New: beforeAmple + "// newLeader begins"},
	// It calls itself a follower while those who voted before it are needed
	// (quorum.TestAFollowerDoesNotNeedWhoVotedBefore): seed 11466683.
	{File: "quorum/state.go", Old: "case s.member.Votes(s.id):",
		New: "case s.member.Votes(s.id) && (len(s.member.Conf.GetVotersOutgoing()) == 0 || " +
			"slices.Contains(s.member.Conf.GetVotersOutgoing(), s.id)):"},
	{File: "quorum/state.go", Old: "\"log/slog\"", New: "\"log/slog\"\n\t\"slices\""},
	// It replays the log on the founders that its own file names
	// (quorum.TestAMemberThatIsTakenInBeginsWithASnapshot): seed 11472371.
	{File: "quorum/rejoin.go", Old: "if asksVote && a.votedFor(m) {",
		New: "if asksVote && a.votedFor(m) || a.refusesBeginning(m) {"},
	{File: "quorum/rejoin.go", Old: "// lost says that the connection",
		New: beforeRefuses + "// lost says that the connection"},
	// It forgets a checkpoint that it could not remove
	// (quorum.TestACheckpointThatCouldNotBeRemovedIsRemovedLater): seed 11476202.
	{File: "quorum/checkpointer.go", Old: "if w.done != nil {",
		New: "if err != nil && w.done == nil {\n\t\t\ts.tell(checkpointLeft{w.remove})\n\t\t}\n\t\t" +
			"if w.done != nil {"},
	{File: "quorum/checkpoint.go", Old: "number uint64 ", New: "left []string\n\tsince int\n\tnumber uint64 "},
	{File: "quorum/checkpoint.go", Old: "// overtaken tells whether the log",
		New: beforeLeft + "// overtaken tells whether the log"},
	{File: "quorum/checkpoint.go", Old: "c.tickCatchUps()\n", New: "c.tickCatchUps()\n\tc.tickLeft()\n"},
	{File: "quorum/peers.go", Old: "case checkpointMade:",
		New: "case checkpointLeft:\n\t\tl.checkpoints.notRemoved(what)\n\tcase checkpointMade:"},
	// It offers a snapshot to a member whose disk hung up to 75 s after that
	// (quorum.TestAMemberWhoseDiskGoesOnGetsItsSnapshotSoon): seed 11470659.
	{File: "quorum/backoff.go", Old: "longestPauseTicks = 600", New: "longestPauseTicks = 300"},
	{File: "quorum/peers.go", Old: "l.health.heard(m)",
		New: "l.health.heard(m)\n\tif m.GetType() == raftpb.MsgAppResp {\n" +
			"\t\tl.checkpoints.retrySoon(m.GetFrom(), false)\n\t}"},
	// A sole voter that gave others votes before it was killed ends at its start while they are away
	// (quorum.TestASoleVoterWhoseLogGivesOthersVotesStarts): seed 11545204.
	{File: "quorum/start.go", Old: "if err := n.awaitApplied(ctx); err != nil {",
		New: "err := n.awaitApplied(ctx)\n\tif errors.Is(err, ErrLeadershipLost) && len(n.Status().Voters) > 1 {\n" +
			"\t\treturn nil\n\t}\n\tif err != nil {"},
	// A server that joins refuses a leader that its file does not name (quorum.TestWhoJoinsIsToldOfTheMembers): seeds
	// 11110090 and 11611820.
	{File: "quorum/peers.go", Old: "if l.member.Empty() || m.Index < l.member.Index {",
		New: "if m.Index < l.member.Index {"},
	{File: "quorum/peers.go", Old: "if l.removed {\n\t\treturn\n\t}\n\tl.logger.Warn(",
		New: "if l.removed || l.member.Empty() {\n\t\treturn\n\t}\n\tl.logger.Warn("},
	{File: "quorum/members.go", Old: "if !g.member.Has(id) {", New: "if id != g.id && !g.member.Has(id) {"},
	// A server that has waited for the data of an ensemble does not hear those who came to it later
	// (quorum.TestAFounderIsForOneFoundingAlone).
	{File: "quorum/bootstrapchoice.go", Old: "b != nil && !b.hears(from)",
		New: "b != nil && !b.hears(from) && !a.hasData()"},
	// Pebble panics when a store is closed while a copy of it hangs (storage/state.TestCloseUnderAHungCheckpoint).
	{File: "storage/state/machine.go", Old: "return errors.Join(m.endBatch(), m.store.close())",
		New: "if !m.copying.TryLock() {\n" +
			"\t\treturn errors.Join(m.endBatch(), errors.New(\"the disk does not answer\"))\n\t}\n" +
			"\tdefer m.copying.Unlock()\n\treturn errors.Join(m.endBatch(), m.store.close())"},
	// A flush of a state that is being replaced begins again and again (storage/state.TestAFlushOfAReplacedStateWaits).
	{File: "storage/disk/fence.go", Old: "linger(name string) {\n\tif filepath.Ext(name)",
		New: "linger(name string, c vfs.DiskWriteCategory) {\n" +
			"\tif c == \"pebble-memtable-flush\" && filepath.Ext(name)"},
	{File: "storage/disk/fence.go", Old: "f.linger(name)", New: "f.linger(name, category)"},
	{File: "storage/state/store.go", Old: "s.fence.Closing()\n\ts.compactions.Pause()", New: "s.compactions.Pause()"},
	// It lets nobody read who waits for a leader that is slower to answer than it asks again
	// (quorum.TestAReadIndexThatIsLateCounts): seed 11671356 by servers of the product.
	{File: "quorum/readindex.go", Old: "ticks   int  ", New: "first   uint64\n\tticks   int  "},
	{File: "quorum/readindex.go", Old: "r.asked = append(r.asked, r.waiting...)\n\tr.waiting = nil\n\tr.number++",
		New: "r.number++\n\tif !again {\n\t\tr.asked, r.waiting, r.first = r.waiting, nil, r.number\n\t}"},
	{File: "quorum/readindex.go", Old: "!bytes.Equal(s.RequestCtx, r.context)",
		New: "len(s.RequestCtx) != len(r.context) || !bytes.Equal(s.RequestCtx[:8], r.context[:8]) ||\n\t\t\t" +
			"binary.BigEndian.Uint64(s.RequestCtx[8:]) < r.first"},
	// Its leader ends sessions before anything is committed in its term, and nobody could come back
	// (server.TestALeaderThatCommitsNothingExpiresNobody): seed 11961676 by servers of the product.
	{File: "server/availability.go", Old: "\t\ttracker.Lead()", New: "\t\ttracker.Follow()"},
	{File: "server/availability.go", Old: "\ta.current = true\n\ta.grace.Stop()",
		New: "\ta.current = true\n\ttracker := s.tracker.Load()\n" +
			"\tif a.state.Role == quorum.RoleLeader && !tracker.Expiring() {\n\t\ttracker.Lead()\n\t}\n" +
			"\ta.grace.Stop()"},
}

// beforeTells has a leader of the version before say in a heartbeat what its receiver has acknowledged.
const beforeTells = `func (a *admission) tellAcknowledged(m *raftpb.Message) {
	if m.GetType() != raftpb.MsgHeartbeat {
		return
	}
	index, none := uint64(0), uint64(0)
	a.raft.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		if id == m.GetTo() {
			index = pr.Match
		}
	})
	term, err := a.log.Term(index)
	if err != nil || a.syncing > 0 || !a.leads() || m.GetTerm() != a.term || index < m.GetCommit() {
		m.Commit = &none
		return
	}
	m.Index, m.LogTerm = &index, &term
}

`

// beforeLacks has a member of the version before look whether it has that.
const beforeLacks = `	if m.GetLogTerm() > 0 && m.GetIndex() > a.commit && m.GetTerm() >= a.term {
		if term, err := a.log.Term(m.GetIndex()); err == nil && term != m.GetLogTerm() {
			return true
		}
	}
`

// beforeSilent is the waiter of the end of a silent session in the version before. It says whether the end is void.
const beforeSilent = `type silent struct {
	tracker *liveness.Tracker
	id      jute.SessionID
}

func (s silent) Void(held bool) bool   { return s.tracker.Void(s.id, held) }
func (s silent) Applied(*apply.Result) {}
func (s silent) Dropped(error)         {}

`

// beforeVoid has the tracker of the version before tell whether the end of a session that was handed to Expire is not
// to be proposed now: the session was heard since, or something holds its end up. Such a session is tracked again.
const beforeVoid = `func (t *Tracker) Void(id jute.SessionID, held bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.mu.sessions[id]
	if s == nil || s.due != 0 {
		return true
	}
	if held || t.deadline(s) > t.now()/int64(t.options.Tick) {
		t.placeLocked(s)
		return true
	}
	return false
}

`

// beforeTaken has the batcher of the version before ask that of a proposal that has room, and drop one that is void.
const beforeTaken = `if v, ok := w.(interface{ Void(held bool) bool }); ok && v.Void(b.mu.reconfigs > 0) {
		b.freeLocked(size)
		b.mu.Unlock()
		return nil
	}
	`

// beforeAmple has a member of the version before say again that there is space.
const beforeAmple = `func (s *spaceControl) tellsAmple() bool {
	since := s.now - s.since
	return since >= 3 && since <= spaceReportTicks*spaceReportsLost &&
		(s.toldAt == s.since || s.now-s.toldAt >= spaceReportTicks)
}

`

// beforeRefuses has a member of the version before that was taken in begin with a snapshot.
const beforeRefuses = `func (a *admission) refusesBeginning(m *raftpb.Message) bool {
	if m.GetType() != raftpb.MsgApp || m.GetTerm() < a.term || m.GetIndex() > bootstrapIndex || !a.isPending() ||
		a.lastIndex() > bootstrapIndex {
		return false
	}
	refused, to, term, index, hint := true, m.GetFrom(), m.GetTerm(), m.GetIndex(), uint64(0)
	a.sendRaft(&raftpb.Message{Type: raftpb.MsgAppResp.Enum(), From: &a.id, To: &to, Term: &term, Index: &index,
		Reject: &refused, RejectHint: &hint})
	return true
}

`

// beforeLeft has the version before remove later what it could not.
const beforeLeft = `type checkpointLeft struct{ dir string }

func (c *checkpoints) notRemoved(l checkpointLeft) { c.left, c.since = append(c.left, l.dir), 0 }

func (c *checkpoints) tickLeft() {
	if c.since++; len(c.left) == 0 || c.since < 100 {
		return
	}
	for _, dir := range c.left {
		c.toCheckpointer.put(checkpointJob{remove: dir})
	}
	c.left = nil
}

`

// mend applies beforeMends to the sources of the version before, which are below root.
func mend(root string, sources map[string]string) error {
	for _, m := range beforeMends {
		name := filepath.Join(root, strings.TrimPrefix(beforePath, modulePath), m.File)
		if n := strings.Count(sources[name], m.Old); n != 1 {
			return fmt.Errorf("%q is %d times in %s of the version before", m.Old, n, m.File)
		}
		sources[name] = strings.Replace(sources[name], m.Old, m.New, 1)
	}
	return nil
}
