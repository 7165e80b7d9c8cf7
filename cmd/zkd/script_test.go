package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets this binary be zkd itself, for scripts and for processes that tests kill.
func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"zkd": main}) }

// scriptDeadline bounds every wait of a script.
const scriptDeadline = 2 * time.Minute

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			name, value, _ := strings.Cut(noAdmin, "=")
			env.Setenv(name, value)
			// What a real ZooKeeper has written, for import.
			golden := os.DirFS("../../storage/zkdata/zkdatatest/testdata/zookeeper/3.9")
			return os.CopyFS(filepath.Join(env.WorkDir, "zookeeper"), golden)
		},
		Deadline: time.Now().Add(7 * scriptDeadline),
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": scriptStatus, "start": scriptStart, "end": scriptEnd, "ask": scriptAsk,
		},
	})
}

// noAdmin keeps the servers of tests off the port that all admin servers have by default.
const noAdmin = "ZKD_ADMIN_ENABLE_SERVER=false"

// scriptStatus runs a command and compares its exit status: status 2 zkd serve bad.cfg.
func scriptStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N command...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("exit status %s, want %s", got, args[0])
	}
}

// scriptStart starts a server and waits until it serves: start serve --port 0. end ends it.
func scriptStart(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: start arguments...")
	}
	s, err := startProcess(ts.Getenv("WORK"), args)
	ts.Check(err)
	servers.put(ts, s)
	ts.Setenv("PORT", s.addr[strings.LastIndexByte(s.addr, ':')+1:])
	ts.Defer(s.kill)
}

// operatorsLine is the message that says where operators are served.
var operatorsLine = regexp.MustCompile(`msg="admin server listening" what=(\w+) addr=\S*:(\d+)`)

// scriptAsk has the server answer an operator: ask admin|metrics PATH STATUS TEXT. The port of the admin server is
// OPERATORS afterwards.
func scriptAsk(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: ask admin|metrics path status text")
	}
	ports := map[string]string{}
	for _, m := range operatorsLine.FindAllStringSubmatch(servers.of(ts).output(), -1) {
		ports[m[1]] = m[2]
	}
	ts.Setenv("OPERATORS", ports["admin"])
	client := http.Client{Timeout: scriptDeadline}
	resp, err := client.Get("http://127.0.0.1:" + ports[args[0]] + args[1]) //nolint:noctx // it has a time-out
	ts.Check(err)
	body, err := io.ReadAll(resp.Body)
	ts.Check(errors.Join(err, resp.Body.Close()))
	if fmt.Sprint(resp.StatusCode) != args[2] || !strings.Contains(string(body), args[3]) {
		ts.Fatalf("%s answers %d, want %s and %q:\n%s", args[1], resp.StatusCode, args[2], args[3], body)
	}
}

// servers is the server of each script that runs.
var servers registry

// scriptEnd sends SIGTERM or SIGINT and wants a clean end: end TERM. (stop is a command of testscript itself: it ends
// the script.)
func scriptEnd(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]os.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT}
	if neg || len(args) != 1 || signals[args[0]] == nil {
		ts.Fatalf("usage: end TERM|INT")
	}
	s := servers.of(ts)
	ts.Check(s.cmd.Process.Signal(signals[args[0]]))
	if err := s.wait(); err != nil {
		ts.Fatalf("the server ended with %v:\n%s", err, s.output())
	}
}
