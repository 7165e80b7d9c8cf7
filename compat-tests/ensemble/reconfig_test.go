package ensemble_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/faults"
	"zkd/compat-tests/target"
	"zkd/jute"
	"zkd/storage/entry"
)

// TestReconfig takes a follower out and in again, makes a participant of an observer, and takes the leader out, all
// while the servers run; a write is there before and after each, and the servers' own files tell of it.
func TestReconfig(t *testing.T) {
	e := ensemble.Start(t, ensemble.Options{Dynamic: true, Observers: 1})
	admin := newAdmin(t, e)
	follower, observer := e.Followers()[0], e.Servers[3]

	config := admin.reconfig("", strconv.Itoa(follower.ID))
	if strings.Contains(config, follower.Address) {
		t.Errorf("server %d is still in the configuration:\n%s", follower.ID, config)
	}
	admin.write()
	e.AwaitMode(follower, "follower") // without a vote (TestARemovedServerServesOn)

	config = admin.reconfig(follower.Member("participant"), "")
	if !strings.Contains(config, follower.Member("participant")) {
		t.Errorf("server %d is not in the configuration:\n%s", follower.ID, config)
	}
	e.AwaitServing(e.Servers...)
	admin.write()

	admin.reconfig(observer.Member("participant"), "")
	e.AwaitMode(observer, "follower")
	admin.write()

	leader := e.AwaitLeader()
	config = admin.reconfig("", strconv.Itoa(leader.ID))
	if why := ensemble.Await(quickWithin, func() (bool, string) {
		now := e.Leader()
		return now != nil && now != leader, "nobody leads instead of the leader that was taken out"
	}); why != "" {
		t.Error(why)
	}
	admin.write()
	_, version, _ := strings.Cut(config, "version=")
	if why := ensemble.Await(quickWithin, func() (bool, string) {
		return knows(t, observer, version), "the files of server 4 do not tell of version " + version
	}); why != "" {
		t.Error(why)
	}
}

// TestAFileThatDoesNotNameTheLeader: a server whose file names those that follow alone joins, and comes back without
// its data: they know who leads.
func TestAFileThatDoesNotNameTheLeader(t *testing.T) {
	e := ensemble.Prepare(t, ensemble.Options{Dynamic: true, Calm: true, Servers: 4})
	e.Found(3)
	admin := newAdmin(t, e)
	admin.write()
	joins := e.Servers[3]
	file := append(e.Lines("participant", e.Followers()...), e.Lines("observer", joins)...)
	e.Configure(joins, file...)
	joins.Launch()
	admin.reconfig(joins.Member("participant"), "")
	e.AwaitServing(e.Servers...)
	mustWriteAt(t, openAt(t, joins))

	joins.Stop()
	joins.Wipe()
	e.Configure(joins, file...)
	joins.Launch()
	e.AwaitServing(e.Servers...)
	mustWriteAt(t, openAt(t, joins))
}

// TestAReconfigWhenOneOfTwoIsEmptied: of two participants one comes back without its data, and who leads gets a
// reconfig as soon as it takes requests again.
func TestAReconfigWhenOneOfTwoIsEmptied(t *testing.T) {
	e := ensemble.Start(t, ensemble.Options{Dynamic: true, Servers: 2, Observers: 1,
		Config: map[string]string{"zkd.removedGrace": "0"}}) // so that who is removed is none of the members at once
	admin := newAdmin(t, e)
	observer := e.Servers[2]
	for range 3 {
		leader := e.AwaitLeader()
		lost := e.Followers()[0]
		lost.Kill9()
		if why := ensemble.Await(quickWithin, func() (bool, string) { // it knows that it is alone
			return leader.Mode() != "leader", "it leads alone"
		}); why != "" {
			t.Fatal(why)
		}
		lost.Wipe()
		lost.Launch()
		admin.reconfig("", strconv.Itoa(observer.ID))
		admin.reconfig(observer.Member("observer"), "")
		admin.write()
		awaitVote(t, lost)
	}
}

