package storage

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/datadir"
)

// benchBackupZnodes is how many znodes are backed up, of 100 bytes each.
const benchBackupZnodes = 100_000

// BenchmarkBackup writes and restores backups on a real file system.
func BenchmarkBackup(b *testing.B) {
	dir := b.TempDir()
	m := benchMachine(b, MachineOptions{})
	fill(b, m, benchBackupZnodes, 100)
	var backup bytes.Buffer
	if _, err := m.Backup(context.Background(), BackupOptions{Scratch: filepath.Join(dir, "s")}, &backup); err != nil {
		b.Fatal(err)
	}
	b.Run("write", func(b *testing.B) {
		b.SetBytes(int64(backup.Len()))
		b.ReportAllocs()
		for b.Loop() {
			o := BackupOptions{Scratch: filepath.Join(dir, "s")}
			if _, err := m.Backup(context.Background(), o, io.Discard); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchBackupZnodes, "ns/znode")
		b.ReportMetric(float64(backup.Len())/benchBackupZnodes, "B/znode")
	})
	b.Run("restore", func(b *testing.B) {
		b.SetBytes(int64(backup.Len()))
		b.ReportAllocs()
		for b.Loop() {
			r, err := OpenBackup(bytes.NewReader(backup.Bytes()))
			if err != nil {
				b.Fatal(err)
			}
			target := datadir.Options{Dir: filepath.Join(b.TempDir(), "data"), FS: vfs.Default,
				Logger: slog.New(slog.DiscardHandler)}
			if _, err := RestoreBackup(context.Background(), r, RestoreOptions{Target: target}); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchBackupZnodes, "ns/znode")
	})
}
