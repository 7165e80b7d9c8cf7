package ensemble_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/faults"
	"zkd/compat-tests/target"
	"zkd/jute"
)

// TestMoveAll is org.apache.zookeeper.server.quorum.ReconfigTest.testBulkReconfig with two participants that are down:
// of seven servers three are stopped, and one reconfig gives servers 1 to 5 other ports for each other and takes the
// rest out. Those that run go on, also without the observers; who was down comes back with the files of before.
func TestMoveAll(t *testing.T) {
	e := ensemble.Start(t, ensemble.Options{Servers: 7, Dynamic: true, Config: quick})
	admin := newAdmin(t, e)
	admin.write()
	for _, id := range []int{3, 6, 7} {
		e.Servers[id-1].Stop()
	}
	e.AwaitLeader()
	admin.write() // on one of the others, if it was on one of these
	var lines []string
	for _, s := range e.Servers[:5] {
		s.Move()
		role := "participant"
		if s.ID > 3 {
			role = "observer"
		}
		lines = append(lines, s.Member(role))
	}
	config := admin.reconfigTo(lines...)
	for _, line := range lines {
		if !strings.Contains(config, line+"\n") {
			t.Errorf("%s is not in the configuration:\n%s", line, config)
		}
	}
	admin.write()
	running := []*ensemble.Server{e.Servers[0], e.Servers[1], e.Servers[3], e.Servers[4]}
	e.AwaitServing(running...)
	e.Servers[4].Stop()
	e.Servers[3].Stop()
	admin.write()
	if e.Servers[0].Kind != target.Zkd {
		return // ZooKeeper's servers of before do not find the others
	}
	back := e.Servers[2]
	back.Launch()
	e.AwaitServing(back)
	e.Servers[3].Launch()
	e.AwaitServing(e.Servers[3])
	admin.write()
}

// TestMoveOne moves the port for servers of a follower, then of the leader, then all three under load, and starts all
// again: nothing acknowledged is lost, and the former ports are closed when all have moved.
func TestMoveOne(t *testing.T) {
	e := ensemble.Start(t, ensemble.Options{Dynamic: true, Config: quick, Observers: 1})
	admin := newAdmin(t, e)
	load := startLoad(t, e)
	for _, s := range []*ensemble.Server{e.Followers()[0], e.AwaitLeader(), e.Servers[3]} {
		before := s.Address
		s.Move()
		admin.reconfig(s.Member(role(s)), "")
		load.goesOn()
		awaitClosed(t, before)
	}
	former := e.Addresses()
	admin.reconfigTo(moveAll(e)...)
	load.goesOn()
	for _, before := range former {
		awaitClosed(t, before)
	}
	load.goesOn()
	for _, s := range e.Servers {
		s.Kill9()
	}
	e.StartAll()
	load.goesOn()
	load.check()
}

// role is what a server is started as.
func role(s *ensemble.Server) string {
	if s.Observer {
		return "observer"
	}
	return "participant"
}

// moveAll gives all servers other ports for each other, and returns the lines of that configuration.
func moveAll(e *ensemble.Ensemble) (lines []string) {
	for _, s := range e.Servers {
		s.Move()
		lines = append(lines, s.Member(role(s)))
	}
	return lines
}

// startMovable starts three servers whose members may change. Apache ZooKeeper's are left out, because of why.
func startMovable(t *testing.T, why string) (*ensemble.Ensemble, *admin) {
	t.Helper()
	if target.Selected(t) != target.Zkd {
		t.Skip(why)
	}
	e := ensemble.Start(t, ensemble.Options{Dynamic: true, Config: quick})
	return e, newAdmin(t, e)
}

// proposals is how many reconfigs the servers have proposed.
func proposals(e *ensemble.Ensemble) (n int) {
	for _, s := range e.Servers {
		n += strings.Count(s.Log(), "proposing a reconfig")
	}
	return n
}

// TestMoveAndKill kills all servers as soon as a move of all is on its way: they find each other again, wherever they
// were then.
func TestMoveAndKill(t *testing.T) {
	e, admin := startMovable(t, "it is this server's")
	load := startLoad(t, e)
	for round := range 4 {
		lines, before := moveAll(e), proposals(e)
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			_, _, _ = admin.s.ReconfigTo(strings.Join(lines, ",")) // taken or not
		}()
		if round%2 == 0 {
			if why := ensemble.Await(quickWithin, func() (bool, string) {
				select {
				case <-sent: // it may have been refused
					return true, ""
				default:
					return proposals(e) > before, "no reconfig is proposed"
				}
			}); why != "" {
				t.Error(why)
			}
		} else {
			<-sent
		}
		for _, s := range e.Servers {
			s.Kill9()
		}
		<-sent
		e.StartAll()
		load.goesOn()
		admin.write()
	}
	load.check()
}

