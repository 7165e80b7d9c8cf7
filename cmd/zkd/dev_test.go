package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/bench/process"
	"zkd/jute"
	"zkd/jute/client"
)

// runDevProcess runs zkd dev until it prints where the clients connect. end stops it as Ctrl-C does.
func runDevProcess(t *testing.T, args ...string) (addrs []string, end func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "zkd", append([]string{"dev"}, args...)...) //nolint:gosec // ours
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err = errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	give := time.AfterFunc(scriptDeadline, func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("zkd dev prints no line: %v, %v", err, cmd.Wait())
	}
	return strings.Split(strings.TrimSpace(line), ","), func() {
		t.Helper()
		if err := errors.Join(cmd.Process.Signal(syscall.SIGINT), cmd.Wait()); err != nil {
			t.Errorf("zkd dev ends with %v", err)
		}
		give.Stop()
	}
}

// TestDevServes: an ensemble by one command, whose data is kept if it is told where, and thrown away if not.
func TestDevServes(t *testing.T) {
	temp, kept := t.TempDir(), filepath.Join(t.TempDir(), "kept")
	t.Setenv("TMPDIR", temp)
	addrs, end := runDevProcess(t, "--servers", "3", "--port", "0", "--data-dir", kept)
	roles := map[string]int{}
	for _, addr := range addrs {
		roles[process.Mode(t.Context(), addr, time.Minute)]++
	}
	if len(addrs) != 3 || roles["leader"] != 1 || roles["follower"] != 2 {
		t.Errorf("%v have the roles %v", addrs, roles)
	}
	request := jute.CreateRequest{Path: "/kept", Data: []byte("x"), ACL: []jute.ACL{{Perms: jute.PermAll,
		ID: jute.ID{Scheme: "world", ID: "anyone"}}}}
	if code := devAsk(t, addrs[1], jute.OpCreate, request.Append); code != jute.OK {
		t.Errorf("create: %v", code)
	}
	end()

	again, end := runDevProcess(t, "--data-dir", kept)
	if strings.Join(again, ",") != strings.Join(addrs, ",") {
		t.Errorf("the servers are at %v, and were at %v", again, addrs)
	}
	read := jute.PathWatchRequest{Path: "/kept"}
	if code := devAsk(t, again[2], jute.OpGetData, read.Append); code != jute.OK {
		t.Errorf("what was kept: %v", code)
	}
	end()
	if _, err := zkd(t, "dev", "--data-dir", kept, "--servers", "5"); !errors.As(err, &usageError{}) {
		t.Errorf("five servers of three: %v", err)
	}

	alone, end := runDevProcess(t, "--servers", "1", "--port", "0")
	if mode := process.Mode(t.Context(), alone[0], time.Minute); mode != "standalone" {
		t.Errorf("one server is %q", mode)
	}
	end()
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// littleRoom is a disk of which a tenth is free.
type littleRoom struct{ vfs.FS }

// GetDiskUsage implements vfs.FS.
func (littleRoom) GetDiskUsage(string) (vfs.DiskUsage, error) {
	const total = 100 << 30
	return vfs.DiskUsage{TotalBytes: total, AvailBytes: total / 10, UsedBytes: total - total/10}, nil
}

// TestDevWarnsOfWhatIsWrongOnce: its servers, which start and stop together, do not warn of each other, and the disk
// that they share is told of once.
func TestDevWarnsOfWhatIsWrongOnce(t *testing.T) {
	f := devFlags{servers: 3}
	files, release, err := f.files(t.TempDir(), false, false)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	configs, err := devConfigs(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	world := realWorld(logger)
	world.FS = littleRoom{vfs.Default}
	ctx, end := context.WithTimeout(t.Context(), scriptDeadline)
	defer end()
	if err := runDev(ctx, configs, world, logger, func([]string) error { end(); return nil }); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(strings.TrimSpace(log.String()), "\n"); len(lines) != 1 ||
		!strings.Contains(lines[0], "disk space warning") {
		t.Errorf("the log:\n%s", strings.Join(lines, "\n"))
	}
}

// devAsk sends one request through a session of its own.
func devAsk(t *testing.T, addr string, op jute.Op, body func([]byte) []byte) jute.Code {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), scriptDeadline)
	defer cancel()
	c, err := client.Dial(ctx, client.Options{Addr: addr, Timeout: 10 * time.Second, Now: time.Now,
		Dial: (&net.Dialer{}).DialContext})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Cut()
	header, _, err := c.Do(op, body)
	if err != nil {
		t.Fatal(err)
	}
	return header.Err
}
