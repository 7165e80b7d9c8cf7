package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// daemon is a running zkd.
type daemon struct {
	cmd  *exec.Cmd
	addr string
	done chan struct{} // closed when it has ended
	err  error         // why; valid after done

	mu  sync.Mutex
	log strings.Builder // guarded by mu
}

// servingLine is the message that says where the server listens.
var servingLine = regexp.MustCompile(`msg="server started" client=\S*:(\d+) `)

// startProcess starts zkd with args in dir and waits until it serves.
func startProcess(dir string, args []string) (*daemon, error) {
	s := &daemon{cmd: exec.Command("zkd", args...), done: make(chan struct{})}
	s.cmd.Env = append(os.Environ(), noAdmin)
	s.cmd.Dir = dir
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	serving := make(chan string, 1)
	go func() {
		defer close(s.done)
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			s.mu.Lock()
			s.log.WriteString(lines.Text() + "\n")
			s.mu.Unlock()
			if m := servingLine.FindStringSubmatch(lines.Text()); m != nil {
				serving <- m[1]
			}
		}
		s.err = s.cmd.Wait()
	}()
	deadline := time.NewTimer(scriptDeadline)
	defer deadline.Stop()
	select {
	case port := <-serving:
		s.addr = "127.0.0.1:" + port
		return s, nil
	case <-s.done:
		return nil, fmt.Errorf("the server does not start: %w\n%s", s.err, s.output())
	case <-deadline.C:
		s.kill()
		return nil, fmt.Errorf("the server does not serve within %v:\n%s", scriptDeadline, s.output())
	}
}

// output is what the server has logged.
func (s *daemon) output() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// kill ends the process as a power switch would end its memory.
func (s *daemon) kill() {
	_ = s.cmd.Process.Kill() // fails only when it has ended
	<-s.done
}

// wait waits for the end that was asked for.
func (s *daemon) wait() error {
	deadline := time.NewTimer(scriptDeadline)
	defer deadline.Stop()
	select {
	case <-s.done:
		return s.err
	case <-deadline.C:
		s.kill()
		return fmt.Errorf("it does not end within %v", scriptDeadline)
	}
}

// registry finds the server of a script.
type registry struct {
	mu       sync.Mutex
	byScript map[string]*daemon // guarded by mu; by work directory
}

// put keeps the server of a script.
func (r *registry) put(ts *testscript.TestScript, s *daemon) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byScript == nil {
		r.byScript = map[string]*daemon{}
	}
	r.byScript[ts.Getenv("WORK")] = s
}

// of returns the server of a script.
func (r *registry) of(ts *testscript.TestScript) *daemon {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.byScript[ts.Getenv("WORK")]
	if s == nil {
		ts.Fatalf("no server is started")
	}
	return s
}
