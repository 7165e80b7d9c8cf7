package instance

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/conf"
	"zkd/storage/datadir"
	"zkd/storage/migrate"
)

// ImportOptions returns the options of an import in place.
func ImportOptions(c *conf.Config, fs vfs.FS, logger *slog.Logger) migrate.Options {
	return migrate.Options{
		From: c.Storage.DataDir, FromLog: c.Storage.DataLogDir, TrustEmpty: c.Storage.TrustEmptySnapshot,
		Target: datadir.Options{
			Dir: c.Storage.DataDir, LogDir: c.Storage.DataLogDir, FS: fs, Logger: logger,
		},
	}
}

// importOnStart imports what dataDir holds of an Apache ZooKeeper server, if zkd.importOnStart says so.
func importOnStart(ctx context.Context, c *conf.Config, w *World, logger *slog.Logger) error {
	if !c.Storage.ImportOnStart || !datadir.ImportPending(w.FS, c.Storage.DataDir, c.Storage.DataLogDir) {
		return nil
	}
	logger.Info("import started", slog.String("path", c.Storage.DataDir))
	o := ImportOptions(c, w.FS, logger)
	o.Target.PID = w.System.Process().ID
	report, err := migrate.Import(ctx, o)
	if err != nil {
		return fmt.Errorf("zkd.importOnStart: %w", err)
	}
	for _, notice := range report.Notices {
		logger.Warn("import warning", slog.String("notice", notice))
	}
	logger.Info("import finished", slog.Int64("znodes", report.Znodes), slog.Int("sessions", report.Sessions),
		slog.String("zxid", zxidText(report.Zxid)), slog.Bool("verified", report.Verified))
	return nil
}
