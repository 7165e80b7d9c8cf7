// Package crashfs is a file system in memory that crashes: what it held is there again, with what was synced and maybe
// more.
//
// It is Pebble's vfs.MemFS with a gate, for tests and for the simulator. MemFS takes its lock for clones twice in some
// operations, and waits for itself for ever if a clone comes between: here a clone waits until no change is half done.
// The package must never know what is stored.
package crashfs

import (
	"io"
	"os"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FS is a file system in memory whose crashes do not wait for the goroutines that write to it.
type FS struct {
	*vfs.MemFS
	// OnSync, if not nil, is called before each sync of the file or directory that was opened under a name; false
	// leaves the sync out. OnRename, if not nil, is called before each rename. Both are called on the goroutine that
	// does it, and are set before the file system is used.
	OnSync   func(name string) bool
	OnRename func(from, to string)

	gate sync.RWMutex // held shared by each change, exclusively by Still

	mu     sync.Mutex
	parted map[*[]byte]*parted // guarded by mu; by held.data, the files that share their bytes with nobody
}

// New returns an empty file system.
func New() *FS { return Of(vfs.NewCrashableMem()) }

// Of returns mem, which was made by vfs.NewCrashableMem or CrashClone, as an FS. The caller gives it up.
func Of(mem *vfs.MemFS) *FS { return &FS{MemFS: mem} }

// Still calls do while nothing changes.
func (fs *FS) Still(do func(mem *vfs.MemFS)) {
	fs.gate.Lock()
	defer fs.gate.Unlock()
	clear(fs.parted) // do may have what is written from now on not be seen in a copy
	do(fs.MemFS)
}

// CrashClone returns what a crash leaves, as MemFS does. The file system goes on for those who still have it.
func (fs *FS) CrashClone(cfg vfs.CrashCloneCfg) (left *FS) {
	fs.Still(func(mem *vfs.MemFS) { left = Of(mem.CrashClone(cfg)) })
	return left
}

// change does one change of the file system.
func (fs *FS) change(do func() error) error {
	fs.gate.RLock()
	defer fs.gate.RUnlock()
	return do()
}

// open does one change that opens a file.
func (fs *FS) open(name string, do func() (vfs.File, error)) (vfs.File, error) {
	fs.gate.RLock()
	defer fs.gate.RUnlock()
	file, err := do()
	if err != nil {
		return nil, err
	}
	return &gated{File: file, fs: fs, name: name, held: heldOf(file)}, nil
}

// Create implements vfs.FS.
func (fs *FS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := fs.open(name, func() (vfs.File, error) { return fs.MemFS.Create(name, category) })
	if g, ok := file.(*gated); ok {
		g.appends = true
	}
	return file, err
}

// OpenReadWrite implements vfs.FS.
func (fs *FS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return fs.open(name, func() (vfs.File, error) { return fs.MemFS.OpenReadWrite(name, category, opts...) })
}

// OpenDir implements vfs.FS.
func (fs *FS) OpenDir(name string) (vfs.File, error) {
	return fs.open(name, func() (vfs.File, error) { return fs.MemFS.OpenDir(name) })
}

// ReuseForWrite implements vfs.FS.
func (fs *FS) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return fs.open(to, func() (vfs.File, error) { return fs.MemFS.ReuseForWrite(from, to, category) })
}

// Link implements vfs.FS.
func (fs *FS) Link(from, to string) error {
	return fs.change(func() error { return fs.MemFS.Link(from, to) })
}

// Remove implements vfs.FS.
func (fs *FS) Remove(name string) error {
	return fs.change(func() error { return fs.MemFS.Remove(name) })
}

// RemoveAll implements vfs.FS.
func (fs *FS) RemoveAll(name string) error {
	return fs.change(func() error { return fs.MemFS.RemoveAll(name) })
}

// Rename implements vfs.FS.
func (fs *FS) Rename(from, to string) error {
	if fs.OnRename != nil {
		fs.OnRename(from, to)
	}
	return fs.change(func() error { return fs.MemFS.Rename(from, to) })
}

// MkdirAll implements vfs.FS.
func (fs *FS) MkdirAll(name string, perm os.FileMode) error {
	return fs.change(func() error { return fs.MemFS.MkdirAll(name, perm) })
}

// Lock implements vfs.FS.
func (fs *FS) Lock(name string) (lock io.Closer, err error) {
	err = fs.change(func() error {
		lock, err = fs.MemFS.Lock(name)
		return err
	})
	return lock, err
}

// Unwrap implements vfs.FS.
func (fs *FS) Unwrap() vfs.FS { return fs.MemFS }

// gated is a file, or a directory, whose changes hold the gate.
type gated struct {
	vfs.File
	fs      *FS
	name    string // under which it was opened
	held    *held  // what MemFS holds of it; nil: a directory
	appends bool   // Write does, as the file was made with this handle
}

// Write implements vfs.File.
func (f *gated) Write(p []byte) (int, error) {
	f.fs.gate.RLock()
	defer f.fs.gate.RUnlock()
	switch {
	case f.held == nil:
	case !f.appends:
		f.part(*f.held.at, len(p))
	default:
		if f.held.grow(len(p)); isZeros(p) && f.held.extend(len(p)) {
			_, err := f.File.Write(nil) // which changes the file's time
			return len(p), err
		}
	}
	return f.File.Write(p)
}

// WriteAt implements vfs.File.
func (f *gated) WriteAt(p []byte, offset int64) (int, error) {
	f.fs.gate.RLock()
	defer f.fs.gate.RUnlock()
	f.part(int(offset), len(p))
	return f.File.WriteAt(p, offset)
}

// part has the file share its bytes with nobody, since length of them from at on are about to be written over.
func (f *gated) part(at, length int) {
	if f.held == nil {
		return
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	p := f.fs.parted[f.held.data]
	if p == nil {
		f.held.part()
		if f.fs.parted == nil {
			f.fs.parted = map[*[]byte]*parted{}
		}
		p = &parted{}
		f.fs.parted[f.held.data] = p
	}
	if n := len(p.changed); n > 0 && p.changed[n-1][1] == at {
		p.changed[n-1][1] += length
		return
	}
	p.changed = append(p.changed, [2]int{at, at + length})
}

// Sync implements vfs.File.
func (f *gated) Sync() error {
	if f.fs.OnSync != nil && !f.fs.OnSync(f.name) {
		return nil
	}
	return f.fs.change(f.sync)
}

// sync syncs all of it.
func (f *gated) sync() error {
	if f.held == nil {
		return f.File.Sync()
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.held.sync(f.fs.parted[f.held.data])
	return nil
}

// SyncData implements vfs.File.
func (f *gated) SyncData() error { return f.Sync() }
