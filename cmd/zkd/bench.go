package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"zkd/bench"
	"zkd/bench/process"
)

// Names that --start and --reference take besides a command line.
const (
	startZkd       = "zkd"
	startZookeeper = "zookeeper"
)

// runningClients is how many clients a load has at most on a server that it has not started, unless told: some fewer
// than the default of maxClientCnxns.
const runningClients = 50

// benchSettings are the flags of the bench commands.
type benchSettings struct {
	o            bench.Options
	readPercents []int
	server       string
	pid          int
	start        string
	classpath    string
	servers      int
	dir          string
	divide       bool
	json         bool

	processors process.Processors // divided by run and compare
}

// newBenchCommand returns "zkd bench", with a command for each load and "compare".
func newBenchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Load a server of the ZooKeeper protocol and measure it",
		Long: "Loads a server of the ZooKeeper protocol, zkd or another, and prints throughput, latencies, " +
			"errors, and the server's\nCPU time per request and memory as far as its process is known: it is with " +
			"--start and --pid.\nA running server must let that many clients in (maxClientCnxns). " +
			"Nothing is left on it, neither znodes nor\nsessions; after an interrupt that may take as long as " +
			"the znodes took to be made, and the next one ends at once.",
		Example: "  zkd bench read --server 127.0.0.1:2181 --clients 64 --outstanding 1\n" +
			"  zkd bench mixed --start zkd --read-percent 0,50,100\n" +
			"  zkd bench million --start 'java -cp … QuorumPeerMain {cfg}' --json\n" +
			"  zkd bench compare --rounds 5\n" +
			"  zkd bench compare --servers 3 --loads write:64x1,write:32x100,beside,failover",
	}
	for _, load := range bench.Loads() {
		cmd.AddCommand(newLoadCommand(load))
	}
	cmd.AddCommand(newCompareCommand())
	group(cmd)
	return cmd
}

// benchLeft is what there is of an interrupted load.
const benchLeft = "there is no result, and nothing is left on the server"

// tellOfCleaning says at once that an interrupted load ends, until the returned function is called: it may take a while
// to take away many znodes.
func tellOfCleaning(cmd *cobra.Command) (done func()) {
	stop := context.AfterFunc(cmd.Context(), func() {
		cmd.PrintErrln("zkd: interrupted: taking away what is on the server; the next interrupt ends at once")
	})
	return func() { stop() }
}

// newLoadCommand returns the command of one load.
func newLoadCommand(load bench.Load) *cobra.Command {
	s := &benchSettings{o: load.Defaults}
	s.o.Load = load.Name
	cmd := &cobra.Command{
		Use:   load.Name,
		Short: strings.ToUpper(load.Summary[:1]) + load.Summary[1:],
		Args:  required(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SilenceUsage = true
			defer interruptible(cmd)()
			defer tellOfCleaning(cmd)()
			if s.start == "" && !cmd.Flags().Changed("clients") && s.o.Clients > runningClients {
				cmd.PrintErrf("zkd: %d clients, as a server lets in 60 from one address unless maxClientCnxns says "+
					"more; --clients asks for others\n", runningClients)
				s.o.Clients = runningClients
			}
			return interrupted(cmd.Context(), s.run(cmd.Context(), cmd.OutOrStdout()), benchLeft)
		},
	}
	f := cmd.Flags()
	f.IntVar(&s.o.Clients, "clients", s.o.Clients, "connections, each with a session")
	f.IntVar(&s.o.Outstanding, "outstanding", s.o.Outstanding, "requests on their way on each connection")
	f.IntVar(&s.o.SizeBytes, "size", s.o.SizeBytes, "bytes of data of a znode")
	f.IntVar(&s.o.Count, "count", s.o.Count, "sessions, watches or znodes of the memory loads")
	f.IntVar(&s.o.Rate, "rate", s.o.Rate, "paced requests a second")
	f.IntSliceVar(&s.readPercents, "read-percent", []int{s.o.ReadPercent},
		"share of reads in mixed; several run in turn")
	f.DurationVar(&s.o.Warmup, "warmup", s.o.Warmup, "time before the measurement")
	f.DurationVar(&s.o.Duration, "duration", s.o.Duration, "time of the measurement")
	f.Uint64Var(&s.o.Seed, "seed", 1, "seed of the data and of the order of reads and writes")
	f.StringVar(&s.server, "server", "127.0.0.1:2181", "address of the server's client port")
	f.IntVar(&s.pid, "pid", 0, "process of the server, for its CPU time and memory")
	f.StringVar(&s.start, "start", "",
		"start a server instead: zkd, zookeeper, or a command with {cfg} for its zoo.cfg")
	s.startFlags(cmd)
	return cmd
}

