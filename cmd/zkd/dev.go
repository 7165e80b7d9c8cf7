package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"zkd/bench/process"
	"zkd/conf"
	"zkd/quorum/clock"
	"zkd/server/instance"
)

// Ports of the servers of zkd dev: those for the other servers are as far from those for clients as 2888 and 3888 are
// from 2181.
const (
	devPeerPorts     = 2888 - 2181
	devElectionPorts = 3888 - 2181
)

// devPoll is how often a server is asked whether it serves, and devAnswer how long it has for an answer.
const (
	devPoll   = 50 * time.Millisecond
	devAnswer = time.Second
)

// devFlags are what zkd dev is told.
type devFlags struct {
	servers  int
	port     int
	dataDir  string
	set      []string
	logLevel string
}

// newDevCommand returns the command that runs an ensemble on this machine.
func newDevCommand() *cobra.Command {
	f := devFlags{}
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run an ensemble on this machine, to develop and to try things",
		Long: `Run an ensemble on this machine until SIGTERM or SIGINT: all its servers, in this one process, on the
loopback address. When they serve, the connection string for clients is printed, a line on standard output.

The data is thrown away at the end, unless --data-dir says where to keep it. A folder that is there already is run as it
is, with its servers and ports; in it server.1/zoo.cfg and so on are files that zkd serve and zkd status take, too.
The four-letter words are all on, the admin servers off; --set gives any key to all servers, for this run.`,
		Example: `  zkd dev
  zkd dev --servers 5 --port 0
  zkd dev --servers 3 --data-dir ./ensemble`,
		Args: required(),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	cmd.Flags().IntVar(&f.servers, "servers", 3, fmt.Sprintf("how many servers, 1 to %d", process.ServersMax))
	cmd.Flags().IntVar(&f.port, "port", 2181, "the port for clients of the first server; the others have the next "+
		"ones; 0 is any free ones")
	cmd.Flags().StringVar(&f.dataDir, "data-dir", "", "where to keep the data; without it the data is thrown away")
	cmd.Flags().StringArrayVar(&f.set, "set", nil, "set a `key=value` of zoo.cfg; may be repeated")
	cmd.Flags().StringVar(&f.logLevel, "log-level", "warn", "debug, info, warn or error")
	return cmd
}

