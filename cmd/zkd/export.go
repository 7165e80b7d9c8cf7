package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/spf13/cobra"

	"zkd/conf"
	"zkd/quorum/clock"
	"zkd/server/instance/snapshots"
	"zkd/storage/datadir"
	"zkd/storage/inspect"
	"zkd/storage/migrate"
	"zkd/storage/state"
	"zkd/storage/zkdata"
)

// exportSettings are the flags of zkd export.
type exportSettings struct {
	set         []string
	dataDir, to string
	compression string
	asIs        bool
	output      outputFlag
	logLevel    string
}

// newExportCommand returns the command that writes what Apache ZooKeeper starts from.
func newExportCommand() *cobra.Command {
	s := &exportSettings{}
	cmd := &cobra.Command{
		Use:   "export [zoo.cfg] --to DIR",
		Short: "Write a data directory that Apache ZooKeeper 3.9 starts from",
		Long: `Write the state of a server that does not run as a data directory of Apache ZooKeeper 3.9: a snapshot
with its digest, and the epochs that belong to its zxid.

A standalone ZooKeeper takes the directory as its dataDir; of an ensemble, each server takes a copy, with its myid.
Sessions come along, but clients can only come back to those that were imported: the others have passwords that
ZooKeeper does not know, and end after their time-outs.

Exit status: 0 exported, 1 failed, 2 the command line or the configuration is wrong, 3 the data of zkd cannot be read or
its server did not stop cleanly, 4 the target holds data.`,
		Example: `  zkd export /etc/zookeeper/zoo.cfg --to /var/lib/zookeeper-back
  zkd export --data-dir /var/lib/zkd --to /tmp/back --compress gz --output json`,
		Args: oneOptional(),
		RunE: func(cmd *cobra.Command, args []string) error {
			defer interruptible(cmd)()
			return interrupted(cmd.Context(), s.run(cmd, args), "nothing is exported, and nothing is left in "+s.to)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&s.set, "set", nil, "set a `key=value` of zoo.cfg; may be repeated")
	f.StringVar(&s.dataDir, "data-dir", "", "where zkd's data lives (dataDir)")
	f.StringVar(&s.to, "to", "", "the directory to write; it must hold no data")
	f.StringVar(&s.compression, "compress", "", "gz or snappy; default: snapshot.compression.method, or nothing")
	f.BoolVar(&s.asIs, "as-is", false, "export the state as it is, although the log goes on behind it")
	s.output.addTo(cmd)
	f.StringVar(&s.logLevel, "log-level", "warn", "debug, info, warn or error")
	return cmd
}

// exportedJSON is what --output json prints; docs/migration.md lists the fields.
type exportedJSON struct {
	Snapshot string   `json:"snapshot"`
	Zxid     string   `json:"zxid"`
	Epoch    int64    `json:"epoch"`
	Znodes   int64    `json:"znodes"`
	Sessions int      `json:"sessions"`
	Digest   string   `json:"digest"`
	Seconds  float64  `json:"seconds"`
	Notices  []string `json:"notices"`
}

// run exports and prints what was written.
func (s *exportSettings) run(cmd *cobra.Command, args []string) (err error) {
	logger, err := newLogger(s.logLevel, false)
	if err != nil {
		return usageError{err}
	}
	if s.to == "" {
		return usageError{errors.New("name the directory to write: --to DIR")}
	}
	config, err := s.config(args, logger)
	if err != nil {
		return usageError{err}
	}
	start := clock.Real().Now()
	state, notices, closeAll, err := s.open(config, logger)
	if err != nil {
		return statusError{err, exitSource}
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	found, err := s.write(cmd.Context(), state.Reader(), snapshots.WriteOptions(&config.Storage))
	if err != nil {
		if errors.Is(err, migrate.ErrTarget) {
			return statusError{err, exitTarget}
		}
		return err
	}
	found.Notices = append(notices, found.Notices...)
	found.Seconds = clock.Real().Since(start).Seconds()
	return s.output.write(cmd.OutOrStdout(), found, func(w io.Writer) error { return exportText(w, &found) })
}

// config reads the configuration.
func (s *exportSettings) config(args []string, logger *slog.Logger) (*conf.Config, error) {
	flags, err := keyValues(s.set)
	if err != nil {
		return nil, err
	}
	if s.dataDir != "" {
		flags["dataDir"], flags["dataLogDir"] = s.dataDir, s.dataDir
	}
	if s.compression != "" {
		flags["snapshot.compression.method"] = s.compression
	}
	if len(args) == 0 && s.dataDir == "" {
		return nil, errors.New("name a zoo.cfg, or --data-dir")
	}
	return loadConfig(configSources(flags, args), logger)
}

// open opens the state of a server that does not run, if all that counts of its log is in it. notices are about the
// rest of the log.
func (s *exportSettings) open(c *conf.Config, logger *slog.Logger) (_ *inspect.State, notices []string,
	done func() error, err error,
) {
	i, err := inspect.Open(datadir.Options{Dir: c.Storage.DataDir, LogDir: c.Storage.DataLogDir, FS: vfs.Default,
		Logger: logger})
	if errors.Is(err, inspect.ErrNoData) {
		err = fmt.Errorf("%s holds no data of zkd: name its dataDir", c.Storage.DataDir)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	state, err := i.OpenState()
	if err == nil && !s.asIs {
		if notices, err = checkApplied(i, state.Info().Index, "--as-is"); err != nil {
			err = errors.Join(err, state.Close())
		}
	}
	if err != nil {
		return nil, nil, nil, errors.Join(err, i.Close())
	}
	return state, notices, func() error { return errors.Join(state.Close(), i.Close()) }, nil
}

// write writes the directory.
func (s *exportSettings) write(ctx context.Context, r *state.Reader, o zkdata.WriteOptions) (exportedJSON, error) {
	source, pos := migrate.SourceOf(r), r.Position()
	bar := newProgress(os.Stderr, pos.Nodes)
	defer bar.end()
	o.Progress = bar.at
	path, err := migrate.WriteDir(vfs.Default, s.to, interruptibleSource{source, ctx}, o)
	if err != nil {
		return exportedJSON{}, err
	}
	sessions, err := source.Sessions()
	if err != nil {
		return exportedJSON{}, err
	}
	own, err := source.OwnPasswords()
	found := exportedJSON{
		Snapshot: path, Zxid: hexText(pos.Zxid), Epoch: int64(uint64(pos.Zxid) >> 32),
		Znodes: pos.Nodes, Sessions: len(sessions), Digest: fmt.Sprintf("%#x", pos.Digest),
		Notices: []string{},
	}
	if own > 0 {
		found.Notices = append(found.Notices, fmt.Sprintf("%d sessions have passwords that ZooKeeper does not "+
			"know: their clients get new sessions there", own))
	}
	return found, err
}

// exportText writes what was written for people.
func exportText(out io.Writer, found *exportedJSON) error {
	_, err := fmt.Fprintf(out, `exported
  snapshot      %s
  zxid          %s (epoch %d)
  digest        %s
  znodes        %d
  sessions      %d
  took          %.1f s
`, found.Snapshot, found.Zxid, found.Epoch, found.Digest, found.Znodes, found.Sessions, found.Seconds)
	for _, notice := range found.Notices {
		_, more := fmt.Fprintln(out, "  note          "+notice)
		err = errors.Join(err, more)
	}
	return err
}
