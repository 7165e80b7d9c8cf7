package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"zkd/bench"
	"zkd/bench/null"
	"zkd/bench/process"
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
	heap         string
	fsyncDelay   time.Duration
	dir          string
	divide       bool
	json         bool

	processors process.Processors // divided by prepare
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
			"  zkd bench compare --binary before=./zkd-before --loads write:64x1,children:64x1@95#1000\n" +
			"  zkd bench compare --servers 3 --loads write:64x1,write:32x100,beside,failover",
	}
	for _, load := range bench.Loads() {
		cmd.AddCommand(newLoadCommand(load))
	}
	cmd.AddCommand(newCompareCommand(), newTableCommand(), newNullCommand(), newSlowDiskCommand())
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

// tellOfFilling returns what says how far a large tree has been made.
func tellOfFilling(out io.Writer) func(made, of int64) {
	return func(made, of int64) {
		_, _ = fmt.Fprintf(out, "zkd: %d of %d znodes are made\n", made, of) // progress only
	}
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
			s.o.Tell = tellOfFilling(cmd.ErrOrStderr())
			return interrupted(cmd.Context(), s.run(cmd.Context(), cmd.OutOrStdout()), benchLeft)
		},
	}
	f := cmd.Flags()
	f.IntVar(&s.o.Clients, "clients", s.o.Clients, "connections, each with a session")
	f.IntVar(&s.o.Outstanding, "outstanding", s.o.Outstanding, "requests on their way on each connection")
	f.IntVar(&s.o.SizeBytes, "size", s.o.SizeBytes, "bytes of data of a znode")
	f.IntVar(&s.o.Count, "count", s.o.Count, "sessions, watches or znodes of the memory loads, children of children, "+
		"or znodes to delete")
	f.IntVar(&s.o.Rate, "rate", s.o.Rate, "paced requests a second")
	f.IntSliceVar(&s.readPercents, "read-percent", []int{s.o.ReadPercent},
		"share of reads in mixed, paced and children; several run in turn")
	f.DurationVar(&s.o.Warmup, "warmup", s.o.Warmup, "time before the measurement")
	f.IntVar(&s.o.WarmRequests, "warm-requests", s.o.WarmRequests,
		"requests that must have been answered before the measurement, unless that takes 30 s more than --warmup")
	f.DurationVar(&s.o.Duration, "duration", s.o.Duration, "time of the measurement")
	f.Uint64Var(&s.o.Seed, "seed", 1, "seed of the data and of the order of reads and writes")
	f.StringVar(&s.server, "server", "127.0.0.1:2181", "address of the server's client port")
	f.IntVar(&s.pid, "pid", 0, "process of the server, for its CPU time and memory")
	f.StringVar(&s.start, "start", "",
		"start a server instead: zkd, zookeeper, null, or a command with {cfg} for its zoo.cfg")
	s.startFlags(cmd)
	return cmd
}

// startFlags are the flags of every command that starts servers.
func (s *benchSettings) startFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.classpath, "classpath", "",
		"file with the Java class path of Apache ZooKeeper (default: Maven fetches "+process.ZookeeperVersion+")")
	f.StringVar(&s.heap, "heap", process.DefaultHeap, "heap of Apache ZooKeeper, as -Xmx takes it")
	f.DurationVar(&s.fsyncDelay, "fsync-delay", 0,
		"make each fsync and fdatasync of started servers take so much longer (Linux)")
	f.IntVar(&s.servers, "servers", 1,
		"servers of an ensemble to start, over which connections are spread; usage is their sum")
	f.StringVar(&s.dir, "dir", "", "where started servers keep their temporary data (default: the system's)")
	f.BoolVar(&s.divide, "divide", false,
		"give the load half of the processors and the started servers the other half (Linux)")
	f.BoolVar(&s.json, "json", false, "print JSON instead of a table")
}

// loadGCPercent has the load's own collector run seldom: it holds little, and what it holds up counts as latency.
const loadGCPercent = 1000

// prepare readies this process to be a load: its collector, and its processors, if it shall have its own.
func (s *benchSettings) prepare() (err error) {
	debug.SetGCPercent(loadGCPercent)
	if s.divide {
		s.processors, err = process.Divide()
	}
	return err
}

