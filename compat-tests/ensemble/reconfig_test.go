package ensemble_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/faults"
	"zkd/compat-tests/target"
	"zkd/jute"
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
	if follower.Kind == target.Zkd { // ZooKeeper's goes on to follow and to serve, without a vote
		if why := ensemble.Await(quickWithin, func() (bool, string) {
			mode := follower.Mode()
			return mode != "follower" && mode != "leader", "the server that was taken out is a " + mode
		}); why != "" {
			t.Error(why)
		}
	}

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

// admin is a session of the superuser.
type admin struct {
	t *testing.T
	s *faults.Session
}

func newAdmin(t *testing.T, e *ensemble.Ensemble) *admin {
	t.Helper()
	a := newAdminOf(t, e)
	if _, _, err := a.s.Create("/reconfig", "", jute.ModePersistent); err != nil {
		t.Fatal(err)
	}
	return a
}

// newAdminOf returns one that creates nothing.
func newAdminOf(t *testing.T, e *ensemble.Ensemble) *admin {
	t.Helper()
	began := time.Now()
	s, err := faults.Open(faults.SessionOptions{
		Addrs: e.Addrs(), Timeout: 40 * time.Second, Rand: rand.New(rand.NewPCG(1, 1)),
		Now: func() int64 { return int64(time.Since(began)) }, Violated: t.Errorf, Stop: t.Context().Done(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Drop)
	a := &admin{t, s}
	a.authenticate()
	return a
}

func (a *admin) authenticate() {
	a.t.Helper()
	reply, err := a.s.AddAuth("digest", target.SuperUser+":"+target.SuperPassword)
	if err != nil || reply.Err != jute.OK {
		a.t.Fatalf("addauth: %v, %v", reply.Err, err)
	}
}

// reconfig changes the members and returns the new configuration, read again if the reply was lost.
func (a *admin) reconfig(joining, leaving string) string {
	a.t.Helper()
	reply, config, err := a.s.Reconfig(joining, leaving)
	if err != nil {
		a.reconnect()
		a.write()
		reply, config, _, err = a.s.GetData("/zookeeper/config", false)
	}
	if err != nil || reply.Err != jute.OK {
		a.t.Fatalf("reconfig of %q and %q: %v, %v", joining, leaving, reply.Err, err)
	}
	return config
}

// write writes, on another server if need be.
func (a *admin) write() {
	a.t.Helper()
	if why := ensemble.Await(quickWithin, func() (bool, string) {
		reply, _, err := a.s.SetData("/reconfig", "", jute.AnyVersion)
		if err != nil {
			a.reconnect()
			return false, err.Error()
		}
		return reply.Err == jute.OK, reply.Err.String()
	}); why != "" {
		a.t.Fatalf("no write: %s", why)
	}
}

func (a *admin) reconnect() {
	a.t.Helper()
	if err := a.s.Connect(); err != nil {
		a.t.Fatal(err)
	}
	a.authenticate()
}
