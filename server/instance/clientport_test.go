package instance

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"zkd/compat-tests/target"
	"zkd/conf"
)

// commandDeadline is how long an answer may take on a slow machine.
const commandDeadline = time.Minute

// query asks a server for a four-letter command; "" if it does not answer.
func query(addr, name string) string {
	conn, err := net.DialTimeout("tcp", addr, commandDeadline)
	if err != nil {
		return ""
	}
	defer conn.Close()
	if conn.SetDeadline(time.Now().Add(commandDeadline)) != nil {
		return ""
	}
	if _, err := io.WriteString(conn, name); err != nil {
		return ""
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		return ""
	}
	return string(text)
}

// lockedText is a log that is written and read at once.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// serveInstance runs a server until the test ends, and returns where its clients are.
func serveInstance(t *testing.T) (i *Instance, addr string, log *lockedText) {
	t.Helper()
	config, err := conf.Load(conf.Sources{Text: fmt.Appendf(nil, "dataDir=%s\nclientPort=0\n"+
		"clientPortAddress=127.0.0.1\nadmin.enableServer=false\n4lw.commands.whitelist=*\n", t.TempDir())})
	if err != nil {
		t.Fatal(err)
	}
	log = &lockedText{}
	logger := slog.New(slog.NewTextHandler(log, nil))
	if i, err = Open(t.Context(), config, realWorld(), Options{Logger: logger}); err != nil {
		t.Fatal(err)
	}
	addr = i.ClientAddr().String()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- i.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	})
	return i, addr, log
}

// TestTheClientPortMovesWhenItIsFree: a reconfig wants clients at a port that somebody else has. They stay where they
// are until he leaves it.
func TestTheClientPortMovesWhenItIsFree(t *testing.T) {
	i, before, _ := serveInstance(t)
	// A port that the system gives to nobody else while it is free.
	wanted := fmt.Sprintf("127.0.0.1:%d", target.FreePort(t))
	other, err := net.Listen("tcp", wanted)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		i.clientAddresses <- wanted // there is room for one: when the third is in it, the first was looked at
	}
	if query(before, "ruok") != "imok" {
		t.Error("the former port is closed, and there is no other")
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	again, end := time.NewTicker(20*time.Millisecond), time.NewTimer(commandDeadline)
	defer again.Stop()
	defer end.Stop()
	for query(wanted, "ruok") != "imok" {
		select {
		case <-again.C:
		case <-end.C:
			t.Fatal("the port for clients has not moved")
		}
	}
	_, port, _ := strings.Cut(wanted, ":")
	line := "clientPort=" + port + "\n"
	for shown := query(wanted, "conf"); !strings.Contains(shown, line); shown = query(wanted, "conf") {
		select {
		case <-again.C:
		case <-end.C:
			t.Fatalf("conf does not show port %s: %q", port, shown)
		}
	}
}

// TestTheClientPortOfAnotherNameDoesNotMove: localhost is where it is served already; all addresses are more.
func TestTheClientPortOfAnotherNameDoesNotMove(t *testing.T) {
	i, addr, log := serveInstance(t)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	for _, wanted := range []string{"localhost:", "0.0.0.0:", "0.0.0.0:", "127.0.0.1:"} {
		i.clientAddresses <- wanted + port // once the last is in it, all but the one before it were looked at
	}
	again, end := time.NewTicker(20*time.Millisecond), time.NewTimer(commandDeadline)
	defer again.Stop()
	defer end.Stop()
	for query(addr, "ruok") != "imok" {
		select {
		case <-again.C:
		case <-end.C:
			t.Fatal("nobody answers at the port of before")
		}
	}
	text := log.String()
	if strings.Contains(text, "client port not moved") || strings.Count(text, "client port moved") != 1 {
		t.Errorf("want one move, to all addresses; the log:\n%s", text)
	}
}
