package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
)

// keyWithin bounds what a key does. A guess: the machine may be busy.
const keyWithin = time.Minute

// person types at a shell and reads what it shows.
type person struct {
	t    *testing.T
	file *os.File

	mu    sync.Mutex
	shown []byte // guarded by mu
	more  chan struct{}
}

// whereIsTheCursor is what an editor asks a terminal (ECMA-48, DSR).
const whereIsTheCursor = "\x1b[6n"

// sit starts zkd cli at a terminal. What env says is added to the environment.
func sit(t *testing.T, home string, env []string, args ...string) *person {
	t.Helper()
	cmd := exec.Command("zkd", append([]string{"cli"}, args...)...)
	cmd.Env = append(append(os.Environ(), "HOME="+home, "TERM=xterm", "NO_COLOR="), env...)
	file, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 120})
	if err != nil {
		t.Fatal(err)
	}
	p := &person{t: t, file: file, more: make(chan struct{}, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 4096)
		for {
			n, err := file.Read(b)
			p.mu.Lock()
			p.shown = append(p.shown, b[:n]...)
			p.mu.Unlock()
			if strings.Contains(string(b[:n]), whereIsTheCursor) {
				_, _ = file.WriteString("\x1b[1;1R") // as a terminal answers
			}
			select {
			case p.more <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has mostly ended
		_ = cmd.Wait()
		<-done
		_ = file.Close()
	})
	return p
}

// types sends keys, and waits until text was shown since; it returns all that was.
func (p *person) types(keys, text string) string {
	p.t.Helper()
	p.mu.Lock()
	p.shown = nil
	p.mu.Unlock()
	if _, err := p.file.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
	timer := time.NewTimer(keyWithin)
	defer timer.Stop()
	for {
		p.mu.Lock()
		shown := string(p.shown)
		p.mu.Unlock()
		if strings.Contains(shown, text) {
			return shown
		}
		select {
		case <-p.more:
		case <-timer.C:
			p.t.Fatalf("after %q waited for %q, was shown %q", keys, text, shown)
		}
	}
}

// TestShellAtATerminal: completion of commands, options and paths, history, colours, and that what strangers have
// written does not steer the terminal.
func TestShellAtATerminal(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server")
	}
	server, err := startProcess(t.TempDir(), []string{"serve", "--port", "0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.kill)
	home := t.TempDir()
	p := sit(t, home, nil, "-server", server.addr)
	shown := p.types("", "CONNECTED) 0]")
	if !strings.Contains(shown, "\x1b[") {
		t.Errorf("no colours: %q", shown)
	}
	p.types("create /orchard\r", "Created /orchard")
	p.types("create /orchard/apple red\r", "Created /orchard/apple")
	p.types("getAllCh\t", "getAllChildrenNumber")
	p.types("/orch\t", "/orchard")
	p.types("\x15", "2] ") // Ctrl-U: away with the line
	p.types("get /or\t", "/orchard/")
	p.types("a\t", "apple")
	p.types("\r", "red")
	p.types("\x1b[A\x1b[A\r", "Node already exists: /orchard/apple") // the line before the last one
	p.types("get -\t", "-x")
	p.types("\x15addauth digest ann:secret\r", "5] ")

	// Another one has written what a terminal would obey.
	evil := exec.Command("zkd", "cli", "-q", "-server", server.addr, "set", "/orchard/apple", "\x1b]0;evil\x07\u202e")
	evil.Env = append(os.Environ(), "HOME="+home)
	if out, err := evil.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v: %s", err, out)
	}
	if shown := p.types("get /orchard/apple\r", "evil"); strings.Contains(shown, "\x1b]0;") ||
		!strings.Contains(shown, `\x1b]0;evil\x07\u202e`) {
		t.Errorf("shown %q", shown)
	}
	raw := exec.Command("zkd", "cli", "-q", "-server", server.addr, "get", "/orchard/apple")
	raw.Env = append(os.Environ(), "HOME="+home)
	if out, err := raw.Output(); err != nil || string(out) != "\x1b]0;evil\x07\u202e\n" {
		t.Errorf("in a pipe: %q, %v", out, err)
	}
	p.types("\x03", "^C") // gives a line up, and nothing else
	p.types("quit\r", "type:None")
	history, err := os.ReadFile(filepath.Join(home, ".zkd_history"))
	if err != nil || !strings.Contains(string(history), "create /orchard/apple red") ||
		strings.Contains(string(history), "secret") {
		t.Errorf("history %q, %v", history, err)
	}
	if info, err := os.Stat(filepath.Join(home, ".zkd_history")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the history is for %v, %v", info.Mode(), err)
	}

	plain := sit(t, home, []string{"NO_COLOR=1"}, "-server", server.addr)
	if shown := plain.types("", "CONNECTED) 0]"); strings.Contains(shown, "\x1b[1m") {
		t.Errorf("with NO_COLOR: %q", shown)
	}
	plain.types("ls /orchard\r", "[apple]")
	plain.types("\x04", "") // Ctrl-D
}
