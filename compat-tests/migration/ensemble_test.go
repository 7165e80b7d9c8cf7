package migration_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
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
		first    int // the one that has the data, among the servers
		fromZero bool
	}{
		{"one after the other", false, 1, false}, {"all at once", true, 1, false},
		{"numbered from 0", true, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := ensemble.Prepare(t, ensemble.Options{Kind: target.Zkd, FromZero: c.fromZero, Observers: 1,
				Calm: true})
			first, another := e.Servers[c.first], e.Servers[1-c.first]
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
			e.AwaitServing(another, e.Servers[2])
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

// TestSecondFounding: where an ensemble runs, imported data founds no other one. The server that holds it does not
// start, and says what to do; its data stays.
func TestSecondFounding(t *testing.T) {
	for _, c := range []struct {
		name    string
		founder bool // the ensemble that runs was founded on imported data, too; else by empty servers
	}{
		{"two servers have imported", true}, {"the empty servers were first", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // it mostly waits for servers to start
			e := ensemble.Prepare(t, ensemble.Options{Kind: target.Zkd, Servers: 3})
			running, late := e.Servers[:2], e.Servers[2]
			from := filepath.Join(goldenDir, "3.9")
			if c.founder {
				importInto(t, running[0].ConfigPath(), "--from", from)
			}
			importInto(t, late.ConfigPath(), "--from", from)
			for _, s := range running {
				s.Launch()
			}
			e.AwaitServing(running...)

			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			//nolint:gosec // the command is ours
			said, err := exec.CommandContext(ctx, target.ZkdBinary(t), "serve", late.ConfigPath()).CombinedOutput()
			out := string(said)
			const refusal = "data was imported into this server"
			if err == nil || !strings.Contains(out, refusal) || !strings.Contains(out, "empty their dataDir") {
				t.Errorf("the second founder ends with %v, and says:\n%s", err, out)
			}
			sum, err := run(t, "inspect", "summary", late.DataDir())
			if err != nil || !strings.Contains(sum, "0x3ad") {
				t.Errorf("what it has imported: %v\n%s", err, sum)
			}
		})
	}
}
