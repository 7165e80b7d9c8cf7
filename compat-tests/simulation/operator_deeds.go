package simulation

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"zkd/compat-tests/faults"
	"zkd/jute"
	"zkd/server/sim"
)

// do does a deed, as docs/operations.md has it done.
func (o *operator) do(d *Deed) {
	switch d.What {
	case Join:
		o.join(d)
	case Leave:
		o.leave(d)
	case ChangeRole:
		o.changeRole(d)
	case Move:
		o.move(d)
	case MoveAll:
		o.moveAll(d)
	case Replace:
		o.replace(d)
	}
}

// oneOf decides by what was drawn for a deed: true in about one of n cases, n being 4 at most. nth, up to 4, tells the
// decisions of one deed apart.
func oneOf(n int, d *Deed, nth int) bool { return d.Much>>(2*nth)%n == 0 }

// find returns the server that a deed is about, or the next one, which is a member or not; 0: there is none.
func (o *operator) find(d *Deed, member bool) uint64 {
	from := d.Whom
	if from == Leader {
		from = slices.IndexFunc(o.g.w.Servers, func(s *sim.Server) bool { return o.g.mode(int(s.ID)-1) == "leader" })
	}
	all := len(o.g.w.Servers)
	for n := range all {
		id := o.g.w.Servers[(max(from, 0)+n)%all].ID
		if _, is := o.seatOf(id); is == member && (is || int(id) != o.g.missing()+1) { //nolint:gosec // small
			return id
		}
	}
	return 0
}

// join starts a server that is no member and adds it: most are participants. Some are added first.
func (o *operator) join(d *Deed) {
	id := o.find(d, false)
	if id == 0 {
		return
	}
	to := o.members()
	to[id] = seat{observer: oneOf(4, d, 0), peers: d.Much % places}
	// Of the new voters a majority must be reached, or it is refused: by one alone, and where another one is absent.
	all, there := o.count(to, id)
	if o.voters() > 1 && there > all/2 && oneOf(4, d, 1) {
		o.bring(to, false, oneOf(2, d, 2))
		o.launch(id, to, d)
		return
	}
	o.launch(id, to, d)
	o.pause(d.For)
	o.bring(to, false, oneOf(2, d, 2))
}

// launch starts a server that is to join. One that has run before comes with an empty disk, and as another one with its
// number: who was removed and ended before that was on its disk comes back as the member that it was, and nobody knows
// it (decision 32).
func (o *operator) launch(id uint64, members map[uint64]seat, d *Deed) {
	lines := o.lines(members)
	if o.g.plan.small() || oneOf(2, d, 3) { // with fewer members than joiners these might found another one
		lines = append(lines, "zkd.join=true")
	}
	s := o.server(id)
	o.awaitNoVote(s)
	o.machine(func() {
		s.Kill()
		s.LoseDisk()
		if s.Older() && (oneOf(2, d, 1) || !o.g.olderMember()) { // which the others would refuse by and by
			s.Install(false)
		}
		s.Configure(lines...)
		s.Come()
		s.Start()
	})
}

// awaitNoVote waits until a server that was removed, and not stopped for good, has no vote any more: a reconfig that
// was not answered may not be in force yet, and the version before answers sooner.
func (o *operator) awaitNoVote(s *sim.Server) {
	away := false
	o.machine(func() { away = s.Away() })
	if !away && (o.unknown || o.g.plan.Before) {
		o.awaitInForce()
	}
}

// awaitInForce waits until a change is in force: all members have their votes, and a session was opened thereafter.
// They have them before who leaves has lost its own, when the change is one of several; the entry that takes those away
// is before that of the session.
func (o *operator) awaitInForce() {
	o.awaitWhole()
	options := o.g.options(1005, o.g.w.Addrs())
	options.Stop = o.over
	for !o.done() {
		if s, err := faults.Open(options); err == nil {
			_, _ = s.Close() // it expires else
			return
		}
	}
}

// leave removes a member, and mostly stops it when the others can do without.
func (o *operator) leave(d *Deed) {
	id := o.find(d, true)
	to := o.members()
	if delete(to, id); id == 0 || !o.bears(to) {
		return
	}
	if o.g.plan.Before {
		o.machine(func() { o.g.versions.late = append(o.g.versions.late, o.server(id)) })
	}
	o.bring(to, false, oneOf(2, d, 0))
	o.pause(d.For)
	if !oneOf(3, d, 1) {
		o.stop(id)
	}
}

// stop stops a server that was removed, once those that are left have their votes.
func (o *operator) stop(id uint64) {
	s := o.server(id)
	o.awaitInForce()
	o.machine(s.Withdraw)
	end, stopped := time.Now().Add(stopsWithin), false
	for !o.done() && !stopped {
		o.machine(func() {
			if stopped = s.Stopped(); !stopped && time.Now().After(end) {
				if !o.g.mayNotStop(int(id) - 1) { //nolint:gosec // small
					o.g.violated("server %d, which was removed, does not stop", id)
				}
				s.Kill()
			}
		})
		o.pause(operatorPause)
	}
}

