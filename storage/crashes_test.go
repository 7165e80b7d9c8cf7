package storage

import (
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// crashFS is a disk that tells crashes of each operation before it changes anything.
type crashFS struct {
	vfs.FS
	crashes *crashes
}

// open is do for the operations that give a file to write to.
func (f crashFS) open(op, name string, open func() (vfs.File, error)) (vfs.File, error) {
	file := &crashFile{name: name, crashes: f.crashes}
	return file, f.crashes.do(op+" "+name, func() (err error) {
		file.File, err = open()
		return err
	})
}

func (f crashFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.open("create", name, func() (vfs.File, error) { return f.FS.Create(name, category) })
}

func (f crashFS) OpenReadWrite(
	name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption,
) (vfs.File, error) {
	return f.open("open", name, func() (vfs.File, error) { return f.FS.OpenReadWrite(name, category, opts...) })
}

func (f crashFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.open("reuse", newname, func() (vfs.File, error) {
		return f.FS.ReuseForWrite(oldname, newname, category)
	})
}

func (f crashFS) OpenDir(name string) (vfs.File, error) {
	dir, err := f.FS.OpenDir(name)
	return &crashFile{File: dir, name: name, crashes: f.crashes}, err
}

func (f crashFS) Link(oldname, newname string) error {
	return f.crashes.do("link "+newname, func() error { return f.FS.Link(oldname, newname) })
}

func (f crashFS) Rename(oldname, newname string) error {
	return f.crashes.do("rename "+newname, func() error {
		if info, err := f.FS.Stat(oldname); err == nil && info.IsDir() {
			f.crashes.renamed[oldname] = newname
		}
		return f.FS.Rename(oldname, newname)
	})
}

func (f crashFS) Remove(name string) error {
	return f.crashes.do("remove "+name, func() error { return f.FS.Remove(name) })
}

func (f crashFS) RemoveAll(name string) error {
	return f.crashes.do("remove all of "+name, func() error { return f.FS.RemoveAll(name) })
}

func (f crashFS) MkdirAll(name string, perm os.FileMode) error {
	return f.crashes.do("make directory "+name, func() error { return f.FS.MkdirAll(name, perm) })
}

func (f crashFS) Lock(name string) (io.Closer, error) {
	return crashLock{name, f.crashes}, f.crashes.do("lock "+name, func() error {
		lock, err := f.FS.Lock(name)
		if err == nil {
			f.crashes.locks[name] = lock
		}
		return err
	})
}

// crashLock is a lock that the end of the process gives back, too.
type crashLock struct {
	name    string
	crashes *crashes
}

func (l crashLock) Close() error {
	l.crashes.mu.Lock()
	defer l.crashes.mu.Unlock()
	lock := l.crashes.locks[l.name]
	if lock == nil {
		return nil // the process has ended
	}
	delete(l.crashes.locks, l.name)
	return lock.Close()
}

// crashFile is a file that is written to, or a directory.
type crashFile struct {
	vfs.File
	name    string
	at      int
	crashes *crashes
}

func (f *crashFile) Write(p []byte) (n int, err error) {
	err = f.crashes.do("write "+f.name, func() error {
		n, err = f.File.Write(p)
		f.at += n
		f.crashes.tearLocked(f.name, f.at-n, n)
		return err
	})
	return n, err
}

func (f *crashFile) WriteAt(p []byte, offset int64) (n int, err error) {
	err = f.crashes.do("write at "+f.name, func() error {
		n, err = f.File.WriteAt(p, offset)
		f.crashes.tearLocked(f.name, int(offset), n)
		return err
	})
	return n, err
}

func (f *crashFile) Sync() error { return f.crashes.do("sync "+f.name, f.File.Sync) }

func (f *crashFile) SyncData() error { return f.crashes.do("sync "+f.name, f.File.SyncData) }
