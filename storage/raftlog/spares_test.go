package raftlog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/crashfs"
	"zkd/storage/disk"
)

// roomy is a file system that says how much room it has, which one in memory does not.
type roomy struct {
	vfs.FS
	free  atomic.Uint64
	asked atomic.Int64 // how often it was asked for that
	fails atomic.Bool  // to make them
}

func newRoomy(fs vfs.FS) *roomy {
	r := &roomy{FS: fs}
	r.free.Store(1 << 30)
	return r
}

func (r *roomy) GetDiskUsage(string) (vfs.DiskUsage, error) {
	r.asked.Add(1)
	return vfs.DiskUsage{AvailBytes: r.free.Load(), TotalBytes: 1 << 40}, nil
}

func (r *roomy) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasSuffix(name, unfinishedSuffix) && r.fails.Load() {
		return nil, errors.New("no")
	}
	return r.FS.Create(name, category)
}

func (r *roomy) Unwrap() vfs.FS { return r.FS }

// haveSpares waits until a log has as many spare files as it makes.
func haveSpares(l *Log) {
	for l.spare.size() < uint64(sparesMax*l.spare.bytes) {
		runtime.Gosched()
	}
}

// full leaves no room, and waits until whoever makes spare files has nothing under way and waits to be asked: it has
// found no room twice, the second time because it was asked.
func (r *roomy) full(l *Log) {
	r.free.Store(0)
	for range 2 {
		before := r.asked.Load()
		for l.spare.ask(); r.asked.Load() == before; {
			runtime.Gosched()
		}
	}
}