// changeRole makes an observer of a participant, or the other way.
func (o *operator) changeRole(d *Deed) {
	id := o.find(d, true)
	to := o.members()
	s, ok := to[id]
	s.observer = !s.observer
	if to[id] = s; !ok || !o.bears(to) {
		return
	}
	o.bring(to, false, oneOf(2, d, 0))
}

// move gives a member other ports for the others, for clients, or both.
func (o *operator) move(d *Deed) {
	id := o.find(d, true)
	to := o.members()
	s, ok := to[id]
	if !ok {
		return
	}
	to[id] = s.moved(d)
	o.bring(to, false, oneOf(2, d, 0))
}

// moved is a seat with other ports.
func (s seat) moved(d *Deed) seat {
	what := d.Much % 3
	if what != 0 {
		s.peers = (s.peers + 1) % places
	}
	if what != 1 {
		s.clients = (s.clients + 1) % places
	}
	return s
}

// moveAll gives all members other ports.
func (o *operator) moveAll(d *Deed) {
	to := o.members()
	for id, s := range to { // order: each for itself
		to[id] = s.moved(d)
	}
	o.bring(to, true, oneOf(2, d, 0))
}

// replace has a server that is no member take the place of one that is.
func (o *operator) replace(d *Deed) {
	joins, leaves := o.find(d, false), o.find(d, true)
	to := o.members()
	if joins == 0 || leaves == 0 {
		return
	}
	to[joins] = seat{observer: to[leaves].observer, clients: d.Much % places}
	o.launch(joins, to, d)
	o.pause(d.For)
	if delete(to, leaves); !o.bears(to) {
		return // it is there, and no member
	}
	o.bring(to, true, oneOf(2, d, 0))
	o.pause(d.For)
	if !oneOf(3, d, 1) {
		o.stop(leaves)
	}
}

// addVoter adds one.
func (o *operator) addVoter() {
	to := o.members()
	for _, id := range slices.Sorted(maps.Keys(to)) {
		if s := to[id]; s.observer {
			s.observer = false
			to[id] = s
			o.bring(to, false, false)
			return
		}
	}
	o.join(&Deed{What: Join, Much: 1})
}

// checkMembers sees to it that all members know the membership that the operator was told last, and that who is none
// serves nobody.
func (o *operator) checkMembers() {
	g := o.g
	want := fmt.Sprintf("%s, version %x", o.lines(o.members()), o.version)
	why := ""
	if !g.await(servesWithin, "all servers know the membership", func() bool {
		why = o.membership(want)
		return why == ""
	}) {
		g.violated("%s", why)
	}
}

// membership says which server knows another membership, or serves though it is no member.
func (o *operator) membership(want string) string {
	g := o.g
	for i, server := range g.w.Servers {
		for _, c := range g.clients {
			if err := c.Ping(); err != nil {
				return err.Error()
			}
		}
		if member, _ := g.belongs(i); !member {
			if g.serves(i) {
				return fmt.Sprintf("server %d serves clients, and is no member", server.ID)
			}
			continue
		}
		if !g.serves(i) && slices.Contains(g.plan.Settings, idleLeader) {
			continue
		}
		text, err := o.readConfig(i)
		if err != nil {
			return fmt.Sprintf("server %d: %v", server.ID, err)
		}
		seats, version, err := o.parseMembers(text)
		if err != nil {
			return fmt.Sprintf("server %d: %v", server.ID, err)
		}
		if now := fmt.Sprintf("%s, version %x", o.lines(seats), version); now != want {
			return fmt.Sprintf("server %d knows the members %s; the operator was told %s", server.ID, now, want)
		}
	}
	return ""
}

// readConfig reads what a server knows of the membership, where that says that clients are served.
func (o *operator) readConfig(i int) (string, error) {
	g := o.g
	server := g.w.Servers[i]
	at, _ := o.seatOf(server.ID)
	s, err := look(g.options(3000+i, server.Addrs()[at.clients:at.clients+1]))
	if err != nil {
		return "", err
	}
	reply, text, _, err := s.GetData(configPath, false)
	_, _ = s.Close() // it expires else
	if err == nil && reply.Err != jute.OK {
		err = fmt.Errorf("%v", reply.Err)
	}
	return text, err
}

// look opens a session with one server, and soon gives up: who begins to lead with leaderServes=no serves nobody, and
// is left out the next time (seed 98).
func look(o faults.SessionOptions) (*faults.Session, error) {
	stop := make(chan struct{})
	o.Stop = stop
	defer time.AfterFunc(servesWithin/8, func() { close(stop) }).Stop()
	return faults.Open(o)
}
