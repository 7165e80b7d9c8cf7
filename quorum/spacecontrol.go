package quorum

import (
	"log/slog"
	"slices"
	"sync/atomic"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"zkd/jute"
	"zkd/storage"
	"zkd/storage/entry"
	"zkd/storage/space"
)

// spaceControl is the loop's part that judges what may be written, by the room on the disks of all.
type spaceControl struct {
	*facts
	transport Transport   // nil in a group of one
	looker    *roomLooker // nil in tests
	transfer  *transfer
	changed   func()         // publishes how this member stands in its group
	published *atomic.Uint32 // the verdict
	refused   *atomic.Uint64 // proposals that were refused here for want of room

	told    space.Level           // what the leader, or on the leader all others, were told last
	toldAt  uint64                // the tick at which they were
	members map[uint64]roomReport // on the leader: who has little room
	verdict space.Level           // of the leader
	heard   uint64                // the tick at which the verdict was heard, if another one leads
	handed  uint64                // the tick at which a hand-over was tried last for want of room, 0: never
	hoping  uint64                // the tick since which hopes is true, and one; 0: it is not
	waiting uint64                // the tick since which it waits for the room of another, and one; 0: it does not
	parked  bool                  // this member takes no entries for now
}

// roomReport is what a member has said.
type roomReport struct {
	level space.Level
	tick  uint64
}

// diskRoom is the level of this member's disks.
func (s *spaceControl) diskRoom() space.Level {
	if s.options.Room == nil {
		return space.Ample
	}
	return s.options.Room.Level()
}

// ownRoom is that level as others are told it: Tight is that it is low, and room is reclaimed.
func (s *spaceControl) ownRoom() space.Level {
	switch level := s.diskRoom(); {
	case level < space.Low:
		return space.Ample
	case s.hopes():
		return space.Tight
	default:
		return level
	}
}

// hopes tells whether this member's disk has become low, and room is reclaimed before anything is refused.
func (s *spaceControl) hopes() bool {
	if s.looker == nil || !s.looker.hopeful.Load() {
		s.hoping = 0
		return false
	}
	if s.hoping == 0 {
		s.hoping = s.now + 1
	}
	return s.now-s.hoping+1 < roomHopeTicks
}

// hear takes what another member says.
func (s *spaceControl) hear(from uint64, f roomFrame) {
	switch {
	case f.what == roomVerdict && from == s.soft.Lead:
		s.verdict, s.heard = f.level, s.now
	case f.what == roomOfMember && s.leads():
		if s.members == nil {
			s.members = map[uint64]roomReport{}
		}
		s.members[from] = roomReport{level: f.level, tick: s.now}
	}
	s.judge()
}

// judge brings what this member does in step with what is known of the disks. It is called on every tick, and when
// something has become known.
func (s *spaceControl) judge() {
	own := s.ownRoom()
	if s.leads() {
		s.forgetReports()
		s.verdict = s.find(own)
		s.tell(roomFrame{what: roomVerdict, level: s.verdict})
	} else {
		s.members = nil
		if s.verdict != space.Ample && s.now-s.heard > roomReportTicks*roomReportsLost {
			s.verdict = space.Ample
		}
		s.tell(roomFrame{what: roomOfMember, level: own})
	}
	if old := space.Level(s.published.Swap(uint32(s.verdict))); old != s.verdict {
		s.logger.Info("what may be written has changed with the room on the disks", slog.String("level",
			s.verdict.String()), slog.String("before", old.String()), slog.String("own", own.String()))
	}
	s.park(!s.leads() && s.diskRoom() >= space.Critical && s.verdict == space.Ample)
}

// forgetReports forgets what members have said long ago.
func (s *spaceControl) forgetReports() {
	for id, report := range s.members { // order: each is judged alone
		if report.level == space.Ample || s.now-report.tick > roomReportTicks*roomReportsLost {
			delete(s.members, id)
		}
	}
}

