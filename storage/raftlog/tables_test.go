package raftlog

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestLittleGoesToTables: of a log that is compacted in time little is written a second time.
func TestLittleGoesToTables(t *testing.T) {
	l := openTestLog(t, vfs.NewMem(), "log")
	const each, kept, forget = 1000, 100, 300
	next, first := uint64(1), uint64(1)
	for l.Metrics().AppendedBytes < 8<<20 {
		mustAppend(t, l, testEntries(next, 1, 10, each), "s")
		if next += 10; next-first >= kept+forget {
			first = next - kept
			if err := l.Compact(first-1, 1); err != nil {
				t.Fatal(err)
			}
			if done := l.writer.tables.done; done != nil {
				<-done // what is appended in the meantime is not known to be forgotten
			}
		}
	}
	m := l.Metrics()
	t.Logf("%d bytes went to tables, of %d appended", m.FlushedBytes, m.AppendedBytes)
	if m.FlushedBytes == 0 || m.FlushedBytes > m.AppendedBytes*3/4 {
		t.Errorf("%d bytes went to tables, of %d appended", m.FlushedBytes, m.AppendedBytes)
	}
	if got := mustEntries(t, l, first, next); uint64(len(got)) != next-first {
		t.Errorf("%d entries, want %d", len(got), next-first)
	}
}

// TestWhatIsKeptGoesToTables: a log that nobody may forget does not grow in memory, nor in write-ahead logs.
func TestWhatIsKeptGoesToTables(t *testing.T) {
	l := openTestLog(t, vfs.NewMem(), "log")
	most := uint64(0)
	next := uint64(1)
	for l.Metrics().AppendedBytes < 8<<20 {
		mustAppend(t, l, testEntries(next, 1, 10, 1000), "s")
		next += 10
		most = max(most, l.db.Metrics().MemTable.Size)
	}
	if limit := uint64((2*memtablesMost + 2) * l.memTableBytes()); most > limit {
		t.Errorf("up to %d bytes in memory, want %d at most", most, limit)
	}
	if got := mustEntries(t, l, 1, next); uint64(len(got)) != next-1 {
		t.Errorf("%d entries, want %d", len(got), next-1)
	}
}

// TestSettle has a log give its memory back, which is not much but not yet enough for it to do so by itself.
func TestSettle(t *testing.T) {
	l := openTestLog(t, vfs.NewMem(), "log")
	for next := uint64(1); next < 150; next += 10 {
		mustAppend(t, l, testEntries(next, 1, 10, 1000), "s")
	}
	if err := l.Compact(140, 1); err != nil {
		t.Fatal(err)
	}
	turns := l.wal.Load()
	if err := l.Settle(); err != nil {
		t.Fatal(err)
	}
	<-l.writer.tables.done
	if l.wal.Load() == turns {
		t.Error("the write-ahead log was not turned over")
	}
	if m := l.Metrics(); m.FlushedBytes > 100<<10 {
		t.Errorf("%d bytes went to tables, of 10 entries", m.FlushedBytes)
	}
	turns = l.wal.Load()
	if err := l.Settle(); err != nil || l.wal.Load() != turns {
		t.Errorf("nothing to do, and the log turned over: %v", err)
	}
}
