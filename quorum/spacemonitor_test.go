package quorum

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/space"
)

// fakeSpace is a Room whose level a test sets.
type fakeSpace struct{ level atomic.Uint32 }

// Look implements Room.
func (r *fakeSpace) Look() space.Level { return r.Level() }

// Level implements Room.
func (r *fakeSpace) Level() space.Level { return space.Level(r.level.Load()) }

// set changes the level.
func (r *fakeSpace) set(l space.Level) { r.level.Store(uint32(l)) }

// spaceGroup is a group of three whose levels a test sets.
type spaceGroup struct {
	*testGroup
	disks     [4]fakeSpace // by id
	reclaimed atomic.Int64
}

// spaceTick is the tick of a spaceGroup. What was said of a disk counts for thirty of them: three seconds, in which
// the slowest machine lets it be said again.
const spaceTick = 100 * time.Millisecond

// newRoomGroup starts one.
func newRoomGroup(t *testing.T) *spaceGroup {
	g := &spaceGroup{}
	g.testGroup = newTestGroup(t, 3, 0, func(o *Options) {
		patient(o)
		o.TickInterval, o.DiskSpace = spaceTick, &g.disks[o.ID]
		o.Reclaim = func(context.Context) error {
			g.reclaimed.Add(1)
			return nil
		}
	})
	return g
}

// write proposes a create through a member and returns how it is answered.
func (g *spaceGroup) write(n *Node, seq uint32) jute.Code {
	g.t.Helper()
	p := proposal(applied{client: 9, seq: seq}, 0)
	p.Op = jute.OpCreate
	w := newWaiter(g.t)
	if err := n.Propose(p, w); err != nil {
		g.t.Fatal(err)
	}
	a := w.wait()
	if a.err != nil {
		g.t.Fatalf("a write is dropped: %v", a.err)
	}
	return a.code
}

// all waits until all members know of a level.
func (g *spaceGroup) all(want space.Level) {
	g.t.Helper()
	eventually(g.t, "all know of the level "+want.String(), func() bool {
		for _, m := range g.members { // any order
			if m.node.SpaceLevel() != want {
				return false
			}
		}
		return true
	})
}

// TestQuorumWithoutSpace takes the space of one follower, which stops nobody, and of the other: what grows is refused
// by the leader, whoever proposes it, and what does not goes on. When there is space again it is taken.
func TestQuorumWithoutSpace(t *testing.T) {
	g := newRoomGroup(t)
	leader := g.leader()
	one := g.follower()
	other := g.members[6-leader.id-one.id]
	g.disks[one.id].set(space.Low)
	eventually(t, "it reclaims room", func() bool { return g.reclaimed.Load() > 0 })
	if code := g.write(one.node, 1); code != jute.OK {
		t.Errorf("with one disk that is low: %v", code)
	}
	g.disks[other.id].set(space.Low)
	g.all(space.Low)
	for _, m := range g.members { // any order
		if code := g.write(m.node, 2); code != jute.SystemError {
			t.Errorf("member %d, with two disks that are low: %v", m.id, code)
		}
		if a := mustWrite(t, m.node, applied{client: 9, seq: 3}); a.code != jute.OK {
			t.Errorf("member %d, a write that does not grow: %v", m.id, a.code)
		}
	}
	if s := leader.node.Status(); s.Refused != 3 || s.Space != space.Low {
		t.Errorf("%d writes refused at level %v", s.Refused, s.Space)
	}
	g.disks[one.id].set(space.Critical)
	g.disks[other.id].set(space.Critical)
	g.all(space.Critical)
	g.disks[one.id].set(space.Ample)
	g.all(space.Ample)
	if code := g.write(one.node, 4); code != jute.OK {
		t.Errorf("with room again: %v", code)
	}
}

// TestLeaderWithoutSpaceTransfersLeadership takes the space of the leader: another one leads, and nothing is refused.
func TestLeaderWithoutSpaceTransfersLeadership(t *testing.T) {
	g := newRoomGroup(t)
	old := g.leader()
	mustWrite(t, old.node, applied{client: 1, seq: 1})
	g.disks[old.id].set(space.Low)
	eventually(t, "another one leads", func() bool {
		s := old.states.last()
		return s.Leader != 0 && s.Leader != old.id
	})
	if code := g.write(old.node, 2); code != jute.OK {
		t.Errorf("a write through the old leader: %v", code)
	}
}

