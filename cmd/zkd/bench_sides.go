package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"zkd/bench"
	"zkd/bench/null"
	"zkd/bench/process"
)

// Names that --start and the sides of a comparison take besides a command line.
const (
	startZkd       = "zkd"
	startZookeeper = "zookeeper"
	startNull      = "null"
)

// binaryMark begins the name of a side that is a build of zkd: NAME=PATH follows.
const binaryMark = "binary:"

// takeBinaries puts builds of zkd, as NAME=PATH, into the sides of a comparison.
func takeBinaries(sides *[2]string, binaries []string) error {
	if len(binaries) > len(sides) {
		return usageError{fmt.Errorf("--binary is given %d times: two sides are compared", len(binaries))}
	}
	for i, text := range binaries {
		name, path, ok := strings.Cut(text, "=")
		if !ok || name == "" || path == "" {
			return usageError{fmt.Errorf("--binary is %q: it must be NAME=PATH", text)}
		}
		sides[len(sides)-len(binaries)+i] = binaryMark + text
	}
	return nil
}

// side returns the server that text names: zkd, zookeeper, null, a build of zkd, or a command line.
func (s *benchSettings) side(ctx context.Context, text string) (bench.Side, error) {
	command, err := s.command(ctx, text)
	if err != nil {
		return bench.Side{}, err
	}
	command.On = s.processors
	if command.Slow, err = s.slow(); err != nil {
		return bench.Side{}, err
	}
	if s.servers != 1 {
		return s.ensemble(command)
	}
	return bench.Side{Name: command.Name, Start: func(ctx context.Context) (bench.Target, func(), error) {
		server, err := process.Start(ctx, command, s.dir)
		if err != nil {
			return bench.Target{}, nil, err
		}
		return bench.Target{
			Addr: server.Addr, Usage: server.Usage, Written: server.Written, Restart: server.Restart, Disposable: true,
		}, server.Stop, nil
	}}, nil
}

// ensemble returns a side of several servers.
func (s *benchSettings) ensemble(command process.Command) (bench.Side, error) {
	if s.servers < 2 || s.servers > process.ServersMax {
		return bench.Side{}, fmt.Errorf("--servers is %d: it must be 1 to %d", s.servers, process.ServersMax)
	}
	return bench.Side{Name: command.Name, Start: func(ctx context.Context) (bench.Target, func(), error) {
		e, err := process.StartEnsemble(ctx, command, s.dir, s.servers)
		if err != nil {
			return bench.Target{}, nil, err
		}
		addrs := e.Addrs()
		return bench.Target{
			Addr: addrs[0], More: addrs[1:], Usage: e.Usage, Written: e.Written, Ensemble: e, Disposable: true,
		}, e.Stop, nil
	}}, nil
}

func (s *benchSettings) command(ctx context.Context, text string) (process.Command, error) {
	if binary, ok := strings.CutPrefix(text, binaryMark); ok {
		return binaryCommand(binary)
	}
	self, err := ownProgram()
	if err != nil {
		return process.Command{}, err
	}
	switch text {
	case startZkd:
		return process.Command{Name: text, Argv: []string{self, "serve", process.ConfigMark}}, nil
	case startNull:
		return process.Command{Name: text, Argv: []string{self, "bench", nullName, process.ConfigMark}}, nil
	case startZookeeper:
		cache, err := os.UserCacheDir()
		if err != nil {
			return process.Command{}, fmt.Errorf("find the user's cache directory, or give a command: %w", err)
		}
		return process.Zookeeper(ctx, s.classpath, filepath.Join(cache, "zkd-bench"), s.heap)
	default:
		return process.ParseCommand("reference", text)
	}
}

// ownProgram is the path of this program.
func ownProgram() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find zkd's own program: %w", err)
	}
	return self, nil
}

// binaryCommand is a build of zkd, as NAME=PATH.
func binaryCommand(text string) (process.Command, error) {
	name, path, _ := strings.Cut(text, "=")
	path, err := exec.LookPath(path)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return process.Command{}, fmt.Errorf("find the build %s: %w", name, err)
	}
	return process.Command{Name: name, Argv: []string{path, "serve", process.ConfigMark}}, nil
}

// Names of the commands that are for processes that "zkd bench" starts.
const (
	nullName     = "null-server"
	slowDiskName = "slow-disk"
)

// slow says how slow the disk of a started server is.
func (s *benchSettings) slow() (process.SlowSync, error) {
	if s.fsyncDelay == 0 {
		return process.SlowSync{}, nil
	}
	if s.fsyncDelay < 0 || s.fsyncDelay > fsyncDelayMax {
		return process.SlowSync{}, fmt.Errorf("--fsync-delay is %v: it must be 0 to %v", s.fsyncDelay, fsyncDelayMax)
	}
	self, err := ownProgram()
	return process.SlowSync{Delay: s.fsyncDelay, Program: []string{self, "bench", slowDiskName}}, err
}

// fsyncDelayMax is as slow as a disk can be chosen. A guess: no server serves with such a one.
const fsyncDelayMax = 10 * time.Second

// newNullCommand returns "zkd bench null-server", which is started for a comparison.
func newNullCommand() *cobra.Command {
	return &cobra.Command{
		Use:    nullName + " zoo.cfg",
		Short:  "Serve the loads without a state, as the limit that a comparison has beside its sides",
		Args:   required("zoo.cfg"),
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := loadConfig(configSources(nil, args), slog.New(slog.DiscardHandler))
			if err != nil {
				return usageError{err}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			l, err := new(net.ListenConfig).Listen(ctx, "tcp", config.Client.Addr)
			if err != nil {
				return fmt.Errorf("listen for clients: %w", err)
			}
			return null.Serve(ctx, l, config.Storage.DataDir)
		},
	}
}

// newSlowDiskCommand returns "zkd bench slow-disk", which --fsync-delay starts a server with.
func newSlowDiskCommand() *cobra.Command {
	return &cobra.Command{
		Use: fmt.Sprintf("%s {%s COMMAND... | %s DURATION}", slowDiskName, process.SlowServer,
			process.SlowDelay),
		Short:              "Start a server whose fsyncs are held up, or hold them up",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) >= 2 && args[0] == process.SlowServer:
				return process.BecomeSlow(args[1:])
			case len(args) == 2 && args[0] == process.SlowDelay:
				d, err := time.ParseDuration(args[1])
				if err != nil {
					return usageError{err}
				}
				return process.DelaySyncs(d)
			default:
				return usageError{errors.New("zkd bench starts this by itself: see --fsync-delay")}
			}
		},
	}
}
