package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"zkd/jute"
	"zkd/jute/client"
)

// Bounds of the waits on a server. Guesses: a JVM starts in 1 to 2 s, and reads a snapshot of a million znodes in 5 to
// 10 s.
const (
	startWithin = 180 * time.Second
	stopWithin  = 30 * time.Second
	tailLines   = 20 // of its log, when it does not serve
	// pollEvery is how exactly the time of a start is known.
	pollEvery = 2 * time.Millisecond
	// attemptWithin bounds the first attempts to read. ZooKeeper forgets connections that come while it starts (a
	// NullPointerException in ZooKeeperServer.removeCnxn), so a longer wait would count as time of its start. It
	// doubles with each attempt that took all of it, up to attemptMax, for servers that are slow.
	attemptWithin = 100 * time.Millisecond
	attemptMax    = 10 * time.Second
)

// ErrNeverServed means that a server was started but did not answer a read in time, or ended before.
var ErrNeverServed = errors.New("server did not begin to serve")

// Server is a server process on a directory of its own. Its methods are for one goroutine.
type Server struct {
	Process
	Addr string

	release func() // gives its ports back; nil if they are another's
}

// Start makes a directory in parent ("" for the system's), writes a zoo.cfg with fsync on and ZooKeeper's defaults,
// starts command on it and returns once the server has answered a read. Stop must be called in the end.
func Start(ctx context.Context, command Command, parent string) (*Server, error) {
	dir, err := ownDir(command, parent)
	if err != nil {
		return nil, err
	}
	s := &Server{Process: Process{Command: command, Dir: dir}}
	ports, release, err := FreePorts(1)
	if err == nil {
		s.release = release
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

// ownDir makes a directory for a server in parent, and returns its absolute path: the server runs in it.
func ownDir(command Command, parent string) (string, error) {
	dir, err := os.MkdirTemp(parent, "zkd-bench-")
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return "", fmt.Errorf("make a directory for %s: %w", command.Name, err)
	}
	return dir, nil
}

// configure writes zoo.cfg, with more at its end.
func (s *Server) configure(port int, more string) error {
	s.Addr = fmt.Sprintf("127.0.0.1:%d", port)
	cfg := fmt.Sprintf("tickTime=2000\ndataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\n"+
		"maxClientCnxns=0\nforceSync=yes\nadmin.enableServer=false\n", s.DataDir(), port) + more
	if err := os.WriteFile(s.ConfigPath(), []byte(cfg), 0o600); err != nil {
		return fmt.Errorf("write the server's configuration: %w", err)
	}
	return nil
}

// run starts the process and returns the time from there to the first answered read of path.
func (s *Server) run(ctx context.Context, path string) (time.Duration, error) {
	began := time.Now()
	if err := s.Launch(); err != nil {
		return 0, err
	}
	if err := s.await(ctx, path); err != nil {
		return 0, err
	}
	return time.Since(began), nil
}

// await returns once the server has answered a read of path.
func (s *Server) await(ctx context.Context, path string) error {
	if err := s.awaitRead(ctx, path); err != nil {
		return fmt.Errorf("%s: %w; the end of its log:\n%s", s.Command.Name, err, s.LogTail(tailLines))
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
	conn, err := client.Dial(ctx, client.Options{Addr: addr, Timeout: 10 * time.Second, Now: time.Now,
		Dial: new(net.Dialer).DialContext})
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
func (s *Server) Usage() (Usage, error) { return UsageOf(s.PID()) }

// Written returns what has been written to the disk of the server's directory, by whomever.
func (s *Server) Written() (int64, error) { return writtenTo(s.Dir) }

// Restart kills the server with SIGKILL, starts it again on the data it has, and returns the time from that start to
// the first answered read of path.
func (s *Server) Restart(ctx context.Context, path string) (time.Duration, error) {
	if err := s.End(syscall.SIGKILL, stopWithin); err != nil { // nothing survives it for long
		return 0, err
	}
	return s.run(ctx, path)
}

// Stop ends the server, with SIGKILL if it does not go by itself, and removes its directory.
func (s *Server) Stop() {
	_ = s.End(syscall.SIGTERM, stopWithin) // it has ended, in time or not
	if s.release != nil {
		s.release()
	}
	_ = os.RemoveAll(s.Dir) // a temporary directory
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
