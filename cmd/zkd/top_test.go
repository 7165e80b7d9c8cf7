package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/go-zookeeper/zk"
)

// shownScreen is what a program has written to its terminal.
type shownScreen struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

// follow reads what is written until the terminal is closed.
func (s *shownScreen) follow(r io.Reader, done chan<- struct{}) {
	defer close(done)
	var b [4096]byte
	for {
		n, err := r.Read(b[:])
		s.mu.Lock()
		s.b.Write(b[:n])
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// last is the last screen that was drawn, or the whole if text is in none.
func (s *shownScreen) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.b.String()
	return text[max(strings.LastIndex(text, "\x1b[H"), 0):]
}

// await waits until the last screen has all texts.
func (s *shownScreen) await(t *testing.T, texts ...string) {
	t.Helper()
	s.awaitThat(t, strings.Join(texts, ", "), func(got string) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(got, text) })
	})
}

// awaitThat waits until the last screen is as it is to be.
func (s *shownScreen) awaitThat(t *testing.T, what string, good func(screen string) bool) {
	t.Helper()
	deadline := time.NewTimer(scriptDeadline)
	defer deadline.Stop()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for !good(s.last()) {
		select {
		case <-poll.C:
		case <-deadline.C:
			t.Fatalf("not on the screen within %v: %s\n%s", scriptDeadline, what, s.last())
		}
	}
}

// TestTopAtATerminal: an unmodified client works, and a person sees it live: by operation, path and client; with keys,
// in a window that changes its size, and the terminal is given back.
func TestTopAtATerminal(t *testing.T) {
	s, err := startProcess(t.TempDir(), []string{"serve", "--port", "0", "--data-dir", "data", "--set",
		"admin.enableServer=true", "--set", "admin.serverAddress=127.0.0.1", "--set", "admin.serverPort=0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	admin := operatorsLine.FindStringSubmatch(s.output())
	if admin == nil {
		t.Fatalf("no admin server:\n%s", s.output())
	}
	stop := workAsBob(t, s.addr)
	defer stop()

	cmd := exec.Command("zkd", "top", "--admin", "127.0.0.1:"+admin[2], "--interval", "1s")
	cmd.Env = append(os.Environ(), "TERM=xterm")
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 30, Cols: 160})
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	defer terminal.Close()
	screen, done := &shownScreen{}, make(chan struct{})
	go screen.follow(terminal, done)
	keys := func(text string) {
		t.Helper()
		if _, err := terminal.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	screen.await(t, "standalone", "getData", "setData", "create")
	keys("2")
	screen.await(t, "[2 Subtrees]", "/app")
	keys("\x1b[C") // to the right
	screen.await(t, "[3 Znodes]", "/app/one")
	keys("4")
	screen.await(t, "[4 Sessions]", "digest:bob", "127.0.0.1:")
	keys("/bob\r")
	screen.await(t, "/bob", "digest:bob")
	keys("/\x1b")
	screen.await(t, "q quit")
	keys("7 ")
	screen.await(t, "REPLICATE", "FROZEN")
	if err := pty.Setsize(terminal, &pty.Winsize{Rows: 30, Cols: 40}); err != nil {
		t.Fatal(err)
	}
	screen.awaitThat(t, "lines of 40 characters", func(got string) bool {
		return strings.Contains(got, "\r\n") && widest(got) <= 40
	})
	keys("q")
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ends with %v", err)
	}
	<-done
	screen.mu.Lock()
	defer screen.mu.Unlock()
	if all := screen.b.String(); !strings.HasSuffix(all, "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l") {
		t.Errorf("the terminal is left as %q", all[max(len(all)-60, 0):])
	}
}

// escapes are what moves the cursor and changes colours.
var escapes = regexp.MustCompile(`\x1b\[[?0-9;]*[A-Za-z]`)

// widest is the longest line of a screen.
func widest(screen string) (most int) {
	for line := range strings.SplitSeq(escapes.ReplaceAllString(screen, ""), "\r\n") {
		most = max(most, len([]rune(line)))
	}
	return most
}

// workAsBob has an unmodified client read and write until it is told to stop.
func workAsBob(t *testing.T, addr string) (stop func()) {
	t.Helper()
	conn, _, err := zk.Connect([]string{addr}, 30*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.AddAuth("digest", []byte("bob:secret")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/app", "/app/one"} {
		if _, err := conn.Create(path, []byte("x"), 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		pace := time.NewTicker(time.Millisecond) // a client that is not in a hurry
		defer pace.Stop()
		for n := 0; ; n++ {
			select {
			case <-ended:
				return
			case <-pace.C:
			}
			_, _, err := conn.Get("/app/one")
			if err == nil && n%10 == 0 {
				_, err = conn.Set("/app/one", []byte("y"), -1)
			}
			if err == nil && n%50 == 0 {
				_, _ = conn.Create("/app/one", nil, 0, zk.WorldACL(zk.PermAll)) // which is there: a failure
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	}()
	return func() {
		close(ended)
		<-done
		conn.Close()
	}
}
