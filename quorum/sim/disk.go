package sim

import (
	"errors"
	"io"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/crashfs"
)

// powerCut is what a crash does to a disk.
type powerCut uint8

// The kinds of crashes.
const (
	noCut    powerCut = iota // of the process: what was written is there
	cleanCut                 // of the power: what was not synced is gone
	tornCut                  // of the power: some of what was not synced is there
)

// disk is the disk of one member: when the power fails it forgets what was not synced, or keeps some of it.
type disk struct {
	*crashfs.FS
	lies bool // a plant: Sync says it has, and has not; immutable

	// failing says that the power fails at the next sync of a write-ahead log: moment is what was there just before.
	failing  atomic.Bool
	moment   *crashfs.Moment // changed while the file system stands still
	replaced map[string]bool // likewise; names that were the target of a rename
}

// newDisk returns an empty disk.
func newDisk(lies bool) *disk { return diskOf(vfs.NewCrashableMem(), lies) }

// diskOf returns a disk with what is in a file system.
func diskOf(mem *vfs.MemFS, lies bool) *disk {
	d := &disk{FS: crashfs.Of(mem), lies: lies, replaced: map[string]bool{}}
	d.OnSync = d.sync
	d.OnRename = func(to string) { d.Still(func(*vfs.MemFS) { d.replaced[d.PathBase(to)] = true }) }
	return d
}

// crash returns the disk as a crash leaves it: with cleanCut only what was synced, with noCut all that was written, and
// with tornCut what a tear drawn from seed leaves, and how many files were torn. The old disk goes on for those who
// still have it, and nobody looks at it again.
func (d *disk) crash(cut powerCut, seed uint64) (left *disk, torn int, err error) {
	d.Still(func(mem *vfs.MemFS) {
		if d.moment == nil {
			d.moment = crashfs.MomentOf(mem)
		}
		switch cut {
		case noCut:
			left = diskOf(d.moment.Written, d.lies)
		case tornCut:
			torn, err = d.moment.Tear(seed, d.replaced)
			left = diskOf(d.moment.Synced, d.lies)
		default:
			left = diskOf(d.moment.Synced, d.lies)
		}
	})
	return left, torn, err
}

// sync tells whether a sync is done.
func (d *disk) sync(name string) bool {
	if d.failing.Load() && strings.HasSuffix(name, ".log") && d.failing.CompareAndSwap(true, false) {
		d.Still(func(mem *vfs.MemFS) { d.moment = crashfs.MomentOf(mem) })
	}
	return !d.lies
}

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
	return copied, to.syncDir(target)
}

// syncDir makes the names in a directory durable.
func (d *disk) syncDir(name string) error {
	dir, err := d.OpenDir(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
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
