package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	tests := map[string]struct {
		line     string
		parent   int
		cpu      time.Duration
		children time.Duration
		pages    int64
		fails    bool
	}{
		"plain": {
			"7 (java) S 3 7 7 0 -1 4194560 1 2 3 4 150 50 7 3 20 0 9 0 100 5000 321 1",
			3, 2100 * time.Millisecond, 100 * time.Millisecond, 321, false,
		},
		"odd name": {
			"7 (a) b (c)) S 1 7 7 0 -1 4194560 1 2 3 4 1 0 0 0 20 0 9 0 100 5000 5 1",
			1, 10 * time.Millisecond, 0, 5, false,
		},
		"ends early": {line: "7 (java) S 3 7", fails: true},
		"not a stat": {line: "", fails: true},
	}
	for name, test := range tests {
		got, err := parseStat([]byte(test.line))
		want := stat{parent: test.parent, cpu: test.cpu, ofChildren: test.children,
			rss: test.pages * int64(os.Getpagesize())}
		if (err != nil) != test.fails || got != want {
			t.Errorf("%s: %+v and %v, want %+v", name, got, err, want)
		}
	}
}

func TestDescends(t *testing.T) {
	all := map[int]stat{1: {}, 2: {parent: 1}, 3: {parent: 2}, 4: {parent: 1}, 5: {parent: 6}, 6: {parent: 5}}
	for id, want := range map[int]bool{1: false, 2: true, 3: true, 4: false, 5: false, 9: false} {
		if got := descends(all, id, 2); got != want {
			t.Errorf("%d below 2: %v, want %v", id, got, want)
		}
	}
}

// TestUsageOfSelf sees this process, and a child's memory with it.
func TestUsageOfSelf(t *testing.T) {
	alone, err := UsageOf(os.Getpid())
	if err != nil || alone.RSSBytes == 0 {
		t.Fatalf("usage %+v and %v", alone, err)
	}
	cat := exec.CommandContext(t.Context(), "cat")
	in, err := cat.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cat.Start(); err != nil {
		t.Skipf("no cat: %v", err)
	}
	all, err := readAll("/proc")
	if err != nil || !descends(all, cat.Process.Pid, os.Getpid()) {
		t.Errorf("the child is not below this process: %v", err)
	}
	if err := errors.Join(in.Close(), cat.Wait()); err != nil {
		t.Error(err)
	}
	if _, err := UsageOf(1 << 30); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v for a process that is not there", err)
	}
}

// needShell leaves a test out where there is no shell with the usual programs.
func needShell(t *testing.T) {
	t.Helper()
	for _, program := range []string{"sh", "cat", "dirname", "grep", "sleep", "touch"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("left out: no %s in the PATH", program)
		}
	}
}

