package sim

import (
	"slices"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"zkd/jute"
	"zkd/quorum"
	"zkd/storage"
)

// reconfig is one change of membership that was proposed.
type reconfig struct {
	joins, leaves uint64 // 0: nobody
	learner       bool   // joins does, without a vote
}

// Xids of proposals that come with a change of membership are below this one, each its own.
const reconfigXid jute.Xid = -1000

// group is who belongs to the ensemble by the log.
type group struct {
	voters, learners []uint64
	changes          map[jute.Xid]*reconfig
}

// newGroup returns the founders.
func newGroup(members []*member) *group {
	g := &group{changes: map[jute.Xid]*reconfig{}}
	for _, m := range members {
		switch {
		case m.reserve:
		case m.learner:
			g.learners = append(g.learners, m.id)
		default:
			g.voters = append(g.voters, m.id)
		}
	}
	return g
}

// has tells whether a member belongs to the ensemble.
func (g *group) has(id uint64) bool {
	return slices.Contains(g.voters, id) || slices.Contains(g.learners, id)
}

// is tells whether a node says the same of the ensemble.
func (g *group) is(s *quorum.Status) bool {
	return slices.Equal(s.Voters, g.voters) && slices.Equal(s.Learners, g.learners)
}

// apply brings a change into force.
func (g *group) apply(c *reconfig) {
	for _, id := range []uint64{c.joins, c.leaves} {
		without := func(o uint64) bool { return o == id }
		g.voters, g.learners = slices.DeleteFunc(g.voters, without), slices.DeleteFunc(g.learners, without)
	}
	switch {
	case c.joins == 0:
	case c.learner:
		g.learners = append(g.learners, c.joins)
	default:
		g.voters = append(g.voters, c.joins)
	}
	slices.Sort(g.voters)
	slices.Sort(g.learners)
}

// committed is told of the result of a proposal that came with a change.
func (g *group) committed(w *world, r *storage.Result) {
	c := g.changes[r.Xid]
	if c == nil {
		return
	}
	delete(g.changes, r.Xid)
	if r.Code != jute.OK {
		return
	}
	g.apply(c)
	w.report.Changes++
	w.trace.textf(w.now, "membership: voters %v, learners %v", g.voters, g.learners)
	if c.leaves != 0 {
		m := w.members[c.leaves-1]
		w.after(w.between(300*time.Millisecond, time.Second), func() {
			if !g.has(m.id) { // not taken in again
				m.retire()
			}
		})
	}
}

// retire takes a member that was removed from the ensemble out of service.
func (m *member) retire() {
	m.retired = true
	m.w.trace.note(m.w.now, "retire", m.id)
	m.crash(false)
}

// reconfigure has the leader change the membership.
func (w *world) reconfigure() {
	m, g := w.leader(), w.group
	if m == nil || len(g.changes) > 2 {
		return
	}
	c := &reconfig{}
	spare := w.spare()
	switch n := w.rng.IntN(10); {
	case n < 4 && spare != nil:
		c.joins, c.learner = spare.id, w.chance(50)
	case n < 6 && len(g.learners) > 0 && len(g.voters) < 5:
		c.joins = draw(w, g.learners)
	case n < 8 && spare != nil:
		c.joins, c.leaves = spare.id, draw(w, g.voters)
	case len(g.voters) > 3:
		c.leaves = draw(w, g.voters)
	case len(g.learners) > 0:
		c.leaves = draw(w, g.learners)
	default:
		return
	}
	if c.joins != 0 {
		w.members[c.joins-1].start()
	}
	w.propose(m, c)
}

// spare is a member that could join, or nil.
func (w *world) spare() *member {
	for _, m := range w.members {
		if m.reserve && !m.retired && !w.group.has(m.id) {
			return m
		}
	}
	return nil
}

// propose proposes a change on a member, with a proposal that decides about it: now and then against it.
func (w *world) propose(m *member, c *reconfig) {
	p := storage.Proposal{Op: jute.OpError, Xid: reconfigXid - jute.Xid(w.values), Time: m.time()}
	w.values++
	if w.chance(15) {
		p.Code = jute.BadVersion
	}
	var changes []*raftpb.ConfChangeSingle
	if c.leaves != 0 {
		changes = append(changes, &raftpb.ConfChangeSingle{
			Type: raftpb.ConfChangeRemoveNode.Enum(), NodeId: &c.leaves,
		})
	}
	if c.joins != 0 {
		kind := raftpb.ConfChangeAddNode
		if c.learner {
			kind = raftpb.ConfChangeAddLearnerNode
		}
		changes = append(changes, &raftpb.ConfChangeSingle{Type: kind.Enum(), NodeId: &c.joins})
	}
	w.trace.note(w.now, "reconfig", m.id, c.joins, c.leaves, boolNumber(c.learner), uint64(p.Code))
	w.group.changes[p.Xid] = c
	if err := m.stepper.Node().ProposeChange(&raftpb.ConfChangeV2{Changes: changes}, &p, nil); err != nil {
		delete(w.group.changes, p.Xid)
	}
	m.want(partLoop)
}

// moveLeader has the leader hand over.
func (w *world) moveLeader() {
	m := w.leader()
	if m == nil {
		return
	}
	m.stepper.Transfer() // nobody waits for it
	w.trace.note(w.now, "moveLeader", m.id)
	m.want(partLoop)
}

// wipe crashes a member and empties its disk, if no other one has lost its disk lately.
func (w *world) wipe() {
	m := draw(w, w.members)
	if !m.up || m.retired || w.wiped != nil && !w.wiped.caughtUp() {
		return
	}
	w.wiped = m
	w.trace.note(w.now, "wipe", m.id)
	w.trace.textf(w.now, "member %d loses its disk", m.id)
	m.crash(true)
	m.disk = newDisk(m.disk.lies)
	w.later(w.between(10*time.Millisecond, time.Second), m.start)
}

// caughtUp tells whether a member takes part again.
func (m *member) caughtUp() bool {
	w := m.w
	leader := w.leader()
	if m.retired || !w.group.has(m.id) {
		return true
	}
	if !m.up || leader == nil || m.state.Leader != leader.id || m.state.Role == quorum.RoleRemoved {
		return false
	}
	for _, p := range leader.stepper.Node().Status().Peers {
		if p.ID == m.id {
			return p.LagEntries < 5 && m.machine.AppliedIndex() > 1
		}
	}
	return leader == m
}
