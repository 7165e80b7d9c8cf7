package simulation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"zkd/compat-tests/faults"
	"zkd/server/sim"
	"zkd/server/sim/network"
)

// Bounds, in simulated time.
const (
	servesWithin = 60 * time.Second // for an ensemble without faults, or with one that it must bear, to take writes
	endsWithin   = 90 * time.Second // for the ephemerals of sessions that are closed or forgotten to go
	againAfter   = time.Second      // a service manager starts what has ended
	stopsWithin  = 45 * time.Second // for a server that was asked to stop
)

// sessionShows is how often within its timeout a session shows that it is there.
const sessionShows = 4

// rolesFrom is the number of the first client of the first role; those of the others follow at the same distance.
const rolesFrom = 10000

// root is the znode below which the clients work.
const root = "/r"

// Outcome is what came of a run.
type Outcome struct {
	Hash                   uint64 // of its story: equal runs have equal ones
	Violations             []string
	Done, Refused, Unknown int // requests
	Deeds                  map[Kind]int
	Met                    Met
	Watched                int // times that it was looked at what grows while a fault stays
	Applied                applied
	Roles                  map[string]int // requests that clients of each role had done
	Simulated              time.Duration
	Threads                int           // of the process: one more would move all that is in memory
	CPU                    time.Duration `json:"-"` // that the process took
	Story                  string        `json:"-"` // up to where its process died, with what that has said
}

// play is one run.
type play struct {
	plan      *Plan
	w         *sim.World
	began     time.Time
	history   *faults.History
	random    *rand.Rand
	clients   []*faults.Client
	roles     []faults.Role
	stop      chan struct{}
	machine   *network.Process  // of the operator
	later     []undo            // in the order of their times
	harmed    map[int]time.Time // until when a server may end by itself
	filled    map[int]time.Time // likewise, for its disk is full
	stopping  *sim.Server       // was asked to
	rotten    bool              // a disk has rotted, and is not replaced yet
	done      map[Kind]int
	moment    *moment
	met       Met
	watched   int         // times that it was looked at what grows
	operator  *operator   // nil: nobody changes the membership
	calm      atomic.Bool // clients do as little as their sessions need
	importing *importing  // nil: the ensemble begins empty
	versions  versions    // what the operator knows of those of servers
}

// undo is what ends a deed.
type undo struct {
	at time.Time
	do func()
}

// Play plays a plan, and writes its story as it goes. It is called inside a bubble of testing/synctest.
func Play(p *Plan, story io.Writer) Outcome {
	g := &play{plan: p, history: faults.NewHistory(), stop: make(chan struct{}), began: time.Now(),
		done: map[Kind]int{}, moment: newMoment(), met: Met{},
		harmed: map[int]time.Time{}, filled: map[int]time.Time{},
		random: rand.New(rand.NewPCG(p.Seed, 0))} //nolint:gosec // a run must repeat
	o := sim.Options{Random: g.random, Participants: p.Participants, Observers: p.Observers,
		LogLevel: slog.LevelInfo, Least: p.Least, Most: p.Most, Sync: p.Sync, DiskBytes: p.DiskBytes,
		Settings: p.Settings, FromZero: p.FromZero, Spares: p.Spares, Places: 1, Told: story}
	if p.Spares > 0 {
		o.Places = places
	}
	if p.Spares > 0 || p.Import != nil {
		o.Settings = append(slices.Clone(p.Settings), superSetting)
	}
	if p.Import != nil && !p.Import.Outside {
		o.Settings = append(o.Settings, importSetting)
	}
	if len(p.Admin) > 0 {
		o.Settings = slices.Concat(o.Settings, adminSettings)
	}
	g.w = sim.New(o)
	if p.Spares > 0 {
		g.operator = newOperator(g)
	}
	g.machine = g.w.Client()
	applied := watchCosts(p, g.violated)
	g.beginBefore()
	if p.Import != nil {
		g.importing = &importing{Import: p.Import, g: g}
		g.importing.first()
	} else {
		g.firstStarts()
	}
	locks := watchLocks(g.began)
	if !g.failed() {
		g.run()
	}
	locks(g.violated)
	g.w.Close()
	checkNumbers(g)
	out := Outcome{Violations: g.history.Violations(), Deeds: g.done, Met: g.met, Watched: g.watched,
		Applied: *applied, Roles: g.history.Roles(), Simulated: time.Since(g.began)}
	out.Done, out.Refused, out.Unknown = g.history.Counts()
	for _, v := range out.Violations {
		g.w.Story.Tell("", "VIOLATION: %s", v)
	}
	g.w.Story.Tell("", "%d requests done, %d refused, %d unknown", out.Done, out.Refused, out.Unknown)
	out.Hash = g.w.Story.Hash()
	return out
}

