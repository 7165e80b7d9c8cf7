package main

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// manager is a service manager: a socket that keeps what it is told.
type manager struct {
	t    *testing.T
	path string
	conn *net.UnixConn
}

func newManager(t *testing.T) *manager {
	t.Helper()
	dir, err := os.MkdirTemp("", "zkd") //nolint:usetesting // t.TempDir may be longer than a socket's name can be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // the operating system clears what is left
	m := &manager{t: t, path: filepath.Join(dir, "notify")}
	m.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.conn.Close() }) // nothing is in flight
	if err := m.conn.SetReadDeadline(time.Now().Add(scriptDeadline)); err != nil {
		t.Fatal(err)
	}
	return m
}

// hears returns the next state that the manager is told and that is not of those to skip.
func (m *manager) hears(skip ...string) string {
	m.t.Helper()
	buf := make([]byte, 4096)
	for {
		n, err := m.conn.Read(buf)
		if err != nil {
			m.t.Fatalf("the manager is told nothing: %v", err)
		}
		state := string(buf[:n])
		if len(skip) == 0 || state != skip[0] {
			return state
		}
	}
}

func TestServiceManagerIsTold(t *testing.T) {
	m := newManager(t)
	t.Setenv("NOTIFY_SOCKET", m.path)
	t.Setenv("WATCHDOG_USEC", "20000")
	dir := t.TempDir()
	d, err := startProcess(dir, []string{"serve", "--port", "0", "--data-dir", dir})
	if err != nil {
		t.Fatal(err)
	}
	defer d.kill()
	if got := m.hears(); got != notifyReady {
		t.Errorf("first told %q, want %q", got, notifyReady)
	}
	for range 3 {
		if got := m.hears(); got != notifyWatchdog {
			t.Errorf("told %q, want %q", got, notifyWatchdog)
		}
	}
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := m.hears(notifyWatchdog); got != notifyStopping {
		t.Errorf("told %q at the end, want %q", got, notifyStopping)
	}
	if err := d.wait(); err != nil {
		t.Errorf("the server ended with %v:\n%s", err, d.output())
	}
}

func TestServiceManagerThatIsGoneIsNoFailure(t *testing.T) {
	var log strings.Builder
	n := &notifier{socket: filepath.Join(t.TempDir(), "none"), logger: slog.New(slog.NewTextHandler(&log, nil))}
	n.tell(notifyReady)
	if !strings.Contains(log.String(), "failed to notify the service manager") {
		t.Errorf("log %q, want a warning", log.String())
	}
	log.Reset()
	(&notifier{logger: n.logger}).tell(notifyReady)
	if log.Len() != 0 {
		t.Errorf("without a manager the log is %q, want nothing", log.String())
	}
}

func TestWatchdogBeat(t *testing.T) {
	own := strconv.Itoa(os.Getpid())
	for _, c := range []struct {
		micros, pid string
		want        time.Duration
	}{
		{"", "", 0}, {"0", "", 0}, {"x", "", 0}, {"-5", "", 0},
		{"60000000", "", 30 * time.Second}, {"60000000", own, 30 * time.Second}, {"60000000", "1", 0},
	} {
		if got := watchdogBeat(c.micros, c.pid); got != c.want {
			t.Errorf("watchdogBeat(%q, %q) = %v, want %v", c.micros, c.pid, got, c.want)
		}
	}
}