// TestDivide has a copy of this test's program divide its processors, as that cannot be taken back, and start a child.
func TestDivide(t *testing.T) {
	needShell(t)
	const child = "ZKD_TEST_DIVIDE"
	if os.Getenv(child) == "" {
		cpus, err := allowed()
		if err != nil || len(cpus) < 2 {
			t.Skipf("needs two processors of Linux: %v, %v", cpus, err)
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDivide$", "-test.v")
		cmd.Env = append(os.Environ(), child+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v:\n%s", err, out)
		}
		return
	}
	p, err := Divide()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "grep Cpus_allowed_list /proc/self/status")
	cmd.Stdout = &out
	if err := errors.Join(p.start(cmd), cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	got, err := allowed()
	if err != nil || list(got) != list(p.load) {
		t.Errorf("the load has %v after the start (%v), want %v", got, err, p.load)
	}
	if len(p.servers) == 1 && strings.Fields(out.String())[1] != list(p.servers) {
		t.Errorf("the server has %q, want %v", out.String(), p.servers)
	}
}

func TestParseCommand(t *testing.T) {
	for line, want := range map[string]string{
		"server {cfg} -v": "server|{cfg}|-v", "server  serve": "server|serve|{cfg}",
		"server --c={cfg}": "server|--c={cfg}",
	} {
		got, err := ParseCommand("x", line)
		if err != nil || strings.Join(got.Argv, "|") != want {
			t.Errorf("%q: %v and %v, want %s", line, got.Argv, err, want)
		}
	}
	if _, err := ParseCommand("x", "  "); err == nil {
		t.Error("an empty command is taken")
	}
}

// TestStartFails names the command and shows its log, and leaves no directory.
func TestStartFails(t *testing.T) {
	needShell(t)
	for name, argv := range map[string][]string{
		"ends": {"sh", "-c", "echo what went wrong; cat $0; exit 3", ConfigMark}, "missing": {"/no/such/program"},
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			_, err := Start(t.Context(), Command{Name: "broken", Argv: argv}, parent)
			if err == nil || !strings.Contains(err.Error(), "broken") {
				t.Fatalf("error %v", err)
			}
			shown := errors.Is(err, ErrNeverServed) && strings.Contains(err.Error(), "what went wrong") &&
				strings.Contains(err.Error(), "forceSync=yes")
			if name == "ends" && !shown {
				t.Errorf("error %v, want the log in it", err)
			}
			left, _ := filepath.Glob(filepath.Join(parent, "*")) // a fixed pattern
			if len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestStartGivesUp ends a server that never serves when the context ends.
func TestStartGivesUp(t *testing.T) {
	needShell(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begun := filepath.Join(t.TempDir(), "begun")
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(begun); err == nil {
				cancel()
			}
		}
	}()
	_, err := Start(ctx, Command{Name: "silent", Argv: []string{"sh", "-c", "touch " + begun + "; exec sleep 600"}},
		t.TempDir())
	if !errors.Is(err, ErrNeverServed) {
		t.Errorf("error %v, want ErrNeverServed", err)
	}
}

// TestEnsembleFails says which server did not serve, with the others in its configuration, and leaves nothing.
func TestEnsembleFails(t *testing.T) {
	needShell(t)
	parent := t.TempDir()
	command := Command{Name: "broken", Argv: []string{"sh", "-c", "cat $0 $(dirname $0)/data/myid; exit 3", ConfigMark}}
	_, err := StartEnsemble(t.Context(), command, parent, 3)
	if !errors.Is(err, ErrNeverServed) {
		t.Fatalf("error %v, want ErrNeverServed", err)
	}
	for _, line := range []string{"server.1=127.0.0.1:", "server.3=127.0.0.1:", "syncLimit=5", "\n1"} {
		if !strings.Contains(err.Error(), line) {
			t.Errorf("error %v, want %q in it", err, line)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(parent, "*")); len(left) > 0 { // a fixed pattern
		t.Errorf("left behind: %v", left)
	}
	if _, err := StartEnsemble(t.Context(), command, parent, ServersMax+1); err == nil {
		t.Error("too many servers are taken")
	}
}

// TestEnd ends a process that is paused, and one that takes no SIGTERM, which is an error.
func TestEnd(t *testing.T) {
	needShell(t)
	for name, test := range map[string]struct {
		script string
		within time.Duration
		fails  bool
	}{
		"paused": {"touch begun; exec sleep 600", time.Minute, false},
		"deaf":   {"trap '' TERM; touch begun; while :; do sleep 600; done", time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := Process{Dir: t.TempDir(), Command: Command{Name: name, Argv: []string{"sh", "-c", test.script}}}
			if err := errors.Join(p.End(syscall.SIGTERM, time.Minute), p.Launch()); err != nil || !p.Running() {
				t.Fatalf("not launched: %v", err)
			}
			for begun := false; !begun; {
				_, err := os.Stat(filepath.Join(p.Dir, "begun"))
				begun = err == nil
			}
			p.Pause()
			if err := p.End(syscall.SIGTERM, test.within); (err != nil) != test.fails || p.Running() {
				t.Errorf("error %v, running: %v", err, p.Running())
			}
			if p.State() == nil {
				t.Error("nothing is known of its end")
			}
		})
	}
}

// TestFreePortsAreKept: nobody else gets a port before it is given back.
func TestFreePortsAreKept(t *testing.T) {
	ports, release, err := FreePorts(3)
	if err != nil || len(ports) != 3 || ports[2] != ports[0]+2 {
		t.Fatalf("ports %v and %v", ports, err)
	}
	if others, _, err := freeFrom(ports[1], 1); err == nil {
		t.Errorf("port %v is given twice", others)
	}
	release()
	_, again, err := freeFrom(ports[1], 1)
	if err != nil {
		t.Fatal(err)
	}
	again()
}