// TestAServerWithoutDataCountsWhomTheOthersCount: one that has lost its disk comes back with a file that names some of
// the members, or members of another time in other roles. It takes them from those who have data, and tells clients of
// them; with the leader gone those who are left elect another one, and a session goes on (seed 11472371).
func TestAServerWithoutDataCountsWhomTheOthersCount(t *testing.T) {
	e := ensemble.Prepare(t, ensemble.Options{Dynamic: true, Servers: 4})
	e.Found(3)
	admin := newAdmin(t, e)
	joins := e.Servers[3]
	joins.Launch()
	admin.reconfig(joins.Member("participant"), "")
	gone := e.Followers()[0]
	config := admin.reconfig("", strconv.Itoa(gone.ID))
	gone.Stop()
	files := map[string]func() []string{
		"some": func() []string { return e.Lines("participant", e.AwaitLeader(), joins) },
	}
	if joins.Kind == target.Zkd { // one of ZooKeeper's follows no leader that has no vote by its file
		files["other roles"] = func() []string {
			return append(e.Lines("participant", gone, joins), e.Lines("observer", e.AwaitLeader())...)
		}
	}
	for name, file := range files { // order: each begins with three members that serve
		t.Run(name, func(t *testing.T) {
			joins.Kill9()
			joins.Wipe()
			e.Configure(joins, file()...)
			joins.Launch()
			running := slices.DeleteFunc(slices.Clone(e.Servers), func(s *ensemble.Server) bool { return s == gone })
			e.AwaitServing(running...)
			awaitVote(t, joins)
			for _, s := range running {
				if s != joins {
					mustWriteAt(t, openAt(t, s)) // it has applied what gives the new one its vote then
				}
				if n := figure(t, s, "zk_quorum_size"); n != 3 {
					t.Errorf("server %d counts %d voters, want 3", s.ID, n)
				}
			}

			conn, events, err := zk.Connect([]string{joins.Addr}, 40*time.Second, zk.WithLogInfo(false))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			awaitSession(t, events)
			session := conn.SessionID()
			if data, _, err := conn.Get("/zookeeper/config"); err != nil || string(data) != config {
				t.Errorf("%v, by server %d the members are\n%s\nwant\n%s", err, joins.ID, data, config)
			}
			leader := e.AwaitLeader()
			if leader != joins {
				leader.Kill9()
			}
			if why := ensemble.Await(quickWithin, func() (bool, string) {
				_, err := conn.Set("/reconfig", nil, -1)
				return err == nil, fmt.Sprint(err)
			}); why != "" {
				t.Errorf("no write without server %d: %s", leader.ID, why)
			}
			if conn.SessionID() != session {
				t.Errorf("session 0x%x has become 0x%x", session, conn.SessionID())
			}
			if leader != joins {
				leader.Launch()
			}
			e.AwaitServing(running...)
		})
	}
}

// TestAReconfigWhileZooCfgIsSaved: an editor has just emptied zoo.cfg when the members change. What it saves is what
// the server writes the new members into, and starts with. ZooKeeper writes them into the empty file, and starts no
// more.
func TestAReconfigWhileZooCfgIsSaved(t *testing.T) {
	if target.Selected(t) != target.Zkd {
		t.Skip("the server of ZooKeeper has lost its zoo.cfg then")
	}
	e := ensemble.Start(t, ensemble.Options{Dynamic: true, Config: quick, Observers: 1})
	admin := newAdmin(t, e)
	s, observer := e.Followers()[0], e.Servers[3]
	await := func(met func(text string) bool) (text string) {
		t.Helper()
		if why := ensemble.Await(quickWithin, func() (bool, string) {
			read, err := os.ReadFile(s.ConfigPath())
			text = string(read)
			return err == nil && met(text), fmt.Sprintf("%v, %s\n%s", err, text, s.LogTail(10))
		}); why != "" {
			t.Fatal(why)
		}
		return text
	}
	save := func(text string) {
		t.Helper()
		if err := os.WriteFile(s.ConfigPath(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	saved := await(func(text string) bool { return strings.Contains(text, "zoo.cfg.dynamic.") })
	save("")
	_, version, _ := strings.Cut(admin.reconfig("", strconv.Itoa(observer.ID)), "version=")
	await(func(text string) bool {
		return text == "" && strings.Contains(s.Log(), "failed to update the configuration file")
	})
	save("# edited\n" + saved)
	await(func(text string) bool {
		return strings.Contains(text, "# edited\n") && strings.Contains(text, "dynamic."+version)
	})
	s.Stop()
	s.Launch()
	e.AwaitServing(e.Servers[:3]...)
}

// knows reports whether a server has written the version of a configuration into a file beside its zoo.cfg, or named
// a file for it.
func knows(t *testing.T, s *ensemble.Server, version string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.Dir, "zoo.cfg*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && (strings.Contains(string(text), "version="+version) || strings.HasSuffix(file, "."+version)) {
			return true
		}
	}
	return false
}

// admin is a session of the superuser, and another one if that has expired.
type admin struct {
	t       *testing.T
	options faults.SessionOptions
	s       *faults.Session
}

// newAdmin returns one that may write, once the members can be asked for all that this version can do.
func newAdmin(t *testing.T, e *ensemble.Ensemble) *admin {
	t.Helper()
	for _, s := range e.Servers {
		if s.Kind != target.Zkd || !s.Running() {
			continue
		}
		if why := ensemble.Await(quickWithin, func() (bool, string) {
			level := figure(t, s, "zk_zkd_feature_level")
			return level == int64(entry.LevelNewest), fmt.Sprintf("server %d is at feature level %d", s.ID, level)
		}); why != "" {
			t.Fatal(why)
		}
	}
	a := newAdminOf(t, e)
	reply := a.ask(func() (faults.Reply, error) {
		reply, _, err := a.s.Create("/reconfig", "", jute.ModePersistent)
		return reply, err
	})
	if reply.Err != jute.OK && reply.Err != jute.NodeExists { // of an attempt whose reply was lost
		t.Fatalf("create: %v", reply.Err)
	}
	return a
}

// newAdminOf returns one that creates nothing.
func newAdminOf(t *testing.T, e *ensemble.Ensemble) *admin {
	t.Helper()
	began := time.Now()
	a := &admin{t: t, options: faults.SessionOptions{
		Addrs: e.Addrs(), Timeout: 40 * time.Second, Rand: rand.New(rand.NewPCG(1, 1)),
		Now: func() int64 { return int64(time.Since(began)) }, Violated: t.Errorf, Stop: t.Context().Done(),
	}}
	var err error
	if a.s, err = faults.Open(a.options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.s.Drop() })
	if reply := a.ask(a.login); reply.Err != jute.OK {
		t.Fatalf("addauth: %v", reply.Err)
	}
	return a
}

