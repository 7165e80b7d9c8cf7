package sim

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/crashfs"
	"zkd/storage/invariants"
	"zkd/storage/space"
)

// volume is the disk of one machine.
type volume struct {
	random *rand.Rand // of the world

	mu       sync.Mutex
	fs       *crashfs.FS       // guarded by mu, as are the rest; what the present process writes to
	replaced map[string]bool   // names of fs that have taken another one's place
	moved    map[string]string // what directories of fs were called that were renamed, by their new names
	mount    *mount            // of the present process
	fault    diskFault
	heals    chan struct{} // closed when fault is mended
	total    int64         // bytes that it has room for; 0: it is endless
	others   int64         // bytes that something else has taken
	reserve  int64         // bytes of space.ReserveName, of which there are none in fs
	truth    *vfs.MemFS    // what is on a disk that lies, under what it says; nil: it does not lie
	astray   bool          // a write has gone elsewhere
	came     bool          // the operation has come that the fault is about, if it is a single one
	reading  *staleness    // of the next process
}

// diskFault is what is wrong with a disk.
type diskFault struct {
	hangs bool          // no write and no sync ends
	fails bool          // each write and each sync fails
	syncs time.Duration // what a sync takes, about
	trip  *Trip         // a single operation that stalls or fails; nil: none
	stray *stray        // a single write that goes elsewhere; nil: none
}

// errKilled is what a process that was killed is told by its disk.
var errKilled = errors.New("the process was killed")

// newVolume returns an empty disk; with total 0 it is endless.
func newVolume(random *rand.Rand, total int64) *volume {
	v := &volume{random: random, total: total, heals: make(chan struct{})}
	v.hold(crashfs.New())
	return v
}

// hold puts a file system on the disk.
func (v *volume) hold(fs *crashfs.FS) {
	replaced, moved := map[string]bool{}, map[string]string{}
	fs.OnRename = func(from, to string) {
		fs.Still(func(mem *vfs.MemFS) {
			replaced[path.Base(to)] = true
			if info, err := mem.Stat(from); err == nil && info.IsDir() {
				moved[to] = from
			}
		})
	}
	v.fs, v.replaced, v.moved = fs, replaced, moved
}

// open returns the disk for a new process.
func (v *volume) open() *mount {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.mount = &mount{FS: v.fs, volume: v, dead: make(chan struct{}), stale: v.reading}
	v.reading = nil
	return v.mount
}

// crash takes the disk from its process. What was not synced is there if the process alone has ended; if the power has
// failed, some of it may be.
func (v *volume) crash(power bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	close(v.mount.dead)
	var left *vfs.MemFS
	v.fs.Still(func(mem *vfs.MemFS) {
		var err error
		if power && v.truth == nil && !v.astray { // else what it has acknowledged might be gone: lose does that
			left, err = v.torn(mem)
		} else {
			left, err = crashfs.WrittenOf(mem)
		}
		if err != nil {
			invariants.Violated("a disk in memory fails", slog.Any("err", err))
		}
	})
	v.hold(crashfs.Of(left))
}

// torn is what is left of a disk whose power fails. It is called with the lock held.
func (v *volume) torn(mem *vfs.MemFS) (*vfs.MemFS, error) {
	moment, err := crashfs.MomentOf(mem, v.moved)
	if err == nil && v.random.IntN(3) > 0 { // else all of it is gone
		_, err = moment.Tear(v.random.Uint64(), v.replaced)
	}
	if err != nil {
		return nil, err
	}
	return moment.Synced, nil
}

// replace puts an empty disk in the place of this one.
func (v *volume) replace() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.hold(crashfs.New())
	v.reserve, v.truth, v.astray, v.reading = 0, nil, false, nil
}

// set makes something wrong with the disk, or mends it.
func (v *volume) set(f diskFault) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.fault = f
	close(v.heals)
	v.heals = make(chan struct{})
}

// fill leaves room for so many bytes, or, with a negative number, takes away what has filled the disk.
func (v *volume) fill(left int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.others = 0
	if left >= 0 {
		v.others = max(0, v.freeLocked()-left)
	}
}

// freeLocked is the room on the disk.
func (v *volume) freeLocked() int64 {
	return max(0, v.total-v.others-v.reserve-v.used("/"))
}

// used is how long all files in a directory are, and below it. It is called with the lock held.
func (v *volume) used(dir string) (sum int64) {
	for _, f := range filesIn(v.fs.MemFS, dir) {
		sum += f.size
	}
	return sum
}

// stored is a file on a disk.
type stored struct {
	name string
	size int64
}

// filesIn are all files in a directory, and below it, that hold anything, in the order of their names.
func filesIn(fs vfs.FS, dir string) (files []stored) {
	names, err := fs.List(dir) // which sorts
	if err != nil {
		return nil
	}
	for _, name := range names {
		name = fs.PathJoin(dir, name)
		switch info, err := fs.Stat(name); {
		case err != nil:
		case info.IsDir():
			files = append(files, filesIn(fs, name)...)
		case info.Size() > 0:
			files = append(files, stored{name, info.Size()})
		}
	}
	return files
}

// rot turns one bit of a file over, and says which. No process may run.
func (v *volume) rot() (what string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	files := filesIn(v.fs.MemFS, "/")
	if len(files) == 0 {
		return "there is nothing on the disk"
	}
	f := files[v.random.IntN(len(files))]
	file, err := v.fs.MemFS.OpenReadWrite(f.name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err.Error()
	}
	defer file.Close() //nolint:errcheck // a file in memory
	at, b := v.random.Int64N(f.size), make([]byte, 1)
	_, err = file.ReadAt(b, at)
	b[0] ^= 1 << v.random.IntN(8)
	if err == nil {
		_, err = file.WriteAt(b, at)
	}
	if err = errors.Join(err, file.Sync()); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("byte %d of %d of %s", at, f.size, f.name)
}

// change is asked before each change of the disk, of so many bytes more.
func (v *volume) change(m *mount, name string, op Operation, bytes int64) error {
	for {
		v.mu.Lock()
		f, heals, trip := v.fault, v.heals, v.tripped(op, name)
		takes := time.Duration(0)
		if op == Sync && f.syncs > 0 {
			takes = f.syncs/2 + time.Duration(v.random.Int64N(int64(f.syncs)))
		}
		full := v.others > 0 && bytes > 0 && v.freeLocked() < bytes
		v.mu.Unlock()
		select {
		case <-m.dead:
			return errKilled
		default:
		}
		switch {
		case f.fails, trip != nil && !trip.Stalls:
			return pathError(name, syscall.EIO)
		case f.hangs, trip != nil:
			select {
			case <-heals:
				continue
			case <-m.dead:
				return errKilled
			}
		case full:
			return pathError(name, syscall.ENOSPC)
		case takes > 0:
			time.Sleep(takes)
		}
		return nil
	}
}

// isReserve tells whether a file is the reserve, which is kept as a number.
func isReserve(name string) bool { return path.Base(name) == space.ReserveName }
