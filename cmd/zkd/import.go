package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/spf13/cobra"

	"zkd/conf"
	"zkd/quorum/clock"
	"zkd/server/instance"
	"zkd/storage/apply"
	"zkd/storage/datadir"
	"zkd/storage/migrate"
	"zkd/storage/zkdata"
)

// importSettings are the flags of zkd import.
type importSettings struct {
	set             []string
	from, fromLog   string
	dataDir, logDir string
	force           bool
	owner           ownerFlag
	output          outputFlag
	logLevel        string
}

// newImportCommand returns the command that brings over the data of an Apache ZooKeeper server.
func newImportCommand() *cobra.Command {
	s := &importSettings{}
	cmd := &cobra.Command{
		Use:   "import [zoo.cfg]",
		Short: "Bring over the data of an Apache ZooKeeper server",
		Long: `Read the data directory of an Apache ZooKeeper server (3.4 to 3.9), which must not run, into an empty
zkd one.

With a zoo.cfg alone the data is read from its dataDir and dataLogDir, and zkd's is put beside it: nothing of
ZooKeeper's is changed. With --from another directory is read. Sessions with their passwords, ephemerals, ACLs,
containers, TTL znodes and quotas come along, and zxids go on from there, so that clients keep their sessions.

Of an ensemble, import the directory of the server with the highest zxid, into one server, and start that one first;
the others are started empty and get the data from it (docs/migration.md).

What is damaged, missing or does not fit its digest is refused, with the file and the offset, and nothing is left in
the target; nor is by Ctrl-C. An import that was killed is begun anew by the next one.

Exit status: 0 imported, 1 failed, 2 the command line or the configuration is wrong, 3 the data of the server is damaged
or not whole, 4 the target cannot be used, for example because it holds data.`,
		Example: `  zkd import /etc/zookeeper/zoo.cfg
  zkd import --from /var/lib/zookeeper --from-log /var/log/zookeeper --data-dir /var/lib/zkd
  zkd import zoo.cfg --output json`,
		Args: oneOptional(),
		RunE: func(cmd *cobra.Command, args []string) error {
			defer interruptible(cmd)()
			return s.run(cmd.Context(), cmd.OutOrStdout(), args)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&s.set, "set", nil, "set a `key=value` of zoo.cfg; may be repeated")
	f.StringVar(&s.from, "from", "", "dataDir of the ZooKeeper server; default: that of zoo.cfg")
	f.StringVar(&s.fromLog, "from-log", "", "dataLogDir of the ZooKeeper server; default: --from, or that of zoo.cfg")
	f.StringVar(&s.dataDir, "data-dir", "", "where zkd's data is to live (dataDir)")
	f.StringVar(&s.logDir, "log-dir", "", "where zkd's log is to live (dataLogDir); default: --data-dir")
	f.BoolVar(&s.force, "force", false, "import although the digest does not fit or transactions are missing")
	s.owner.addTo(cmd)
	s.output.addTo(cmd)
	f.StringVar(&s.logLevel, "log-level", "warn", "debug, info, warn or error")
	return cmd
}

// run imports and prints what was found.
func (s *importSettings) run(ctx context.Context, out io.Writer, args []string) error {
	logger, err := newLogger(s.logLevel, false)
	if err != nil {
		return usageError{err}
	}
	o, err := s.options(args, logger)
	if err != nil {
		return err
	}
	if _, _, err := s.owner.ids(); err != nil {
		return err
	}
	release, err := s.claimPorts(ctx, args)
	if err != nil {
		return statusError{err, exitSource}
	}
	defer release()
	bar := newProgress(os.Stderr, 0)
	bar.what = "znodes and changes"
	o.Progress = func(p migrate.Progress) { bar.show(p.ReadBytes, p.TotalBytes, p.Znodes+p.Changes) }
	start := clock.Real().Now()
	report, err := migrate.Import(ctx, o)
	bar.end()
	if err != nil {
		return importError(interrupted(ctx, err, "nothing is imported, and nothing is left in "+o.Target.Dir))
	}
	took := clock.Real().Since(start)
	if err := s.owner.give(os.Stderr, o.Target.Dir, o.Target.LogDir); err != nil {
		return statusError{err, exitTarget}
	}
	return s.output.write(out, importShown(report, took), func(w io.Writer) error {
		return importText(w, report, took)
	})
}

// options returns what is to be imported where.
func (s *importSettings) options(args []string, logger *slog.Logger) (o migrate.Options, err error) {
	given, err := keyValues(s.set)
	if err != nil {
		return o, err
	}
	flags := maps.Clone(given)
	if s.dataDir != "" {
		flags["dataDir"] = s.dataDir
		flags["dataLogDir"] = s.dataDir
	}
	if s.logDir != "" {
		flags["dataLogDir"] = s.logDir
	}
	if len(args) == 0 && (s.from == "" || s.dataDir == "") {
		return o, usageError{errors.New("name a zoo.cfg, or --from and --data-dir")}
	}
	sources := configSources(flags, args)
	config, err := loadConfig(sources, logger)
	if err != nil {
		return o, usageError{err}
	}
	o = instance.ImportOptions(config, vfs.Default, logger)
	o.Force = s.force
	if len(args) == 1 && (s.dataDir != "" || s.logDir != "") && s.from == "" {
		// The source is what the file says without these flags.
		sources.Flags = given
		plain, err := conf.Load(sources)
		if err != nil {
			return o, usageError{err}
		}
		o.From, o.FromLog = plain.Storage.DataDir, plain.Storage.DataLogDir
	}
	if s.from != "" {
		o.From, o.FromLog = s.from, s.from
	}
	if s.fromLog != "" {
		o.FromLog = s.fromLog
	}
	o.Note.Dir, err = filepath.Abs(o.From)
	if err == nil && o.FromLog != "" {
		o.Note.LogDir, err = filepath.Abs(o.FromLog)
	}
	return o, err
}

// claimPorts listens at the ports for clients that a zoo.cfg names, so that its ZooKeeper does not start meanwhile, and
// fails if somebody else does: it runs. What it returns ends that. Addresses that this machine has not are no matter.
func (s *importSettings) claimPorts(ctx context.Context, args []string) (release func(), err error) {
	if len(args) == 0 || s.from != "" {
		return func() {}, nil
	}
	given, err := keyValues(s.set)
	if err != nil {
		return nil, err
	}
	c, err := conf.Load(configSources(given, args))
	if err != nil {
		return nil, err
	}
	addresses := slices.DeleteFunc([]string{c.Client.Addr, c.Client.SecureAddr},
		func(address string) bool { return address == "" })
	network := newOSNetwork(slog.New(slog.DiscardHandler))
	return instance.HoldPorts(ctx, network, addresses, func(address string, err error) error {
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil
		}
		return fmt.Errorf("somebody listens at %s, the port for clients in %s: stop the ZooKeeper server, or it goes "+
			"on writing what is not imported (--from imports a directory whoever has the port)", address, args[0])
	})
}

