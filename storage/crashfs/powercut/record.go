package powercut

import (
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// recording is a disk that tells crashes of each operation before it changes anything.
type recording struct {
	vfs.FS
	crashes *Disk
}

// open is do for the operations that give a file to write to.
func (f recording) open(op, name string, open func() (vfs.File, error)) (vfs.File, error) {
	file := &recordedFile{name: name, crashes: f.crashes}
	return file, f.crashes.Do(op+" "+name, func() (err error) {
		file.File, err = open()
		return err
	})
}

func (f recording) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.open("create", name, func() (vfs.File, error) { return f.FS.Create(name, category) })
}

func (f recording) OpenReadWrite(
	name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption,
) (vfs.File, error) {
	return f.open("open", name, func() (vfs.File, error) { return f.FS.OpenReadWrite(name, category, opts...) })
}

func (f recording) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.open("reuse", newname, func() (vfs.File, error) {
		return f.FS.ReuseForWrite(oldname, newname, category)
	})
}

func (f recording) OpenDir(name string) (vfs.File, error) {
	dir, err := f.FS.OpenDir(name)
	return &recordedFile{File: dir, name: name, crashes: f.crashes}, err
}

func (f recording) Link(oldname, newname string) error {
	return f.crashes.Do("link "+newname, func() error { return f.FS.Link(oldname, newname) })
}

func (f recording) Rename(oldname, newname string) error {
	return f.crashes.Do("rename "+newname, func() error {
		if info, err := f.FS.Stat(oldname); err == nil && info.IsDir() {
			f.crashes.renamed[oldname] = newname
		}
		return f.FS.Rename(oldname, newname)
	})
}

func (f recording) Remove(name string) error {
	return f.crashes.Do("remove "+name, func() error { return f.FS.Remove(name) })
}

func (f recording) RemoveAll(name string) error {
	return f.crashes.Do("remove all of "+name, func() error { return f.FS.RemoveAll(name) })
}

func (f recording) MkdirAll(name string, perm os.FileMode) error {
	return f.crashes.Do("make directory "+name, func() error { return f.FS.MkdirAll(name, perm) })
}

func (f recording) Lock(name string) (io.Closer, error) {
	return recordedLock{name, f.crashes}, f.crashes.Do("lock "+name, func() error {
		lock, err := f.FS.Lock(name)
		if err == nil {
			f.crashes.locks[name] = lock
		}
		return err
	})
}

// recordedLock is a lock that the end of the process gives back, too.
type recordedLock struct {
	name    string
	crashes *Disk
}

func (l recordedLock) Close() error {
	l.crashes.mu.Lock()
	defer l.crashes.mu.Unlock()
	lock := l.crashes.locks[l.name]
	if lock == nil {
		return nil // the process has ended
	}
	delete(l.crashes.locks, l.name)
	return lock.Close()
}

// recordedFile is a file that is written to, or a directory.
type recordedFile struct {
	vfs.File
	name    string
	at      int
	crashes *Disk
}

func (f *recordedFile) Write(p []byte) (n int, err error) {
	err = f.crashes.Do("write "+f.name, func() error {
		n, err = f.File.Write(p)
		f.at += n
		f.crashes.tearLocked(f.name, f.at-n, n)
		return err
	})
	return n, err
}

func (f *recordedFile) WriteAt(p []byte, offset int64) (n int, err error) {
	err = f.crashes.Do("write at "+f.name, func() error {
		n, err = f.File.WriteAt(p, offset)
		f.crashes.tearLocked(f.name, int(offset), n)
		return err
	})
	return n, err
}

func (f *recordedFile) Sync() error { return f.crashes.Do("sync "+f.name, f.File.Sync) }

func (f *recordedFile) SyncData() error { return f.crashes.Do("sync "+f.name, f.File.SyncData) }
