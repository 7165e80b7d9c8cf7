package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"zkd/jute"
	"zkd/quorum"
	"zkd/storage/ensemble"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// directChange is one change of membership that was proposed without a reconfig.
type directChange struct {
	joins, leaves uint64 // 0: nobody
	learner       bool   // joins does, without a vote
}

// Xids of proposals that come with a change of membership are below this one, each its own.
const reconfigXid jute.Xid = -1000

// apply brings a change into force.
func (g *group) apply(c *directChange) {
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

// changeMembers changes the membership.
func (w *world) changeMembers() {
	if w.profile.reconfigs {
		w.reconfigure()
	} else {
		w.changeDirectly()
	}
}

// serverLine is a server as a configuration has it.
func serverLine(id uint64, observer bool) ensemble.Server {
	return ensemble.Server{
		ID: id, Observer: observer, ClientAddr: "0.0.0.0:3",
		Addresses: []ensemble.Address{{Host: fmt.Sprintf("127.0.0.%d", id), Port: 1, ElectionPort: 2}},
	}
}

// reconfigure has a client ask for another configuration, wherever it is connected; now and then for the one that it,
// or another one, has just asked for.
func (w *world) reconfigure() {
	var idle []*client
	for _, c := range w.clients {
		if c.attached {
			idle = append(idle, c)
		}
	}
	if len(idle) == 0 {
		return
	}
	c := draw(w, idle)
	if open := w.group.open(w); len(open) > 0 {
		if r := draw(w, open); w.chance(30) {
			w.ask(c, &op{kind: jute.OpReconfig, path: schema.ConfigPath, body: slices.Clone(r.o.body)}, r.joins)
		}
		return
	}
	next := slices.Clone(w.group.config.Servers)
	for range 1 + w.rng.IntN(2) {
		drawn := w.drawServers(slices.Clone(next))
		if slices.ContainsFunc(drawn, func(s ensemble.Server) bool { return !s.Observer }) {
			next = drawn
		}
	}
	slices.SortFunc(next, func(a, b ensemble.Server) int { return int(a.ID) - int(b.ID) })
	after := group{}
	after.configure(ensemble.Config{Servers: next})
	if len(after.voters) < w.profile.votersMin || !w.mayBecome(after.voters) {
		return
	}
	var joins []uint64
	for _, id := range after.ids() {
		if !w.group.has(id) {
			joins = append(joins, id)
			w.members[id-1].start()
		}
	}
	w.ask(c, &op{kind: jute.OpReconfig, path: schema.ConfigPath, body: w.reconfigBody(next)}, joins)
}

// ask has a client ask for a reconfig.
func (w *world) ask(c *client, o *op, joins []uint64) {
	w.count(drawnReconfig)
	w.trace.note(w.now, "reconfig", uint64(c.id), hashBytes(o.body))
	w.group.requests = append(w.group.requests, &request{o: o, k: c.conn, life: c.conn.s.life, joins: joins})
	c.request(o)
}

// drawServers draws a configuration that differs from another one in one thing, or in none.
func (w *world) drawServers(list []ensemble.Server) []ensemble.Server {
	var voters, observers, spares []int // indexes in list, or of members
	for i := range list {
		if list[i].Observer {
			observers = append(observers, i)
		} else {
			voters = append(voters, i)
		}
	}
	for i, m := range w.members {
		there := slices.ContainsFunc(list, func(s ensemble.Server) bool { return s.ID == m.id })
		if !there && !w.group.has(m.id) && !m.retired && !m.wiped && (m.reserve || m.up) {
			spares = append(spares, i)
		}
	}
	switch n := w.rng.IntN(20); {
	case n < 6 && len(spares) > 0:
		list = append(list, serverLine(w.members[draw(w, spares)].id, w.chance(50)))
	case n < 8 && len(observers) > 0:
		list[draw(w, observers)].Observer = false
	case n < 10:
		list[draw(w, voters)].Observer = true
	case n < 15 && len(spares) > 0:
		list[draw(w, voters)] = serverLine(w.members[draw(w, spares)].id, false)
	case n < 18 || len(observers) == 0:
		i := draw(w, voters)
		list = slices.Delete(list, i, i+1)
	default:
		i := draw(w, observers)
		list = slices.Delete(list, i, i+1)
	}
	return list
}

// reconfigBody is the record of a request for a configuration: whole, or what is to be done to the present one, and
// now and then for another one than the present.
func (w *world) reconfigBody(next []ensemble.Server) []byte {
	present := &w.group.config
	var lines, joins, leaves []string
	for i := range next {
		line := fmt.Sprintf("server.%d=%s", next[i].ID, &next[i])
		lines = append(lines, line)
		if old, ok := present.Server(next[i].ID); !ok || old.Observer != next[i].Observer {
			joins = append(joins, line)
		}
	}
	for i := range present.Servers {
		id := present.Servers[i].ID
		if !slices.ContainsFunc(next, func(s ensemble.Server) bool { return s.ID == id }) {
			leaves = append(leaves, fmt.Sprint(id))
		}
	}
	r := jute.ReconfigRequest{CurConfigID: -1}
	switch n := w.rng.IntN(10); {
	case n < 3:
		r.CurConfigID = present.Version
	case n < 4:
		r.CurConfigID = present.Version + 1
	}
	if w.chance(40) {
		r.NewMembers = strings.Join(lines, ",")
		r.Nulls = 1<<0 | 1<<1
	} else {
		r.JoiningServers, r.LeavingServers = strings.Join(joins, ","), strings.Join(leaves, ",")
		r.Nulls = 1 << 2
	}
	return r.Append(nil)
}

// changeDirectly has the leader change the membership.
func (w *world) changeDirectly() {
	m, g := w.leader(), w.group
	if m == nil || len(g.changes) > 2 {
		return
	}
	c := &directChange{}
	spare := w.spare()
	switch n := w.rng.IntN(10); {
	case n < 4 && spare != nil:
		c.joins, c.learner = spare.id, w.chance(50)
	case n < 6 && len(g.learners) > 0 && len(g.voters) < 5:
		c.joins = draw(w, g.learners)
	case n < 8 && spare != nil:
		c.joins, c.leaves = spare.id, draw(w, g.voters)
	case len(g.voters) > w.profile.votersMin:
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
func (w *world) propose(m *member, c *directChange) {
	p := entry.Proposal{Op: jute.OpError, Xid: reconfigXid - jute.Xid(w.values), Time: m.time()}
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

// moveLeader has the leader transfer the leadership.
func (w *world) moveLeader() {
	m := w.leader()
	if m == nil {
		return
	}
	w.count(drawnMovedLeader)
	m.stepper.Transfer() // nobody waits for it
	w.trace.note(w.now, "moveLeader", m.id)
	m.want(partLoop)
}

// wipe crashes a member and empties its disk, if the others can do without.
func (w *world) wipe() {
	m := draw(w, w.members)
	if !w.mayLose(m) {
		return
	}
	status := m.stepper.Node().Status()
	// One of two voters that says it joins, as operators are told not to, waits to be taken in by those who wait for
	// it.
	m.joining = w.chance(50) && !(len(status.Voters) == 2 && slices.Contains(status.Voters, m.id))
	if len(status.Voters) > 0 { // else its file is what it was
		m.listed = nil
	}
	for _, id := range status.Voters {
		m.listed = append(m.listed, quorum.Member{ID: id})
	}
	for _, id := range status.Learners {
		m.listed = append(m.listed, quorum.Member{ID: id, Learner: true})
	}
	w.count(drawnLostDisk)
	if m.lost {
		w.count(drawnLostAgain)
	}
	w.trace.note(w.now, "wipe", m.id)
	w.trace.textf(w.now, "member %d loses its disk", m.id)
	m.keepIncarnation()
	m.crash(cleanCut)
	m.lost, m.wiped, m.held, m.data = true, true, nil, false
	m.disk = newDisk(m.disk.lies)
	w.later(w.between(10*time.Millisecond, time.Second), m.start)
}

// caughtUp tells whether a member takes part again.
func (m *member) caughtUp() bool {
	w := m.w
	leader := w.leader()
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
