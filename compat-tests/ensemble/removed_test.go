package ensemble_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/faults"
	"zkd/compat-tests/target"
	"zkd/jute"
)

// configPath is the znode of the configuration.
const configPath = "/zookeeper/config"

// openAt opens a session on one server, and on no other.
func openAt(t *testing.T, s *ensemble.Server) *faults.Session {
	t.Helper()
	began := time.Now()
	session, err := faults.Open(faults.SessionOptions{Addrs: []string{s.Addr}, Timeout: 20 * time.Second,
		Rand: rand.New(rand.NewPCG(1, 1)), Now: func() int64 { return int64(time.Since(began)) },
		Violated: t.Errorf, Stop: t.Context().Done()})
	if err != nil {
		t.Fatalf("no session on server %d: %v", s.ID, err)
	}
	t.Cleanup(session.Drop)
	return session
}

// mustWriteAt writes in a session.
func mustWriteAt(t *testing.T, session *faults.Session) {
	t.Helper()
	if reply, _, err := session.SetData("/reconfig", "", jute.AnyVersion); err != nil || reply.Err != jute.OK {
		t.Fatalf("no write through server %s: %v, %v", session.Addr, reply.Err, err)
	}
}

// await waits until something is so.
func await(t *testing.T, ready func() (ok bool, why string)) {
	t.Helper()
	if why := ensemble.Await(quickWithin, ready); why != "" {
		t.Fatal(why)
	}
}

// TestARemovedServerServesOn: it is a follower without a vote. Its clients learn of the configuration from it, read and
// write on, and new ones are taken. It does not count: without the last voter but one nobody leads.
func TestARemovedServerServesOn(t *testing.T) {
	e := ensemble.Start(t, ensemble.Options{Dynamic: true, Config: map[string]string{"4lw.commands.whitelist": "*"}})
	admin := newAdmin(t, e)
	leader := e.AwaitLeader()
	gone, other := e.Followers()[0], e.Followers()[1]
	session := openAt(t, gone)
	if _, text, _, err := session.GetData(configPath, true); err != nil || !strings.Contains(text, gone.Address) {
		t.Fatalf("%s, %v", text, err)
	}
	admin.reconfig("", strconv.Itoa(gone.ID))
	mustWriteAt(t, session) // all that was written before is there, then
	_, text, _, err := session.GetData(configPath, false)
	if err != nil || strings.Contains(text, gone.Address) || session.Fired != 1 {
		t.Errorf("after %d events a client of server %d reads %v and the configuration\n%s", session.Fired,
			gone.ID, err, text)
	}
	mustWriteAt(t, openAt(t, gone))
	e.AwaitMode(gone, "follower")
	for name, want := range map[string]int64{
		"zk_quorum_size": 2, "zk_learners": 2, "zk_synced_followers": 2, "zk_synced_non_voting_followers": 1,
	} {
		await(t, func() (bool, string) {
			got := figure(t, leader, name)
			return got == want, name + " is " + strconv.FormatInt(got, 10)
		})
	}
	if session.Connects != 1 {
		t.Errorf("the client has connected %d times", session.Connects)
	}
	other.Kill9()
	await(t, func() (bool, string) {
		mode := leader.Mode()
		return mode != "leader", "a server that was removed counts for the leader"
	})
}

// TestARemovedServerTurnsClientsAwayInTheEnd: when the grace is over, or at once if there is none. One line tells of
// the beginning of the grace, and one of its end. The server may come back with its data, also if it was stopped before
// anybody could tell it that it is out.
func TestARemovedServerTurnsClientsAwayInTheEnd(t *testing.T) {
	for _, grace := range []string{"0", "3000", "600000"} {
		t.Run(grace, func(t *testing.T) {
			e := ensemble.Start(t, ensemble.Options{Dynamic: true, Kind: target.Zkd,
				Config: map[string]string{"4lw.commands.whitelist": "*", "zkd.removedGrace": grace}})
			admin := newAdmin(t, e)
			gone := e.Followers()[0]
			session := openAt(t, gone)
			admin.reconfig("", strconv.Itoa(gone.ID))
			if grace == "600000" {
				mustWriteAt(t, session)
				gone.Stop()
			} else {
				await(t, func() (bool, string) {
					return session.Ping() != nil, "its client is still connected"
				})
			}
			await(t, func() (bool, string) {
				n := figure(t, e.AwaitLeader(), "zk_zkd_learners")
				return n == 0, "there are members without a vote: " + strconv.FormatInt(n, 10)
			})
			if grace == "3000" { // without a grace the others may be heard first
				await(t, func() (bool, string) {
					return strings.Contains(gone.Log(), "knows no server"), "nobody has told it that it is out"
				})
				if n := strings.Count(gone.Log(), `msg="removed from the ensemble`); n != 2 {
					t.Errorf("%d lines say that it was removed, want 2:\n%s", n, gone.Log())
				}
			}
			if gone.Running() {
				gone.Stop()
			}
			gone.Launch()
			admin.reconfig(gone.Member("participant"), "")
			e.AwaitServing(e.Servers...)
			mustWriteAt(t, openAt(t, gone))
		})
	}
}

// TestRolesAreInForceWithTheAnswer: the server that is asked says that it is an observer as soon as it has answered,
// whether it followed or led. (ZooKeeper's closes its connections.)
func TestRolesAreInForceWithTheAnswer(t *testing.T) {
	e := ensemble.Start(t, ensemble.Options{Dynamic: true, Kind: target.Zkd, Servers: 4})
	admin := newAdmin(t, e)
	for range 3 {
		leader := e.AwaitLeader()
		for _, changed := range []*ensemble.Server{e.Followers()[0], leader} {
			for _, role := range []string{"observer", "participant"} {
				session := openAt(t, changed)
				if reply, err := session.AddAuth("digest", target.SuperUser+":"+target.SuperPassword); err != nil ||
					reply.Err != jute.OK {
					t.Fatalf("%v, %v", reply.Err, err)
				}
				reply, _, err := session.Reconfig(changed.Member(role), "")
				mode := changed.Mode()
				session.Drop()
				if err != nil || reply.Err != jute.OK {
					t.Fatalf("server %d becomes a %s: %v, %v", changed.ID, role, reply.Err, err)
				}
				if role == "observer" && mode != role {
					t.Errorf("server %d is an observer by the answer, and says that it is a %s", changed.ID, mode)
				}
				if role == "participant" {
					e.AwaitMode(changed, "follower")
				}
				e.AwaitServing(e.Servers...)
				admin.write()
			}
		}
	}
}
