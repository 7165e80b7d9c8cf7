package faults

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/target"
)

func TestMain(m *testing.M) { os.Exit(target.Main(m, "faults")) }

// The shape of a round. The whole of a round's history is checked at once, so it is kept short.
const (
	roundTime     = 20 * time.Second
	rawClients    = 5
	goClients     = 2
	timeoutAsked  = 4 * time.Second
	timeoutStays  = 30 * time.Second // of a session that is not to expire, however slow the machine is
	tick          = 500 * time.Millisecond
	healedWithin  = 2 * time.Minute // for every client to have a write acknowledged after the faults
	diskBytes     = 512 << 20
	doneMin       = 50          // in a round
	rewatchWithin = time.Minute // for all servers to hold the same tree
)

// TestFaults runs rounds of faults for ZKD_FAULTS, one of 20 s by default. ZKD_FAULTS_SEED repeats a schedule. With
// ZKD_FAULTS_MIXED, servers also change their version, between this zkd and the one of before feature levels.
func TestFaults(t *testing.T) {
	seed, length := settings(t)
	old := ""
	if os.Getenv("ZKD_FAULTS_MIXED") != "" {
		old = target.PreviousZkd(t)
	}
	e, disks := start(t, old)
	began := time.Now()
	now := func() int64 { return int64(time.Since(began)) + 1 } // 0 means that a thing has not happened
	var last *round
	for n := 0; n == 0 || time.Since(began) < length; n++ {
		r := &round{
			t: t, e: e, n: n, seed: seed, now: now, history: NewHistory(), stop: make(chan struct{}),
			root: fmt.Sprintf("/round%d", n),
		}
		r.nemesis = NewNemesis(t, e, r.random(0), now, disks)
		if old != "" {
			r.nemesis.Mix(old)
		}
		if old == "" && target.Selected(t) == target.Zkd { // what others promise of the roles was not looked into
			r.cast()
		}
		r.run(func() { r.nemesis.Run(min(roundTime, max(length-time.Since(began), time.Second))) })
		if t.Failed() {
			return
		}
		last = r
	}
	last.clients = nil // their sessions are closed
	last.compare("/")
	if t.Failed() {
		last.report()
	}
}

// TestRollingRestart stops and starts each server in turn, the leader first and then the leader last, under load: no
// session is lost, no ephemeral goes, and no request fails but with its connection, where a client tries again.
func TestRollingRestart(t *testing.T) {
	seed, _ := settings(t)
	target.Require(t)
	e := ensemble.Start(t, ensemble.Options{})
	began := time.Now()
	now := func() int64 { return int64(time.Since(began)) + 1 }
	r := &round{
		t: t, e: e, seed: seed, now: now, history: NewHistory(), stop: make(chan struct{}), root: "/rolling",
		stay: true,
	}
	r.nemesis = NewNemesis(t, e, r.random(0), now, Disks{})
	r.run(func() {
		leader := e.AwaitLeader()
		r.nemesis.Restart(leader)
		r.awaitWrites()
		for _, s := range e.Servers {
			if s != e.AwaitLeader() {
				r.nemesis.Restart(s)
				r.awaitWrites()
			}
		}
		r.nemesis.Restart(e.AwaitLeader())
	})
	for _, path := range r.history.paths {
		if one := r.history.ephemerals[path]; one.Created == 0 || one.Expired != 0 {
			t.Errorf("a session did not last: %+v", *one)
		}
	}
	if len(r.history.paths) != rawClients {
		t.Errorf("%d sessions were opened, want %d", len(r.history.paths), rawClients)
	}
}

// settings reads the seed, of the clock by default, and how long the faults go on.
func settings(t *testing.T) (seed uint64, length time.Duration) {
	t.Helper()
	seed, length = uint64(time.Now().UnixNano()), roundTime
	var err error
	if text := os.Getenv("ZKD_FAULTS_SEED"); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("ZKD_FAULTS_SEED: %v", err)
		}
	}
	if text := os.Getenv("ZKD_FAULTS"); text != "" {
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatalf("ZKD_FAULTS: %v", err)
		}
	}
	return seed, length
}

