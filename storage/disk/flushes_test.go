package disk_test

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/disk"
)

// TestHeldFlushesWait fills memtable after memtable of a store whose flushes are held: no table comes of them until
// they are let through, when all of them become durable, and the same again after that. Closing does not wait.
func TestHeldFlushesWait(t *testing.T) {
	mem := vfs.NewMem()
	fault := &disk.Fault{Store: "store", Dir: "store", Logger: slog.New(slog.DiscardHandler)}
	fence := disk.NewFenceFS(mem, fault, 0)
	if err := fence.Release(); err != nil {
		t.Fatal(err)
	}
	db, err := pebble.Open("store", &pebble.Options{
		FS: fence, DisableWAL: true, MemTableSize: 256 << 10, MemTableStopWritesThreshold: 1000,
		Logger: disk.Logger{Fault: fault}, FormatMajorVersion: disk.Format, DisableAutomaticCompactions: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	fence.Flushes.Hold()
	key := 0
	fill := func() {
		t.Helper()
		for range 2000 { // several memtables
			key++
			if err := db.Set(fmt.Appendf(nil, "k%06d", key), make([]byte, 1<<10), pebble.NoSync); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 3 {
		before := tables(t, mem)
		fill()
		if n := tables(t, mem); n != before {
			t.Fatalf("%d tables while flushes are held, %d before", n, before)
		}
		end := fence.Flushes.Pass()
		done, err := db.AsyncFlush()
		if err != nil {
			t.Fatal(err)
		}
		<-done
		end()
		if n := tables(t, mem); n <= before {
			t.Fatalf("%d tables after a flush, %d before", n, before)
		}
	}
	fill()
	fence.Closing()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestHeldFlushesEndStalls writes more than a store takes without a flush, while flushes are held: it goes on.
func TestHeldFlushesEndStalls(t *testing.T) {
	fault := &disk.Fault{Store: "store", Dir: "store", Logger: slog.New(slog.DiscardHandler)}
	fence := disk.NewFenceFS(vfs.NewMem(), fault, 0)
	events := disk.Events(fault)
	fence.Flushes.PassStalls(events)
	db, err := pebble.Open("store", &pebble.Options{
		FS: fence, DisableWAL: true, MemTableSize: 256 << 10, MemTableStopWritesThreshold: 2,
		Logger: disk.Logger{Fault: fault}, EventListener: events, FormatMajorVersion: disk.Format,
		DisableAutomaticCompactions: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	fence.Flushes.Hold()
	for i := range 5000 {
		if err := db.Set(fmt.Appendf(nil, "k%06d", i), make([]byte, 1<<10), pebble.NoSync); err != nil {
			t.Fatal(err)
		}
	}
	fence.Closing()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// tables returns how many tables there are.
func tables(t *testing.T, fs vfs.FS) (n int) {
	t.Helper()
	names, err := fs.List("store")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if filepath.Ext(name) == ".sst" {
			n++
		}
	}
	return n
}
