package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"zkd/storage/disk"
	"zkd/storage/disk/disktest"
)

// openTestLog opens a log in dir of fs with a small memtable and closes it when the test ends.
func openTestLog(t testing.TB, fs vfs.FS, dir string) *Log {
	t.Helper()
	l, err := Open(testLogOptions(fs, dir))
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

func testLogOptions(fs vfs.FS, dir string) Options {
	return Options{
		Dir: dir, FS: fs, Logger: slog.New(slog.DiscardHandler), MemTableBytes: 256 << 10, TailBytes: 4 << 10,
	}
}

// testEntries returns n entries from first on, of one term, each with some bytes of data that tell index and term.
func testEntries(first, term uint64, n, bytesEach int) []LogEntry {
	entries := make([]LogEntry, n)
	for i := range entries {
		index := first + uint64(i)
		data := bytes.Repeat([]byte(fmt.Sprintf("entry %d of term %d. ", index, term)), bytesEach/10+1)
		entries[i] = LogEntry{Index: index, Term: term, Kind: uint8(index % 3), Data: data[:bytesEach]}
	}
	return entries
}

func mustAppend(t testing.TB, l *Log, entries []LogEntry, hardState string) {
	t.Helper()
	if err := l.Append(entries, []byte(hardState), true); err != nil {
		t.Fatal(err)
	}
}

func mustEntries(t testing.TB, l *Log, lo, hi uint64) []LogEntry {
	t.Helper()
	entries, err := l.Entries(nil, lo, hi, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func TestRaftLogNew(t *testing.T) {
	l := openTestLog(t, vfs.NewMem(), "log")
	if first, last := l.FirstIndex(), l.LastIndex(); first != 1 || last != 0 {
		t.Errorf("first %d, last %d, want 1 and 0", first, last)
	}
	if _, ok := l.HardState(); ok {
		t.Error("a new log has a hard state")
	}
	if _, ok := l.Meta("cluster"); ok {
		t.Error("a new log has a blob")
	}
	if term, err := l.Term(0); term != 0 || err != nil {
		t.Errorf("term of index 0: %d, %v", term, err)
	}
	if _, err := l.Term(1); !errors.Is(err, ErrUnavailable) {
		t.Errorf("term of index 1: %v, want ErrUnavailable", err)
	}
}

func TestRaftLogKeepsWhatIsAppendedOverReopen(t *testing.T) {
	for _, name := range []string{"memory", "disk"} {
		t.Run(name, func(t *testing.T) {
			fs, dir := vfs.FS(vfs.NewMem()), "log"
			if name == "disk" {
				fs, dir = vfs.Default, t.TempDir()
			}
			want := testEntries(1, 7, 50, 500)
			l := openTestLog(t, fs, dir)
			mustAppend(t, l, want[:20], "state 1")
			mustAppend(t, l, want[20:], "state 2")
			if err := l.SetMeta("cluster", []byte("blue")); err != nil {
				t.Fatal(err)
			}
			for round := range 3 {
				if diff := cmp.Diff(want, mustEntries(t, l, 1, 51)); diff != "" {
					t.Fatalf("round %d: %s", round, diff)
				}
				if state, ok := l.HardState(); !ok || string(state) != "state 2" {
					t.Errorf("round %d: hard state %q, %v", round, state, ok)
				}
				if blob, ok := l.Meta("cluster"); !ok || string(blob) != "blue" {
					t.Errorf("round %d: blob %q, %v", round, blob, ok)
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				l = openTestLog(t, fs, dir)
			}
		})
	}
}

func TestRaftLogEntriesBounds(t *testing.T) {
	l := openTestLog(t, vfs.NewMem(), "log")
	mustAppend(t, l, testEntries(1, 1, 40, 500), "s")
	if err := l.Compact(10, 1, nil); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name         string
		lo, hi, max  uint64
		wantN        int
		wantErr      error
		wantFirstIdx uint64
	}{
		{"all, from the store", 11, 41, 1 << 30, 30, nil, 11},
		{"bounded, from the store", 11, 41, 1000, 2, nil, 11},
		{"at least one, from the store", 11, 41, 0, 1, nil, 11},
		{"bounded, from memory", 38, 41, 1000, 2, nil, 38},
		{"at least one, from memory", 38, 41, 0, 1, nil, 38},
		{"all, from memory", 38, 41, 1500, 3, nil, 38},
		{"empty", 12, 12, 100, 0, nil, 0},
		{"compacted", 10, 12, 100, 0, ErrCompacted, 0},
		{"beyond", 40, 42, 100, 0, ErrUnavailable, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := l.Entries(nil, test.lo, test.hi, test.max)
			if !errors.Is(err, test.wantErr) || len(got) != test.wantN {
				t.Fatalf("%d entries, %v; want %d, %v", len(got), err, test.wantN, test.wantErr)
			}
			if len(got) > 0 && got[0].Index != test.wantFirstIdx {
				t.Errorf("first is %d, want %d", got[0].Index, test.wantFirstIdx)
			}
		})
	}
}

func TestRaftLogReplacesConflictingSuffix(t *testing.T) {
	fs := vfs.NewMem()
	l := openTestLog(t, fs, "log")
	old := testEntries(1, 1, 30, 100)
	mustAppend(t, l, old, "s")
	mustAppend(t, l, testEntries(11, 2, 5, 100), "s")
	want := append(append([]LogEntry(nil), old[:10]...), testEntries(11, 2, 5, 100)...)
	for range 2 {
		if l.LastIndex() != 15 {
			t.Fatalf("last is %d, want 15", l.LastIndex())
		}
		if diff := cmp.Diff(want, mustEntries(t, l, 1, 16)); diff != "" {
			t.Fatal(diff)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = openTestLog(t, fs, "log")
	}
}

func TestRaftLogCompactAndReset(t *testing.T) {
	fs := vfs.NewMem()
	l := openTestLog(t, fs, "log")
	mustAppend(t, l, testEntries(1, 3, 30, 100), "s")
	if err := l.Compact(31, 3, nil); !errors.Is(err, ErrUnavailable) {
		t.Errorf("compacting beyond the end: %v, want ErrUnavailable", err)
	}
	for _, index := range []uint64{12, 5} { // the second is compacted already
		if err := l.Compact(index, 3, nil); err != nil {
			t.Fatal(err)
		}
	}
	check := func(first, last uint64, termBefore uint64) {
		t.Helper()
		if l.FirstIndex() != first || l.LastIndex() != last {
			t.Fatalf("first %d, last %d, want %d, %d", l.FirstIndex(), l.LastIndex(), first, last)
		}
		if term, err := l.Term(first - 1); term != termBefore || err != nil {
			t.Fatalf("term before the first: %d, %v, want %d", term, err, termBefore)
		}
		if _, err := l.Term(first - 2); !errors.Is(err, ErrCompacted) {
			t.Fatalf("term of what is compacted: %v, want ErrCompacted", err)
		}
	}
	reopen := func() {
		t.Helper()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = openTestLog(t, fs, "log")
	}
	check(13, 30, 3)
	reopen()
	check(13, 30, 3)
	if err := l.ResetToSnapshot(100, 9, []byte("snap")); err != nil {
		t.Fatal(err)
	}
	check(101, 100, 9)
	reopen()
	check(101, 100, 9)
	if state, _ := l.HardState(); string(state) != "snap" {
		t.Errorf("hard state %q", state)
	}
	mustAppend(t, l, testEntries(101, 9, 2, 10), "s")
	check(101, 102, 9)
}

func TestRaftLogAfterClose(t *testing.T) {
	l := openTestLog(t, vfs.NewMem(), "log")
	mustAppend(t, l, testEntries(1, 1, 100, 1000), "s")
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(testEntries(101, 1, 1, 1), nil, true); !errors.Is(err, ErrLogClosed) {
		t.Errorf("append: %v", err)
	}
	if _, err := l.Entries(nil, 1, 2, 1); !errors.Is(err, ErrLogClosed) {
		t.Errorf("entries: %v", err)
	}
}

func TestRaftLogRefusesEntriesThatDoNotJoin(t *testing.T) {
	l := openTestLog(t, vfs.NewMem(), "log")
	defer func() {
		if cause := fmt.Sprint(recover()); !strings.Contains(cause, "entries do not join the log") {
			t.Errorf("recovered %s", cause)
		}
	}()
	_ = l.Append(testEntries(5, 1, 1, 1), nil, true)
}

func TestRaftLogCannotBeOpenedTwice(t *testing.T) {
	dir := t.TempDir()
	openTestLog(t, vfs.Default, dir)
	if _, err := Open(testLogOptions(vfs.Default, dir)); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("second open: %v, want a refusal that names the directory", err)
	}
}

func TestRaftLogRecyclesItsWAL(t *testing.T) {
	l := openTestLog(t, vfs.Default, t.TempDir())
	for index := uint64(1); index <= 400; index++ {
		mustAppend(t, l, testEntries(index, 1, 1, 16<<10), "s")
		if index > 4 {
			if err := l.Compact(index-4, 1, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	m := l.Metrics()
	if m.WALBytesWritten < 6<<20 || m.WALFiles > 8 {
		t.Errorf("%d bytes in %d files: logs do not turn over", m.WALBytesWritten, m.WALFiles)
	}
	if recycled := m.WALRecycled; recycled < 5 {
		t.Errorf("%d logs were recycled", recycled)
	}
	if m.FlushedBytes > m.AppendedBytes/2 {
		t.Errorf("%d of %d bytes were written to tables though compacted", m.FlushedBytes, m.AppendedBytes)
	}
}

// TestTheManifestOfTheLogStaysShort: a start reads it, and tables come and go as long as a server lives.
func TestTheManifestOfTheLogStaysShort(t *testing.T) {
	const flushes = 2000
	mem := vfs.NewMem()
	l := openTestLog(t, mem, "log")
	names := map[string]bool{}
	for index := uint64(1); index <= flushes; index++ {
		mustAppend(t, l, testEntries(index, 1, 1, 10), "s")
		if err := l.db.Flush(); err != nil {
			t.Fatal(err)
		}
		path := disktest.Manifest(t, mem, "log")
		names[path] = true
		if size := len(disktest.Read(t, mem, path)); size > 2*disk.ManifestBytes {
			t.Fatalf("after %d flushes %s has %d bytes", index, path, size)
		}
	}
	if len(names) < 2 {
		t.Errorf("after %d flushes the MANIFEST was never begun anew", flushes)
	}
}

func TestRaftLogReadersBesideTheWriter(t *testing.T) {
	l := openTestLog(t, vfs.NewMem(), "log")
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				lo, hi := l.FirstIndex(), l.LastIndex()+1
				entries, err := l.Entries(nil, lo, hi, 1<<20)
				if err != nil && !errors.Is(err, ErrCompacted) && !errors.Is(err, ErrUnavailable) {
					t.Errorf("entries [%d, %d): %v", lo, hi, err)
					return
				}
				for i := range entries {
					want := testEntries(entries[i].Index, entries[i].Term, 1, len(entries[i].Data))[0]
					if !cmp.Equal(want, entries[i]) {
						t.Errorf("entry %d is not what was written", entries[i].Index)
						return
					}
				}
			}
		})
	}
	last := uint64(0)
	for round := range uint64(600) {
		first := last + 1
		if round%7 == 6 {
			first -= 3
		}
		mustAppend(t, l, testEntries(first, round+1, 4, 300), "s")
		last = first + 3
		if round%10 == 9 {
			term, err := l.Term(last - 12)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Compact(last-12, term, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(stop)
	readers.Wait()
}

// fewestLogAllocs is how many allocations a run of f makes, the mean of that many runs. What other tests have left
// running counts, too, so more than wanted is looked at again.
func fewestLogAllocs(runs int, wanted float64, f func()) float64 {
	fewest := testing.AllocsPerRun(runs, f)
	for tries := 1; fewest > wanted && tries < 20; tries++ {
		fewest = min(fewest, testing.AllocsPerRun(runs, f))
	}
	return fewest
}

func TestRaftLogAppendAllocations(t *testing.T) {
	l := openTestLog(t, vfs.NewMem(), "log")
	entries, hardState, index := testEntries(1, 1, 1, 1024), []byte("state"), uint64(0)
	allocs := fewestLogAllocs(100, 4, func() {
		index++
		entries[0].Index = index
		if err := l.Append(entries, hardState, false); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 4 {
		t.Errorf("%v allocations an append, want at most 4", allocs)
	}
}

// Pebble keeps the buffer of a large batch until it is flushed, so there is no more of it than entries need.
func TestRaftLogGivesLargeEntriesABatchOfTheirSize(t *testing.T) {
	fs := vfs.NewMem()
	l := openTestLog(t, fs, "log")
	small, large := testEntries(1, 1, 3, 1000), testEntries(4, 1, 9, 1<<20)
	mustAppend(t, l, small, "")
	l.writer.Lock()
	err := errors.Join(l.beginSizedLocked(logBatchBytes(large), nil, false), l.setEntriesLocked(large, 3))
	room := cap(l.writer.batch.Repr())
	l.writer.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if most := 9<<20 + 64<<10; room > most {
		t.Errorf("9 MiB of entries took a batch of %d bytes, want %d at most", room, most)
	}
	mustAppend(t, l, large, "hard")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = openTestLog(t, fs, "log")
	defer l.Close()
	if got := mustEntries(t, l, 1, 13); len(got) != 12 || len(got[11].Data) != 1<<20 {
		t.Errorf("%d entries came back", len(got))
	}
}