// startFlags are the flags of every command that starts servers.
func (s *benchSettings) startFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.classpath, "classpath", "",
		"file with the Java class path of Apache ZooKeeper (default: Maven fetches "+process.ZookeeperVersion+")")
	f.IntVar(&s.servers, "servers", 1,
		"servers of an ensemble to start, over which connections are spread; usage is their sum")
	f.StringVar(&s.dir, "dir", "", "where started servers keep their temporary data (default: the system's)")
	f.BoolVar(&s.divide, "divide", false,
		"give the load half of the processors and the started servers the other half (Linux)")
	f.BoolVar(&s.json, "json", false, "print JSON instead of a table")
}

// divideProcessors keeps the load and the servers apart, if it shall.
func (s *benchSettings) divideProcessors() (err error) {
	if s.divide {
		s.processors, err = process.Divide()
	}
	return err
}

// run runs the load, once for each ratio of reads.
func (s *benchSettings) run(ctx context.Context, out io.Writer) error {
	if err := s.divideProcessors(); err != nil {
		return err
	}
	var all []bench.Result
	for _, percent := range s.readPercents {
		o := s.o
		o.ReadPercent = percent
		if err := o.Validate(); err != nil {
			return err
		}
		results, err := s.runOnce(ctx, o)
		if err != nil {
			return err
		}
		all = append(all, results...)
	}
	if s.json {
		return bench.WriteJSON(out, all)
	}
	return bench.WriteTable(out, all)
}

func (s *benchSettings) runOnce(ctx context.Context, o bench.Options) ([]bench.Result, error) {
	target := bench.Target{Addr: s.server}
	if s.pid != 0 {
		target.Usage = process.Attach(s.pid)
	}
	if s.start != "" {
		side, err := s.side(ctx, s.start)
		if err != nil {
			return nil, err
		}
		started, stop, err := side.Start(ctx)
		if err != nil {
			return nil, err
		}
		defer stop()
		target = started
	}
	return bench.Run(ctx, target, o)
}

// side returns the server that text names: zkd, zookeeper, or a command line.
func (s *benchSettings) side(ctx context.Context, text string) (bench.Side, error) {
	command, err := s.command(ctx, text)
	if err != nil {
		return bench.Side{}, err
	}
	command.On = s.processors
	if s.servers != 1 {
		return s.ensemble(command)
	}
	return bench.Side{Name: command.Name, Start: func(ctx context.Context) (bench.Target, func(), error) {
		server, err := process.Start(ctx, command, s.dir)
		if err != nil {
			return bench.Target{}, nil, err
		}
		target := bench.Target{Addr: server.Addr, Usage: server.Usage, Restart: server.Restart, Disposable: true}
		return target, server.Stop, nil
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
		target := bench.Target{Addr: addrs[0], More: addrs[1:], Usage: e.Usage, Ensemble: e, Disposable: true}
		return target, e.Stop, nil
	}}, nil
}

func (s *benchSettings) command(ctx context.Context, text string) (process.Command, error) {
	switch text {
	case startZkd:
		self, err := os.Executable()
		if err != nil {
			return process.Command{}, fmt.Errorf("find zkd's own program: %w", err)
		}
		return process.Command{Name: startZkd, Argv: []string{self, "serve", process.ConfigMark}}, nil
	case startZookeeper:
		cache, err := os.UserCacheDir()
		if err != nil {
			return process.Command{}, fmt.Errorf("find the user's cache directory, or give a command: %w", err)
		}
		return process.Zookeeper(ctx, s.classpath, filepath.Join(cache, "zkd-bench"))
	default:
		return process.ParseCommand("reference", text)
	}
}

