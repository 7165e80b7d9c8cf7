package state

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"zkd/storage/disk"
	"zkd/storage/disk/disktest"
	"zkd/storage/entry"
	"zkd/storage/entry/entrytest"
)

// overlappingTables holds compactions back and leaves the machine with tables, of so many znodes each, that one would
// compact.
func (h *harness) overlappingTables(znodes int) {
	h.t.Helper()
	h.m.store.compactions.Pause()
	for i := range 3 {
		proposals := []*entry.Proposal{entrytest.Session(1)}
		for j := range znodes {
			proposals = append(proposals, entrytest.Create(fmt.Sprintf("/%d-%d", i, j), make([]byte, 100), 0))
		}
		h.apply(proposals...)
		if err := h.m.Flush(context.Background()); err != nil {
			h.t.Fatal(err)
		}
	}
}

// TestStoreOutlivesItsFailure lets each write of a compaction, of a flush and of a copy fail, one after the other: it
// is told, what is not on disk is not called durable, and the next start finds what was.
func TestStoreOutlivesItsFailure(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for at := int64(1); ; at++ {
		failed := outlive(ctx, t, at)
		if t.Failed() {
			t.Fatalf("write %d failed: %v", at, failed)
		}
		if !failed {
			if at < 10 {
				t.Errorf("%d writes: this tests nothing", at-1)
			}
			return
		}
	}
}

// outlive is TestStoreOutlivesItsFailure for one write. It tells whether there was one to fail.
func outlive(ctx context.Context, t *testing.T, at int64) bool {
	var armed atomic.Bool
	var n atomic.Int64
	told := make(chan error, 1) // OnFatal is called once
	h := &harness{t: t, fs: vfs.NewMem()}
	failing := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if armed.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && n.Add(1) == at {
			return syscall.EIO
		}
		return nil
	})
	m, err := OpenMachine(MachineOptions{
		Dir: "state", FS: errorfs.Wrap(h.fs, failing), OnFatal: func(err error) { told <- err },
	})
	if err != nil {
		t.Fatal(err)
	}
	h.m = m
	h.overlappingTables(100)
	h.apply(entrytest.Create("/last", nil, 0)) // not flushed
	armed.Store(true)
	m.store.compactions.Release()
	m.store.compactions.Pause()
	flushErr := m.Flush(ctx)
	_, _, copyErr := m.Checkpoint(ctx, "copy")
	closeErr := m.Close()
	if flushErr != nil || closeErr != nil { // who asked for the copy is told of its failure
		select { // whoever meets the failure tells of it a moment after others see it
		case err := <-told:
			if !errors.Is(err, disk.ErrDiskFailed) {
				t.Errorf("told %v", err)
			}
		case <-ctx.Done():
			t.Errorf("nobody was told of %v, %v", flushErr, closeErr)
		}
	}
	again, err := OpenMachine(MachineOptions{Dir: "state", FS: h.fs})
	if err != nil {
		t.Fatal(err)
	}
	if got := again.AppliedIndex(); got < m.DurableIndex() || flushErr == nil && got < m.AppliedIndex() {
		t.Errorf("applied %d, durable %d (flush says %v), found %d", m.AppliedIndex(), m.DurableIndex(), flushErr, got)
	}
	if copyErr == nil {
		r, err := OpenReader(h.fs, "copy", again.opts.Logger)
		if err != nil {
			t.Fatal(err)
		}
		if pos := r.Position(); pos.Index != m.AppliedIndex() || r.Close() != nil {
			t.Errorf("the copy ends at %d, want %d", pos.Index, m.AppliedIndex())
		}
	}
	view := again.View()
	for _, path := range []string{"/0-99", "/1-99", "/2-99"} {
		if _, ok := view.Get(path); !ok || view.Err() != nil {
			t.Errorf("%s is not there: %v", path, view.Err())
		}
	}
	view.Close()
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	return n.Load() >= at
}

