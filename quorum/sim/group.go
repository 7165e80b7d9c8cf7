package sim

import (
	"slices"
	"time"

	"zkd/jute"
	"zkd/quorum"
	"zkd/storage/apply"
	"zkd/storage/ensemble"
)

// group is who belongs to the ensemble by the log: by the configuration, in runs with reconfigs, towards which the
// leader brings the membership, or else by the changes of the membership.
type group struct {
	voters, learners []uint64 // sorted

	config   ensemble.Config
	requests []*request // reconfigs of which it is not known whether they will be committed

	changes map[jute.Xid]*directChange // without reconfigs
}

// request is a reconfig that a client has asked for.
type request struct {
	o     *op
	k     *conn
	life  int
	joins []uint64
	// lost is set when nobody waits for it any more; then it can be committed as long as no entry of a term after
	// deadTerm is.
	lost     bool
	deadTerm uint64
}

// newGroup returns the founders.
func newGroup(w *world) *group {
	g := &group{changes: map[jute.Xid]*directChange{}}
	for _, m := range w.members {
		switch {
		case m.reserve:
		case m.learner:
			g.learners = append(g.learners, m.id)
		default:
			g.voters = append(g.voters, m.id)
		}
	}
	g.config = w.profile.config
	return g
}

// has tells whether a member belongs to the ensemble.
func (g *group) has(id uint64) bool {
	return slices.Contains(g.voters, id) || slices.Contains(g.learners, id)
}

// ids are all members.
func (g *group) ids() []uint64 { return slices.Concat(g.voters, g.learners) }

// is tells whether a node says the same of the ensemble.
func (g *group) is(s *quorum.Status) bool {
	return slices.Equal(s.Voters, g.voters) && slices.Equal(s.Learners, g.learners)
}

// committed is told of the result of every proposal.
func (g *group) committed(w *world, r *apply.Result) {
	before, voters := g.ids(), len(g.voters)
	switch {
	case r.Op == jute.OpReconfig && r.Code != jute.OK:
		w.count(drawnReconfigRefused)
		return
	case r.Op == jute.OpReconfig:
		c, err := ensemble.Parse(string(r.Data))
		if err != nil {
			w.fail("a reconfig has made a configuration that cannot be read: %w", err)
			return
		}
		g.configure(c)
		w.count(drawnReconfigDone)
	case r.Session != 0 || r.Xid > reconfigXid || g.changes[r.Xid] == nil:
		return
	default:
		c := g.changes[r.Xid]
		delete(g.changes, r.Xid)
		if r.Code != jute.OK {
			return
		}
		g.apply(c)
		w.count(drawnChange)
	}
	w.countVoters(voters)
	w.report.Changes++
	w.trace.textf(w.now, "membership: voters %v, learners %v", g.voters, g.learners)
	for _, id := range before {
		if !g.has(id) {
			w.members[id-1].leave()
		}
	}
}

// countVoters notes how many voters a change of the membership has left, where there were so many before.
func (w *world) countVoters(before int) {
	switch after := len(w.group.voters); {
	case after == before:
	case after == 1:
		w.count(drawnOneVoter)
	case after == 2:
		w.count(drawnTwoVoters)
	case before < 3:
		w.count(drawnGrown)
	}
}

// configure brings a configuration into force.
func (g *group) configure(c ensemble.Config) {
	g.config, g.voters, g.learners = c, nil, nil
	for i := range c.Servers {
		if s := &c.Servers[i]; s.Observer {
			g.learners = append(g.learners, s.ID)
		} else {
			g.voters = append(g.voters, s.ID)
		}
	}
}

// open returns the reconfigs that may still be committed.
func (g *group) open(w *world) []*request {
	var term, newest uint64
	for _, m := range w.members {
		term = max(term, m.state.Term)
	}
	if n := len(w.ledger.entries); n > 0 {
		newest = w.ledger.entries[n-1].term
	}
	g.requests = slices.DeleteFunc(g.requests, func(r *request) bool {
		gone := r.k.s.m.life != r.life || !r.k.s.m.up
		switch {
		case r.o.index != 0, r.o.state == opRefused, r.o.state == opRequested && (gone || r.k.broken):
			return true
		case !r.lost && (gone || r.o.state == opDropped):
			r.lost, r.deadTerm = true, max(term, newest)+1
		}
		return r.lost && newest > r.deadTerm
	})
	return g.requests
}

// leave takes a member that was removed out of service, after a while, unless it is taken in again before.
func (m *member) leave() {
	w := m.w
	w.after(w.between(300*time.Millisecond, time.Second), func() {
		switch {
		case m.retired || w.group.has(m.id):
		case w.mayRetire(m):
			m.retire()
		default:
			m.leave()
		}
	})
}

// retire takes a member out of service for good.
func (m *member) retire() {
	m.retired = true
	m.w.count(drawnRetired)
	m.w.trace.note(m.w.now, "retire", m.id)
	m.crash(noCut)
}

// What follows keeps count of who can vouch for what. A member whose disk was lost neither votes nor acknowledges
// before it was taken in again, one that comes late has nothing to vouch for before it was taken in at all, and one
// that has retired never does. As long as a majority of every membership that somebody may act on can still do both,
// nothing that was acknowledged is lost and the ensemble can heal.

