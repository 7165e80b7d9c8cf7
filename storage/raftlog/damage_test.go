package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/disk"
	"zkd/storage/disk/disktest"
)

// copyTree copies the files of dir of one file system to another, as they stand: what a killed process leaves behind.
func copyTree(t testing.TB, from vfs.FS, dir string) *vfs.MemFS {
	t.Helper()
	to := vfs.NewMem()
	if err := to.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	names, err := from.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		path := from.PathJoin(dir, name)
		if err := disk.WriteFile(to, path, string(disktest.Read(t, from, path))); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// sameEntry compares entries, far quicker than cmp does.
func sameEntry(a, b LogEntry) bool {
	return a.Index == b.Index && a.Term == b.Term && a.Kind == b.Kind && bytes.Equal(a.Data, b.Data)
}

// filesOf lists the files of dir with a suffix or prefix.
func filesOf(t testing.TB, fs vfs.FS, dir, affix string) []string {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	var found []string
	for _, name := range names {
		if strings.HasSuffix(name, affix) || strings.HasPrefix(name, affix) {
			found = append(found, name)
		}
	}
	return found
}

// damageShapes are logs whose files the tests alter: how the entries were appended.
var damageShapes = []struct {
	name          string
	entries, each int
	perAppend     int
	close         bool
	spare         bool // they are in a file that was made ahead
}{
	{"small entries", 60, 150, 1, false, false},
	{"entries of several blocks", 4, 90 << 10, 1, false, false},
	{"one append", 5, 300, 5, false, false},
	{"closed", 40, 200, 2, true, false},
	{"in a spare file", 60, 150, 1, false, true},
	{"in a spare file, closed", 40, 200, 2, true, true},
}

// buildDamageShape returns the files of a log whose every append was acknowledged, as a kill (or a clean stop) leaves
// them.
func buildDamageShape(t testing.TB, entries []LogEntry, perAppend int, closed bool) *vfs.MemFS {
	t.Helper()
	opts := testLogOptions(vfs.NewCrashableMem(), "log")
	opts.MemTableBytes = 4 << 20
	return buildDamaged(t, opts, entries, perAppend, closed)
}

// buildDamaged is likewise, with other options.
func buildDamaged(t testing.TB, opts Options, entries []LogEntry, perAppend int, closed bool) *vfs.MemFS {
	t.Helper()
	l, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	for len(entries) > 0 {
		mustAppend(t, l, entries[:perAppend], fmt.Sprint("state of ", entries[0].Index))
		entries = entries[perAppend:]
	}
	if !closed {
		t.Cleanup(func() { _ = l.Close() }) // the copy is what the test looks at
	} else if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	// All at once: files that nobody needs any more are being removed.
	return vfs.Root(opts.FS).(*vfs.MemFS).CrashClone(cutOf(100, 1))
}

// checkAltered opens a log one of whose files was altered: all of it is there, or it is refused as damaged, the same
// way twice, and the file is named. It returns whether it was refused.
func checkAltered(t testing.TB, fs *vfs.MemFS, file string, want []LogEntry) bool {
	t.Helper()
	l, err := Open(testLogOptions(fs, "log"))
	if err != nil {
		if !errors.Is(err, disk.ErrDamaged) {
			t.Fatalf("refused, but not as damaged: %v", err)
		}
		if !strings.Contains(err.Error(), file) {
			t.Fatalf("refused without the name of the file %s: %v", file, err)
		}
		if _, again := Open(testLogOptions(fs, "log")); again == nil {
			t.Fatalf("refused once, then opened: %v", err)
		}
		return true
	}
	defer l.Close() //nolint:errcheck // what was read is what counts
	if l.LastIndex() != uint64(len(want)) {
		t.Fatalf("%d of %d acknowledged entries are there, and nothing was said", l.LastIndex(), len(want))
	}
	if got := mustEntries(t, l, 1, uint64(len(want))+1); !slices.EqualFunc(got, want, sameEntry) {
		t.Fatal("the entries are not what was appended")
	}
	state, _ := l.HardState()
	if !strings.HasPrefix(string(state), "state of ") {
		t.Fatalf("hard state %q", state)
	}
	return false
}

func TestRaftLogDamagedWAL(t *testing.T) {
	for _, shape := range damageShapes {
		t.Run(shape.name, func(t *testing.T) {
			want := testEntries(1, 1, shape.entries, shape.each)
			fs := buildDamageShape(t, want, shape.perAppend, shape.close)
			if shape.spare {
				fs = buildDamaged(t, logWithSpares(t, 1), want, shape.perAppend, shape.close)
			}
			logs := filesOf(t, fs, "log", ".log")
			file := logs[len(logs)-1]
			path := fs.PathJoin("log", file)
			content := disktest.Read(t, fs, path)
			written := len(bytes.TrimRight(content, "\x00"))
			refused, step := 0, max(50, written/120)
			for offset := 0; offset < written; offset += step {
				for _, mask := range []byte{0x01, 0x80, 0xff} {
					altered := copyTree(t, fs, "log")
					spoilt := append([]byte(nil), content...)
					spoilt[offset] ^= mask
					if err := disk.WriteFile(altered, path, string(spoilt)); err != nil {
						t.Fatal(err)
					}
					if checkAltered(t, altered, file, want) {
						refused++
					}
				}
			}
			if refused == 0 {
				t.Error("no alteration was noticed")
			}
		})
	}
}

// TestRaftLogDamagedWALHeaders alters every byte of the first chunks' headers: among them the log number, whose
// change looks like the end of a log.
func TestRaftLogDamagedWALHeaders(t *testing.T) {
	want := testEntries(1, 1, 6, 40)
	fs := buildDamageShape(t, want, 1, false)
	logs := filesOf(t, fs, "log", ".log")
	file := logs[len(logs)-1]
	content := disktest.Read(t, fs, fs.PathJoin("log", file))
	for offset := range min(len(content), 700) {
		for bit := range 8 {
			altered := copyTree(t, fs, "log")
			spoilt := append([]byte(nil), content...)
			spoilt[offset] ^= 1 << bit
			if err := disk.WriteFile(altered, fs.PathJoin("log", file), string(spoilt)); err != nil {
				t.Fatal(err)
			}
			checkAltered(t, altered, file, want)
		}
	}
}

// TestRaftLogDamageAfterPowerCut alters a log that lost its un-synced mark, too: all but the last append are still
// missed, since the appends after them are evidence.
func TestRaftLogDamageAfterPowerCut(t *testing.T) {
	for _, shape := range damageShapes[:2] {
		t.Run(shape.name, func(t *testing.T) {
			want := testEntries(1, 1, shape.entries, shape.each)
			fs := buildDamageShape(t, want, 1, false)
			if err := disk.WriteFile(fs, "log/"+syncMarkerName, string(make([]byte, syncMarkerBytes))); err != nil {
				t.Fatal(err)
			}
			logs := filesOf(t, fs, "log", ".log")
			file := logs[len(logs)-1]
			content := disktest.Read(t, fs, "log/"+file)
			lastRecord := len(content) - shape.each - 400
			for offset := 3; offset < lastRecord; offset += max(53, len(content)/150) {
				altered := copyTree(t, fs, "log")
				spoilt := append([]byte(nil), content...)
				spoilt[offset] ^= 0x10
				if err := disk.WriteFile(altered, "log/"+file, string(spoilt)); err != nil {
					t.Fatal(err)
				}
				checkAltered(t, altered, file, want)
			}
		})
	}
}

// TestRaftLogDamagedTables alters tables, manifests and small files of a log that was reopened, so that its entries
// are in a table.
func TestRaftLogDamagedTables(t *testing.T) {
	want := testEntries(1, 1, 40, 200)
	fs := buildDamageShape(t, want, 2, true)
	l, err := Open(testLogOptions(fs, "log"))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := fs.List("log")
	if err != nil {
		t.Fatal(err)
	}
	refusedOf := map[string]int{}
	for _, name := range names {
		content := disktest.Read(t, fs, "log/"+name)
		for offset := 0; offset < len(content); offset += 61 {
			altered := copyTree(t, fs, "log")
			spoilt := append([]byte(nil), content...)
			spoilt[offset] ^= 0x41
			if err := disk.WriteFile(altered, "log/"+name, string(spoilt)); err != nil {
				t.Fatal(err)
			}
			if checkAltered(t, altered, "log", want) {
				refusedOf[name[:3]]++
			}
		}
	}
	for _, kind := range []string{"MAN", "000"} {
		if refusedOf[kind] == 0 {
			t.Errorf("no alteration of a file %s... was noticed", kind)
		}
	}
}

func TestRaftLogMissingFiles(t *testing.T) {
	for _, closed := range []bool{false, true} {
		want := testEntries(1, 1, 40, 200)
		fs := buildDamageShape(t, want, 2, closed)
		names, err := fs.List("log")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			t.Run(fmt.Sprintf("%s closed=%v", name, closed), func(t *testing.T) {
				altered := copyTree(t, fs, "log")
				if err := altered.Remove("log/" + name); err != nil {
					t.Fatal(err)
				}
				refused := checkAltered(t, altered, "log", want)
				if strings.HasSuffix(name, ".log") && !refused {
					t.Error("a missing write-ahead log was not noticed")
				}
			})
		}
	}
}