// violated notes what must not be.
func (g *play) violated(format string, args ...any) { g.history.Violated(format, args...) }

// failed tells whether a violation was found.
func (g *play) failed() bool { return len(g.history.Violations()) > 0 }

// now is the clock of the histories.
func (g *play) now() int64 { return int64(time.Since(g.began)) + 1 }

// options are those of a client's sessions, on a machine of its own.
func (g *play) options(i int, addrs []string) faults.SessionOptions {
	machine := g.w.Client()
	return faults.SessionOptions{Addrs: addrs, Timeout: g.plan.Timeout, Now: g.now, Violated: g.violated, Stop: g.stop,
		Rests: g.rests(),
		Rand:  rand.New(rand.NewPCG(g.plan.Seed, uint64(i))), //nolint:gosec // a run must repeat
		Dial:  func(ctx context.Context, _, addr string) (net.Conn, error) { return machine.Dial(ctx, addr, false) }}
}

// rests returns what tells one client whether it leaves a step out.
func (g *play) rests() func() bool {
	last, pause := time.Now(), min(g.plan.Timeout/calmShows, calmPace)
	return func() bool {
		if g.calm.Load() && time.Since(last) < pause {
			return true
		}
		last = time.Now()
		return false
	}
}

// run is the course of a run: clients work, deeds are done, all is mended, and what is left is looked at.
func (g *play) run() {
	operator, err := faults.Open(g.options(1000, g.w.Addrs()))
	if err == nil {
		err = faults.Plant(operator, root)
	}
	skew := time.Duration(0)
	if g.plan.skews() {
		skew = 2 * skewMost
	}
	for _, c := range g.plan.Roles {
		role := faults.NewRole(c.Role, faults.RoleOptions{Root: root, Clients: c.Clients, History: g.history,
			Skew: skew, Values: c.Values})
		g.roles = append(g.roles, role)
		if err == nil {
			err = role.Plant(operator)
		}
	}
	if err != nil {
		g.violated("no server takes writes at the start: %v", err)
		return
	}
	_, _ = operator.Close() // it expires else
	var working sync.WaitGroup
	for i := range g.plan.Clients {
		c := faults.NewClient(i+1, root, g.history, g.options(i+1, g.w.Addrs()))
		c.Pace = g.plan.Pace
		g.clients = append(g.clients, c)
		working.Go(c.Run)
	}
	for i := range g.plan.GoClients {
		id := g.plan.Clients + i + 1
		o := g.options(id, g.w.Addrs())
		working.Go(func() { faults.RunGoZookeeper(id, root, g.history, g.plan.Pace, o) })
	}
	for i, role := range g.roles {
		for id := range g.plan.Roles[i].Clients {
			o := g.options(rolesFrom*(i+1)+id, g.w.Addrs())
			working.Go(func() { role.Run(id, g.plan.Pace, o) })
		}
	}
	if g.operator != nil {
		working.Go(g.operator.run)
	}
	for i := range g.plan.Admin {
		g.done[g.plan.Admin[i].What]++
	}
	asker := &asker{g: g}
	working.Go(asker.run)
	g.plague()
	g.awaitWrites()
	close(g.stop)
	if g.operator != nil {
		close(g.operator.over)
	}
	working.Wait()
	g.stop = make(chan struct{})
	if g.failed() {
		return
	}
	g.finish(asker)
	g.checkLevels()
	g.history.Check(g.plan.Tick, func(format string, args ...any) { g.violated("with sync, "+format, args...) },
		func(porcupine.LinearizationInfo) {})
}

// plague does the deeds and undoes them, and returns when all is mended.
func (g *play) plague() {
	start := time.Now()
	for i := range g.plan.Deeds {
		d := &g.plan.Deeds[i]
		g.sleepUntil(start.Add(d.At))
		g.do(d)
	}
	g.sleepUntil(start.Add(g.plan.Length))
	g.mend()
	if g.operator != nil {
		g.operator.finish()
		g.await(changesWithin, "the operator's changes are done", g.operator.hasEnded)
	}
	g.upgrade()
	if g.plan.Stays != nil && !g.failed() {
		g.stay(*g.plan.Stays)
		g.mend()
	}
}

// stay does a deed that is not undone, and sees to it that writes go on, and that nothing grows.
func (g *play) stay(d Deed) {
	if d.What != Absent {
		g.await(servesWithin, "all servers serve, and vote", g.whole)
		d.For, d.Whom = time.Hour, g.whom(d.Whom)
		g.do(&d)
		g.sleepUntil(time.Now().Add(g.plan.Timeout))
	}
	g.awaitWrites()
	g.linger(d.Whom, g.plan.Linger)
	if g.plan.Linger > 0 {
		g.awaitWrites()
	}
	if d.What == Absent {
		g.come(d.Whom)
	}
}

