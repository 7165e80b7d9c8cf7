package migration_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/target"
)

// TestMoveInEnsemble imports a server's directory into one of three servers; the others start empty, with the same
// server lines, and get everything from it, whether they are started after it or at the same time.
func TestMoveInEnsemble(t *testing.T) {
	t.Parallel() // it mostly waits for servers to start
	server := old(t, target.ServerVersion)
	load(t, server.Addr, 500, 2)
	holder := connect(t, 40*time.Second, server.Addr)
	fill(t, holder, true)
	before := walk(t, server.Addr)
	server.Kill9()
	for _, c := range []struct {
		name     string
		together bool
		servers  int
	}{
		{"one after the other", false, 3}, {"all at once", true, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := ensemble.Prepare(t, ensemble.Options{Kind: target.Zkd, Servers: c.servers, Observers: 1})
			first := e.Servers[1]
			found := importInto(t, first.ConfigPath(), "--from", filepath.Join(server.Dir, "data"))
			if !found.Verified {
				t.Errorf("zkd import found %+v", found)
			}
			first.Launch()
			if !c.together {
				e.AwaitMode(first, "leader")
				ownConfig(t, before, walk(t, first.Addr))
			}
			e.StartAll()
			for _, s := range e.Servers {
				ownConfig(t, before, walk(t, s.Addr))
			}
			// All of them have a vote: it goes on without the first one.
			e.AwaitMode(first, "leader")
			awaitVotes(t, e, first)
			first.Kill9()
			e.AwaitServing(e.Servers[0], e.Servers[2])
			conn := asSuper(t, e.Servers[2].Addr)
			_, err := conn.Create("/after", nil, 0, zk.WorldACL(zk.PermAll))
			must(t, err)
			first.Launch()
			e.AwaitServing(e.Servers...)
		})
	}
}

// awaitVotes returns when the others have got their votes from the leader.
func awaitVotes(t *testing.T, e *ensemble.Ensemble, leader *ensemble.Server) {
	t.Helper()
	why := ensemble.Await(waitWithin, func() (bool, string) {
		answer, err := leader.FourLetterWord("mntr")
		if err != nil {
			return false, err.Error()
		}
		return field(answer, "zk_synced_non_voting_followers") == "0" && field(answer, "zk_synced_followers") == "2",
			answer
	})
	if why != "" {
		t.Fatal(why)
	}
}

// ownConfig compares two walks but for /zookeeper/config, which shows the ensemble that was founded.
func ownConfig(t *testing.T, before, after []string) {
	t.Helper()
	sameWalk(t, "ensemble", withoutConfig(before), withoutConfig(after))
}
