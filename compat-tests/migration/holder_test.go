package migration_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"zkd/compat-tests/target"
)

// TestJavaClientKeepsItsSession moves the server under the Java client.
func TestJavaClientKeepsItsSession(t *testing.T) {
	t.Parallel() // it mostly waits for servers to start
	server := old(t, target.ServerVersion)
	client := target.Classpath(t, target.ServerPOM, "zookeeper.version="+target.ServerVersion)
	argv := append(append([]string{"java"}, target.JVMOptions(t)...), "-cp", target.JavaClasses(t, "src", client),
		"-Dcompat.loglevel=ERROR", "compat.Holder", server.Addr)
	moveUnder(t, server, argv)
}

// kazooVersion is what pip installs.
const kazooVersion = "kazoo==2.11.0"

// TestKazooKeepsItsSession moves the server under Kazoo.
func TestKazooKeepsItsSession(t *testing.T) {
	target.Require(t, target.Python)
	t.Parallel() // it mostly waits for servers to start
	python := target.Cached(t, "python-kazoo", []string{kazooVersion}, func(ctx context.Context, dir string) error {
		return target.PythonEnvironment(ctx, dir, kazooVersion)
	})
	server := old(t, target.ServerVersion)
	moveUnder(t, server, []string{filepath.Join(python, "bin", "python"), filepath.Join("testdata", "holder.py"),
		server.Addr})
}

// moveUnder replaces the server under a client three times: ZooKeeper by zkd, zkd by zkd, zkd by ZooKeeper. The client
// has one session, password and ephemeral all the while, and its watch. argv runs the client, which says what it has
// for each line it reads.
func moveUnder(t *testing.T, server *target.Server, argv []string) {
	t.Helper()
	target.ZkdBinary(t) // now: the session lives only so long without a server
	target.Uses(t, argv[0])
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:gosec // the command is ours
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	guard := time.AfterFunc(8*time.Minute, func() { _ = cmd.Process.Kill() }) // the reads below end then
	defer guard.Stop()
	lines := bufio.NewScanner(out)
	next := func() string {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("the client has ended: %v", lines.Err())
		}
		return lines.Text()
	}
	first := next()
	if !strings.HasSuffix(first, " true") {
		t.Fatalf("the client says %q", first)
	}
	same := func(when string) {
		t.Helper()
		_, err := io.WriteString(in, "say\n")
		must(t, err)
		if got := next(); got != first {
			t.Errorf("%s the client says %q, at first %q", when, got, first)
		}
	}
	server.Kill9()
	importInto(t, server.ConfigPath())
	server.Kind = target.Zkd
	server.Restart()
	same("on zkd")
	server.Kill9()
	server.Restart()
	same("on zkd, started again")
	after := walk(t, server.Addr)
	server.Stop()
	// It stands still while ZooKeeper starts, for the reason that dialServing gives.
	must(t, cmd.Process.Signal(syscall.SIGSTOP))
	awaitPaused(t, cmd.Process.Pid)
	back(t, server, after)
	must(t, cmd.Process.Signal(syscall.SIGCONT))
	same("back on ZooKeeper")
	_, err = io.WriteString(in, "end\n")
	must(t, err)
	if got := next(); got != "the watch is told: true" {
		t.Error(got)
	}
	must(t, cmd.Wait())
}

// TestEpochs has the real server go on from an export whose zxids have no epoch, as those of a zkd that began empty:
// alone it counts on, in an ensemble it begins the first epoch.
func TestEpochs(t *testing.T) {
	t.Parallel() // it mostly waits for servers to start
	donor := old(t, target.ServerVersion)
	load(t, donor.Addr, 200, 4)
	donor.Stop()
	fresh := filepath.Join(donor.Dir, "zkd")
	importInto(t, "--from", filepath.Join(donor.Dir, "data"), "--data-dir", fresh)
	for _, c := range []struct {
		name   string
		config map[string]string
	}{
		{"standalone", nil},
		{"an ensemble of one", map[string]string{
			"server.1":          fmt.Sprintf("127.0.0.1:%d:%d", target.FreePort(t), target.FreePort(t)),
			"standaloneEnabled": "false", "initLimit": "10", "syncLimit": "5",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := target.New(t, target.Options{Kind: target.Zookeeper, Config: c.config})
			data := filepath.Join(s.Dir, "data")
			if out, err := run(t, "export", "--data-dir", fresh, "--to", data); err != nil {
				t.Fatalf("zkd export: %v\n%s", err, out)
			}
			must(t, os.WriteFile(filepath.Join(data, "myid"), []byte("1\n"), 0o600))
			s.Restart()
			conn := asSuper(t, s.Addr)
			stat, err := conn.Set("/load", []byte("x"), -1)
			must(t, err)
			_, before, err := conn.Get("/")
			must(t, err)
			if stat.Mzxid <= before.Mzxid || c.config != nil && stat.Mzxid>>32 != 1 {
				t.Errorf("a write has the zxid %#x", stat.Mzxid)
			}
			if n := digestMismatches(t, s); n != "0" {
				t.Errorf("ZooKeeper has found %q digests that do not fit", n)
			}
		})
	}
}
