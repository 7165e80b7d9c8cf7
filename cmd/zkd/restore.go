package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/spf13/cobra"

	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/storage/backup"
	"zkd/storage/datadir"
)

// restoreFlags are what zkd restore is told.
type restoreFlags struct {
	dataDir, dataLogDir string
	sessions, zxid      string
	check               bool
	owner               ownerFlag
	output              outputFlag
}

// newRestoreCommand returns the command that makes a data directory out of a backup.
func newRestoreCommand() *cobra.Command {
	var f restoreFlags
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make the data directory of a new server out of a backup",
		Long: `Make the data directory of a new server out of a backup that zkd backup has made; "-" is standard
input. All of the backup is verified, and the directory must be empty, but for myid. If anything is wrong nothing is
left in it.

The server is a new one: it belongs to no ensemble, and the ensemble that it founds has another cluster id than the
one that was backed up, so that servers of the two cannot mix. To get an ensemble, restore into one of its servers and
start that one first; the others, with empty directories, get the data from it (docs/operations.md).

The sessions of the clients are kept, each gets its full timeout when the server starts; --sessions drop ends them,
and their ephemeral znodes go. Clients that have seen later zxids than the backup's turn away from the new server
until it has come that far: --zxid lets it go on from there.`,
		Example: `  zkd restore --data-dir /var/lib/zookeeper state.zkdbackup
  zstd -dc state.zkdbackup.zst | zkd restore --data-dir ./data --sessions drop -
  zkd restore --check state.zkdbackup`,
		Args: required("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			defer interruptible(cmd)()
			left := "nothing is restored, and nothing is left in " + f.dataDir
			if f.check {
				left = "not all of the backup was verified"
			}
			return interrupted(cmd.Context(), f.run(cmd, args[0]), left)
		},
	}
	cmd.Flags().StringVar(&f.dataDir, "data-dir", "", "the `directory` to make, dataDir of the new server")
	cmd.Flags().StringVar(&f.dataLogDir, "data-log-dir", "", "its dataLogDir, if it is to have one")
	cmd.Flags().StringVar(&f.sessions, "sessions", "keep", "`keep` the sessions, or drop them")
	cmd.Flags().StringVar(&f.zxid, "zxid", "", "the `zxid` to go on from, not below the backup's, as 0x… or decimal")
	cmd.Flags().BoolVar(&f.check, "check", false, "only verify the backup and say what is in it")
	f.owner.addTo(cmd)
	f.output.addTo(cmd)
	return cmd
}

// run restores, or only checks.
func (f *restoreFlags) run(cmd *cobra.Command, file string) error {
	if f.check == (f.dataDir != "") {
		return usageError{errors.New("name where to restore to by --data-dir, or give --check")}
	}
	in, close, err := openInput(cmd, file)
	if err != nil {
		return err
	}
	defer close()
	if f.check {
		info, err := verifyBackup(in, cmd.ErrOrStderr())
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		said := backupShown(&info, file, nil)
		return f.output.write(cmd.OutOrStdout(), said, backupText(said, file))
	}
	options, err := f.options()
	if err != nil {
		return err
	}
	if _, _, err := f.owner.ids(); err != nil {
		return err
	}
	b, err := backup.Open(in)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	p := newProgress(cmd.ErrOrStderr(), b.Info().Znodes)
	options.Progress = p.at
	info, err := backup.Restore(cmd.Context(), b, *options)
	p.end()
	if err != nil {
		return fmt.Errorf("restore %s: %w", file, err)
	}
	if err := f.owner.give(cmd.ErrOrStderr(), f.dataDir, f.dataLogDir); err != nil {
		return err
	}
	said := backupShown(&info, f.dataDir, nil)
	return f.output.write(cmd.OutOrStdout(), said, backupText(said, f.dataDir))
}

// openInput opens a file, or standard input.
func openInput(cmd *cobra.Command, file string) (io.Reader, func(), error) {
	if file == "-" {
		return newInterruptibleReader(cmd.Context(), cmd.InOrStdin()), func() {}, nil
	}
	opened, err := os.Open(file)
	if err != nil {
		return nil, nil, err
	}
	in := newInterruptibleReader(cmd.Context(), opened)
	return in, func() { _ = opened.Close() }, nil // it was only read
}

// options reads the flags.
func (f *restoreFlags) options() (*backup.RestoreOptions, error) {
	o := &backup.RestoreOptions{
		Target: datadir.Options{Dir: f.dataDir, LogDir: f.dataLogDir, FS: vfs.Default,
			Logger: slog.New(slog.DiscardHandler)},
		Time: jute.Millis(clock.Real().Now().UnixMilli()),
	}
	switch f.sessions {
	case "keep":
	case "drop":
		o.DropSessions = true
	default:
		return nil, usageError{fmt.Errorf("--sessions %q: want keep or drop", f.sessions)}
	}
	if f.zxid != "" {
		zxid, err := strconv.ParseInt(f.zxid, 0, 64)
		if err != nil || zxid < 0 {
			return nil, usageError{fmt.Errorf("--zxid %q: want a number such as 0x1a2b", f.zxid)}
		}
		o.Zxid = jute.Zxid(zxid)
	}
	return o, nil
}
