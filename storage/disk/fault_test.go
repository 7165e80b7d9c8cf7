package disk

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"zkd/storage/disk/disktest"
)

// testFault returns a fault that counts what its owner is told, and the log it writes.
func testFault() (*Fault, *atomic.Int64, *bytes.Buffer) {
	var told atomic.Int64
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return &Fault{Store: "raft log", Dir: "d", Logger: logger, OnFatal: func(error) { told.Add(1) }}, &told, &log
}

func TestDiskFaultKeepsTheFirst(t *testing.T) {
	fault, told, log := testFault()
	if fault.Err() != nil {
		t.Fatal("a new fault is set")
	}
	first := fault.Trip(syscall.ENOSPC)
	second := fault.Trip(syscall.EIO)
	if !errors.Is(first, ErrDiskFailed) || !errors.Is(first, syscall.ENOSPC) || first != second || told.Load() != 1 {
		t.Errorf("first %v, second %v, told %d times", first, second, told.Load())
	}
	if !strings.Contains(first.Error(), "free space there") ||
		!strings.Contains(log.String(), "no space left on device") {
		t.Errorf("worded %q, logged %q", first, log)
	}
	if !Logged(fmt.Errorf("start: %w", first)) || Logged(fault.Describe(syscall.ENOSPC)) {
		t.Error("what the log has told of is not known")
	}
}

func TestPebbleLoggerFatalfTripsTheFault(t *testing.T) {
	fault, _, log := testFault()
	logger := Logger{Fault: fault}
	logger.Infof("hello %d", 1)
	logger.Errorf("oh %d", 2)
	logger.Fatalf("no %d", 3)
	logger.Errorf("repeated %d", 4)
	if fault.Err() == nil || !strings.Contains(fault.Err().Error(), "no 3") {
		t.Errorf("fault is %v", fault.Err())
	}
	texts := map[string]bool{"hello 1": true, "oh 2": true, "no 3": true, "repeated 4": false}
	for text, want := range texts { // any order
		if strings.Contains(log.String(), text) != want {
			t.Errorf("log has %q: %v, want %v", text, !want, want)
		}
	}
}

func TestPebbleEventsTripTheFault(t *testing.T) {
	for name, event := range map[string]func(*pebble.EventListener){ // any order
		"background": func(l *pebble.EventListener) { l.BackgroundError(syscall.EIO) },
		"corruption": func(l *pebble.EventListener) {
			l.DataCorruption(pebble.DataCorruptionInfo{Path: "000004.sst", Details: errors.New("bad block")})
		},
	} {
		fault, _, _ := testFault()
		event(Events(fault))
		if fault.Err() == nil {
			t.Errorf("%s: the store goes on", name)
		}
	}
}

func TestFenceHoldsDeletionsBack(t *testing.T) {
	fs := vfs.NewMem()
	fault, _, _ := testFault()
	fence := NewFenceFS(fs, fault, 0)
	for _, name := range []string{"000002.log", "000003.sst", "MANIFEST-000001", "x.tmp"} {
		if err := errors.Join(WriteFile(fs, name, "x"), fence.Remove(name)); err != nil {
			t.Fatal(err)
		}
		_, err := fs.Stat(name)
		if held := err == nil; held != (name != "x.tmp") {
			t.Errorf("%s: held back: %v", name, held)
		}
	}
	if err := fence.Release(); err != nil {
		t.Fatal(err)
	}
	if names, err := fs.List(""); err != nil || len(names) != 0 {
		t.Errorf("left after release: %v, %v", names, err)
	}
}

