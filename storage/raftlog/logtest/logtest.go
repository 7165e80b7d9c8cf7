package logtest

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/disk"
	"zkd/storage/raftlog"
)

// Options are those of a raft log in dir of fs with a small memtable.
func Options(fs vfs.FS, dir string) raftlog.Options {
	return raftlog.Options{
		Dir: dir, FS: fs, Logger: slog.New(slog.DiscardHandler), MemTableBytes: 256 << 10, TailBytes: 4 << 10,
	}
}

// Open opens a raft log and closes it when the test ends.
func Open(t testing.TB, fs vfs.FS, dir string) *raftlog.Log {
	t.Helper()
	l, err := raftlog.Open(Options(fs, dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil && !errors.Is(err, disk.ErrDiskFailed) {
			t.Error(err)
		}
	})
	return l
}

// Append adds n entries of so many bytes each to a log, of term 1.
func Append(t testing.TB, l *raftlog.Log, n, bytesEach int) {
	t.Helper()
	entries := make([]raftlog.LogEntry, n)
	for i := range entries {
		entries[i] = raftlog.LogEntry{Index: l.LastIndex() + uint64(i) + 1, Term: 1, Data: make([]byte, bytesEach)}
	}
	if err := l.Append(entries, []byte("s"), true); err != nil {
		t.Fatal(err)
	}
}