// TestMoveToWhereNobodyListens moves to ports that others have. With too few servers left it is refused, and all go on
// as before; if one cannot, it goes on at its former address, and moves when the port is free.
func TestMoveToWhereNobodyListens(t *testing.T) {
	e, admin := startMovable(t, "ZooKeeper takes it, and is lost")
	before := e.Lines("participant", e.Servers...)
	var taken []net.Listener
	for _, s := range e.Servers[:2] {
		host, port, _ := strings.Cut(s.Move(), ":")
		port, _, _ = strings.Cut(port, ":")
		l, err := net.Listen("tcp", net.JoinHostPort(host, port))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() //nolint:errcheck // the test is over
		taken = append(taken, l)
	}
	two := []string{e.Servers[0].Member("participant"), e.Servers[1].Member("participant"), before[2]}
	admin.refused(two...)
	admin.write()
	e.AwaitServing(e.Servers...)
	admin.reconfigTo(before[0], two[1], before[2])
	admin.write()
	third := e.Servers[2]
	third.Kill9()
	third.Launch() // where server 2 is yet, it can know from that alone
	e.AwaitServing(e.Servers...)
	second := e.Servers[1]
	if err := taken[1].Close(); err != nil {
		t.Fatal(err)
	}
	awaitPeers(t, second)
	e.AwaitServing(e.Servers...)
	admin.write()
}

// TestMoveToWhereNobodyHears moves each server to a port of its own loopback: each can listen there, none reaches
// another. It is refused.
func TestMoveToWhereNobodyHears(t *testing.T) {
	if err := ensemble.Isolable(); err != nil {
		target.LeaveOut(t, err.Error())
	}
	e := ensemble.Start(t, ensemble.Options{Dynamic: true, Config: quick, Network: ensemble.Isolated})
	if e.Servers[0].Kind != target.Zkd {
		t.Skip("ZooKeeper takes it, and is lost")
	}
	admin := newAdmin(t, e)
	var lines []string
	for _, s := range e.Servers {
		lines = append(lines, fmt.Sprintf("server.%d=127.0.0.1:%d:%d:participant;%s", s.ID, 4000+s.ID, 5000+s.ID,
			s.Client))
	}
	admin.refused(lines...)
	admin.write()
	e.AwaitServing(e.Servers...)
}

// TestMoveTheClientPort: connections to the former port stay, nobody new gets in there, and a client finds the new one
// in /zookeeper/config.
func TestMoveTheClientPort(t *testing.T) {
	e := ensemble.Start(t, ensemble.Options{Dynamic: true, Config: quick})
	admin := newAdmin(t, e)
	s := e.Followers()[0]
	stays, events, err := zk.Connect([]string{s.Addr}, 30*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	defer stays.Close()
	awaitSession(t, events)
	former := s.Client
	s.Client = fmt.Sprintf("localhost:%d", target.FreePort(t))
	s.Addr = strings.Replace(s.Client, "localhost", "127.0.0.1", 1)
	admin.reconfig(s.Member("participant"), "")
	awaitClosed(t, former+":")
	text, _, err := stays.Get("/zookeeper/config")
	if err != nil {
		t.Fatalf("the connection of before: %v", err)
	}
	_, line, _ := strings.Cut(string(text), fmt.Sprintf("server.%d=", s.ID))
	line, _, _ = strings.Cut(line, "\n")
	_, client, _ := strings.Cut(line, ";")
	follows, events, err := zk.Connect([]string{client}, 30*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	defer follows.Close()
	awaitSession(t, events)
	if _, _, err := follows.Get("/reconfig"); err != nil {
		t.Errorf("at %s: %v", client, err)
	}
	admin.reconfig(strings.Replace(s.Member("participant"), "localhost", "127.0.0.1", 1), "")
	if _, _, err := follows.Get("/reconfig"); err != nil {
		t.Errorf("at %s by another name: %v", client, err)
	}
	if log := s.Log(); strings.Contains(log, "client port not moved") {
		t.Errorf("another name of the same address is taken for a move; the log:\n%s", log)
	}
}

// TestSeveralAddresses gives each server two addresses and cuts one of all at a time, with all that run over it: writes
// go on over the other.
func TestSeveralAddresses(t *testing.T) {
	if err := ensemble.Isolable(); err != nil {
		target.LeaveOut(t, err.Error())
	}
	config := maps.Clone(quick)
	config["multiAddress.enabled"] = "true"
	e := ensemble.Start(t, ensemble.Options{Dynamic: true, Config: config, Network: ensemble.Isolated})
	admin := newAdmin(t, e)
	var lines []string
	for _, s := range e.Servers {
		lines = append(lines, fmt.Sprintf("server.%d=%s|%s:2889:3889:participant;%s", s.ID, s.Address,
			e.SecondHost(s), s.Client))
	}
	admin.reconfigTo(lines...)
	admin.write()
	for _, port := range []int{2889, 2888, 2889} {
		heal := e.CutPort(port)
		admin.write()
		e.AwaitServing(e.Servers...)
		heal()
		e.AwaitServing(e.Servers...)
	}
	admin.write()
}

// reconfigTo replaces the whole configuration and returns the new one.
func (a *admin) reconfigTo(lines ...string) string {
	a.t.Helper()
	return a.reconfigured(func() (faults.Reply, string, error) { return a.s.ReconfigTo(strings.Join(lines, ",")) })
}

// awaitSession waits for the session of a client of the Go library.
func awaitSession(t *testing.T, events <-chan zk.Event) {
	t.Helper()
	end := time.NewTimer(quickWithin)
	defer end.Stop()
	for {
		select {
		case event := <-events:
			if event.State == zk.StateHasSession {
				return
			}
		case <-end.C:
			t.Fatal("no session")
		}
	}
}

// awaitClosed waits until nobody listens at an address, host:port and more.
func awaitClosed(t *testing.T, address string) {
	t.Helper()
	fields := strings.Split(address, ":")
	address = net.JoinHostPort(fields[0], fields[1])
	if why := ensemble.Await(quickWithin, func() (bool, string) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close() // it was only tried
		}
		return err != nil, "somebody still listens at " + address
	}); why != "" {
		t.Error(why)
	}
}

