package quorum

import (
	"sync/atomic"
	"testing"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"zkd/quorum/member"
	"zkd/storage/entry"
	"zkd/storage/space"
)

// spaceMembers are the spaceControls of a group of three. What they tell each other arrives at the end of the tick, in
// ticks that a test makes.
type spaceMembers struct {
	t     *testing.T
	of    map[uint64]*spaceControl
	disk  map[uint64]*fakeSpace
	onWay []spaceMessage
	lost  uint64 // the member that nothing arrives at; 0: none
	more  int    // how often a leader heard that another one has more space
}

// spaceMessage is what one member tells another one.
type spaceMessage struct {
	from, to uint64
	frame    spaceFrame
}

// levelled is a machine of which only the level is asked.
type levelled struct{ Machine }

// Level implements Machine.
func (levelled) Level() entry.Level { return spaceLevel }

// spaceLine is the Transport of one member.
type spaceLine struct {
	Transport

	from  uint64
	group *spaceMembers
}

// Send implements Transport.
func (l *spaceLine) Send(to uint64, _ uint8, encode func(b []byte) []byte) bool {
	f, err := decodeSpace(encode(nil))
	if err != nil {
		l.group.t.Error(err)
	}
	l.group.onWay = append(l.group.onWay, spaceMessage{l.from, to, f})
	return true
}

// newSpaceMembers returns members of which the first leads.
func newSpaceMembers(t *testing.T) *spaceMembers {
	g := &spaceMembers{t: t, of: map[uint64]*spaceControl{}, disk: map[uint64]*fakeSpace{}}
	for _, id := range []uint64{1, 2, 3} {
		g.disk[id] = &fakeSpace{}
		g.of[id] = &spaceControl{
			facts: &facts{id: id, logger: discard, options: &Options{DiskSpace: g.disk[id], Machine: levelled{}},
				member: member.Membership{Conf: &raftpb.ConfState{Voters: []uint64{1, 2, 3}}}},
			transport: &spaceLine{from: id, group: g}, changed: func() {}, published: &atomic.Uint32{},
			more: func(uint64) { g.more++ }, transfer: &transfer{facts: &facts{logger: discard}},
		}
	}
	g.lead(1)
	return g
}

// lead has one member lead.
func (g *spaceMembers) lead(leader uint64) {
	for id, s := range g.of { // order: each for itself
		s.soft = raft.SoftState{Lead: leader, RaftState: raft.StateFollower}
		if id == leader {
			s.soft.RaftState = raft.StateLeader
		}
		s.newLeader()
	}
}

// tick lets a tick pass on each member, the leader last.
func (g *spaceMembers) tick() {
	for n := range uint64(3) {
		s := g.of[(g.of[1].soft.Lead+n)%3+1]
		s.now++
		s.judge()
	}
	sent := g.onWay
	g.onWay = nil
	for _, m := range sent {
		if m.to != g.lost {
			g.of[m.to].hear(m.from, m.frame)
		}
	}
}

// found is what a member goes by.
func (g *spaceMembers) found(id uint64) space.Level { return g.of[id].found }

// TestANewLeaderTellsThatThereIsSpace has a leader whose disk is full hand over to one that has space: what it has told
// the others does not count much longer.
func TestANewLeaderTellsThatThereIsSpace(t *testing.T) {
	g := newSpaceMembers(t)
	g.tick()
	for _, s := range g.of { // order: each for itself
		s.hear(1, spaceFrame{what: spaceOfGroup, level: space.Critical})
	}
	g.disk[1].set(space.Critical)
	if g.found(2) != space.Critical || g.found(3) != space.Critical {
		t.Fatalf("the others go by %v and %v", g.found(2), g.found(3))
	}
	g.lead(2)
	for n := 0; g.found(3) != space.Ample; n++ {
		if n > spaceHearTicks {
			t.Fatalf("after %d ticks the third goes by %v", n, g.found(3))
		}
		g.tick()
	}
	if !g.of[1].paused || g.of[3].paused {
		t.Errorf("paused: the full one %v, the other one %v", g.of[1].paused, g.of[3].paused)
	}
}

// TestANewLeaderHearsOfFullDisksFirst has a leader hand over while a quorum has no space: nobody pauses, as it would if
// it were told that others have some.
func TestANewLeaderHearsOfFullDisksFirst(t *testing.T) {
	g := newSpaceMembers(t)
	g.disk[1].set(space.Critical)
	g.disk[3].set(space.Critical)
	for _, s := range g.of { // order: each for itself
		s.hear(1, spaceFrame{what: spaceOfGroup, level: space.Critical})
	}
	g.lead(2)
	for range 2 * spaceReportTicks * spaceReportsLost {
		g.tick()
		if g.of[1].paused || g.of[3].paused {
			t.Fatalf("paused: %v, %v", g.of[1].paused, g.of[3].paused)
		}
	}
	if g.found(2) != space.Critical || g.found(3) != space.Critical {
		t.Errorf("they go by %v and %v", g.found(2), g.found(3))
	}
}

// TestThatThereIsSpaceIsToldAgain has disks become full, and empty again, while what is said of the latter does not
// arrive: whoever missed it goes by what he heard before no longer than until it is said again.
func TestThatThereIsSpaceIsToldAgain(t *testing.T) {
	for name, deaf := range map[string]uint64{"by the leader": 3, "to the leader": 1} {
		t.Run(name, func(t *testing.T) {
			g := newSpaceMembers(t)
			for id := range uint64(3) {
				g.disk[id+1].set(space.Critical)
			}
			for range 2 * spaceReportTicks * spaceReportsLost { // longer than a new leader repeats anything
				g.tick()
			}
			if g.found(1) != space.Critical || g.found(3) != space.Critical {
				t.Fatalf("they go by %v and %v", g.found(1), g.found(3))
			}
			for id := range uint64(3) {
				g.disk[id+1].set(space.Ample)
			}
			g.lost = deaf
			g.tick()
			g.tick() // the leader has heard the others, and told what it has found
			if g.lost = 0; g.found(deaf) != space.Critical {
				t.Fatalf("what was lost has arrived: %v", g.found(deaf))
			}
			for n := 0; g.found(3) != space.Ample || g.of[1].members[2].level != space.Ample; n++ {
				if n > spaceReportTicks {
					t.Fatalf("after %d ticks: the third goes by %v, the leader by %v", n, g.found(3), g.of[1].members)
				}
				g.tick()
			}
		})
	}
}

// TestTheLeaderNotesThatAMemberHasMoreSpace: what that one refused for want of it is offered again.
func TestTheLeaderNotesThatAMemberHasMoreSpace(t *testing.T) {
	g := newSpaceMembers(t)
	for _, c := range []struct {
		level space.Level
		more  int // times so far
	}{{space.Low, 0}, {space.Critical, 0}, {space.Critical, 0}, {space.Low, 1}, {space.Ample, 2}, {space.Ample, 2}} {
		g.disk[3].set(c.level)
		for range spaceReportTicks + 1 { // it says so, and again
			g.tick()
		}
		if g.more != c.more {
			t.Fatalf("at level %v it was noted %d times, want %d", c.level, g.more, c.more)
		}
	}
}