// defaultCases are the figures that zkd is held to.
var defaultCases = []string{
	"read:64x1", "read:32x100", "write:64x1", "write:32x100", "create:32x100", "multi:32x10", "latency",
	"paced:64@100/30000", "paced:64@0/8000", "mixed:250x100@80", "fanout", "idle", "watches", "million",
}

// ensembleCases are those that an ensemble is held to.
var ensembleCases = []string{"write:64x1", "write:32x100", "read:64x1", "read:32x100", "beside", "failover"}

// newCompareCommand returns "zkd bench compare".
func newCompareCommand() *cobra.Command {
	var (
		s                bench.CompareOptions
		settings         benchSettings
		cases            []string
		subject, against string
		warmup, duration time.Duration
	)
	cmd := &cobra.Command{
		Use:   "compare",
		Short: "Run loads on zkd and on Apache ZooKeeper in turn and print the ratios",
		Long: "Starts zkd and a reference server in turn (A B A B …), each on an empty temporary directory with " +
			"fsync on,\nruns each load on each, and prints both medians and the ratio with its median, least and " +
			"most over the rounds.\nA load is " + bench.CaseSyntax + ".",
		Args: required(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if settings.servers > 1 && !cmd.Flags().Changed("loads") {
				cases = ensembleCases
			}
			if s.Cases, err = parseCases(cases, warmup, duration); err != nil {
				return err
			}
			cmd.SilenceUsage = true
			defer interruptible(cmd)()
			defer tellOfCleaning(cmd)()
			s.Progress = func(p bench.Progress) { showProgress(cmd.ErrOrStderr(), p) }
			return interrupted(cmd.Context(), settings.compare(cmd.Context(), cmd.OutOrStdout(),
				[2]string{subject, against}, s), benchLeft)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&cases, "loads", defaultCases, "loads to run; with --servers "+strings.Join(ensembleCases, ","))
	f.IntVar(&s.Rounds, "rounds", 3, "rounds of all loads on both servers")
	f.StringVar(&subject, "subject", startZkd, "the first server: zkd, zookeeper, or a command with {cfg}")
	f.StringVar(&against, "reference", startZookeeper, "the second server, likewise")
	f.DurationVar(&warmup, "warmup", 0, "time before each measurement (default: the load's)")
	f.DurationVar(&duration, "duration", 0, "time of each measurement (default: the load's)")
	settings.startFlags(cmd)
	return cmd
}

// parseCases reads the loads to compare and returns all that is wrong with them.
func parseCases(texts []string, warmup, duration time.Duration) ([]bench.Options, error) {
	var errs []error
	cases := make([]bench.Options, 0, len(texts))
	for _, text := range texts {
		o, err := bench.ParseCase(text)
		if warmup != 0 {
			o.Warmup = warmup
		}
		if duration != 0 {
			o.Duration = duration
		}
		if err == nil {
			err = o.Validate()
		}
		o.Seed = 1
		cases, errs = append(cases, o), append(errs, err)
	}
	return cases, errors.Join(errs...)
}

func showProgress(out io.Writer, p bench.Progress) {
	_, _ = fmt.Fprintf(out, "round %d on %s\n", p.Round, p.Side) // progress only
	_ = bench.WriteTable(out, p.Results)
}

func (s *benchSettings) compare(
	ctx context.Context, out io.Writer, names [2]string, o bench.CompareOptions,
) error {
	if err := s.divideProcessors(); err != nil {
		return err
	}
	var sides [2]bench.Side
	for i, name := range names {
		side, err := s.side(ctx, name)
		if err != nil {
			return err
		}
		sides[i] = side
	}
	outcome, err := bench.Compare(ctx, sides, o)
	if err != nil {
		return err
	}
	if s.json {
		return bench.WriteJSON(out, outcome)
	}
	return bench.WriteComparison(out, outcome)
}
