package migration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/target"
)

// TestWayBackOfAnEnsemble goes the way back as docs/migration.md has it: the leader is stopped last, with a write in
// its log that was never committed, and exported; three real servers start from copies. After a kill of the leader the
// same is refused, and what the message says to do helps.
func TestWayBackOfAnEnsemble(t *testing.T) {
	t.Parallel() // it mostly waits for servers to start and to stop
	e := ensemble.Start(t, ensemble.Options{Kind: target.Zkd, Servers: 3, Calm: true})
	leader := e.AwaitLeader()
	conn := connect(t, 40*time.Second, leader.Addr)
	fill(t, conn, true)
	conn.Close() // no session ends while the real servers start
	proposeAlone(t, e, leader)
	leader.Kill9()
	back := filepath.Join(leader.Dir, "back")
	for _, command := range [][]string{
		{"export", leader.ConfigPath(), "--to", back}, {"backup", "--data-dir", leader.DataDir(), back + ".zkdbackup"},
	} {
		out, err := allSaid(t, command...)
		if err == nil || !strings.Contains(out, "start it with so many of the others that it serves") {
			t.Fatalf("zkd %s of a killed leader: %v\n%s", command[0], err, out)
		}
	}

	e.StartAll()
	leader = e.AwaitLeader()
	want := walk(t, leader.Addr)
	proposeAlone(t, e, leader)
	leader.Stop()
	for _, command := range [][]string{
		{"export", leader.ConfigPath(), "--to", back}, {"backup", "--data-dir", leader.DataDir(), back + ".zkdbackup"},
	} {
		out, err := run(t, append(command, "--output", "json")...)
		var said struct{ Notices []string }
		if err != nil || json.Unmarshal([]byte(out), &said) != nil ||
			!strings.HasPrefix(strings.Join(said.Notices, "\n"), "left out: entry ") {
			t.Fatalf("zkd %s of the leader: %v, and says %q", command[0], err, out)
		}
	}
	startFrom(t, filepath.Join(back, "version-2"), want)
}

// allSaid runs a command of zkd, and returns all that it writes.
func allSaid(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, target.ZkdBinary(t), args...).CombinedOutput() //nolint:gosec // it is ours
	return string(out), err
}

// proposeAlone has the leader write something to its log which nobody else gets, and ends all others: they do not run
// meanwhile, and it leads until it sees that they are gone.
func proposeAlone(t *testing.T, e *ensemble.Ensemble, leader *ensemble.Server) {
	t.Helper()
	conn := connect(t, 40*time.Second, leader.Addr)
	t.Cleanup(conn.Close)
	for _, s := range e.Servers {
		if s != leader {
			s.Pause()
			awaitPaused(t, s.PID())
		}
	}
	answered := make(chan error, 1)
	go func() {
		_, err := conn.Create("/lost", nil, 0, zk.WorldACL(zk.PermAll))
		answered <- err
	}()
	if why := ensemble.Await(waitWithin, func() (bool, string) {
		answer, err := leader.FourLetterWord("mntr")
		if err != nil {
			return false, err.Error()
		}
		last, errLast := strconv.Atoi(field(answer, "zkd_last_index"))
		commit, errCommit := strconv.Atoi(field(answer, "zkd_commit_index"))
		return errLast == nil && errCommit == nil && last > commit, answer
	}); why != "" {
		t.Fatal(why)
	}
	select {
	case err := <-answered:
		t.Fatalf("the write is answered: %v", err)
	default:
	}
	for _, s := range e.Servers {
		if s != leader {
			s.Kill9() // with what has come to its sockets
		}
	}
}

// awaitPaused waits until all threads of a process stand still: a signal is on its way for a moment.
func awaitPaused(t *testing.T, pid int) {
	t.Helper()
	if why := ensemble.Await(waitWithin, func() (bool, string) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(threads) == 0 {
			return false, fmt.Sprintf("no threads: %v", err)
		}
		for _, thread := range threads {
			stat, err := os.ReadFile(thread) //nolint:gosec // of a process that the test has started
			if _, state, _ := strings.Cut(string(stat), ") "); err != nil || !strings.HasPrefix(state, "T") {
				return false, thread + ": " + string(stat)
			}
		}
		return true, ""
	}); why != "" {
		t.Fatal(why)
	}
}

// startFrom starts three real servers on copies of a directory version-2, and compares what they have.
func startFrom(t *testing.T, versioned string, want []string) {
	t.Helper()
	e := ensemble.Prepare(t, ensemble.Options{Kind: target.Zookeeper, Servers: 3})
	for _, s := range e.Servers {
		must(t, os.CopyFS(filepath.Join(s.DataDir(), "version-2"), os.DirFS(versioned)))
	}
	e.StartAll()
	for _, s := range e.Servers {
		ownConfig(t, want, walk(t, s.Addr))
		if n := digestMismatches(t, s.Server); n != "0" {
			t.Errorf("server %d has found %q digests that do not fit", s.ID, n)
		}
	}
}