// find is the level that counts for all: the best that a quorum of voters has. A leader whose own is worse hands
// over to one of those; only while there is nobody to take over, or at its very end, its own counts. And when its own
// room is tight, it keeps little of the log for one that falls behind, so it leaves none behind for want of room.
func (s *spaceControl) find(own space.Level) space.Level {
	levels := make([]space.Level, 0, 8)
	worst := space.Ample // of the others
	for _, id := range s.member.voters() {
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
	if q := s.member.quorum(); q > 0 && len(levels) >= q && levels[q-1] >= space.Low {
		found = levels[q-1]
	}
	if found == space.Ample && worst >= space.Low && s.diskRoom() != space.Ample {
		found = space.Low
	}
	if own < space.Low || own <= found {
		return found
	}
	if !s.transfer.underWay() && (s.handed == 0 || s.now-s.handed > roomHandoverTicks) {
		s.handed = s.now + 1
		s.logger.Warn("this leader is low on disk space, others are not: it hands over", slog.String("level",
			own.String()))
		s.transfer.begin(nil)
	}
	if s.transfer.underWay() && own < space.Critical {
		return found // raft proposes nothing meanwhile
	}
	return own
}

// waits tells whether this leader waits with what it could propose: because its disk has become low and room is
// reclaimed, or because another one's has, which would fall behind meanwhile, and its own is tight.
func (s *spaceControl) waits() bool {
	if s.hopes() {
		return true
	}
	if len(s.members) == 0 || s.diskRoom() == space.Ample {
		s.waiting = 0
		return false
	}
	for _, report := range s.members { // order: any one does
		if report.level == space.Tight {
			if s.waiting == 0 {
				s.waiting = s.now + 1
			}
			return s.now-s.waiting+1 < roomHopeTicks
		}
	}
	s.waiting = 0
	return false
}

// hasRoom tells whether a member has ample room, as far as the leader knows.
func (s *spaceControl) hasRoom(id uint64) bool { return s.members[id].level == space.Ample }

// noneHasRoom tells whether all members that are behind the log have disks without room for a snapshot: one that is
// made for them would only keep the room here that is given back.
func (s *spaceControl) noneHasRoom() bool {
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

// tell tells the leader, or all others, what has changed, and what is not Ample again and again.
func (s *spaceControl) tell(f roomFrame) {
	again := f.level != space.Ample && s.now-s.toldAt >= roomReportTicks
	if s.transport == nil || f.level == s.told && !again || s.level() < roomLevel {
		return
	}
	if f.what == roomVerdict {
		for _, id := range s.member.ids() {
			if id != s.id {
				s.transport.Send(id, frameRoom, f.append) // lost, it is told again
			}
		}
	} else if s.soft.Lead == 0 || !s.transport.Send(s.soft.Lead, frameRoom, f.append) {
		return
	}
	s.told, s.toldAt = f.level, s.now
}

// newLeader begins anew under another leader, or as one.
func (s *spaceControl) newLeader() {
	s.told, s.toldAt, s.heard = space.Ample, s.now, s.now
}

// park has this member take no entries any more, or take them again: it keeps the room that it has, votes, and is
// without a leader for its clients, who find another server.
func (s *spaceControl) park(on bool) {
	if on == s.parked {
		return
	}
	s.parked = on
	if on {
		s.logger.Warn("follows no more: its disk is full, and others have room: make room on it")
	} else {
		s.logger.Info("follows again")
	}
	s.changed()
}

// withheld tells whether an append is not taken, or not sent, for want of room at its receiver.
func (s *spaceControl) withheld(m *raftpb.Message) bool {
	if m.GetType() != raftpb.MsgApp || len(m.GetEntries()) == 0 {
		return false
	}
	if m.GetTo() == s.id {
		return s.parked
	}
	return s.verdict == space.Ample && s.members[m.GetTo()].level >= space.Critical
}

// admitted returns the entry data with what may not be written now for want of room made into errors. Who has proposed
// it is answered as if it had been refused there, which is done first and costs no entry. data itself is not changed.
func (s *spaceControl) admitted(data []byte) []byte {
	verdict := s.verdict
	if verdict == space.Ample {
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
		if storage.Grows(&p, verdict) {
			p.Op, p.Code, p.Body, p.Identities = jute.OpError, jute.SystemError, nil, p.Identities[:0]
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
