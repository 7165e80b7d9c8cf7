package backup

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/storage/datadir"
	"zkd/storage/entry"
	"zkd/storage/entry/entrytest"
	"zkd/storage/state/statetest"
)

// benchZnodes is how many znodes are backed up, of 100 bytes each.
const benchZnodes = 100_000

// BenchmarkBackup writes and restores backups on a real file system.
func BenchmarkBackup(b *testing.B) {
	dir := b.TempDir()
	m := statetest.Open(b, vfs.Default, filepath.Join(dir, "state"))
	proposals := []*entry.Proposal{entrytest.Session(1)}
	for i := range benchZnodes {
		if i%1000 == 0 { // so many below one parent
			proposals = append(proposals, entrytest.Create(fmt.Sprintf("/p%02d", i/1000), nil, jute.ModePersistent))
		}
		path := fmt.Sprintf("/p%02d/node-%07d", i/1000, i)
		proposals = append(proposals, entrytest.Create(path, make([]byte, 100), jute.ModePersistent))
	}
	for i, record := range entrytest.Entries(256, proposals) {
		if err := m.Apply(uint64(i)+1, 1, record, statetest.Discard{}); err != nil {
			b.Fatal(err)
		}
	}
	var backup bytes.Buffer
	if _, err := WriteMachine(context.Background(), m, filepath.Join(dir, "s"), Options{}, &backup); err != nil {
		b.Fatal(err)
	}
	b.Run("write", func(b *testing.B) {
		b.SetBytes(int64(backup.Len()))
		b.ReportAllocs()
		for b.Loop() {
			_, err := WriteMachine(context.Background(), m, filepath.Join(dir, "s"), Options{}, io.Discard)
			if err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchZnodes, "ns/znode")
		b.ReportMetric(float64(backup.Len())/benchZnodes, "B/znode")
	})
	b.Run("restore", func(b *testing.B) {
		b.SetBytes(int64(backup.Len()))
		b.ReportAllocs()
		for b.Loop() {
			r, err := Open(bytes.NewReader(backup.Bytes()))
			if err != nil {
				b.Fatal(err)
			}
			target := datadir.Options{Dir: filepath.Join(b.TempDir(), "data"), FS: vfs.Default,
				Logger: slog.New(slog.DiscardHandler)}
			if _, err := Restore(context.Background(), r, RestoreOptions{Target: target}); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchZnodes, "ns/znode")
	})
}