// TestBlobFileThatCannotBeFinished lets each kind of write of a file with values fail, as a disk that is full: it is
// told, and the next start finds what was, and all that comes again.
func TestBlobFileThatCannotBeFinished(t *testing.T) {
	for name, kinds := range map[string][]errorfs.OpKind{ // order: each for itself
		"create": {errorfs.OpCreate}, "write": {errorfs.OpFileWrite},
		"sync": {errorfs.OpFileSync, errorfs.OpFileSyncData},
	} {
		t.Run(name, func(t *testing.T) {
			var failing atomic.Bool
			told := make(chan error, 1) // OnFatal is called once
			h := &harness{t: t, fs: vfs.NewMem()}
			m, err := OpenMachine(MachineOptions{
				Dir: "state", OnFatal: func(err error) { told <- err },
				FS: errorfs.Wrap(h.fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
					if slices.Contains(kinds, op.Kind) && strings.HasSuffix(op.Path, ".blob") && failing.Load() {
						return syscall.ENOSPC
					}
					return nil
				})),
			})
			if err != nil {
				t.Fatal(err)
			}
			h.m = m
			h.apply(entrytest.Session(1), entrytest.Create("/before", make([]byte, 2000), 0))
			if err := m.Flush(context.Background()); err != nil {
				t.Fatal(err)
			}
			durable := m.AppliedIndex()
			h.apply(entrytest.Create("/after", make([]byte, 2000), 0))
			failing.Store(true)
			if err := m.Flush(context.Background()); !errors.Is(err, disk.ErrDiskFailed) {
				t.Errorf("the flush: %v", err)
			}
			if err := <-told; !errors.Is(err, disk.ErrDiskFailed) {
				t.Errorf("told %v", err)
			}
			_ = m.Close() // fails as the disk does
			again, err := OpenMachine(MachineOptions{Dir: "state", FS: h.fs})
			if err != nil {
				t.Fatal(err)
			}
			v := again.View()
			if _, ok := v.Get("/before"); !ok || v.Err() != nil || again.AppliedIndex() != durable {
				t.Errorf("applied %d, %d was durable; found %v, %v", again.AppliedIndex(), durable, ok, v.Err())
			}
			v.Close()
			if err := again.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAFailedDiskEndsTheWaitForAFlush: the disk fails while entries wait for a flush, since too many are not durable.
func TestAFailedDiskEndsTheWaitForAFlush(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var armed atomic.Bool
	held, release := make(chan struct{}, 1), make(chan struct{})
	h := &harness{t: t, fs: vfs.NewMem()}
	m, err := OpenMachine(MachineOptions{
		Dir: "state", FlushBytes: 1,
		FS: errorfs.Wrap(h.fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind != errorfs.OpFileWrite || !isTable(op.Path) || !armed.Load() {
				return nil
			}
			select {
			case held <- struct{}{}:
			default:
			}
			<-release
			return syscall.EIO
		})),
	})
	if err != nil {
		t.Fatal(err)
	}
	h.m = m
	armed.Store(true)
	h.apply(entrytest.Session(1)) // begins a flush
	<-held
	applied := make(chan error, 1)
	go func() { applied <- m.Apply(2, 1, nil, discard{}) }()
	h.until("an entry does not wait for the flush", func() bool {
		return strings.Contains(goroutines(), "(*flusher).wait(")
	})
	close(release)
	select {
	case err := <-applied:
		if !errors.Is(err, disk.ErrDiskFailed) {
			t.Errorf("an entry that has waited for a flush: %v", err)
		}
	case <-ctx.Done():
		t.Error("an entry waits for a flush that does not end")
	}
	_ = m.Close() // fails as the disk does
}