// start starts three servers and an observer on the best network and disks that the machine allows. If old is given
// they are that zkd, and may go back to it.
func start(t *testing.T, old string) (e *ensemble.Ensemble, disks Disks) {
	t.Helper()
	o := ensemble.Options{
		Network: ensemble.Isolated, Observers: 1, DiskBytes: diskBytes, Config: map[string]string{
			"tickTime": fmt.Sprint(tick.Milliseconds()), "initLimit": "20", "syncLimit": "4",
			"extendedTypesEnabled": "true", "znode.container.checkIntervalMs": "500", "enforceQuota": "true",
		},
	}
	target.Require(t)
	if err := ensemble.Isolable(); os.Getenv("ZKD_FAULTS_PROXIED") != "" {
		o.Network = ensemble.Proxied
	} else if err != nil {
		target.LeavePartOut(t, fmt.Sprintf("lines are cut by proxies, not in network namespaces: %v", err))
		o.Network = ensemble.Proxied
	}
	// Proxies stand before addresses that stay, and ZooKeeper is lost by moves that come one after the other.
	o.Dynamic = o.Network == ensemble.Isolated && target.Selected(t) == target.Zkd
	if err := ensemble.Mountable(t); err != nil {
		target.LeavePartOut(t, fmt.Sprintf("no disk is filled: %v", err))
		o.DiskBytes = 0
	}
	if err := ensemble.Hangable(t); err != nil {
		target.LeavePartOut(t, fmt.Sprintf("no disk hangs: %v", err))
	} else {
		o.CanHang = true
	}
	disks = Disks{Fill: o.DiskBytes > 0, Hang: o.CanHang, Lose: true}
	if target.Selected(t) == target.Zookeeper {
		// It does not start again after it: "Unreasonable length" at the end of its log, where the disk was full.
		// And whose disk is empty votes with those that lack the newest writes.
		t.Log("no disk is filled or emptied: ZooKeeper does not survive that")
		disks.Fill, disks.Lose = false, false
	}
	if old != "" {
		o.Config[levelLimit] = "1"
	}
	e = ensemble.Prepare(t, o)
	for _, s := range e.Servers {
		s.Binary = old
	}
	e.StartAll()
	return e, disks
}

// round is one round of faults and its checks.
type round struct {
	t       *testing.T
	e       *ensemble.Ensemble
	n       int
	seed    uint64
	now     func() int64
	root    string
	history *History
	nemesis *Nemesis
	stay    bool // clients keep their sessions
	stop    chan struct{}
	clients []*Client
	roles   []Role
	passed  bool
}

// roleClients is how many clients of each role a round has.
const roleClients = 2

// cast gives the round clients of all roles.
func (r *round) cast() {
	for _, name := range RoleNames() {
		r.roles = append(r.roles, NewRole(name, RoleOptions{Root: r.root, Clients: roleClients, History: r.history}))
	}
}

// random returns the source of part i of the round: 0 is the nemesis, then the clients.
func (r *round) random(i int) *rand.Rand { return rand.New(rand.NewPCG(r.seed+uint64(r.n), uint64(i))) }

func (r *round) options(i int, addrs []string, stop <-chan struct{}) SessionOptions {
	timeout := timeoutAsked
	if r.stay {
		timeout = timeoutStays
	}
	return SessionOptions{
		Addrs: addrs, Timeout: timeout, Rand: r.random(i), Now: r.now, Violated: r.history.Violated, Stop: stop,
	}
}

// run lets clients work while harm is done, and checks what they saw.
func (r *round) run(harm func()) {
	r.t.Cleanup(func() { // however it ends
		if r.t.Failed() && !r.passed {
			r.report()
		}
	})
	admin := r.open(r.e.Addrs())
	if err := Plant(admin, r.root); err != nil {
		r.t.Fatal(err)
	}
	for _, role := range r.roles {
		if err := role.Plant(admin); err != nil {
			r.t.Fatal(err)
		}
	}
	_, _ = admin.Close() // it expires by itself else
	var wg sync.WaitGroup
	for i, role := range r.roles {
		for id := range roleClients {
			o := r.options(2000+roleClients*i+id, r.e.Addrs(), r.stop)
			wg.Go(func() { role.Run(id, 20*time.Millisecond, o) })
		}
	}
	for i := 1; i <= rawClients; i++ {
		c := NewClient(i, r.root, r.history, r.options(i, r.e.Addrs(), r.stop))
		c.Stays = r.stay
		r.clients = append(r.clients, c)
		wg.Go(c.Run)
	}
	for i := rawClients + 1; i <= rawClients+goClients; i++ {
		wg.Go(func() { RunGoZookeeper(i, r.root, r.history, 20*time.Millisecond, r.options(i, r.e.Addrs(), r.stop)) })
	}
	func() {
		defer wg.Wait() // whatever has failed
		defer close(r.stop)
		r.awaitWrites()
		harm()
		r.awaitWrites()
	}()
	r.finish()
	r.check()
	done, refused, unknown := r.history.Counts()
	if done < doneMin && !r.stay { // who stays waits for writes of all clients between the restarts
		r.t.Errorf("only %d operations were done: too few to show anything", done)
	}
	r.t.Logf("round %d, seed %d: %d operations done, %d refused, %d unknown\n%s",
		r.n, r.seed+uint64(r.n), done, refused, unknown, r.nemesis.Schedule())
	r.passed = !r.t.Failed()
}

// open opens a session of the checks' own.
func (r *round) open(addrs []string) *Session {
	r.t.Helper()
	o := r.options(1000, addrs, r.t.Context().Done())
	for _, role := range r.roles {
		o.Identities = append(o.Identities, role.Identities()...)
	}
	s, err := Open(o)
	if err != nil {
		r.t.Fatalf("no session on %v: %v", addrs, err)
	}
	return s
}

// awaitWrites returns once every client has had a write acknowledged that began after now, when all servers serve.
func (r *round) awaitWrites() {
	r.t.Helper()
	began := r.now()
	if why := ensemble.Await(healedWithin, func() (bool, string) {
		for _, c := range r.clients {
			if c.LastAck.Load() < began {
				return false, fmt.Sprintf("client %d has no write acknowledged", c.id)
			}
		}
		return true, ""
	}); why != "" {
		r.t.Errorf("%v after all servers serve: %s", healedWithin, why)
	}
}