// logWithSpares returns options of a log that is there, has so many entries, of term 1, and spare files.
func logWithSpares(t testing.TB, entries int) Options {
	t.Helper()
	opts := testLogOptions(newRoomy(vfs.NewCrashableMem()), "log")
	l, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	haveSpares(l)
	if entries > 1 {
		mustAppend(t, l, testEntries(1, 1, entries, 100), "s")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return opts
}

// TestLogsAreWrittenIntoSpareFiles: no write-ahead log grows, after a restart neither, but the one with which a log
// begins, and that not a second time.
func TestLogsAreWrittenIntoSpareFiles(t *testing.T) {
	fs := newRoomy(vfs.NewMem())
	l := openTestLog(t, fs, "log")
	haveSpares(l)
	check := func(most int) {
		t.Helper()
		var grown []string
		for _, name := range filesOf(t, fs, "log", ".log") {
			info, err := fs.Stat("log/" + name)
			if err != nil {
				t.Fatal(err)
			}
			if info.Size() != l.spare.bytes {
				grown = append(grown, fmt.Sprint(name, ": ", info.Size()))
			}
		}
		if len(grown) > most {
			t.Errorf("write-ahead logs that were not written ahead: %v", grown)
		}
	}
	next := uint64(1)
	turnOver := func() {
		t.Helper()
		for turns := l.wal.Load(); l.wal.Load() == turns; next += 10 {
			mustAppend(t, l, testEntries(next, 1, 10, 1000), "s")
		}
		haveSpares(l)
	}
	turnOver()
	check(1)
	for range 6 {
		turnOver()
	}
	check(0)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = openTestLog(t, fs, "log")
	haveSpares(l)
	check(0)
	turnOver()
	check(0)
	if got := mustEntries(t, l, 1, next); uint64(len(got)) != next-1 {
		t.Errorf("%d entries, want %d", len(got), next-1)
	}
}

// TestSpareFilesNeedRoom: where there is little none are made, and they are given back.
func TestSpareFilesNeedRoom(t *testing.T) {
	fs := newRoomy(vfs.NewMem())
	l := openTestLog(t, fs, "log")
	haveSpares(l)
	if err := l.Frugal(true); err != nil {
		t.Fatal(err)
	}
	if l.spare.make() || len(filesOf(t, fs, "log", sparePrefix)) > 0 {
		t.Errorf("the log is frugal, and there are %v", filesOf(t, fs, "log", sparePrefix))
	}
	mustAppend(t, l, testEntries(1, 1, 300, 1000), "s") // turns over
	if l.spare.make() {
		t.Error("a frugal log has made a spare file")
	}
	if err := l.Frugal(false); err != nil {
		t.Fatal(err)
	}
	haveSpares(l)
	fs.free.Store(uint64(spareRoom*l.spare.bytes) - 1)
	l.spare.take()
	if l.spare.make() {
		t.Error("a spare file was made where there is little room")
	}
	fs.free.Store(uint64(spareRoom * l.spare.bytes))
	fs.fails.Store(true)
	if l.spare.make() || l.Err() != nil {
		t.Errorf("a file that cannot be made: %v", l.Err())
	}
	mustAppend(t, l, testEntries(301, 1, 10, 1000), "s") // goes on
	fs.fails.Store(false)
	if !l.spare.make() {
		t.Error("no spare file was made when there was room again")
	}
}

// TestAStartWithLittleRoomTakesNone: one that was told so, and one whose disk says so, makes no spare files, keeps none
// of its logs, and removes those that are there; it makes them when there is room again.
func TestAStartWithLittleRoomTakesNone(t *testing.T) {
	for _, told := range []bool{false, true} {
		opts := logWithSpares(t, 300)
		fs, ok := opts.FS.(*roomy)
		if !ok {
			t.Fatalf("the file system is a %T", opts.FS)
		}
		var ample atomic.Bool
		opts.Ample = ample.Load
		if !told {
			ample.Store(true)
			fs.free.Store(1 << 20)
		}
		l, err := Open(opts)
		if err != nil {
			t.Fatal(err)
		}
		mustAppend(t, l, testEntries(301, 1, 600, 1000), "s") // turns over
		if names := filesOf(t, fs, "log", sparePrefix); len(names) > 0 || l.spare.make() {
			t.Errorf("told %t: spare files %v, and may be made: %t", told, names, l.spare.make())
		}
		ample.Store(true)
		fs.free.Store(1 << 30)
		mustAppend(t, l, testEntries(901, 1, 600, 1000), "s") // turns over
		haveSpares(l)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSpareFilesOfAnotherStore: what they hold might be read as a log of a store that begins, so they are removed.
func TestSpareFilesOfAnotherStore(t *testing.T) {
	fs := vfs.NewMem() // does not say how much room it has, and so gets none
	if err := fs.MkdirAll("log", disk.DirPerm); err != nil {
		t.Fatal(err)
	}
	if err := disk.WriteFile(fs, "log/"+sparePrefix+"000001", string(make([]byte, 256<<10))); err != nil {
		t.Fatal(err)
	}
	openTestLog(t, fs, "log")
	if names := filesOf(t, fs, "log", sparePrefix); len(names) > 0 {
		t.Errorf("a new log has begun with %v", names)
	}
}

// TestSpareFilesAreCleanedUp: what a crash leaves of making one is removed, as are those of another length, and those
// that are too many.
func TestSpareFilesAreCleanedUp(t *testing.T) {
	opts := logWithSpares(t, 1)
	for name, length := range map[string]int{
		sparePrefix + "000007" + unfinishedSuffix: 256 << 10, sparePrefix + "000008": 100,
		sparePrefix + "000009": 256 << 10, sparePrefix + "000010": 256 << 10, sparePrefix + "x": 0,
	} {
		if err := disk.WriteFile(opts.FS, "log/"+name, string(make([]byte, length))); err != nil {
			t.Fatal(err)
		}
	}
	l := openTestLog(t, opts.FS, "log")
	haveSpares(l)
	names := filesOf(t, opts.FS, "log", sparePrefix)
	if len(names) != sparesMax {
		t.Errorf("spare files %v, want %d", names, sparesMax)
	}
	for _, name := range names {
		if filepath.Ext(name) != "" {
			t.Errorf("%s is there", name)
		}
	}
}

// TestPowerCutInASpareFile cuts the power after appends, with any part of what was not synced: all that was synced is
// there, and it ends without a word where it was not.
func TestPowerCutInASpareFile(t *testing.T) {
	for percent := range 5 {
		fs := crashfs.New()
		l := openTestLog(t, newRoomy(fs), "log")
		next := uint64(1)
		for round := range 8 {
			haveSpares(l)
			for range 40 {
				mustAppend(t, l, testEntries(next, 1, 4, 3000), fmt.Sprint("state of ", next))
				next += 4
			}
			if err := l.Append(testEntries(next, 1, 3, 5000), nil, false); err != nil {
				t.Fatal(err)
			}
			cut := fs.CrashClone(cutOf(percent*25, uint64(round)))
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			fs = cut
			l = openTestLog(t, newRoomy(fs), "log")
			if last := l.LastIndex(); last < next-1 || last > next+2 {
				t.Fatalf("after a power cut the last entry is %d, want %d to %d", last, next-1, next+2)
			}
			next = l.LastIndex() + 1
		}
	}
}

// cutOf is a crash that keeps a part of what was not synced.
func cutOf(percent int, seed uint64) vfs.CrashCloneCfg {
	return vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(seed, 1))}
}

// TestDeletedLogsBecomeSpareFiles: one that is as long is kept, one that is not, or is too many, is not.
func TestDeletedLogsBecomeSpareFiles(t *testing.T) {
	fs := newRoomy(vfs.NewMem())
	l := openTestLog(t, fs, "log")
	haveSpares(l)
	for i, tc := range []struct {
		length int64
		taken  int // spare files, before
		room   bool
		want   bool
	}{
		{l.spare.bytes, 1, false, false}, {l.spare.bytes, 0, true, true}, {l.spare.bytes, 0, true, false},
		{100, 1, true, false},
	} {
		fs.full(l) // none is made
		for range tc.taken {
			if err := fs.Remove("log/" + l.spare.take()); err != nil {
				t.Fatal(err)
			}
		}
		before := len(filesOf(t, fs, "log", sparePrefix))
		name := fmt.Sprintf("log/9%05d.log", i)
		if err := disk.WriteFile(fs, name, string(make([]byte, tc.length))); err != nil {
			t.Fatal(err)
		}
		if tc.room {
			fs.free.Store(1 << 30)
		}
		if err := l.spare.Remove(name); err != nil {
			t.Fatal(err)
		}
		if got := len(filesOf(t, fs, "log", sparePrefix)) > before; got != tc.want {
			t.Errorf("%d: a log of %d bytes became a spare file: %t, want %t", i, tc.length, got, tc.want)
		}
		if len(filesOf(t, fs, "log", filepath.Base(name))) > 0 {
			t.Errorf("%d: the log is still there", i)
		}
	}
}
