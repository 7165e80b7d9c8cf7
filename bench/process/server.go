package process

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"zkd/bench/client"
	"zkd/jute"
)

// Bounds of the waits on a server. Guesses: a JVM starts in 1 to 2 s, and reads a snapshot of a million znodes in 5 to
// 10 s.
const (
	startWithin = 180 * time.Second
	stopWithin  = 30 * time.Second
	// pollEvery is how exactly the time of a start is known.
	pollEvery = 2 * time.Millisecond
	// attemptWithin bounds the first attempts to read. ZooKeeper forgets connections that come while it starts (a
	// NullPointerException in ZooKeeperServer.removeCnxn), so a longer wait would count as time of its start. It
	// doubles with each attempt that took all of it, up to attemptMax, for servers that are slow.
	attemptWithin = 100 * time.Millisecond
	attemptMax    = 10 * time.Second
)

// ConfigMark stands for the path of the zoo.cfg in a command.
const ConfigMark = "{cfg}"

// ErrNeverServed means that a server was started but did not answer a read in time, or ended before.
var ErrNeverServed = errors.New("server did not begin to serve")

// Command says how to start a server: an argument vector in which ConfigMark stands for the path of the zoo.cfg.
type Command struct {
	Name string // for messages and tables
	Argv []string
	Env  []string // NAME=value pairs added to this process's environment
	On   Processors
}

// ParseCommand splits a command line at white space; there is no quoting. A line without ConfigMark gets it at its
// end.
func ParseCommand(name, line string) (Command, error) {
	argv := strings.Fields(line)
	if len(argv) == 0 {
		return Command{}, fmt.Errorf("the command for %s is empty: give a program and its arguments", name)
	}
	if !strings.Contains(line, ConfigMark) {
		argv = append(argv, ConfigMark)
	}
	return Command{Name: name, Argv: argv}, nil
}

// Server is a server process on a directory of its own. Its methods are for one goroutine.
type Server struct {
	Addr string

	command Command
	dir     string
	cmd     *exec.Cmd
	exited  chan struct{} // closed once cmd has been waited for
}

// Start makes a directory in parent ("" for the system's), writes a zoo.cfg with fsync on and ZooKeeper's defaults,
// starts command on it and returns once the server has answered a read. Stop must be called in the end.
func Start(ctx context.Context, command Command, parent string) (*Server, error) {
	dir, err := os.MkdirTemp(parent, "zkd-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for %s: %w", command.Name, err)
	}
	s := &Server{command: command, dir: dir}
	ports, err := freePorts(1)
	if err == nil {
		err = s.configure(ports[0], "")
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	if _, err := s.run(ctx, "/"); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// The ports that freePorts chooses from: below those that the system gives to whoever asks for any (from 32768 on with
// Linux), so that nobody gets the port of a server that has not begun yet, or is down for a moment.
const (
	freePortsFrom = 17_000
	freePortsTo   = 32_000
	freePortsTry  = 100 // for each port
)

// freePorts returns n different ports of the loopback address that were free a moment ago.
func freePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	var last error
	for range n * freePortsTry {
		if len(ports) == n {
			break
		}
		port := freePortsFrom + rand.IntN(freePortsTo-freePortsFrom) //nolint:gosec // any will do
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			last = err
			continue
		}
		defer l.Close() //nolint:errcheck // held until all are chosen, so that they differ
		ports = append(ports, port)
	}
	if len(ports) < n {
		return nil, fmt.Errorf("find a free port from %d to %d: %w", freePortsFrom, freePortsTo, last)
	}
	return ports, nil
}

// configure writes zoo.cfg, with more at its end.
func (s *Server) configure(port int, more string) error {
	s.Addr = fmt.Sprintf("127.0.0.1:%d", port)
	cfg := fmt.Sprintf("tickTime=2000\ndataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\n"+
		"maxClientCnxns=0\nforceSync=yes\nadmin.enableServer=false\n", s.dataDir(), port) + more
	if err := os.WriteFile(s.configPath(), []byte(cfg), 0o600); err != nil {
		return fmt.Errorf("write the server's configuration: %w", err)
	}
	return nil
}

func (s *Server) dataDir() string    { return filepath.Join(s.dir, "data") }
func (s *Server) configPath() string { return filepath.Join(s.dir, "zoo.cfg") }

