package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Roles of this test's binary, when it is started as one of the processes of a slow disk.
const (
	slowRole = "be-slow"
	syncRole = "sync"
)

// syncs is how many the process makes whose disk is slow.
const syncs = 4

func TestMain(m *testing.M) {
	if len(os.Args) < 2 {
		os.Exit(m.Run())
	}
	var err error
	switch role := os.Args[1]; {
	case role == syncRole:
		err = syncAndTell()
	case role == slowRole && os.Args[2] == SlowServer:
		err = BecomeSlow(os.Args[3:])
	case role == slowRole && os.Args[2] == SlowDelay:
		var d time.Duration
		if d, err = time.ParseDuration(os.Args[3]); err == nil {
			err = DelaySyncs(d)
		}
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// syncAndTell syncs a file from several threads and prints the nanoseconds of each, and of as many writes without one.
func syncAndTell() error {
	f, err := os.CreateTemp("", "sync")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	took := make(chan time.Duration, syncs)
	for i := range syncs {
		go func() {
			began := time.Now()
			if i%2 == 0 {
				_ = f.Sync()
			} else {
				_ = syscall.Fdatasync(int(f.Fd()))
			}
			took <- time.Since(began)
		}()
	}
	for range syncs {
		fmt.Println(int64(<-took))
	}
	return nil
}

// TestSlowSync holds up each sync of a process by what is asked for, whatever thread makes it.
func TestSlowSync(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const delay = 30 * time.Millisecond
	p := Process{Dir: t.TempDir(), Command: Command{
		Name: "syncs", Argv: []string{self, syncRole}, Env: []string{"TMPDIR=" + t.TempDir()},
		Slow: SlowSync{Delay: delay, Program: []string{self, slowRole}},
	}}
	for start := range 2 { // a process that is started again is as slow
		if err := p.Launch(); err != nil {
			t.Fatal(err)
		}
		<-p.Exited()
		if err := p.AwaitEnd(time.Minute); err != nil || p.slower != nil {
			t.Fatalf("%v, and what slows down is %v", err, p.slower)
		}
		if text := p.LogTail(1); !p.State().Success() && strings.Contains(text, "have the kernel stop") {
			t.Skip(text) // a kernel, or a container, that lets nobody
		}
		lines := strings.Fields(p.LogTail(syncs))
		if !p.State().Success() || len(lines) != syncs {
			t.Fatalf("start %d: %v: %q, want %d times", start, p.State(), lines, syncs)
		}
		for _, line := range lines {
			if took, err := strconv.ParseInt(line, 10, 64); err != nil || took < int64(delay) {
				t.Errorf("a sync took %s ns (%v), want at least %v", line, err, delay)
			}
		}
		if err := os.Remove(p.LogPath()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSlowSyncNeedsItsProgram says that it is not there.
func TestSlowSyncNeedsItsProgram(t *testing.T) {
	p := Process{Dir: t.TempDir(), Command: Command{
		Name: "none", Argv: []string{"none"},
		Slow: SlowSync{Delay: time.Millisecond, Program: []string{filepath.Join(t.TempDir(), "none")}},
	}}
	if err := p.Launch(); !errors.Is(err, os.ErrNotExist) || p.Running() || p.slower != nil {
		t.Errorf("error %v, want that there is no such program", err)
	}
}
