package dirtest

import (
	"log/slog"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/datadir"
)

// Options are those of a data directory in fs; logDir may be "" for the same one.
func Options(fs vfs.FS, dir, logDir string) datadir.Options {
	return datadir.Options{Dir: dir, LogDir: logDir, FS: fs, Logger: slog.New(slog.DiscardHandler)}
}

// Open opens a data directory and lets go of it when the test ends.
func Open(t testing.TB, fs vfs.FS, dir, logDir string) *datadir.Dir {
	t.Helper()
	d, err := datadir.Open(Options(fs, dir, logDir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() }) // closing twice is allowed
	return d
}
