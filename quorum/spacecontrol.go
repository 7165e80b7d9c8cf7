package quorum

import (
	"log/slog"
	"slices"
	"sync/atomic"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/space"
	"zkd/storage/state"
)

// spaceControl is the loop's part that judges what may be written, by the space on the disks of all.
type spaceControl struct {
	*facts
	transport Transport     // nil in a group of one
	monitor   *spaceMonitor // nil in tests
	transfer  *transfer
	changed   func()          // publishes how this member stands in its group
	more      func(id uint64) // told on the leader that a member has more space than before
	published *atomic.Uint32  // found
	refused   *atomic.Uint64  // proposals that were refused here for want of space

	told         space.Level            // what the leader, or on the leader all others, were told last
	toldAt       uint64                 // the tick at which they were
	toldSince    uint64                 // the tick since which they are told that, or at which the leader became known
	members      map[uint64]spaceReport // on the leader: who has little space
	found        space.Level            // of the leader
	heard        uint64                 // the tick at which found was heard, if another one leads
	tried        uint64                 // the tick at which a transfer was tried last for want of space, 0: never
	reclaimSince uint64                 // the tick since which awaitsReclaim is true, and one; 0: it is not
	waiting      uint64                 // the tick since which it waits for another's space, and one; 0: it does not
	paused       bool                   // this member takes no entries for now
}

// spaceReport is what a member has said.
type spaceReport struct {
	level space.Level
	tick  uint64
}

// diskLevel is the level of this member's disks.
func (s *spaceControl) diskLevel() space.Level {
	if s.options.DiskSpace == nil {
		return space.Ample
	}
	return s.options.DiskSpace.Level()
}

// ownLevel is that level as others are told it: Tight is that it is low, and space is reclaimed.
func (s *spaceControl) ownLevel() space.Level {
	switch level := s.diskLevel(); {
	case level < space.Low:
		return space.Ample
	case s.awaitsReclaim():
		return space.Tight
	default:
		return level
	}
}

// awaitsReclaim tells whether this member's disk has become low, and space is reclaimed before anything is refused.
func (s *spaceControl) awaitsReclaim() bool {
	if s.monitor == nil || !s.monitor.reclaiming.Load() {
		s.reclaimSince = 0
		return false
	}
	if s.reclaimSince == 0 {
		s.reclaimSince = s.now + 1
	}
	return s.now-s.reclaimSince+1 < reclaimWaitTicks
}

// hear takes what another member says.
func (s *spaceControl) hear(from uint64, f spaceFrame) {
	switch {
	case f.what == spaceOfGroup && from == s.soft.Lead:
		s.found, s.heard = f.level, s.now
	case f.what == spaceOfMember && s.leads():
		if s.members == nil {
			s.members = map[uint64]spaceReport{}
		}
		if f.level < s.members[from].level {
			s.more(from)
		}
		s.members[from] = spaceReport{level: f.level, tick: s.now}
	}
	s.judge()
}

// judge brings what this member does in step with what is known of the disks. It is called on every tick, and when
// something has become known.
func (s *spaceControl) judge() {
	own := s.ownLevel()
	if s.leads() {
		s.forgetReports()
		s.found = s.find(own)
		s.tell(spaceFrame{what: spaceOfGroup, level: s.found})
	} else {
		s.members = nil
		if s.found != space.Ample && s.now-s.heard > spaceReportTicks*spaceReportsLost {
			s.found = space.Ample
		}
		s.tell(spaceFrame{what: spaceOfMember, level: own})
	}
	if old := space.Level(s.published.Swap(uint32(s.found))); old != s.found {
		s.logger.Info("ensemble disk space level changed", slog.String("level",
			s.found.String()), slog.String("before", old.String()), slog.String("own", own.String()))
	}
	s.pauseReplication(!s.leads() && s.diskLevel() >= space.Critical && s.found == space.Ample)
}

// forgetReports forgets what members have said long ago.
func (s *spaceControl) forgetReports() {
	for id, report := range s.members { // order: each is judged alone
		if report.level == space.Ample || s.now-report.tick > spaceReportTicks*spaceReportsLost {
			delete(s.members, id)
		}
	}
}

// find is the level that counts for all: the best that a quorum of voters has. A leader whose own is worse hands
// over to one of those; only while there is nobody to take over, or at its very end, its own counts. And when its own
// space is tight, it keeps little of the log for one that falls behind, so it leaves none behind for want of space.
func (s *spaceControl) find(own space.Level) space.Level {
	levels := make([]space.Level, 0, 8)
	worst := space.Ample // of the others
	for _, id := range s.member.Voters() {
		level := s.members[id].level
		if id == s.id {
			level = own
		} else {
			worst = max(worst, level)
		}
		levels = append(levels, level)
	}
	slices.Sort(levels)
	found := space.Ample
	if q := s.member.Quorum(); q > 0 && len(levels) >= q && levels[q-1] >= space.Low {
		found = levels[q-1]
	}
	if found == space.Ample && worst >= space.Low && s.diskLevel() != space.Ample {
		found = space.Low
	}
	if own < space.Low || own <= found {
		return found
	}
	if !s.transfer.inProgress() && (s.tried == 0 || s.now-s.tried > spaceTransferTicks) {
		s.tried = s.now + 1
		s.logger.Warn("leader low on disk space: transferring leadership", slog.String("level",
			own.String()))
		s.transfer.begin(nil)
	}
	if s.transfer.inProgress() && own < space.Critical {
		return found // raft proposes nothing meanwhile
	}
	return own
}