// come ends an absence. Where the others are by now, the operator has written into its files if it is a member.
func (g *play) come(i int) {
	s := g.w.Servers[i]
	if member, _ := g.belongs(i); member && g.operator != nil {
		s.Configure(g.operator.lines(g.operator.members())...)
	}
	s.Come()
}

// sleepUntil lets time pass, and undoes what is due meanwhile.
func (g *play) sleepUntil(at time.Time) {
	for {
		g.again()
		next := at
		if len(g.later) > 0 && g.later[0].at.Before(next) {
			next = g.later[0].at
		}
		if step := time.Now().Add(g.step()); step.Before(next) {
			next = step
		}
		time.Sleep(time.Until(next))
		for len(g.later) > 0 && !g.later[0].at.After(time.Now()) {
			g.undoNext()
		}
		if !next.Before(at) {
			return
		}
	}
}

// step is how long nobody looks for what is to be done.
func (g *play) step() time.Duration {
	if g.operator == nil || g.operator.hasEnded() {
		return againAfter
	}
	return errandsEvery
}

// again starts servers that have ended by themselves, which only one may whose disk has failed.
func (g *play) again() {
	if g.operator != nil {
		g.operator.runErrands()
	}
	g.upgradeRefused()
	for i, s := range g.w.Servers {
		if s != g.stopping && s.Ended() {
			if !s.Away() && !g.upgradeLate(i) && !g.mayEnd(i) {
				g.violated("server %d has ended by itself", s.ID)
			}
			s.Start()
		}
	}
}

// after has a deed undone.
func (g *play) after(d time.Duration, do func()) {
	u := undo{time.Now().Add(d), do}
	i := 0
	for i < len(g.later) && !g.later[i].at.After(u.at) {
		i++
	}
	g.later = append(g.later[:i], append([]undo{u}, g.later[i:]...)...)
}

// undoNext undoes what is the next to be undone.
func (g *play) undoNext() {
	due := g.later[0]
	g.later = g.later[1:]
	due.do()
}

// mend undoes all that was done.
func (g *play) mend() {
	g.w.Story.Tell("", "-- all is mended")
	for len(g.later) > 0 {
		g.undoNext()
	}
	for _, s := range g.w.Servers {
		s.Start() // unless it runs
	}
}

// awaitWrites returns once every client has had a write acknowledged that began after now.
func (g *play) awaitWrites() {
	began := g.now()
	g.await(servesWithin, "a client has no write acknowledged", func() bool {
		for _, c := range g.clients {
			if c.LastAck.Load() < began {
				return false
			}
		}
		return true
	})
}

// await waits until a condition holds.
func (g *play) await(within time.Duration, what string, holds func() bool) bool {
	for end := time.Now().Add(within); time.Now().Before(end); {
		if g.failed() {
			return false
		}
		if holds() {
			return true
		}
		g.sleepUntil(time.Now().Add(100 * time.Millisecond))
	}
	g.violated("not within %v: %s", within, what)
	return false
}

// finish looks at what is left on each server while the clients are quiet.
func (g *play) finish(a *asker) {
	for _, c := range g.clients {
		if err := c.Finish(); err != nil {
			g.violated("%v", err)
		}
	}
	if !g.settle() {
		return
	}
	var trees []faults.Tree
	var why string
	if !g.await(servesWithin, "all servers hold the same", func() bool {
		trees, why = g.trees()
		return why == ""
	}) {
		g.violated("%s", why)
	}
	for _, tree := range trees {
		g.history.CheckKept(tree)
		checkDates(tree, g.violated)
	}
	for _, role := range g.roles {
		role.Check(trees)
	}
	if g.operator != nil {
		g.operator.checkMembers()
	}
	for _, c := range g.clients {
		if err := c.Touch(); err != nil {
			g.violated("%v", err)
		}
		c.End()
	}
	g.clients = nil
	s, err := faults.Open(g.options(1001, g.w.Addrs()))
	if err != nil {
		g.violated("no server takes a session at the end: %v", err)
		return
	}
	g.await(endsWithin, "the ephemerals of sessions that are over go", func() bool {
		_, names, _, err := s.Children(faults.Ephemerals(root), false)
		if err != nil {
			err = s.Connect()
		}
		return err == nil && len(names) == 0
	})
	if g.importing != nil {
		g.importing.check()
	}
	for i := range g.plan.Admin {
		if d := &g.plan.Admin[i]; d.What == Restore && !g.failed() {
			a.restore(d)
		}
	}
	_, _ = s.Close() // it expires else
	g.sleepUntil(time.Now().Add(g.plan.Rest))
	g.again()
	g.rested()
}