// sound tells whether a member can vote and acknowledge, if not at once, then when it is up again.
func (m *member) sound() bool {
	if m.lost && m.w.group.has(m.id) && m.caughtUp() {
		m.lost = false
	}
	return !m.retired && !m.lost
}

// majority tells whether most of these voters are sound without m.
func (w *world) majority(voters []uint64, without *member) bool {
	n := 0
	for _, id := range voters {
		if m := w.members[id-1]; m != without && m.sound() {
			n++
		}
	}
	return n >= len(voters)/2+1
}

// mayLose tells whether a member may lose its disk: nobody has asked for a change of the membership, the member is not
// needed for a majority of any that is in force somewhere, and no majority of a file of the configuration is without
// data, which could take itself for the first start of all.
func (w *world) mayLose(m *member) bool {
	g := w.group
	if !m.up || !g.has(m.id) || len(g.open(w)) > 0 || len(g.changes) > 0 {
		return false
	}
	if len(g.voters) <= 2 {
		return m.sound() && (w.majority(g.voters, m) || w.mayLoseOfTwo(m)) && w.allSettled()
	}
	if !w.majority(g.voters, m) {
		return false
	}
	for _, o := range w.members {
		if held := o.membership(); !o.retired && len(held) > 0 && !w.majority(held, m) {
			return false
		}
		if o.up {
			if s := o.stepper.Node().Status(); len(s.Voters) > 0 && s.Quorum != len(s.Voters)/2+1 {
				return false // in the middle of a joint change, of whose halves each has a majority of its own
			}
		}
	}
	return w.founders(m.membership(), m) && !slices.ContainsFunc(w.members, func(o *member) bool {
		return o.lost && !o.joining && !w.founders(votersOf(o.listed), m)
	})
}

// founders tells whether most of these have data without m, or have retired: so they cannot found another ensemble.
func (w *world) founders(voters []uint64, without *member) bool {
	empty := 0
	for _, id := range voters {
		if m := w.members[id-1]; !m.retired && (m == without || !m.hasData()) {
			empty++
		}
	}
	return empty < len(voters)/2+1
}

// hasData tells whether a member has durable entries.
func (m *member) hasData() bool {
	m.data = m.data || m.up && m.machine.AppliedIndex() > 1
	return m.data
}

// votersOf are the voters of a file of the configuration.
func votersOf(listed []quorum.Member) (voters []uint64) {
	for _, m := range listed {
		if !m.Learner {
			voters = append(voters, m.ID)
		}
	}
	return voters
}

// allSettled tells whether all members know the voters by the log, but for those that are to be taken in again.
func (w *world) allSettled() bool {
	for _, id := range w.group.ids() {
		if o := w.members[id-1]; o.sound() && !w.settled(o.membership()) {
			return false
		}
	}
	return true
}

// mayLoseOfTwo tells whether a member may lose its disk that is one of two voters: the other one has all that was ever
// committed, and believes it. He must not have a change of the membership in his log that he has not made, nor lead and
// begin one alone.
func (w *world) mayLoseOfTwo(m *member) bool {
	voters := w.group.voters
	if len(voters) != 2 || !slices.Contains(voters, m.id) || !w.majority(voters, nil) {
		return false
	}
	other := w.members[voters[0]-1]
	if other == m {
		other = w.members[voters[1]-1]
	}
	if !other.up || other.state.Role == quorum.RoleLeader {
		return false
	}
	s := other.stepper.Node().Status()
	return s.LastIndex == s.Applied && slices.Equal(s.Voters, voters)
}

// settled tells whether these are the voters by the log, but for those that are to be taken in again.
func (w *world) settled(voters []uint64) bool {
	for _, id := range voters {
		if !slices.Contains(w.group.voters, id) {
			return false
		}
	}
	for _, id := range w.group.voters {
		if !slices.Contains(voters, id) && w.members[id-1].sound() {
			return false
		}
	}
	return true
}

// mayRetire tells whether a member that was removed may stop for good: who votes by the configuration does so by now,
// and no other one still needs its vote.
func (w *world) mayRetire(m *member) bool {
	if leader := w.leader(); leader == nil || !w.settled(leader.membership()) {
		return false
	}
	for _, r := range w.group.open(w) {
		if slices.Contains(r.joins, m.id) {
			return false
		}
	}
	for _, id := range w.group.ids() {
		if o := w.members[id-1]; o.sound() && !w.majority(o.membership(), m) && len(o.membership()) > 0 {
			return false
		}
	}
	return true
}

// mayBecome tells whether the ensemble may get these voters: a majority of them is sound, and nobody leaves by the
// vote of one whose loss the leader may not have noticed.
func (w *world) mayBecome(voters []uint64) bool {
	lost, leaves := false, false
	for _, id := range voters {
		m := w.members[id-1]
		lost = lost || m.everUp && !m.sound()
	}
	for _, id := range w.group.voters {
		leaves = leaves || !slices.Contains(voters, id)
	}
	return w.majority(voters, nil) && !(lost && leaves)
}

// membership is who votes by what a member knows, or knew when it crashed.
func (m *member) membership() []uint64 {
	if !m.up {
		return m.held
	}
	return m.stepper.Node().Status().Voters
}
