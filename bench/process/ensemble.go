package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// ServersMax bounds an ensemble on one machine: a guess at what one can hold.
const ServersMax = 9

// wordWithin bounds one question for a server's mode.
const wordWithin = time.Second

// Ensemble is several servers that know of each other, on one machine. Its methods are for one goroutine.
type Ensemble struct {
	servers []*Server
	release func() // gives the ports back
}

// StartEnsemble starts n servers, each as Start does but with the others in its zoo.cfg, and returns once each has
// answered a read. Stop must be called in the end.
func StartEnsemble(ctx context.Context, command Command, parent string, n int) (*Ensemble, error) {
	if n < 2 || n > ServersMax {
		return nil, fmt.Errorf("an ensemble of %d servers: it must be 2 to %d", n, ServersMax)
	}
	ports, release, err := FreePorts(3 * n)
	if err != nil {
		return nil, err
	}
	var members strings.Builder
	members.WriteString("initLimit=10\nsyncLimit=5\n")
	for i := range n {
		fmt.Fprintf(&members, "server.%d=127.0.0.1:%d:%d\n", i+1, ports[n+i], ports[2*n+i])
	}
	e := &Ensemble{release: release}
	for i := range n {
		if err := e.add(command, parent, ports[i], members.String()); err != nil {
			e.Stop()
			return nil, err
		}
	}
	for _, s := range e.servers {
		if err := s.Launch(); err != nil {
			e.Stop()
			return nil, err
		}
	}
	for _, s := range e.servers {
		if err := s.await(ctx, "/"); err != nil {
			e.Stop()
			return nil, err
		}
	}
	return e, nil
}

// add writes the files of one more server.
func (e *Ensemble) add(command Command, parent string, port int, members string) error {
	dir, err := ownDir(command, parent)
	if err != nil {
		return err
	}
	s := &Server{Process: Process{Command: command, Dir: dir}}
	e.servers = append(e.servers, s)
	if err := s.configure(port, members); err != nil {
		return err
	}
	if err := os.Mkdir(s.DataDir(), 0o750); err != nil {
		return fmt.Errorf("make the data directory of %s: %w", command.Name, err)
	}
	id := fmt.Sprintf("%d\n", len(e.servers))
	if err := os.WriteFile(filepath.Join(s.DataDir(), "myid"), []byte(id), 0o600); err != nil {
		return fmt.Errorf("write the id of %s: %w", command.Name, err)
	}
	return nil
}

// Addrs are the client ports, in the order of the ids.
func (e *Ensemble) Addrs() []string {
	addrs := make([]string, len(e.servers))
	for i, s := range e.servers {
		addrs[i] = s.Addr
	}
	return addrs
}

// Usage sums what the servers that run use. CPU time of one that was ended is lost with it.
func (e *Ensemble) Usage() (Usage, error) {
	var sum Usage
	for _, s := range e.servers {
		one, err := s.Usage()
		if err != nil {
			return sum, err
		}
		sum.CPU += one.CPU
		sum.RSSBytes += one.RSSBytes
	}
	return sum, nil
}

// Written returns what has been written to the disk of the servers' directories, which is one, by whomever.
func (e *Ensemble) Written() (int64, error) { return writtenTo(e.servers[0].Dir) }

// Leader returns the index of the server that says it leads, once one does.
func (e *Ensemble) Leader(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	poll := time.NewTicker(10 * pollEvery)
	defer poll.Stop()
	for {
		for i, s := range e.servers {
			if Mode(ctx, s.Addr, wordWithin) == "leader" {
				return i, nil
			}
		}
		select {
		case <-ctx.Done():
			return 0, errors.New("no server of the ensemble says that it leads (srvr)")
		case <-poll.C:
		}
	}
}

// End sends a server SIGKILL, or SIGTERM if clean is set, and returns at once.
func (e *Ensemble) End(server int, clean bool) {
	signal := syscall.SIGKILL
	if clean {
		signal = syscall.SIGTERM
	}
	e.servers[server].Signal(signal)
}

// Revive waits until a server has ended, with SIGKILL if it does not go by itself, starts it again, and returns once
// it has answered a read.
func (e *Ensemble) Revive(ctx context.Context, server int) error {
	s := e.servers[server]
	_ = s.AwaitEnd(stopWithin) // it has ended, in time or not
	_, err := s.run(ctx, "/")
	return err
}

// Stop ends all servers and removes their directories.
func (e *Ensemble) Stop() {
	for _, s := range e.servers { // those that would wait for a quorum first need not
		if s.Running() {
			s.Signal(syscall.SIGTERM)
		}
	}
	for _, s := range e.servers {
		s.Stop()
	}
	e.release()
}