func (a *admin) login() (faults.Reply, error) {
	return a.s.AddAuth("digest", target.SuperUser+":"+target.SuperPassword)
}

// ask makes a request until it is answered, on another server if need be: on a slow machine the servers may elect anew
// at any time, and end the connections of their clients.
func (a *admin) ask(request func() (faults.Reply, error)) (reply faults.Reply) {
	a.t.Helper()
	if why := ensemble.Await(quickWithin, func() (bool, string) {
		var err error
		if reply, err = request(); err != nil {
			err = errors.Join(err, a.reconnect()) // the next request shows whether that has failed
		}
		return err == nil, fmt.Sprint(err)
	}); why != "" {
		a.t.Fatalf("no answer: %s", why)
	}
	return reply
}

func (a *admin) reconnect() error {
	err := a.s.Connect()
	if errors.Is(err, faults.ErrExpired) {
		a.s, err = faults.Open(a.options)
	}
	if err == nil {
		_, err = a.login()
	}
	return err
}

// reconfig changes the members and returns the new configuration.
func (a *admin) reconfig(joining, leaving string) string {
	a.t.Helper()
	return a.reconfigured(func() (faults.Reply, string, error) { return a.s.Reconfig(joining, leaving) })
}

// reconfigured asks for a reconfig until it is taken, and returns the new configuration. Servers that are slow may be
// too late to be counted, or the change before may still go on.
func (a *admin) reconfigured(request func() (faults.Reply, string, error)) (config string) {
	a.t.Helper()
	if why := ensemble.Await(quickWithin, func() (bool, string) {
		reply := a.ask(func() (reply faults.Reply, err error) {
			reply, config, err = request()
			return reply, err
		})
		if reply.Err != jute.OK && reply.Err != jute.NewConfigNoQuorum && reply.Err != jute.ReconfigInProgress {
			a.t.Fatalf("reconfig: %v", reply.Err)
		}
		return reply.Err == jute.OK, reply.Err.String()
	}); why != "" {
		a.t.Fatalf("reconfig: %s", why)
	}
	return config
}

// refused asks for another configuration, which must not be taken for want of a quorum.
func (a *admin) refused(lines ...string) {
	a.t.Helper()
	if why := ensemble.Await(quickWithin, func() (bool, string) {
		reply := a.ask(func() (faults.Reply, error) {
			reply, _, err := a.s.ReconfigTo(strings.Join(lines, ","))
			return reply, err
		})
		if reply.Err != jute.NewConfigNoQuorum && reply.Err != jute.ReconfigInProgress {
			a.t.Fatalf("%v, want %v", reply.Err, jute.NewConfigNoQuorum)
		}
		return reply.Err == jute.NewConfigNoQuorum, reply.Err.String()
	}); why != "" {
		a.t.Fatal(why)
	}
}

// write writes, on another server if need be.
func (a *admin) write() {
	a.t.Helper()
	if why := ensemble.Await(quickWithin, func() (bool, string) {
		reply := a.ask(func() (faults.Reply, error) {
			reply, _, err := a.s.SetData("/reconfig", "", jute.AnyVersion)
			return reply, err
		})
		return reply.Err == jute.OK, reply.Err.String()
	}); why != "" {
		a.t.Fatalf("no write: %s", why)
	}
}