// The exit statuses of what imports and exports.
const (
	exitSource = 3 // the data that was to be read
	exitTarget = 4 // the place where it was to be put
)

// importError gives an error its exit status.
func importError(err error) error {
	for _, source := range []error{zkdata.ErrDamaged, zkdata.ErrGap, migrate.ErrNoData, migrate.ErrRunning,
		apply.ErrDigest} {
		if errors.Is(err, source) {
			return statusError{err, exitSource}
		}
	}
	if errors.Is(err, datadir.ErrDataDir) {
		return statusError{err, exitTarget}
	}
	return err
}

// importedJSON is what --output json prints; docs/migration.md lists the fields.
type importedJSON struct {
	Snapshot     string   `json:"snapshot"`
	SnapshotZxid string   `json:"snapshot_zxid"`
	Zxid         string   `json:"zxid"`
	Epoch        int64    `json:"epoch"`
	Transactions int64    `json:"transactions"`
	Znodes       int64    `json:"znodes"`
	Ephemerals   int64    `json:"ephemerals"`
	Sessions     int      `json:"sessions"`
	Containers   int64    `json:"containers"`
	TTLs         int64    `json:"ttl_znodes"`
	Quotas       int      `json:"quotas"`
	ACLs         int      `json:"acls"`
	DataBytes    int64    `json:"data_bytes"`
	Digest       string   `json:"digest"`
	Verified     bool     `json:"digest_verified"`
	VerifiedZxid string   `json:"digest_verified_zxid,omitempty"`
	Seconds      float64  `json:"seconds"`
	Notices      []string `json:"notices"`
}

// importShown is what an import has found.
func importShown(r *migrate.Report, took time.Duration) *importedJSON {
	j := &importedJSON{
		Snapshot: r.Snapshot, SnapshotZxid: hexText(r.SnapshotZxid), Zxid: hexText(r.Zxid), Epoch: r.Epoch,
		Transactions: r.Transactions, Znodes: r.Znodes, Ephemerals: r.Ephemerals, Sessions: r.Sessions,
		Containers: r.Containers, TTLs: r.TTLs, Quotas: r.Quotas, ACLs: r.ACLs, DataBytes: r.DataBytes,
		Digest: fmt.Sprintf("%#x", r.Digest), Verified: r.Verified, Seconds: took.Seconds(),
		Notices: append([]string{}, r.Notices...),
	}
	if r.Verified {
		j.VerifiedZxid = hexText(r.VerifiedZxid)
	}
	return j
}

// importText writes it for people.
func importText(out io.Writer, r *migrate.Report, took time.Duration) error {
	verified := "not verified"
	if r.Verified {
		verified = "verified at zxid " + hexText(r.VerifiedZxid)
	}
	snapshot := "none"
	if r.Snapshot != "" {
		snapshot = fmt.Sprintf("%s (zxid %#x)", r.Snapshot, int64(r.SnapshotZxid))
	}
	_, err := fmt.Fprintf(out, `imported
  snapshot      %s
  transactions  %d behind it
  zxid          %#x (epoch %d)
  digest        %#x, %s
  znodes        %d, %d bytes of paths and data
  sessions      %d, with %d ephemeral znodes
  others        %d containers, %d TTL znodes, %d quotas, %d different ACLs
  took          %.1f s
`, snapshot, r.Transactions, int64(r.Zxid), r.Epoch, r.Digest, verified, r.Znodes, r.DataBytes, r.Sessions,
		r.Ephemerals, r.Containers, r.TTLs, r.Quotas, r.ACLs, took.Seconds())
	for _, notice := range r.Notices {
		_, more := fmt.Fprintln(out, "  note          "+notice)
		err = errors.Join(err, more)
	}
	return err
}
