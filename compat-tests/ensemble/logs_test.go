package ensemble_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/target"
)

// starting are the warnings that servers give which are started one after the other on a machine with little room.
var starting = regexp.MustCompile(`msg="(peer unreachable|disk space|configuration|no leader|not serving)`)

// TestLogsOfAQuietLife: who is stopped and started again costs nobody a warning, servers say at their start what they
// are and at their end that they have ended, and who is left alone says once whom it misses, and why. Who is started
// with other server lines than the members' says that once, too.
func TestLogsOfAQuietLife(t *testing.T) {
	if target.Selected(t) != target.Zkd {
		t.Skip("the log of zkd")
	}
	e := ensemble.Start(t, ensemble.Options{Config: quick})
	last, follower := e.AwaitLeader(), e.Followers()[0]
	follower.Stop()
	follower.Launch()
	e.AwaitServing(e.Servers...)
	for _, s := range e.Servers {
		for line := range strings.Lines(s.Log()) {
			if strings.Contains(line, "level=WARN") && !starting.MatchString(line) {
				t.Errorf("server %d: %s", s.ID, line)
			}
		}
	}
	for _, s := range e.Servers {
		if s != last {
			s.Stop()
		}
	}
	alone := `msg="no leader: too few admitted voters reachable"`
	says := func(text string) {
		t.Helper()
		if why := ensemble.Await(quickWithin, func() (bool, string) {
			return strings.Contains(last.Log(), text), last.Log()
		}); why != "" {
			t.Fatalf("server %d does not say %s:\n%s", last.ID, text, why)
		}
	}
	says(alone)
	last.Stop()
	log := last.Log()
	for text, want := range map[string]int{ // any order: each by itself
		alone: 1, `msg="server started" client=`: 1, `msg="server stopped" zxid=`: 1, ` voters="[1 2 3]" `: 1,
		"leadership transfer": 0, "msg=raft ": 0, "leader=0": 0,
	} {
		if n := strings.Count(log, text); n != want {
			t.Errorf("%d times %s, want %d, in the log of server %d:\n%s", n, text, want, last.ID, log)
		}
	}
	if _, why, _ := strings.Cut(log, alone); !strings.Contains(why, "connection refused") ||
		!strings.Contains(log, "leader=none") {
		t.Errorf("it is not told who is missed, and why:\n%s", log)
	}
	const absent = "server.9=127.0.0.1:7:9:observer\n"
	config, err := os.ReadFile(last.ConfigPath())
	if err == nil {
		err = os.WriteFile(last.ConfigPath(), append(config, absent...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	last.Launch()
	says(`msg="peer unreachable" peer=9`) // which takes longer than all that it does each second
	const differs = `msg="server lines in zoo.cfg differ from the membership: ignored"`
	if n := strings.Count(last.Log(), differs); n != 1 {
		t.Errorf("%d times %s, want once:\n%s", n, differs, last.Log())
	}
}