// finish looks at what is left on each server while the clients are quiet.
func (r *round) finish() {
	for _, c := range r.clients {
		if err := c.Finish(); err != nil {
			r.t.Error(err)
		}
	}
	r.settle()
	trees := r.compare(r.root)
	for _, role := range r.roles {
		role.Check(trees)
	}
	for _, c := range r.clients {
		if err := c.Touch(); err != nil {
			r.t.Error(err)
		}
		c.End()
	}
	s := r.open(r.e.Addrs())
	defer s.Close() //nolint:errcheck // it expires by itself else
	why := ensemble.Await(timeoutStays+expirySlack, func() (bool, string) {
		_, names, _, err := s.Children(ephemeralPath(r.root), false)
		if err != nil {
			err = s.Connect()
		}
		return err == nil && len(names) == 0, fmt.Sprintf("ephemerals without sessions are left: %v, %v", names, err)
	})
	if why != "" {
		r.t.Error(why)
	}
}

// settle waits until what ends by itself has ended.
func (r *round) settle() {
	s := r.open(r.e.Addrs())
	defer s.Close() //nolint:errcheck // it expires by itself else
	for _, role := range r.roles {
		if why := ensemble.Await(expirySlack, func() (bool, string) {
			r.ping()
			why, err := role.Unsettled(s)
			if err != nil {
				err = s.Connect()
			}
			return why == "" && err == nil, fmt.Sprintf("%s, %v", why, err)
		}); why != "" {
			r.t.Error(why)
		}
	}
}

// ping keeps the sessions of the clients alive.
func (r *round) ping() {
	for _, c := range r.clients {
		if err := c.Ping(); err != nil {
			r.t.Error(err)
		}
	}
}

// compare holds the trees of the servers below root against each other, and against what was acknowledged.
func (r *round) compare(root string) (trees []Tree) {
	why := ensemble.Await(rewatchWithin, func() (bool, string) { // sessions expire meanwhile
		trees = trees[:0]
		for _, server := range r.e.Servers {
			r.ping()
			tree, err := r.tree(server, root)
			if err != nil {
				return false, err.Error()
			}
			trees = append(trees, tree)
			if differences := CompareTrees(trees[0], tree); len(differences) > 0 {
				return false, fmt.Sprintf("servers 1 and %d differ:\n%s", server.ID, strings.Join(differences, "\n"))
			}
		}
		return true, ""
	})
	if why != "" {
		r.t.Error(why)
	}
	for _, tree := range trees {
		r.history.CheckKept(tree)
	}
	return trees
}

// tree reads the tree of one server, and notes what it tells of registers and ephemerals.
func (r *round) tree(server *ensemble.Server, root string) (Tree, error) {
	s := r.open([]string{server.Addr})
	defer s.Close() //nolint:errcheck // it expires by itself else
	return r.history.ReadServer(s, server.ID, root, r.root)
}

// check runs all checks on the history.
func (r *round) check() {
	h := r.history
	h.Check(tick, r.syncViolated, r.keep)
	for _, violation := range h.Violations() {
		r.t.Error(violation)
	}
}

// syncViolated notes that a sync and read was not linearizable. ZooKeeper does not promise that it is: its leader
// answers a sync without asking whether it still leads (LeaderRequestProcessor, Leader.processSync). zkd does.
func (r *round) syncViolated(format string, args ...any) {
	if r.e.Servers[0].Kind == target.Zookeeper {
		r.t.Logf("as ZooKeeper may: with sync, "+format, args...)
		return
	}
	r.history.Violated("with sync, "+format, args...)
}

// keep writes the picture of what has no order.
func (r *round) keep(info porcupine.LinearizationInfo) {
	file := filepath.Join(r.folder(), fmt.Sprintf("round%d-%d.html", r.n, r.now()))
	if err := porcupine.VisualizePath(model, info, file); err != nil {
		r.t.Log(err)
	}
}

// folder is where what explains a failure is kept.
func (r *round) folder() string {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("zkd-faults-%d", r.seed))
	if err := os.MkdirAll(dir, 0o750); err != nil {
		r.t.Log(err)
	}
	return dir
}

// report prints what repeats the round, and keeps the logs and the history.
func (r *round) report() {
	dir := r.folder()
	for _, s := range r.e.Servers {
		text, err := os.ReadFile(s.LogPath())
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("server%d.log", s.ID)), text, 0o600)
		}
		if err != nil {
			r.t.Log(err)
		}
	}
	var all strings.Builder
	for _, op := range r.history.ops {
		fmt.Fprintln(&all, op)
	}
	if err := os.WriteFile(filepath.Join(dir, "history.txt"), []byte(all.String()), 0o600); err != nil {
		r.t.Log(err)
	}
	r.t.Logf("round %d failed; its schedule comes back with ZKD_FAULTS_SEED=%d; logs and history are in %s\n%s",
		r.n, r.seed+uint64(r.n), dir, r.nemesis.Schedule())
}
