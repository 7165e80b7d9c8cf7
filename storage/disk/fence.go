package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FenceFS is the file system a store sees. It does what Pebble leaves to its user:
//
//   - the first failed write, fsync or rename trips the store's fault, with the operation and the file named;
//   - from then on the directory stays as it is: every change is refused or, if the fence swallows it, counts as done
//     without being done, the failed one included. Pebble's answer to some failures is the end of the process: a
//     panic under a lock (rotateWAL, atomicfs.Marker.Move), or a Fatalf after which it does not expect to go on. So
//     what concerns MANIFESTs, markers and directories is swallowed: after a failed write of those Pebble undoes a
//     compaction whose preparations it cannot undo, and panics at times (l0Sublevels.InitCompactingFileInfo), while it
//     copes with the failed write of a table. What concerns blob files is swallowed, too: the end of one that fails
//     is a panic (blob.FileWriter.Close aborts what it has finished). The table that refers to it is finished after
//     it, and refused. Whoever is told that something is durable looks at the fault first;
//   - a flush that asks for a new table again and again after that waits until the store is closed: Pebble begins one
//     that has failed again at once, for ever. So does, with what Events returns, the collector of table statistics;
//   - the same is so once the fault is retired, without anybody being told: what the store has under way ends soon;
//   - damage of a blob file is found before Pebble meets it, which may panic over it (see BlobFS). One that is about to
//     be rewritten is read before;
//   - until release is called it puts off the deletion of logs and tables, so that a store whose recovery turns out
//     incomplete still has the files it was recovered from;
//   - it puts off the deletion of a marker until its directory is synced. Pebble makes the successor, deletes the old
//     one, and syncs only then (atomicfs.Marker.Move): a power cut may leave the second of these changes alone;
//   - it counts the operations, so that a disk that hangs shows: see Operations. Below the fence Pebble's own
//     checks tell of single ones that take long, while they do.
type FenceFS struct {
	vfs.FS
	Health      io.Closer // of the checks below the fence
	Operations  Operations
	fault       *Fault
	SwallowsAll bool       // changes of logs and tables, too: for a store that looks at the fault after each write
	void        *vfs.MemFS // what is created after the failure, so that Pebble finds it again until it is closed
	// Inspect, if not nil, is asked before a write-ahead log is opened for reading; what it fails with, Open does.
	Inspect func(name string) error

	refused     atomic.Int64 // tables that a store which has stopped has asked for
	closingOnce sync.Once

	mu struct {
		sync.Mutex
		released bool
		pending  []string // files whose deletion waits for release, in the order asked
		markers  []string // markers whose deletion waits for the next sync of their directory
	}
}

// NewFenceFS returns a fence around fs that holds deletions back and lets no change through after a failure. Operations
// that take longer than slowAfter are told of; with 0 none is.
func NewFenceFS(fs vfs.FS, fault *Fault, slowAfter time.Duration) *FenceFS {
	fault.closing = make(chan struct{})
	f := &FenceFS{fault: fault, void: vfs.NewMem()}
	f.FS, f.Health = vfs.WithDiskHealthChecks(fs, slowAfter, nil, fault.slow.tell)
	fault.slow.logger, fault.slow.store = fault.Logger, fault.Store
	return f
}

// IsManifest tells whether name is a MANIFEST.
func IsManifest(name string) bool { return strings.HasPrefix(filepath.Base(name), "MANIFEST-") }

// isMarker tells whether name is a marker, which names the MANIFEST or the format in use.
func isMarker(name string) bool { return strings.HasPrefix(filepath.Base(name), "marker.") }

// isBlobs tells whether name is a file with values that tables refer to.
func isBlobs(name string) bool { return filepath.Ext(name) == ".blob" }

// swallows tells whether changes of a file are swallowed.
func (f *FenceFS) swallows(name string) bool {
	return f.SwallowsAll || IsManifest(name) || isMarker(name) || isBlobs(name)
}

