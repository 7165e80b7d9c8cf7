package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets this binary be zkd itself, for scripts and for processes that tests kill.
func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"zkd": main}) }

// scriptDeadline bounds every wait of a script.
const scriptDeadline = 30 * time.Second

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Deadline:            time.Now().Add(4 * scriptDeadline),
		Setup: func(env *testscript.Env) error { // what a real ZooKeeper has written, for import
			return os.CopyFS(filepath.Join(env.WorkDir, "zookeeper"), os.DirFS("../../storage/testdata/zookeeper/3.9"))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": scriptStatus, "start": scriptStart, "stop": scriptStop,
		},
	})
}

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

// scriptStart starts a server and waits until it serves: start serve --port 0. stop ends it.
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

// servers is the server of each script that runs.
var servers registry

// scriptStop sends SIGTERM or SIGINT and wants a clean end: stop TERM.
func scriptStop(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]os.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT}
	if neg || len(args) != 1 || signals[args[0]] == nil {
		ts.Fatalf("usage: stop TERM|INT")
	}
	s := servers.of(ts)
	ts.Check(s.cmd.Process.Signal(signals[args[0]]))
	if err := s.wait(); err != nil {
		ts.Fatalf("the server ended with %v:\n%s", err, s.output())
	}
}