// waits tells whether this leader waits with what it could propose: because its disk has become low and space is
// reclaimed, or because another one's has, which would fall behind meanwhile, and its own is tight.
func (s *spaceControl) waits() bool {
	if s.awaitsReclaim() {
		return true
	}
	if len(s.members) == 0 || s.diskLevel() == space.Ample {
		s.waiting = 0
		return false
	}
	for _, report := range s.members { // order: any one does
		if report.level == space.Tight {
			if s.waiting == 0 {
				s.waiting = s.now + 1
			}
			return s.now-s.waiting+1 < reclaimWaitTicks
		}
	}
	s.waiting = 0
	return false
}

// hasSpace tells whether a member has ample space, as far as the leader knows.
func (s *spaceControl) hasSpace(id uint64) bool { return s.members[id].level == space.Ample }

// noneHasSpace tells whether all members that are behind the log have disks without space for a snapshot: one that is
// made for them would only keep the space here that is given back.
func (s *spaceControl) noneHasSpace() bool {
	if len(s.members) == 0 {
		return false
	}
	first, behind, able := s.log.FirstIndex(), false, false
	s.raft.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		if id != s.id && pr.Next < first {
			behind = true
			able = able || s.members[id].level < space.Critical
		}
	})
	return behind && !able
}

// tell tells the leader, or all others, what has changed, and again for as long as they may go by something else.
func (s *spaceControl) tell(f spaceFrame) {
	again := s.now-s.toldAt >= spaceReportTicks
	if f.level == space.Ample {
		again = s.tellsAmple()
	}
	if s.transport == nil || f.level == s.told && !again || s.level() < spaceLevel {
		return
	}
	if f.what == spaceOfGroup {
		for _, id := range s.member.IDs() {
			if id != s.id {
				s.transport.Send(id, frameSpace, f.append) // lost, it is told again
			}
		}
	} else if s.soft.Lead == 0 || !s.transport.Send(s.soft.Lead, frameSpace, f.append) {
		return
	}
	if f.level != s.told {
		s.toldSince = s.now
	}
	s.told, s.toldAt = f.level, s.now
}

// tellsAmple tells whether who has said that there is space says so again. Who has not heard it goes by what he heard
// before, and refuses writes, until he forgets that. So it is told for as long, too, when nothing else was told before:
// the leader before may have. Not at once then: who has little space has to be heard first, or its members would be
// told that others have some, and pause.
func (s *spaceControl) tellsAmple() bool {
	since := s.now - s.toldSince
	if since < spaceHearTicks || since > spaceReportTicks*spaceReportsLost {
		return false
	}
	return s.toldAt == s.toldSince || s.now-s.toldAt >= spaceReportTicks
}

// newLeader begins anew under another leader, or as one.
func (s *spaceControl) newLeader() {
	s.told, s.toldAt, s.toldSince, s.heard = space.Ample, s.now, s.now, s.now
}

// pauseReplication has this member take no entries any more, or take them again: it keeps the space that it has, votes,
// and is without a leader for its clients, who find another server.
func (s *spaceControl) pauseReplication(on bool) {
	if on == s.paused {
		return
	}
	s.paused = on
	if on {
		s.logger.Warn("replication paused: disk full")
	} else {
		s.logger.Info("replication resumed")
	}
	s.changed()
}

// withheld tells whether an append is not taken, or not sent, for want of space at its receiver.
func (s *spaceControl) withheld(m *raftpb.Message) bool {
	if m.GetType() != raftpb.MsgApp || len(m.GetEntries()) == 0 {
		return false
	}
	if m.GetTo() == s.id {
		return s.paused
	}
	return s.found == space.Ample && s.members[m.GetTo()].level >= space.Critical
}

// admitted returns the entry data with what may not be written now for want of space made into errors. Who has proposed
// it is answered as if it had been refused there, which is done first and costs no entry. data itself is not changed.
func (s *spaceControl) admitted(data []byte) []byte {
	found := s.found
	if found == space.Ample {
		return data
	}
	reader, err := entry.NewReader(data)
	if err != nil {
		return data // the state says what is wrong with it
	}
	var p entry.Proposal
	refused := 0
	record := entry.AppendEntryHeader(make([]byte, 0, len(data)), reader.Origin, reader.Batch)
	for reader.Next(&p) {
		if state.Grows(&p, found) {
			p.Op, p.Code, p.Body, p.Identities = jute.OpError, jute.SystemError, nil, p.Identities[:0]
			p.Reference = 0
			refused++
		}
		record = entry.AppendProposal(record, &p)
	}
	if reader.Err() != nil || refused == 0 {
		return data
	}
	s.refused.Add(uint64(refused))
	return record
}