// awaitPeers waits until somebody listens at a server's address for servers.
func awaitPeers(t *testing.T, s *ensemble.Server) {
	t.Helper()
	fields := strings.Split(s.Address, ":")
	if why := ensemble.Await(quickWithin, func() (bool, string) {
		conn, err := net.Dial("tcp", net.JoinHostPort(fields[0], fields[1]))
		if err == nil {
			_ = conn.Close() // it was only tried
		}
		return err == nil, "nobody listens at " + s.Address
	}); why != "" {
		t.Error(why)
	}
}

// load is a client that creates znodes, one after the other.
type load struct {
	t       *testing.T
	e       *ensemble.Ensemble
	s       *faults.Session
	acked   atomic.Int64
	longest atomic.Int64 // between two acknowledgments, nanoseconds
	created []string     // acknowledged; of the client until ended is closed
	stop    chan struct{}
	ended   chan struct{}
}

// startLoad starts one.
func startLoad(t *testing.T, e *ensemble.Ensemble) *load {
	t.Helper()
	l := &load{t: t, e: e, stop: make(chan struct{}), ended: make(chan struct{})}
	began := time.Now()
	var err error
	if l.s, err = faults.Open(faults.SessionOptions{
		Addrs: e.Addrs(), Timeout: 40 * time.Second, Rand: rand.New(rand.NewPCG(2, 2)),
		Now: func() int64 { return int64(time.Since(began)) }, Violated: t.Errorf, Stop: l.stop,
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.end() })
	go l.run()
	return l
}

func (l *load) run() {
	defer close(l.ended)
	last := time.Now()
	for n := 0; ; n++ {
		select {
		case <-l.stop:
			return
		default:
		}
		path := fmt.Sprintf("/load-%d", n)
		reply, _, err := l.s.Create(path, "", jute.ModePersistent)
		switch {
		case err != nil:
			if err := l.s.Connect(); err != nil {
				return // it is over, or a write is missed
			}
		case reply.Err == jute.OK:
			l.created = append(l.created, path)
			l.longest.Store(max(l.longest.Load(), int64(time.Since(last))))
			last = time.Now()
			l.acked.Add(1)
		}
	}
}

// goesOn waits until more writes are acknowledged than before.
func (l *load) goesOn() {
	l.t.Helper()
	before := l.acked.Load()
	if why := ensemble.Await(quickWithin, func() (bool, string) {
		return l.acked.Load() >= before+10, "no write is acknowledged"
	}); why != "" {
		l.t.Fatal(why)
	}
	l.t.Logf("%d writes, %v was the longest time without one", l.acked.Load(),
		time.Duration(l.longest.Swap(0)).Round(time.Millisecond))
}

func (l *load) end() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	<-l.ended
}

// check ends the load and looks whether all that was acknowledged is there.
func (l *load) check() {
	l.t.Helper()
	l.end()
	admin, names := newAdminOf(l.t, l.e), []string(nil)
	if reply := admin.ask(func() (reply faults.Reply, err error) {
		reply, names, _, err = admin.s.Children("/", false)
		return reply, err
	}); reply.Err != jute.OK {
		l.t.Fatalf("list: %v", reply.Err)
	}
	there := map[string]bool{}
	for _, name := range names {
		there["/"+name] = true
	}
	for _, path := range l.created {
		if !there[path] {
			l.t.Errorf("%s was acknowledged, and is lost", path)
		}
	}
}
