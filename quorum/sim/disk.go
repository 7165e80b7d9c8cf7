package sim

import (
	"io"
	"math/rand/v2"
	"os"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// disk is the disk of one member: it forgets what was not synced when the power fails.
//
// Every change holds the gate, so that a crash finds none half done: Pebble's own file system takes its lock for
// clones twice in some operations, and would wait for itself if a clone came between.
type disk struct {
	*vfs.MemFS
	gate sync.RWMutex // held shared by each change, exclusively by crash
	lies bool         // a plant: Sync of the raft log's files says it has, and has not; immutable after newDisk
}

// newDisk returns an empty disk.
func newDisk(lies bool) *disk { return &disk{MemFS: vfs.NewCrashableMem(), lies: lies} }

// crash returns the disk as a crash leaves it: with powerCut only what was synced, otherwise all that was written. The
// old disk goes on for those who still have it, and nobody looks at it again.
func (d *disk) crash(powerCut bool) *disk {
	d.gate.Lock()
	defer d.gate.Unlock()
	cfg := vfs.CrashCloneCfg{}
	if !powerCut {
		cfg.UnsyncedDataPercent = 100
		cfg.RNG = rand.New(rand.NewPCG(0, 0)) //nolint:gosec // it decides nothing at 100 percent
	}
	return &disk{MemFS: d.CrashClone(cfg), lies: d.lies}
}

// change does one change of the file system.
func (d *disk) change(do func() error) error {
	d.gate.RLock()
	defer d.gate.RUnlock()
	return do()
}

// open does one change that opens a file.
func (d *disk) open(do func() (vfs.File, error)) (vfs.File, error) {
	d.gate.RLock()
	defer d.gate.RUnlock()
	file, err := do()
	if err != nil {
		return nil, err
	}
	return &diskFile{File: file, disk: d}, nil
}

// Create implements vfs.FS.
func (d *disk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return d.open(func() (vfs.File, error) { return d.MemFS.Create(name, category) })
}

// OpenReadWrite implements vfs.FS.
func (d *disk) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return d.open(func() (vfs.File, error) { return d.MemFS.OpenReadWrite(name, category, opts...) })
}

// OpenDir implements vfs.FS.
func (d *disk) OpenDir(name string) (vfs.File, error) {
	return d.open(func() (vfs.File, error) { return d.MemFS.OpenDir(name) })
}

// ReuseForWrite implements vfs.FS.
func (d *disk) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return d.open(func() (vfs.File, error) { return d.MemFS.ReuseForWrite(from, to, category) })
}

// Link implements vfs.FS.
func (d *disk) Link(from, to string) error {
	return d.change(func() error { return d.MemFS.Link(from, to) })
}

// Remove implements vfs.FS.
func (d *disk) Remove(name string) error {
	return d.change(func() error { return d.MemFS.Remove(name) })
}

// RemoveAll implements vfs.FS.
func (d *disk) RemoveAll(name string) error {
	return d.change(func() error { return d.MemFS.RemoveAll(name) })
}

// Rename implements vfs.FS.
func (d *disk) Rename(from, to string) error {
	return d.change(func() error { return d.MemFS.Rename(from, to) })
}

// MkdirAll implements vfs.FS.
func (d *disk) MkdirAll(name string, perm os.FileMode) error {
	return d.change(func() error { return d.MemFS.MkdirAll(name, perm) })
}

// Lock implements vfs.FS.
func (d *disk) Lock(name string) (lock io.Closer, err error) {
	err = d.change(func() error {
		lock, err = d.MemFS.Lock(name)
		return err
	})
	return lock, err
}

// Unwrap implements vfs.FS.
func (d *disk) Unwrap() vfs.FS { return d.MemFS }

// diskFile is a file, or a directory, of a disk.
type diskFile struct {
	vfs.File
	disk *disk
}

// Write implements vfs.File.
func (f *diskFile) Write(p []byte) (int, error) {
	f.disk.gate.RLock()
	defer f.disk.gate.RUnlock()
	return f.File.Write(p)
}

// WriteAt implements vfs.File.
func (f *diskFile) WriteAt(p []byte, offset int64) (int, error) {
	f.disk.gate.RLock()
	defer f.disk.gate.RUnlock()
	return f.File.WriteAt(p, offset)
}

// Sync implements vfs.File.
func (f *diskFile) Sync() error {
	if f.disk.lies {
		return nil
	}
	return f.disk.change(f.File.Sync)
}

// SyncData implements vfs.File.
func (f *diskFile) SyncData() error { return f.Sync() }

// copyTree copies the directory from of one disk to the directory to of another, and syncs it. Copying ends early,
// with an error, after limit bytes; limit < 0 is no limit. A checkpoint is flat but for one level of directories.
func copyTree(from *disk, source string, to *disk, target string, limit int) (copied int, err error) {
	if err := to.MkdirAll(target, 0o750); err != nil {
		return 0, err
	}
	names, err := from.List(source)
	if err != nil {
		return 0, err
	}
	for _, name := range names { // List sorts
		at, onto := from.PathJoin(source, name), to.PathJoin(target, name)
		info, err := from.Stat(at)
		if err != nil {
			return copied, err
		}
		var n int
		if info.IsDir() {
			n, err = copyTree(from, at, to, onto, limit-copied)
		} else {
			n, err = copyFile(from, at, to, onto)
		}
		copied += n
		if err != nil {
			return copied, err
		}
		if limit >= 0 && copied >= limit {
			return copied, errCutOff
		}
	}
	dir, err := to.OpenDir(target)
	if err != nil {
		return copied, err
	}
	defer dir.Close()
	return copied, dir.Sync()
}

// copyFile copies and syncs one file.
func copyFile(from *disk, source string, to *disk, target string) (int, error) {
	in, err := from.Open(source)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	data, err := io.ReadAll(in)
	if err != nil {
		return 0, err
	}
	out, err := to.Create(target, vfs.WriteCategoryUnspecified)
	if err != nil {
		return 0, err
	}
	defer out.Close()
	if _, err := out.Write(data); err != nil {
		return 0, err
	}
	return len(data), out.Sync()
}