// run starts the process and returns the time from there to the first answered read of path.
func (s *Server) run(ctx context.Context, path string) (time.Duration, error) {
	began := time.Now()
	if err := s.launch(); err != nil {
		return 0, err
	}
	if err := s.await(ctx, path); err != nil {
		return 0, err
	}
	return time.Since(began), nil
}

// launch starts the process.
func (s *Server) launch() error {
	logFile, err := os.OpenFile(filepath.Join(s.dir, "server.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the server's log: %w", err)
	}
	argv := make([]string, len(s.command.Argv))
	for i, arg := range s.command.Argv {
		argv[i] = strings.ReplaceAll(arg, ConfigMark, s.configPath())
	}
	s.cmd = exec.Command(argv[0], argv[1:]...) //nolint:gosec,noctx // the operator's command; Stop ends it
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = s.dir, logFile, logFile
	s.cmd.Env = append(os.Environ(), s.command.Env...)
	s.cmd.SysProcAttr = ownGroup()
	err = s.command.On.start(s.cmd)
	_ = logFile.Close() // the child has its own descriptor
	if err != nil {
		s.cmd = nil
		return fmt.Errorf("start %s: %w", s.command.Name, err)
	}
	s.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) {
		_ = cmd.Wait() // a killed server has an error here
		close(exited)
	}(s.cmd, s.exited)
	return nil
}

// await returns once the server has answered a read of path.
func (s *Server) await(ctx context.Context, path string) error {
	if err := s.awaitRead(ctx, path); err != nil {
		return fmt.Errorf("%s: %w; the end of its log:\n%s", s.command.Name, err, s.logTail())
	}
	return nil
}

// awaitRead returns once the server has answered a read of path.
func (s *Server) awaitRead(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for within := attemptWithin; ; {
		attempt, cancel := context.WithTimeout(ctx, within)
		err := firstRead(attempt, s.Addr, path)
		if attempt.Err() != nil {
			within = min(2*within, attemptMax)
		}
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-s.exited:
			return fmt.Errorf("%w: the process has ended", ErrNeverServed)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrNeverServed, err)
		case <-poll.C:
		}
	}
}

func firstRead(ctx context.Context, addr, path string) error {
	conn, err := client.Dial(ctx, addr, 10*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	request := jute.PathWatchRequest{Path: path}
	header, _, err := conn.Do(jute.OpGetData, request.Append)
	if err == nil && header.Err != jute.OK {
		err = fmt.Errorf("read %s: %v", path, header.Err)
	}
	return err
}

// Usage returns what the server and its children use.
func (s *Server) Usage() (Usage, error) { return UsageOf(s.cmd.Process.Pid) }

// Restart kills the server with SIGKILL, starts it again on the data it has, and returns the time from that start to
// the first answered read of path.
func (s *Server) Restart(ctx context.Context, path string) (time.Duration, error) {
	s.signal(syscall.SIGKILL)
	<-s.exited // nothing survives SIGKILL for long
	return s.run(ctx, path)
}

// Stop ends the server, with SIGKILL if it does not go by itself, and removes its directory.
func (s *Server) Stop() {
	if s.cmd != nil {
		s.signal(syscall.SIGTERM)
		s.awaitEnd()
		s.cmd = nil
	}
	_ = os.RemoveAll(s.dir) // a temporary directory
}

// awaitEnd returns once the server has ended, with SIGKILL if it does not go by itself.
func (s *Server) awaitEnd() {
	wait := time.NewTimer(stopWithin)
	defer wait.Stop()
	select {
	case <-s.exited:
	case <-wait.C:
	}
	s.signal(syscall.SIGKILL) // what is left of the group
	<-s.exited
}

func (s *Server) signal(sig syscall.Signal) {
	_ = syscall.Kill(-s.cmd.Process.Pid, sig) // the group may have gone already
}

// logTail returns the last 20 lines of what the server has printed.
func (s *Server) logTail() string {
	text, err := os.ReadFile(filepath.Join(s.dir, "server.log"))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// Attach returns a function that reads the usage of a process that is there already.
func Attach(pid int) func() (Usage, error) {
	return func() (Usage, error) {
		usage, err := UsageOf(pid)
		if err != nil {
			return usage, fmt.Errorf("usage of process %s: %w", strconv.Itoa(pid), err)
		}
		return usage, nil
	}
}
