package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/storage/migrate"
	"zkd/storage/zkdata"
)

// wideZnodes are so many that what is done with all of them takes seconds.
const wideZnodes = 300_000

// wide is a tree of very many znodes. Its digest is wrong.
type wide struct{}

func (wide) Zxid() jute.Zxid                     { return wideZnodes }
func (wide) Digest() uint64                      { return 1 }
func (wide) Sessions() ([]zkdata.Session, error) { return nil, nil }

// Nodes implements zkdata.Source.
func (wide) Nodes(_ bool, f func(n *zkdata.Node) error) error {
	open := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "world", ID: "anyone"}}}
	data := bytes.Repeat([]byte("x"), 100)
	for i := -1; i < wideZnodes; i++ {
		n := zkdata.Node{Path: fmt.Sprintf("/znode-%08d", i), Data: data, ACL: open, Czxid: 1, Mzxid: 1, Pzxid: 1}
		if i < 0 {
			n = zkdata.Node{Path: "/", ACL: open}
		}
		if err := f(&n); err != nil {
			return err
		}
	}
	return nil
}

// interruptedAt runs a command of zkd in dir, sends it SIGINT when a file that the pattern names is there, and returns
// what it says.
func interruptedAt(t *testing.T, dir, pattern string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "zkd", args...)
	cmd.Dir = dir
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	interruptWhen(t, cmd, filepath.Join(dir, pattern))
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != exitFailed {
		t.Fatalf("zkd %v ends with %v:\n%s", args, err, said.String())
	}
	return said.String()
}

// interruptWhen sends SIGINT to a process when a file that the pattern names is there.
func interruptWhen(t *testing.T, cmd *exec.Cmd, pattern string) {
	t.Helper()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	deadline := time.NewTimer(scriptDeadline)
	defer deadline.Stop()
	for {
		if found, err := filepath.Glob(pattern); err != nil {
			t.Fatal(err)
		} else if len(found) > 0 {
			break
		}
		select {
		case <-poll.C:
		case <-deadline.C:
			t.Fatalf("there is no %s", pattern)
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
}

// TestInterruptsLeaveNothing interrupts an import, an export and a restore: each says so in a sentence, leaves nothing,
// and the same command works again.
func TestInterruptsLeaveNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes as long as to import 300,000 znodes")
	}
	dir := t.TempDir()
	_, err := migrate.WriteDir(vfs.Default, filepath.Join(dir, "zookeeper"), wide{}, zkdata.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	importing := []string{"import", "--force", "--from", "zookeeper", "--data-dir", "data"}
	exporting := []string{"export", "--data-dir", "data", "--to", "back"}
	for _, c := range []struct {
		pattern, left string
		args          []string
	}{
		{"data/state/*.sst", "data", importing}, {"back/version-2/snapshot.*", "back", exporting},
	} {
		said := interruptedAt(t, dir, c.pattern, c.args...)
		if !strings.HasPrefix(said, "zkd: interrupted: nothing is ") || strings.Count(said, "\n") != 1 {
			t.Errorf("zkd %s says %q", c.args[0], said)
		}
		if names, err := os.ReadDir(filepath.Join(dir, c.left)); !os.IsNotExist(err) {
			t.Errorf("zkd %s leaves %v, %v", c.args[0], names, err)
		}
		if status, said := exitStatus(t, dir, c.args...); status != 0 {
			t.Fatalf("zkd %v then ends with %d:\n%s", c.args, status, said)
		}
	}
	if status, said := exitStatus(t, dir, "backup", "--data-dir", "data", "file"); status != 0 {
		t.Fatal(said)
	}
	interruptRestore(t, dir)
}

// interruptRestore interrupts a restore from a pipe that gives half of the backup and does not end, and restores then.
func interruptRestore(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "zkd", "restore", "-", "--data-dir", "new")
	cmd.Dir = dir
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(dir, "file"))
	if err == nil {
		_, err = io.Copy(in, bytes.NewReader(whole[:len(whole)/2]))
	}
	if err != nil {
		t.Fatal(err)
	}
	interruptWhen(t, cmd, filepath.Join(dir, "new", "ZKD-RESTORE"))
	if err := cmd.Wait(); err == nil || !strings.HasPrefix(said.String(), "zkd: interrupted: nothing is restored") {
		t.Errorf("zkd restore ends with %v, and says %q", err, said.String())
	}
	if names, err := os.ReadDir(filepath.Join(dir, "new")); !os.IsNotExist(err) {
		t.Errorf("zkd restore leaves %v, %v", names, err)
	}
	if status, said := exitStatus(t, dir, "restore", "file", "--data-dir", "new"); status != 0 {
		t.Errorf("zkd restore then ends with %d:\n%s", status, said)
	}
}

// TestInterruptedDiff interrupts a comparison that waits for a server.
func TestInterruptedDiff(t *testing.T) {
	server, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	cmd := exec.CommandContext(t.Context(), "zkd", "inspect", "diff", "http://"+server.Addr().String(), "other")
	cmd.Env = append(os.Environ(), "ZKD_SUPER_CREDENTIALS=super:secret")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	give := time.AfterFunc(scriptDeadline, func() { _ = server.Close() })
	defer give.Stop()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	asked, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer asked.Close()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || said.String() != "zkd: interrupted: not all was compared\n" {
		t.Errorf("zkd inspect diff ends with %v, and says %q", err, said.String())
	}
}