func TestRaftLogTruncatedFiles(t *testing.T) {
	want := testEntries(1, 1, 40, 200)
	fs := buildDamageShape(t, want, 2, false)
	names, err := fs.List("log")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		content := disktest.Read(t, fs, "log/"+name)
		for kept := 0; kept < len(content); kept += 61 {
			altered := copyTree(t, fs, "log")
			if err := disk.WriteFile(altered, "log/"+name, string(content[:kept])); err != nil {
				t.Fatal(err)
			}
			checkAltered(t, altered, "log", want)
		}
	}
}

// TestRaftLogTornTail cuts or blanks the end of a write-ahead log behind what was acknowledged: it opens by itself,
// with all of that.
func TestRaftLogTornTail(t *testing.T) {
	for _, each := range []int{200, 100 << 10} {
		t.Run(fmt.Sprint(each), func(t *testing.T) {
			want := testEntries(1, 1, 6, each)
			before := buildDamageShape(t, want[:5], 1, false)
			after := buildDamageShape(t, want, 1, false)
			logs := filesOf(t, after, "log", ".log")
			path := "log/" + logs[len(logs)-1]
			short, long := disktest.Read(t, before, path), disktest.Read(t, after, path)
			for kept := len(short); kept < len(long); kept += max(31, each/20) {
				for _, blank := range []bool{false, true} {
					torn := copyTree(t, before, "log")
					content := append([]byte(nil), long[:kept]...)
					if blank {
						content = append(content, make([]byte, len(long)-kept+5000)...)
					}
					if err := disk.WriteFile(torn, path, string(content)); err != nil {
						t.Fatal(err)
					}
					if checkAltered(t, torn, path, want[:5]) {
						t.Fatalf("refused a tail torn at %d of %d", kept, len(long))
					}
				}
			}
		})
	}
}