// run runs the ensemble to its end.
func (f *devFlags) run(cmd *cobra.Command) (err error) {
	logger, err := newLogger(f.logLevel, false)
	if err != nil {
		return usageError{err}
	}
	flags, err := keyValues(f.set)
	if err != nil {
		return err
	}
	if f.servers < 1 || f.servers > process.ServersMax {
		return usageError{fmt.Errorf("--servers %d: must be 1 to %d", f.servers, process.ServersMax)}
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	dir, kept := f.dataDir, f.dataDir != ""
	if !kept {
		if dir, err = os.MkdirTemp("", "zkd-dev-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	files, release, err := f.files(dir, cmd.Flags().Changed("servers"), cmd.Flags().Changed("port"))
	if err != nil {
		return err
	}
	defer release()
	configs, err := devConfigs(files, flags)
	if err != nil {
		return usageError{err}
	}
	raiseThreads()
	limitMemory()
	world := realWorld(logger)
	go tuneCollector(ctx, clock.Real())
	return runDev(ctx, configs, world, logger, func(addrs []string) error {
		what := "is thrown away when they stop"
		if kept {
			what = "is kept in " + dir
		}
		_, err := fmt.Fprintf(cmd.ErrOrStderr(), "%d servers serve; their data %s; Ctrl-C stops them\n", len(addrs),
			what)
		_, printed := fmt.Fprintln(cmd.OutOrStdout(), strings.Join(addrs, ","))
		return errors.Join(err, printed)
	})
}

// devFile is the zoo.cfg of a server in the folder of an ensemble.
func devFile(dir string, id int) string {
	return filepath.Join(dir, fmt.Sprintf("server.%d", id), "zoo.cfg")
}

// files returns the zoo.cfg files of the ensemble in dir, which it makes if there is none. What the operator has asked
// for in so many words must be what is there. release gives back ports that were found.
func (f *devFlags) files(dir string, servers, port bool) (files []string, release func(), err error) {
	for id := 1; id <= process.ServersMax; id++ {
		if _, err := os.Stat(devFile(dir, id)); err != nil {
			break
		}
		files = append(files, devFile(dir, id))
	}
	release = func() {}
	if len(files) > 0 {
		if servers && len(files) != f.servers || port {
			return nil, nil, usageError{fmt.Errorf("%s has an ensemble of %d servers with ports of its own: leave out "+
				"--servers and --port, or name another folder", dir, len(files))}
		}
		return files, release, nil
	}
	first := func(n int) int { return f.port + []int{0, devPeerPorts, devElectionPorts}[n] }
	if f.port == 0 {
		ports, give, err := process.FreePorts(3 * f.servers)
		if err != nil {
			return nil, nil, err
		}
		release = give
		first = func(n int) int { return ports[n*f.servers] }
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, release, err
	}
	for id := 1; id <= f.servers; id++ {
		if err := f.write(dir, id, first); err != nil {
			return nil, release, err
		}
		files = append(files, devFile(dir, id))
	}
	return files, release, nil
}

// write makes the zoo.cfg of a server, and its data directory with its number. first is the first port for clients, for
// servers and for elections.
func (f *devFlags) write(dir string, id int, first func(int) int) error {
	data := filepath.Join(dir, fmt.Sprintf("server.%d", id), "data")
	var b strings.Builder
	fmt.Fprintf(&b, "tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir=%s\nclientPort=%d\n"+
		"clientPortAddress=127.0.0.1\nadmin.enableServer=false\n4lw.commands.whitelist=*\nzkd.diskReserve=0\n",
		data, first(0)+id-1)
	for other := 1; other <= f.servers && f.servers > 1; other++ {
		fmt.Fprintf(&b, "server.%d=127.0.0.1:%d:%d;127.0.0.1:%d\n", other, first(1)+other-1, first(2)+other-1,
			first(0)+other-1)
	}
	if err := os.MkdirAll(data, 0o750); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(data, "myid"), fmt.Appendln(nil, id), 0o600); err != nil {
		return err
	}
	file, err := os.OpenFile(devFile(dir, id), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(b.String())
	return errors.Join(err, file.Close())
}

// devConfigs reads the files. The environment is that of other servers: it does not count.
func devConfigs(files []string, flags map[string]string) ([]*conf.Config, error) {
	var configs []*conf.Config
	for _, file := range files {
		config, err := loadConfig(conf.Sources{Path: file, Flags: flags, ReadFile: os.ReadFile},
			slog.New(slog.DiscardHandler))
		if err != nil {
			return nil, err
		}
		configs = append(configs, config)
	}
	return configs, nil
}

// runDev runs servers until ctx ends or one of them fails, which ends the others. serving is called once all serve,
// with where their clients are. All have one disk, of which the first tells.
func runDev(ctx context.Context, configs []*conf.Config, world instance.World, logger *slog.Logger,
	serving func(addrs []string) error) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	addrs := make([]string, len(configs))
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for n, config := range configs {
		addrs[n] = config.Client.Addr
		revision, built := buildInfo()
		options := instance.Options{Logger: logger.With(slog.Int("server", n+1)), Release: release(),
			Revision: revision, Built: built}
		if n > 0 {
			options.DiskLogger = slog.New(slog.DiscardHandler)
		}
		all.Go(func() {
			if err := runOne(ctx, config, world, options); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("server %d: %w", n+1, err))
				end(err)
			}
		})
	}
	if awaitServing(ctx, addrs) {
		if err := serving(addrs); err != nil {
			mu.Lock()
			errs = append(errs, err)
			mu.Unlock()
			end(err)
		}
	}
	all.Wait()
	return errors.Join(errs...)
}

// runOne runs one server.
func runOne(ctx context.Context, config *conf.Config, world instance.World, o instance.Options) error {
	i, err := instance.Open(ctx, config, world, o)
	if err != nil {
		return err
	}
	return errors.Join(i.Run(ctx), i.Close())
}

// awaitServing waits until all servers serve, and reports false if ctx ends before.
func awaitServing(ctx context.Context, addrs []string) bool {
	poll := clock.Real().NewTicker(devPoll)
	defer poll.Stop()
	for _, addr := range addrs {
		for process.Mode(ctx, addr, devAnswer) == "" {
			select {
			case <-poll.C():
			case <-ctx.Done():
				return false
			}
		}
	}
	return true
}
