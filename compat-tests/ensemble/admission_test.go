package ensemble_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/faults"
	"zkd/compat-tests/target"
	"zkd/jute"
)

// open begins a session with one server.
func open(t *testing.T, s *ensemble.Server) *faults.Session {
	t.Helper()
	began := time.Now()
	session, err := faults.Open(faults.SessionOptions{
		Addrs: []string{s.Addr}, Timeout: 40 * time.Second, Rand: rand.New(rand.NewPCG(1, 1)),
		Now: func() int64 { return int64(time.Since(began)) }, Violated: t.Errorf, Stop: t.Context().Done(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Drop)
	return session
}

// create creates a znode through a server, which serves, or does soon again.
func create(t *testing.T, s *ensemble.Server, path string) {
	t.Helper()
	session := open(t, s)
	defer session.Drop()
	if err := session.Plant(path, ""); err != nil {
		t.Fatal(err)
	}
}

// awaitWord waits until a server, serving or not, says something that has all of these in it.
func awaitWord(t *testing.T, s *ensemble.Server, parts ...string) {
	t.Helper()
	if why := ensemble.Await(quickWithin, func() (bool, string) {
		text, err := s.FourLetterWord("srvr")
		for _, part := range parts {
			if err != nil || !strings.Contains(text, part) {
				return false, text
			}
		}
		return true, ""
	}); why != "" {
		t.Fatalf("server %d does not say %q, but: %s", s.ID, parts, why)
	}
}

// awaitVote waits until a server serves as one that has a vote, which it has not before the others have admitted it.
func awaitVote(t *testing.T, s *ensemble.Server) {
	t.Helper()
	if why := ensemble.Await(quickWithin, func() (bool, string) {
		mode := s.Mode()
		return mode == "follower" || mode == "leader", "its mode is " + mode
	}); why != "" {
		t.Fatalf("server %d has no vote: %s", s.ID, why)
	}
}

// TestAnEmptiedServerOutvotesNobody has a server come late, and lose its disk: first while one of those that have
// founded the ensemble is away, then after it has acknowledged what that one lacks.
func TestAnEmptiedServerOutvotesNobody(t *testing.T) {
	if target.Selected(t) != target.Zkd {
		t.Skip("Apache ZooKeeper loses the write")
	}
	e := ensemble.Prepare(t, ensemble.Options{Config: quick})
	one, two, three := e.Servers[0], e.Servers[1], e.Servers[2]
	one.Launch()
	two.Launch()
	e.AwaitServing(one, two)
	create(t, two, "/w1")

	one.Stop()
	three.Launch() // for the first time: one and two have to admit it
	awaitWord(t, two, "missing: server 1")
	awaitWord(t, three, "this server has no data", "server 1")
	three.Kill9()
	three.Wipe()
	two.Stop()
	one.Launch()
	three.Launch()
	awaitWord(t, one, "missing: server 2")
	awaitWord(t, three, "this server has no data", "server 2")
	two.Launch()
	e.AwaitServing(e.Servers...)
	awaitVote(t, three) // before, server 2 would be alone

	one.Stop()
	e.AwaitServing(two, three)
	create(t, two, "/w2")
	three.Kill9()
	three.Wipe()
	two.Stop()
	one.Launch()
	three.Launch()
	awaitWord(t, one, "missing: server 2", "not counted before the others have admitted them: server 3")
	awaitWord(t, three, "this server has no data", "server 2")
	if why := ensemble.Await(quickWithin, func() (bool, string) { // it is said first, and logged then
		log := one.Log()
		return strings.Contains(log, "too few admitted voters reachable"), log
	}); why != "" {
		t.Errorf("server 1 does not log what is missed:\n%s", why)
	}
	two.Launch()
	e.AwaitServing(e.Servers...)
	for _, s := range e.Servers {
		session := open(t, s)
		for _, path := range []string{"/w1", "/w2"} {
			if reply, err := session.Insist(func() (faults.Reply, error) {
				reply, _, _, err := session.GetData(path, false)
				return reply, err
			}); err != nil || reply.Err != jute.OK {
				t.Errorf("server %d has not %s: %v, %v", s.ID, path, reply.Err, err)
			}
		}
		session.Drop()
	}
}