// content returns what a small file holds.
func content(t *testing.T, fs vfs.FS, name string) string {
	t.Helper()
	b, err := ReadFile(fs, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestFenceFreezesTheDirectory(t *testing.T) {
	for _, swallows := range []bool{false, true} {
		fs := vfs.NewMem()
		if err := WriteFile(fs, "kept.log", "content"); err != nil {
			t.Fatal(err)
		}
		fault, told, _ := testFault()
		broken := errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpFileSync {
				return syscall.EIO
			}
			return nil
		}))
		fence := NewFenceFS(broken, fault, 0)
		fence.SwallowsAll = swallows
		if err := fence.Release(); err != nil {
			t.Fatal(err)
		}
		file, err := fence.Create("new", vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if err := file.Sync(); (err == nil) != swallows || told.Load() != 1 {
			t.Errorf("swallows %v: fsync says %v, told %d times", swallows, err, told.Load())
		}
		_, writeErr := file.Write([]byte("more"))
		for what, err := range map[string]error{ // any order
			"write": writeErr, "remove": fence.Remove("kept.log"), "rename": fence.Rename("kept.log", "gone"),
		} {
			if (err == nil) != swallows {
				t.Errorf("swallows %v: %s says %v", swallows, what, err)
			}
		}
		if got := content(t, fs, "kept.log"); got != "content" {
			t.Errorf("file is %q", got)
		}
		if got := content(t, fs, "new"); got != "" {
			t.Errorf("written after the failure: %q", got)
		}
	}
}

// TestTablesOfAStoppedStoreWait: a flush that asks for tables of a store that has stopped, again and again, is told so
// a few times, and then waits until the store is closed. A compaction does not wait.
func TestTablesOfAStoppedStoreWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fault, _, _ := testFault()
		fence := NewFenceFS(vfs.NewMem(), fault, 0)
		defer fence.Health.Close() //nolint:errcheck // nothing is checked
		_ = fault.Trip(syscall.EIO)
		createFor := func(category vfs.DiskWriteCategory) error {
			_, err := fence.Create("000001.sst", category)
			return err
		}
		create := func() error { return createFor(flushCategory) }
		for range refusalsMax {
			if err := create(); !errors.Is(err, ErrDiskFailed) {
				t.Fatalf("a table of a store that has stopped: %v", err)
			}
		}
		told := make(chan error, 1)
		go func() { told <- create() }()
		synctest.Wait()
		if len(told) != 0 {
			t.Error("it goes on and on")
		}
		if err := createFor("pebble-compaction"); !errors.Is(err, ErrDiskFailed) {
			t.Errorf("a table of a compaction: %v", err)
		}
		fence.Closing()
		if err := <-told; !errors.Is(err, ErrDiskFailed) {
			t.Errorf("a table of a store that is closed: %v", err)
		}
	})
}

// TestStatisticsOfADamagedTableWait: a table whose statistics cannot be read is not read again and again.
func TestStatisticsOfADamagedTableWait(t *testing.T) {
	fs := vfs.NewMem()
	open := func(fault *Fault) (*pebble.DB, *FenceFS, *atomic.Int64) {
		fence, repeats := NewFenceFS(fs, fault, 0), new(atomic.Int64)
		events := Events(fault)
		told := events.BackgroundError
		events.BackgroundError = func(err error) {
			repeats.Add(1)
			told(err)
		}
		db, err := pebble.Open("", &pebble.Options{FS: fence, FormatMajorVersion: Format, EventListener: events,
			Logger: Logger{Fault: fault}})
		if err != nil {
			t.Fatal(err)
		}
		return db, fence, repeats
	}
	closed := func(db *pebble.DB, fence *FenceFS) error {
		fence.Closing()
		return errors.Join(db.Close(), fence.Health.Close())
	}
	fault, _, _ := testFault()
	db, fence, _ := open(fault)
	if err := errors.Join(db.Set([]byte("k"), []byte("v"), nil), db.Flush(), closed(db, fence)); err != nil {
		t.Fatal(err)
	}
	disktest.AlterAll(t, fs, "", ".sst", func(table []byte) []byte { // a byte of each block
		for i := 0; i < len(table)-sstFooter; i += 8 {
			table[i] ^= 1
		}
		return table
	})
	fault, told, _ := testFault()
	db, fence, repeats := open(fault)
	const most = 1000
	stack := make([]byte, 1<<20)
	for end := time.Now().Add(time.Minute); ; {
		if strings.Contains(string(stack[:runtime.Stack(stack, true)]), "(*Fault).linger") {
			break
		}
		if n := repeats.Load(); n > most || time.Now().After(end) {
			t.Fatalf("it was read %d times", n)
		}
	}
	if !errors.Is(fault.Err(), ErrDamaged) || told.Load() != 1 {
		t.Errorf("the fault is %v, told %d times", fault.Err(), told.Load())
	}
	_ = closed(db, fence) // it may say that tables are damaged
}

// sstFooter is at least as many bytes as a table's footer has.
const sstFooter = 100
