package target

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Client is a client program to run against a server.
type Client struct {
	Argv   []string
	Dir    string
	Env    []string // added to the environment of the test
	Stdin  string
	Within time.Duration // after which it is killed with all it started, and the test fails
}

// Run runs the client to its end and returns what it wrote to stdout and the error of its exit. What it wrote to
// stderr is logged, and stdout too if the test fails.
func (c Client) Run(tb testing.TB) (string, error) {
	tb.Helper()
	Uses(tb, c.Argv[0])
	ctx, cancel := context.WithTimeout(context.Background(), c.Within)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...) //nolint:gosec // the command is ours
	cmd.Dir, cmd.Env, cmd.Stdin = c.Dir, append(os.Environ(), c.Env...), strings.NewReader(c.Stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// A group of its own, so that the servers which a client's test suite starts go with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = stopWithin
	err := cmd.Run()
	if ctx.Err() != nil {
		tb.Errorf("%s was killed after %v", c.Argv[0], c.Within)
	}
	if stderr.Len() > 0 {
		tb.Logf("stderr of %s:\n%s", filepath.Base(c.Argv[0]), stderr.String())
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("stdout of %s:\n%s", filepath.Base(c.Argv[0]), stdout.String())
		}
	})
	return stdout.String(), err
}

// Golden compares a transcript with testdata/<name>.golden, which was recorded from the real ZooKeeper. With update
// it is recorded anew, which is refused for any other server.
func Golden(tb testing.TB, name, got string, update bool) {
	tb.Helper()
	path := filepath.Join("testdata", name+".golden")
	if update {
		if kind := Selected(tb); kind != Zookeeper {
			tb.Fatalf("goldens are recorded from zookeeper only, not from %s: set ZKD_COMPAT_TARGET=zookeeper", kind)
		}
		if err := os.MkdirAll("testdata", 0o750); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			tb.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path) //nolint:gosec // a test's own file
	if err != nil {
		tb.Fatalf("no golden transcript, record it with -update: %v", err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		tb.Errorf("answers differ from the real ZooKeeper's in %s (-zookeeper +this server):\n%s", path, diff)
	}
}
