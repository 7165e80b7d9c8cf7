package state

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/entry/entrytest"
)

// countedReads counts what is read of the tables of a store.
func countedReads(fs vfs.FS, reads *atomic.Int64) vfs.FS {
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if strings.HasSuffix(op.Path, ".sst") && op.Kind.ReadOrWrite() == errorfs.OpIsRead {
			reads.Add(1)
		}
		return nil
	}))
}

// TestNewTablesAreWarm: no entry that makes znodes, of which nobody knows whether they are there, waits for the disk
// because a flush or a compaction has made new tables.
func TestNewTablesAreWarm(t *testing.T) {
	h := newHarness(t, MachineOptions{})
	h.apply(entrytest.Session(1), entrytest.Create("/a", nil, jute.ModePersistent))
	made := 0
	create := func(count int) {
		t.Helper()
		proposals := make([]*entry.Proposal, count)
		for i := range proposals {
			// In no order, so that each table has names on both sides of those that follow.
			path := fmt.Sprintf("/a/%06d", made*7919%100000)
			proposals[i], made = entrytest.Create(path, nil, jute.ModePersistent), made+1
		}
		h.apply(proposals...)
	}
	create(1000)
	if err := h.m.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.close()

	reads := new(atomic.Int64)
	h.opts.FS = countedReads(h.fs, reads)
	m, err := OpenMachine(h.opts) // has forgotten the names of the children of /a, which are many
	if err != nil {
		t.Fatal(err)
	}
	h.m = m
	create(1000) // reads the tables that are there
	for _, tables := range []struct {
		name string
		make func() error
	}{
		{"a flush", func() error { return m.Flush(t.Context()) }},
		{"a compaction", func() error {
			return m.store.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false)
		}},
	} {
		create(1000)
		if err := tables.make(); err != nil {
			t.Fatal(err)
		}
		for !m.store.warm.idle() {
			runtime.Gosched()
		}
		before := reads.Load()
		create(20)
		// A table that is cold is read seven times, and one path in a hundred is asked for in vain.
		if n := reads.Load() - before; n > 2 {
			t.Errorf("after %s, 20 creates have read tables %d times", tables.name, n)
		}
	}
}