// settle waits until what ends by itself has ended, and reports whether it has.
func (g *play) settle() bool {
	o := g.reader(1002, g.w.Addrs())
	s, err := faults.Open(o)
	if err != nil {
		g.violated("no server takes a session at the end: %v", err)
		return false
	}
	defer func() { _, _ = s.Close() }() // it expires else
	for i, role := range g.roles {
		var why string
		if !g.await(endsWithin, "what ends by itself has ended: "+g.plan.Roles[i].Role, func() bool {
			for _, c := range g.clients {
				if err := c.Ping(); err != nil {
					g.violated("%v", err)
				}
			}
			if why, err = role.Unsettled(s); err != nil {
				err = s.Connect()
			}
			if errors.Is(err, faults.ErrExpired) { // the clients may have tried servers for long that are away
				s, err = faults.Open(o)
			}
			return err == nil && why == ""
		}) {
			g.violated("%s, %v", why, err)
			return false
		}
	}
	return true
}

// reader is like options, for a session that may read all.
func (g *play) reader(i int, addrs []string) faults.SessionOptions {
	o := g.options(i, addrs)
	for _, role := range g.roles {
		o.Identities = append(o.Identities, role.Identities()...)
	}
	return o
}

// trees reads the trees of all servers, and says in what they differ, "" if in nothing.
func (g *play) trees() (trees []faults.Tree, why string) {
	defer func(alive func() error) { // one tree takes longer to read than a session lasts, at times
		if err := alive(); err != nil && why == "" {
			why = err.Error()
		}
	}(g.keepAlive())
	for i, server := range g.w.Servers {
		if member, _ := g.belongs(i); !member || g.leadsIdle(i) {
			continue
		}
		if !g.serves(i) {
			return nil, fmt.Sprintf("server %d does not serve clients", server.ID)
		}
		s, err := look(g.reader(2000+i, server.Addrs()))
		if err != nil {
			return nil, fmt.Sprintf("no session on server %d: %v", server.ID, err)
		}
		tree, err := g.history.ReadServer(s, int(server.ID), root, root) //nolint:gosec // small
		_, _ = s.Close()                                                 // it expires else
		if err != nil {
			return nil, err.Error()
		}
		trees = append(trees, tree)
		if differences := faults.CompareTrees(trees[0], tree); len(differences) > 0 {
			return nil, fmt.Sprintf("server %d differs:\n%s", server.ID, strings.Join(differences, "\n"))
		}
	}
	return trees, ""
}

// keepAlive has the clients, who are quiet, show that they are there until end is called, which tells what came of it.
func (g *play) keepAlive() (end func() error) {
	over, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			for _, c := range g.clients {
				if err := c.Ping(); err != nil {
					failed <- err
					return
				}
			}
			select {
			case <-time.After(g.plan.Timeout / sessionShows):
			case <-over:
				failed <- nil
				return
			}
		}
	}()
	return func() error { close(over); return <-failed }
}

// mode is how a server takes part, as it says in one of its places; "" if it does not say.
func (g *play) mode(i int) string {
	_, mode, _ := strings.Cut(g.ask(i, "srvr"), "Mode: ")
	mode, _, _ = strings.Cut(mode, "\n")
	return mode
}

// whole tells whether all servers serve, with their votes: who was emptied is admitted again.
func (g *play) whole() bool { return g.wholeBut(-1) }

// wholeBut tells whether all servers do but one.
func (g *play) wholeBut(missing int) bool {
	idle := 0
	for i := range g.w.Servers {
		member, votes := g.belongs(i)
		switch mode := g.mode(i); {
		case !member, i == missing:
		case mode == "standalone", votes && (mode == "leader" || mode == "follower"), !votes && mode == "observer":
		case g.leadsIdle(i):
			idle++
		default:
			return false
		}
	}
	return idle <= 1
}

// leadsIdle tells whether a server leads, and therefore serves nobody. From outside it looks like one that has no vote
// yet, or no leader: its log tells them apart.
func (g *play) leadsIdle(i int) bool {
	return slices.Contains(g.plan.Settings, idleLeader) &&
		attribute(g.w.Servers[i].LastLogged("raft role changed"), "role") == "leader"
}

// serves tells whether a server serves clients.
func (g *play) serves(i int) bool {
	switch g.mode(i) {
	case "leader", "follower", "observer", "standalone":
		return true
	}
	return false
}

// leader is the index of the server that leads, or that of any.
func (g *play) leader() int {
	for i, s := range g.w.Servers {
		if s.Up() && g.mode(i) == "leader" {
			return i
		}
	}
	return g.random.IntN(len(g.w.Servers))
}
