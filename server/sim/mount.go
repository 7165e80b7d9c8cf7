package sim

import (
	"io"
	"os"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/crashfs"
)

// mount is a volume as one process has it: each change asks the volume first.
type mount struct {
	*crashfs.FS
	volume *volume
	dead   chan struct{} // closed when the process was killed
	stale  *staleness    // what is wrong with what it reads; nil: nothing
	tables atomic.Int64  // that are being written
}

// inodeBytes is what a name takes.
const inodeBytes = 256

// pathError is what a system returns.
func pathError(name string, err error) error { return &os.PathError{Op: "write", Path: name, Err: err} }

// opened asks for a change that opens a file to write to.
func (m *mount) opened(name string, open func() (vfs.File, error)) (vfs.File, error) {
	if err := m.volume.change(m, name, Create, inodeBytes); err != nil {
		return nil, err
	}
	file, err := open()
	if err != nil {
		return nil, err
	}
	f := &mountedFile{File: file, mount: m, name: name}
	if f.table = classOf(name) == Table; f.table {
		m.tables.Add(1)
	}
	return f, nil
}

// change asks for a change of names.
func (m *mount) change(name string, op Operation, bytes int64, do func() error) error {
	if err := m.volume.change(m, name, op, bytes); err != nil {
		return err
	}
	return do()
}

// Create implements vfs.FS.
func (m *mount) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return m.opened(name, func() (vfs.File, error) { return m.FS.Create(name, category) })
}

// OpenReadWrite implements vfs.FS.
func (m *mount) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return m.opened(name, func() (vfs.File, error) { return m.FS.OpenReadWrite(name, category, opts...) })
}

// OpenDir implements vfs.FS. A directory is synced through its handle.
func (m *mount) OpenDir(name string) (vfs.File, error) {
	file, err := m.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &mountedFile{File: file, mount: m, name: name}, nil
}

// Open implements vfs.FS.
func (m *mount) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := m.FS.Open(name, opts...)
	if err != nil {
		return nil, err
	}
	return &mountedFile{File: file, mount: m, name: name}, nil
}

// ReuseForWrite implements vfs.FS.
func (m *mount) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return m.opened(to, func() (vfs.File, error) { return m.FS.ReuseForWrite(from, to, category) })
}

// Link implements vfs.FS.
func (m *mount) Link(from, to string) error {
	return m.change(to, Create, inodeBytes, func() error { return m.FS.Link(from, to) })
}

// Remove implements vfs.FS.
func (m *mount) Remove(name string) error {
	return m.change(name, Remove, 0, func() error {
		if isReserve(name) {
			m.keep(0)
		}
		return m.FS.Remove(name)
	})
}

// RemoveAll implements vfs.FS.
func (m *mount) RemoveAll(name string) error {
	return m.change(name, Remove, 0, func() error { return m.FS.RemoveAll(name) })
}

// Rename implements vfs.FS.
func (m *mount) Rename(from, to string) error {
	return m.change(to, Rename, 0, func() error { return m.FS.Rename(from, to) })
}

// MkdirAll implements vfs.FS.
func (m *mount) MkdirAll(name string, perm os.FileMode) error {
	return m.change(name, Create, inodeBytes, func() error { return m.FS.MkdirAll(name, perm) })
}

// Lock implements vfs.FS.
func (m *mount) Lock(name string) (lock io.Closer, err error) {
	err = m.change(name, Create, 0, func() error {
		lock, err = m.FS.Lock(name)
		return err
	})
	return lock, err
}

// Stat implements vfs.FS.
func (m *mount) Stat(name string) (vfs.FileInfo, error) {
	info, err := m.FS.Stat(name)
	if err != nil || !isReserve(name) {
		return info, err
	}
	m.volume.mu.Lock()
	defer m.volume.mu.Unlock()
	return reserveInfo{info, m.volume.reserve}, nil
}

// GetDiskUsage implements vfs.FS.
func (m *mount) GetDiskUsage(name string) (vfs.DiskUsage, error) {
	v := m.volume
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.total == 0 {
		return m.FS.GetDiskUsage(name) // which does not say
	}
	free := v.freeLocked()
	return vfs.DiskUsage{AvailBytes: uint64(free), TotalBytes: uint64(v.total), UsedBytes: uint64(v.total - free)}, nil
}

// Unwrap implements vfs.FS.
func (m *mount) Unwrap() vfs.FS { return m.FS }

// keep makes the reserve as long as it says.
func (m *mount) keep(bytes int64) {
	m.volume.mu.Lock()
	defer m.volume.mu.Unlock()
	m.volume.reserve = bytes
}

// reserveInfo is what is known of the reserve.
type reserveInfo struct {
	vfs.FileInfo
	size int64
}

// Size implements vfs.FileInfo.
func (i reserveInfo) Size() int64 { return i.size }

// mountedFile is a file or directory of a mount.
type mountedFile struct {
	vfs.File
	mount *mount
	name  string
	read  int64 // how far Read has come
	table bool  // it is a table that is being written
}

// Close implements vfs.File.
func (f *mountedFile) Close() error {
	if f.table {
		f.table = false
		f.mount.tables.Add(-1)
	}
	return f.File.Close()
}

// change asks for a change of the file.
func (f *mountedFile) change(op Operation, bytes int64) error {
	return f.mount.volume.change(f.mount, f.name, op, bytes)
}

// Read implements vfs.File.
func (f *mountedFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	f.mount.age(f.name, p[:n], f.read)
	f.read += int64(n)
	return n, err
}

// ReadAt implements vfs.File.
func (f *mountedFile) ReadAt(p []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(p, at)
	f.mount.age(f.name, p[:n], at)
	return n, err
}

// Write implements vfs.File.
func (f *mountedFile) Write(p []byte) (int, error) {
	if err := f.change(Write, int64(len(p))); err != nil {
		return 0, err
	}
	if f.mount.volume.goesAstray(f.name, p) {
		return f.File.Write(make([]byte, len(p)))
	}
	return f.File.Write(p)
}

// WriteAt implements vfs.File.
func (f *mountedFile) WriteAt(p []byte, at int64) (int, error) {
	if isReserve(f.name) {
		return len(p), nil // it is kept as a number
	}
	if err := f.change(Write, int64(len(p))); err != nil {
		return 0, err
	}
	if f.mount.volume.goesAstray(f.name, p) {
		return len(p), nil
	}
	return f.File.WriteAt(p, at)
}

// Preallocate implements vfs.File.
func (f *mountedFile) Preallocate(offset, length int64) error {
	if !isReserve(f.name) {
		return f.File.Preallocate(offset, length)
	}
	err := f.change(Create, length)
	if err == nil {
		f.mount.keep(length)
	}
	return err
}

// Sync implements vfs.File.
func (f *mountedFile) Sync() error {
	if err := f.change(Sync, 0); err != nil {
		return err
	}
	return f.File.Sync()
}

// SyncData implements vfs.File.
func (f *mountedFile) SyncData() error {
	if err := f.change(Sync, 0); err != nil {
		return err
	}
	return f.File.SyncData()
}