// Release says that the store's content was found whole: deletions put off are done now, later ones at once.
func (f *FenceFS) Release() error {
	f.mu.Lock()
	pending := f.mu.pending
	f.mu.pending, f.mu.released = nil, true
	f.mu.Unlock()
	for _, name := range pending {
		if err := f.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// change runs one operation that changes the directory, unless the store has stopped. A missing file is no disk
// failure.
func (f *FenceFS) change(op, name string, run func() error) error {
	if err := f.fault.Stopped(); err != nil {
		return unless(f.swallows(name), err)
	}
	f.Operations.begin()
	err := run()
	f.Operations.end()
	if err == nil || errors.Is(err, os.ErrNotExist) {
		return err
	}
	return unless(f.swallows(name), f.fault.Trip(diskError(op, name, err)))
}

// unless is what a change answers that was not done because of err.
func unless(swallows bool, err error) error {
	if swallows {
		return nil
	}
	return err
}

// diskError names the operation and the file, unless the operating system's error does so already.
func diskError(op, name string, err error) error {
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		return err
	}
	return fmt.Errorf("%s %s: %w", op, name, err)
}

// holdsBack tells whether the deletion of name waits for release: logs, tables, blob files and manifests are what a
// store is recovered from.
func (f *FenceFS) holdsBack(name string) bool {
	switch filepath.Ext(name) {
	case ".log", ".sst", ".blob":
	default:
		if !IsManifest(name) {
			return false
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.released {
		return false
	}
	f.mu.pending = append(f.mu.pending, name)
	return true
}

// holdsMarkerBack tells whether name is a marker, whose deletion waits for the next sync of its directory.
func (f *FenceFS) holdsMarkerBack(name string) bool {
	if !isMarker(name) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.markers = append(f.mu.markers, name)
	return true
}

// markersBefore takes the markers whose deletion waits for a sync of dir.
func (f *FenceFS) markersBefore(dir string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var due []string
	f.mu.markers = slices.DeleteFunc(f.mu.markers, func(name string) bool {
		if filepath.Dir(name) != dir {
			return false
		}
		due = append(due, name)
		return true
	})
	return due
}

// removeMarkers deletes markers, whose successors are durable.
func (f *FenceFS) removeMarkers(due []string) error {
	for _, name := range due {
		err := f.change("remove", name, func() error { return f.FS.Remove(name) })
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Remove implements vfs.FS.
func (f *FenceFS) Remove(name string) error {
	if f.holdsBack(name) || f.holdsMarkerBack(name) {
		return nil
	}
	return f.change("remove", name, func() error { return f.FS.Remove(name) })
}

// Rename implements vfs.FS.
func (f *FenceFS) Rename(oldname, newname string) error {
	return f.change("rename", newname, func() error { return f.FS.Rename(oldname, newname) })
}

// Link implements vfs.FS.
func (f *FenceFS) Link(oldname, newname string) error {
	return f.change("link", newname, func() error { return f.FS.Link(oldname, newname) })
}

// MkdirAll implements vfs.FS.
func (f *FenceFS) MkdirAll(dir string, perm os.FileMode) error {
	return f.change("create directory", dir, func() error { return f.FS.MkdirAll(dir, perm) })
}

// Closing says that the store is about to be closed: nobody waits for that any more.
func (f *FenceFS) Closing() { f.closingOnce.Do(func() { close(f.fault.closing) }) }

// refusalsMax is how often what a store that has stopped does in the background fails at once. What was under way ends
// with the first failure.
const refusalsMax = 16

// flushCategory is how Pebble calls what a flush writes.
const flushCategory vfs.DiskWriteCategory = "pebble-memtable-flush"

// linger keeps a flush that asks for a table of a store that has stopped, and has been told so often enough, until it
// is closed. A compaction is told at once: none begins again (Compactions).
func (f *FenceFS) linger(name string, category vfs.DiskWriteCategory) {
	if category == flushCategory && filepath.Ext(name) == ".sst" && f.fault.Stopped() != nil &&
		f.refused.Add(1) > refusalsMax {
		<-f.fault.closing
	}
}

// Create implements vfs.FS. The name of a MANIFEST is made durable at once: Pebble syncs the directory only after it
// has moved the marker that names the MANIFEST, so a crash in between could keep the marker and lose the file.
func (f *FenceFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f.linger(name, category)
	if err := f.checkRewritten(name, category); err != nil {
		return nil, err
	}
	file, err := f.openChanged("create", name, func() (vfs.File, error) { return f.FS.Create(name, category) })
	if err != nil || !IsManifest(name) {
		return file, err
	}
	if err := SyncDir(f, filepath.Dir(name)); err != nil {
		_ = f.fault.Trip(diskError("fsync", filepath.Dir(name), err)) // swallowed, as a failed write of the file is
	}
	return file, nil
}

// ReuseForWrite implements vfs.FS.
func (f *FenceFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.openChanged("reuse", newname, func() (vfs.File, error) {
		return f.FS.ReuseForWrite(oldname, newname, category)
	})
}

// OpenReadWrite implements vfs.FS.
func (f *FenceFS) OpenReadWrite(
	name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption,
) (vfs.File, error) {
	return f.openChanged("open", name, func() (vfs.File, error) {
		return f.FS.OpenReadWrite(name, category, opts...)
	})
}

// OpenDir implements vfs.FS. A directory is fsynced through its handle.
func (f *FenceFS) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &fenceDir{fenceFile{File: file, fence: f, name: name, swallows: true}}, nil
}

// openChanged is change for the operations that give a file to write to.
func (f *FenceFS) openChanged(op, name string, open func() (vfs.File, error)) (vfs.File, error) {
	var file vfs.File
	err := f.change(op, name, func() (err error) {
		file, err = open()
		return err
	})
	if err != nil {
		return nil, err
	}
	if file == nil {
		return f.void.Create(filepath.Base(name), vfs.WriteCategoryUnspecified)
	}
	return &fenceFile{File: file, fence: f, name: name, swallows: f.swallows(name)}, nil
}

// Open implements vfs.FS.
func (f *FenceFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if f.swallows(name) && f.fault.Stopped() != nil {
		if file, err := f.void.Open(filepath.Base(name)); err == nil {
			return file, nil
		}
	}
	// The name first: Pebble opens tables in the background while inspect is set and unset.
	if filepath.Ext(name) == ".log" && f.Inspect != nil {
		if err := f.Inspect(name); err != nil {
			return nil, err
		}
	}
	var reader vfs.File
	file, err := f.FS.Open(name, opts...)
	if err == nil {
		reader = &fenceReader{File: file, operations: &f.Operations}
	}
	if isBlobs(name) {
		return checkBlobs(reader, err, name, f.fault)
	}
	return reader, err
}

// Unwrap implements vfs.FS.
func (f *FenceFS) Unwrap() vfs.FS { return f.FS }

// fenceDir is a directory of a FenceFS.
type fenceDir struct{ fenceFile }

// Sync implements vfs.File. A marker asked to be deleted meanwhile may have a successor that the sync has not covered,
// so only those from before it are deleted.
func (f *fenceDir) Sync() error {
	due := f.fence.markersBefore(filepath.Clean(f.name))
	if err := f.fenceFile.Sync(); err != nil {
		return err
	}
	return f.fence.removeMarkers(due)
}

// fenceFile is a file of a FenceFS that may be written to.
type fenceFile struct {
	vfs.File
	fence    *FenceFS
	name     string
	swallows bool
}

// stopped tells whether the store has stopped, and what a change answers then.
func (f *fenceFile) stopped() (bool, error) {
	if err := f.fence.fault.Stopped(); err != nil {
		return true, unless(f.swallows, err)
	}
	return false, nil
}

// note trips the fault if err says that an operation on the file failed, and returns what the operation answers.
func (f *fenceFile) note(op string, err error) error {
	if err == nil {
		return nil
	}
	return unless(f.swallows, f.fence.fault.Trip(diskError(op, f.name, err)))
}

// writeStepBytes is how much is written with one operation. A value of a client may be many times as long, and a disk
// that is slow would look as if it hung. A guess: what a disk takes in a tenth of a second at the least.
const writeStepBytes = 1 << 20

// Write implements vfs.File.
func (f *fenceFile) Write(p []byte) (int, error) {
	for rest := p; ; {
		if stopped, err := f.stopped(); stopped {
			return written(p, err), err
		}
		step := rest[:min(len(rest), writeStepBytes)]
		f.fence.Operations.begin()
		_, err := f.File.Write(step)
		f.fence.Operations.end()
		if err := f.note("write", err); err != nil {
			return 0, err
		}
		if rest = rest[len(step):]; len(rest) == 0 {
			return len(p), nil
		}
	}
}

// WriteAt implements vfs.File.
func (f *fenceFile) WriteAt(p []byte, offset int64) (int, error) {
	if stopped, err := f.stopped(); stopped {
		return written(p, err), err
	}
	f.fence.Operations.begin()
	_, err := f.File.WriteAt(p, offset)
	f.fence.Operations.end()
	err = f.note("write", err)
	return written(p, err), err
}

// written is how many bytes of p a write answers with.
func written(p []byte, err error) int {
	if err != nil {
		return 0
	}
	return len(p)
}

// Preallocate implements vfs.File. It is a hint: a disk that cannot is found full when it is written to.
func (f *fenceFile) Preallocate(offset, length int64) error {
	if stopped, _ := f.stopped(); !stopped {
		f.fence.Operations.begin()
		_ = f.File.Preallocate(offset, length) // see above
		f.fence.Operations.end()
	}
	return nil
}

// Sync implements vfs.File.
func (f *fenceFile) Sync() error {
	if stopped, err := f.stopped(); stopped {
		return err
	}
	f.fence.Operations.begin()
	err := f.File.Sync()
	f.fence.Operations.end()
	return f.note("fsync", err)
}

// SyncData implements vfs.File.
func (f *fenceFile) SyncData() error {
	if stopped, err := f.stopped(); stopped {
		return err
	}
	f.fence.Operations.begin()
	err := f.File.SyncData()
	f.fence.Operations.end()
	return f.note("fdatasync", err)
}

// SyncTo implements vfs.File.
func (f *fenceFile) SyncTo(length int64) (bool, error) {
	if stopped, err := f.stopped(); stopped {
		return err == nil, err
	}
	f.fence.Operations.begin()
	full, err := f.File.SyncTo(length)
	f.fence.Operations.end()
	return full, f.note("sync_file_range", err)
}

// Close implements vfs.File.
func (f *fenceFile) Close() error { return f.note("close", f.File.Close()) }