// run runs the load, once for each ratio of reads.
func (s *benchSettings) run(ctx context.Context, out io.Writer) error {
	if err := s.prepare(); err != nil {
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

// defaultCases are the figures that zkd is held to.
var defaultCases = []string{
	"write:1x1", "write:16x1", "write:64x1", "write:32x100",
	"create:1x1=100", "create:16x1=100", "create:64x1=100", "create:32x100=100",
	"delete:1x1", "delete:16x1", "delete:64x1", "delete:32x100",
	"ephemeral:1x1", "ephemeral:16x1", "ephemeral:64x1", "ephemeral:32x100",
	"multi:1x1", "multi:16x1", "multi:64x1", "multi:32x10",
	"read:1x1", "read:16x1", "read:64x1", "read:32x100",
	"children:64x1#10", "children:32x100#10", "children:64x1#1000", "children:32x100#1000",
	"children:1x1#100000", "children:16x1#100000",
	"children:64x1@99#1000", "children:64x1@95#1000", "children:64x1@50#1000", "children:16x1@95#100000",
	"mixed:64x1@20", "mixed:64x1@50", "mixed:64x1@80", "mixed:32x100@80",
	"paced:64@0/4000", "paced:64@100/30000", "fanout", "idle", "watches", "million",
}

// ensembleCases are those that an ensemble is held to.
var ensembleCases = []string{
	"write:1x1", "write:16x1", "write:64x1", "write:32x100", "create:64x1=100", "delete:64x1", "read:64x1",
	"read:32x100", "children:64x1#1000", "beside", "failover",
}

// newCompareCommand returns "zkd bench compare".
func newCompareCommand() *cobra.Command {
	var (
		s                bench.CompareOptions
		settings         benchSettings
		cases            []string
		subject, against string
		binaries         []string
		warmup, duration time.Duration
		warmRequests     int
		limit, markdown  bool
	)
	cmd := &cobra.Command{
		Use:   "compare",
		Short: "Run loads on zkd and on Apache ZooKeeper, or on two builds of zkd, in turn and print the ratios",
		Long: "Starts zkd and a reference server in turn (A B, B A, …), each on an empty temporary directory with " +
			"fsync on,\nruns each load on each, and prints both medians and the ratio with its median, least and " +
			"most over the rounds.\n" +
			"With --slots both run at the same time, and the load goes to them in turn in short slots: for small\n" +
			"differences on a machine whose speed changes.\n" +
			"Results that --json has kept are put together by zkd bench table.\n" +
			"With --binary NAME=PATH the reference is another build of zkd; with two, both sides are builds.\n\n" +
			bench.CaseHelp,
		Args: required(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if settings.servers > 1 && !cmd.Flags().Changed("loads") {
				cases = ensembleCases
			}
			if s.Cases, err = parseCases(cases, warmup, duration, warmRequests); err != nil {
				return err
			}
			sides := [2]string{subject, against}
			if err := takeBinaries(&sides, binaries); err != nil {
				return err
			}
			cmd.SilenceUsage = true
			defer interruptible(cmd)()
			defer tellOfCleaning(cmd)()
			for i := range s.Cases {
				s.Cases[i].Tell = tellOfFilling(cmd.ErrOrStderr())
			}
			s.Progress = func(p bench.Progress) { showProgress(cmd.ErrOrStderr(), p) }
			write := bench.WriteComparison
			switch {
			case settings.json:
				write = bench.WriteJSON[bench.Comparison]
			case markdown:
				write = func(w io.Writer, c bench.Comparison) error {
					return bench.WriteMarkdown(w, []bench.Comparison{c})
				}
			}
			return interrupted(cmd.Context(), func() error {
				outcome, err := settings.compare(cmd.Context(), sides, limit, s)
				if err != nil {
					return err
				}
				return write(cmd.OutOrStdout(), outcome)
			}(), benchLeft)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&cases, "loads", defaultCases, "loads to run; with --servers "+strings.Join(ensembleCases, ","))
	f.IntVar(&s.Rounds, "rounds", 3, "rounds of all loads on both servers")
	f.IntVar(&s.Slots, "slots", 0,
		"run both servers of a round at the same time, and cut --duration into so many slots on each in turn;\n"+
			"for read, write, create, multi, ephemeral and mixed")
	f.StringVar(&subject, "subject", startZkd, "the first server: zkd, zookeeper, or a command with {cfg}")
	f.StringVar(&against, "reference", startZookeeper, "the second server, likewise")
	f.StringArrayVar(&binaries, "binary", nil,
		"another build of zkd, as NAME=PATH, to be the reference; the first of two is the subject")
	f.IntVar(&warmRequests, "warm-requests", warmRequestsDefault,
		"requests that must have been answered before each measurement, unless that takes 30 s more than --warmup")
	f.BoolVar(&limit, "null", false,
		"run the loads of one server on one without a state, too: the limit, of which --json and --markdown tell")
	f.BoolVar(&markdown, "markdown", false,
		"print a table for a document, with the ratios in bold where the first server is behind")
	f.DurationVar(&warmup, "warmup", 0, "time before each measurement (default: the load's)")
	f.DurationVar(&duration, "duration", 0, "time of each measurement (default: the load's)")
	settings.startFlags(cmd)
	return cmd
}

// warmRequestsDefault is how many requests a comparison warms both servers up with: a JVM compiles what has been called
// 5,000 to 15,000 times. A guess, some times that.
const warmRequestsDefault = 50_000

// parseCases reads the loads to compare and returns all that is wrong with them.
func parseCases(texts []string, warmup, duration time.Duration, warmRequests int) ([]bench.Options, error) {
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
		o.WarmRequests = warmRequests
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

// compare runs a comparison and notes how.
func (s *benchSettings) compare(
	ctx context.Context, names [2]string, limit bool, o bench.CompareOptions,
) (bench.Comparison, error) {
	if err := s.prepare(); err != nil {
		return bench.Comparison{}, err
	}
	var sides [2]bench.Side
	for i, name := range names {
		side, err := s.side(ctx, name)
		if err != nil {
			return bench.Comparison{}, err
		}
		sides[i] = side
	}
	if limit && s.servers == 1 {
		side, err := s.side(ctx, startNull)
		if err != nil {
			return bench.Comparison{}, err
		}
		o.Limit = side
	}
	notes, err := s.notes(names, o)
	if err != nil {
		return bench.Comparison{}, err
	}
	outcome, err := bench.Compare(ctx, sides, o)
	outcome.Notes = notes
	return outcome, err
}

// notes say how a comparison is made.
func (s *benchSettings) notes(names [2]string, o bench.CompareOptions) ([]string, error) {
	synced, err := null.SyncTime(s.dir)
	if err != nil {
		return nil, fmt.Errorf("measure the disk: %w", err)
	}
	disk := fmt.Sprintf("A kibibyte is written over and synced in %v (the median).", synced.Round(time.Microsecond))
	if s.fsyncDelay > 0 {
		disk = fmt.Sprintf("Each fsync and fdatasync of the servers took %v longer.", s.fsyncDelay)
	}
	var notes []string
	if s.servers > 1 {
		notes = append(notes, fmt.Sprintf("%d servers; processor time, memory and bytes are their sums.", s.servers))
	}
	notes = append(notes, fmt.Sprintf("Rounds: %d.", o.Rounds), disk)
	if len(o.Cases) > 0 {
		notes = append(notes, fmt.Sprintf("Warmed up with %d requests and more; measured for %v.",
			o.Cases[0].WarmRequests, o.Cases[0].Duration))
	}
	if o.Slots > 0 {
		notes = append(notes, fmt.Sprintf("Both ran at the same time, the load on each in turn in %d slots.", o.Slots))
	}
	if slices.Contains(names[:], startZookeeper) {
		notes = append(notes, "Heap of ZooKeeper: "+s.heap+".")
	}
	return notes, nil
}

// tableFilesMax is how many files make one table.
const tableFilesMax = 100

// newTableCommand returns "zkd bench table".
func newTableCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "table FILE...",
		Short: "Put comparisons that were kept as JSON into one table for a document",
		Long: "Reads what zkd bench compare --json has written, and writes one table in Markdown. Of a load that\n" +
			"several files have the last one counts.",
		Args: arguments([]string{"FILE"}, tableFilesMax-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			all := make([]bench.Comparison, len(args))
			for i, name := range args {
				text, err := os.ReadFile(name)
				if err == nil {
					err = json.Unmarshal(text, &all[i])
				}
				if err != nil {
					return fmt.Errorf("read the comparison %s: %w", name, err)
				}
			}
			return bench.WriteMarkdown(cmd.OutOrStdout(), all)
		},
	}
}