// TestCompactionThatCannotBeNoted lets the MANIFEST fail when a compaction has ended during which another table was
// flushed: Pebble has by then arranged its tables for a version that does not come about.
func TestCompactionThatCannotBeNoted(t *testing.T) {
	var armed, failing atomic.Bool
	begun, flushed := make(chan struct{}), make(chan struct{})
	told := make(chan error, 1) // OnFatal is called once
	h := &harness{t: t, fs: vfs.NewMem()}
	m, err := OpenMachine(MachineOptions{
		Dir: "state", OnFatal: func(err error) { told <- err },
		FS: errorfs.Wrap(h.fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
			switch {
			case op.Kind != errorfs.OpFileWrite:
			case isTable(op.Path) && armed.CompareAndSwap(true, false): // the first write, of the compaction
				close(begun)
				<-flushed
			case disk.IsManifest(op.Path) && failing.Load():
				return syscall.EIO
			}
			return nil
		})),
	})
	if err != nil {
		t.Fatal(err)
	}
	h.m = m
	h.overlappingTables(2000)
	armed.Store(true)
	m.store.compactions.Release()
	<-begun
	h.apply(entrytest.Create("/0-0/last", nil, 0), entrytest.Create("/zz", nil, 0))
	if err := m.Flush(context.Background()); err != nil {
		t.Error(err)
	}
	failing.Store(true)
	close(flushed)
	if err := <-told; !errors.Is(err, disk.ErrDiskFailed) {
		t.Errorf("told %v", err)
	}
	m.store.compactions.Pause()
	_ = m.Close() // fails as the disk does
	again, err := OpenMachine(MachineOptions{Dir: "state", FS: h.fs})
	if err != nil {
		t.Fatal(err)
	}
	if again.AppliedIndex() != m.AppliedIndex() {
		t.Errorf("applied %d, found %d", m.AppliedIndex(), again.AppliedIndex())
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// TestAManifestWithoutItsSequenceNumber: what a MANIFEST begins with when a store is opened is damaged. Pebble would
// take it for the torn end of the file, and number what is written from then on as what its tables hold.
func TestAManifestWithoutItsSequenceNumber(t *testing.T) {
	h := &harness{t: t, fs: vfs.NewMem()}
	h.openAndFlush(1)
	h.openAndFlush(0) // which begins another MANIFEST
	h.refusesManifest(disktest.Flip(-1))
}

// TestAManifestDamagedInTheMiddle: Pebble would take it for the end of the file, and the tables that it names up to
// there for those of now.
func TestAManifestDamagedInTheMiddle(t *testing.T) {
	begun := &harness{t: t, fs: vfs.NewMem()}
	begun.openAndFlush(1)
	begins := begun.openAndFlush(0)
	h := &harness{t: t, fs: vfs.NewMem()}
	h.openAndFlush(1)
	if ends := h.openAndFlush(3); ends < begins+100 {
		t.Fatalf("the MANIFEST begins with %d bytes and ends with %d: this tests nothing", begins, ends)
	}
	h.refusesManifest(disktest.Flip(begins + 20))
}

// openAndFlush opens the machine, flushes so many znodes, each for itself, and closes it. It returns how long the
// MANIFEST is.
func (h *harness) openAndFlush(znodes int) int {
	h.t.Helper()
	var err error
	if h.m, err = OpenMachine(MachineOptions{Dir: "state", FS: h.fs}); err != nil {
		h.t.Fatal(err)
	}
	h.m.store.compactions.Pause()
	for n := range znodes {
		h.apply(entrytest.Session(1), entrytest.Create(fmt.Sprintf("/%d-%d", len(h.log), n), nil, 0))
		if err := h.m.Flush(context.Background()); err != nil {
			h.t.Fatal(err)
		}
	}
	if err := h.m.Close(); err != nil {
		h.t.Fatal(err)
	}
	return len(disktest.Read(h.t, h.fs, disktest.Manifest(h.t, h.fs, "state")))
}

// refusesManifest alters the MANIFEST, after which nobody opens the store.
func (h *harness) refusesManifest(f func(content []byte) []byte) {
	h.t.Helper()
	path := disktest.Manifest(h.t, h.fs, "state")
	disktest.Alter(h.t, h.fs, path, f)
	_, err := OpenMachine(MachineOptions{Dir: "state", FS: h.fs})
	if !errors.Is(err, disk.ErrDamaged) || !strings.Contains(err.Error(), path) {
		h.t.Errorf("open: %v", err)
	}
	if _, err := OpenReader(h.fs, "state", discardLogger()); !errors.Is(err, disk.ErrDamaged) {
		h.t.Errorf("open for reading: %v", err)
	}
}