// TestMemberWithoutSpacePausesReplication takes all space of a follower: it has no leader, takes no entries, and
// follows again when there is space.
func TestMemberWithoutSpacePausesReplication(t *testing.T) {
	g := newRoomGroup(t)
	leader, full := g.leader(), g.follower()
	eventually(t, "the follower has a leader", func() bool { return full.states.last().Leader == leader.id })
	g.disks[full.id].set(space.Critical)
	eventually(t, "it pauses replication", func() bool { return full.states.last().Leader == 0 })
	before := full.node.Status().LastIndex
	for seq := range uint32(20) {
		if code := g.write(leader.node, seq+1); code != jute.OK {
			t.Fatalf("write %d: %v", seq, code)
		}
	}
	if last := full.node.Status().LastIndex; last > before+1 { // one may have been on its way
		t.Errorf("its log grew from %d to %d", before, last)
	}
	g.disks[full.id].set(space.Ample)
	eventually(t, "it has caught up", func() bool {
		return full.states.last().Leader == leader.id &&
			full.machine.AppliedIndex() == leader.machine.AppliedIndex()
	})
}

// TestAloneWithoutSpace has a member that is alone refuse by itself.
func TestAloneWithoutSpace(t *testing.T) {
	g := &spaceGroup{}
	g.testGroup = newTestGroup(t, 1, 0, func(o *Options) { o.DiskSpace = &g.disks[o.ID] })
	n := g.leader().node
	g.disks[1].set(space.Low)
	g.all(space.Low)
	if code := g.write(n, 1); code != jute.SystemError {
		t.Errorf("code %v", code)
	}
	g.disks[1].set(space.Tight)
	g.all(space.Ample)
	if code := g.write(n, 2); code != jute.OK {
		t.Errorf("code %v", code)
	}
}

// TestAdmitted keeps the number and order of an entry's proposals when some are refused.
func TestAdmitted(t *testing.T) {
	s := spaceControl{refused: &atomic.Uint64{}}
	record := entry.AppendEntryHeader(nil, 7, 8)
	for _, op := range []jute.Op{jute.OpDelete, jute.OpCreate, jute.OpCloseSession} {
		p := entry.Proposal{Op: op, Session: 5, Xid: jute.Xid(op), Body: []byte("body"),
			Identities: []jute.ID{{Scheme: "ip", ID: "::1"}}}
		record = entry.AppendProposal(record, &p)
	}
	if got := s.admitted(record); &got[0] != &record[0] {
		t.Error("an entry is copied although there is room")
	}
	s.found = space.Low
	r, err := entry.NewReader(s.admitted(record))
	if err != nil || r.Origin != 7 || r.Batch != 8 {
		t.Fatalf("origin %d, batch %d, %v", r.Origin, r.Batch, err)
	}
	var p entry.Proposal
	for _, want := range []struct {
		op   jute.Op
		xid  jute.Op
		code jute.Code
	}{
		{jute.OpDelete, jute.OpDelete, 0}, {jute.OpError, jute.OpCreate, jute.SystemError},
		{jute.OpCloseSession, jute.OpCloseSession, 0},
	} {
		if !r.Next(&p) || p.Op != want.op || p.Xid != jute.Xid(want.xid) || p.Code != want.code || p.Session != 5 {
			t.Errorf("got %v, xid %d, %v; want %v", p.Op, p.Xid, p.Code, want.op)
		}
	}
	if bad := []byte{9}; len(s.admitted(bad)) != 1 {
		t.Error("an entry that cannot be read is changed")
	}
}

// TestRoomFrames reads what is written, and nothing else.
func TestRoomFrames(t *testing.T) {
	f := spaceFrame{what: spaceOfGroup, level: space.Low}
	if got, err := decodeSpace(f.append(nil)); err != nil || got != f {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := decodeSpace([]byte{spaceOfMember, 200}); err != nil || got.level != space.Critical {
		t.Errorf("a level that is not known: %v, %v", got, err)
	}
	for _, b := range [][]byte{nil, {1}, {3, 0}, {1, 0, 0}} {
		if _, err := decodeSpace(b); err == nil {
			t.Errorf("%v is taken", b)
		}
	}
}
