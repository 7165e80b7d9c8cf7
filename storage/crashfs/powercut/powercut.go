package powercut

import (
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/disk"
	"zkd/storage/invariants"
)

// Disk takes what a power cut would leave before each operation that changes a disk, and in the middle of each
// write. It is safe for concurrent use.
type Disk struct {
	Mem      *vfs.MemFS // the disk itself
	percents []int      // of un-synced bytes, names and removals to keep, one point for each
	// LooksAt chooses the operations to take points at; nil for all.
	LooksAt func(operation int) bool
	KillAt  int           // the operation before which the process ends; 0 for none
	Killed  chan struct{} // closed when it has ended

	mu         sync.Mutex // held during an operation
	Random     *rand.Rand
	acked      uint64
	Operations int
	looking    bool // at the operation under way
	locks      map[string]io.Closer
	renamed    map[string]string // directories that were, by their old names
	seen       map[uint64]bool   // what was left at the points taken, hashed: each is taken once
	Points     []Point
}

// New returns a recorder of what is done to disk; of un-synced bytes, names and removals it keeps percents at each
// point.
func New(disk *vfs.MemFS, seed uint64, percents ...int) *Disk {
	random := rand.New(rand.NewPCG(seed, 11)) //nolint:gosec // a seed is to give the same points
	return &Disk{
		Mem: disk, percents: percents, Killed: make(chan struct{}), Random: random,
		locks: make(map[string]io.Closer), renamed: make(map[string]string), seen: make(map[uint64]bool),
	}
}

// FS returns the disk to work on.
func (c *Disk) FS() vfs.FS { return recording{c.Mem, c} }

// Do takes the points before an operation, then runs it. The operations of a process that has ended never return.
func (c *Disk) Do(op string, run func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Operations++
	if c.KillAt > 0 && c.Operations >= c.KillAt {
		c.killLocked()
	}
	c.looking = c.LooksAt == nil || c.LooksAt(c.Operations)
	if !c.looking {
		return run()
	}
	for _, percent := range c.percents {
		left := c.Mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: c.Random})
		c.removeLocked(left, percent, "")
		c.takeLocked(op, percent, left)
	}
	return run()
}

// killLocked ends the process: its locks are free, and it does nothing more. It never returns.
func (c *Disk) killLocked() {
	if c.Operations == c.KillAt {
		for _, lock := range c.locks { // order: none matters
			_ = lock.Close() // in memory
		}
		clear(c.locks)
		close(c.Killed)
	}
	c.mu.Unlock()
	select {}
}

// removeLocked lets removals that were not synced last, which a crash clone forgets all of. 100 percent of everything
// is what a killed process leaves. The old name of a directory only goes if the new one has come: a rename is atomic.
func (c *Disk) removeLocked(left *vfs.MemFS, percent int, dir string) {
	for _, path := range ListSorted(left, dir) {
		if info, err := c.Mem.Stat(path); err == nil {
			if info.IsDir() {
				c.removeLocked(left, percent, path)
			}
			continue
		}
		if to, ok := c.renamed[path]; ok && !c.cameLocked(left, to) {
			continue
		}
		if c.Random.IntN(100) < percent {
			_ = left.RemoveAll(path) // in memory
		}
	}
}

// cameLocked tells whether a directory that was renamed to a name is what left has under it: there may be an empty one
// from before, whose removal was not synced.
func (c *Disk) cameLocked(left *vfs.MemFS, to string) bool {
	names, err := left.List(to)
	if err != nil {
		return false
	}
	present, err := c.Mem.List(to)
	return len(names) > 0 || err == nil && len(present) == 0
}

// tearLocked takes a point where sectors of the last write to path, of some bytes at an offset, are still zeros, and
// one where the file ends in it.
func (c *Disk) tearLocked(path string, offset, bytes int) {
	if len(c.percents) == 0 || bytes == 0 || !c.looking {
		return
	}
	for _, shortened := range []bool{false, true} {
		left := c.Mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: c.Random})
		c.removeLocked(left, 100, "")
		content, err := left.UnsafeGetFileDataBuffer(path)
		if err != nil {
			return // it has been removed
		}
		content = slices.Clone(content)
		if shortened {
			content = content[:offset+c.Random.IntN(bytes)]
		} else {
			c.zeroSectorsLocked(content[:offset+bytes], offset)
		}
		if err := disk.WriteFile(left, path, string(content)); err != nil {
			broken(err)
		}
		c.takeLocked("torn write of "+path, 100, left)
	}
}

// zeroSectorsLocked makes zeros of the first, or some, of the sectors from an offset on.
func (c *Disk) zeroSectorsLocked(content []byte, from int) {
	for first := true; from < len(content); first = false {
		to := min(len(content), from-from%disk.SectorBytes+disk.SectorBytes)
		if first || c.Random.IntN(2) == 0 {
			clear(content[from:to])
		}
		from = to
	}
}

// takeLocked keeps a point unless the like of it was taken.
func (c *Disk) takeLocked(op string, percent int, left *vfs.MemFS) {
	hash := xxhash.New()
	_ = binary.Write(hash, binary.LittleEndian, c.acked) // a hash takes everything
	hashTree(hash, left, "")
	if c.seen[hash.Sum64()] {
		return
	}
	c.seen[hash.Sum64()] = true
	c.Points = append(c.Points, Point{
		operation: c.Operations, op: op, percent: percent, Acked: c.acked, Left: left,
	})
}

// Acknowledge says that entry index was.
func (c *Disk) Acknowledge(index uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acked = index
}

// Acknowledged returns the last entry that was.
func (c *Disk) Acknowledged() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.acked
}

// Point is what a crash before one operation leaves of the disk.
type Point struct {
	operation int
	op        string
	percent   int // of un-synced bytes and names that were kept
	Acked     uint64
	Left      *vfs.MemFS
}

// String says where the power was cut.
func (p *Point) String() string {
	return fmt.Sprintf("power cut before operation %d (%s), %d%% kept, entry %d acknowledged",
		p.operation, p.op, p.percent, p.Acked)
}

// hashTree writes names and content of what is below dir.
func hashTree(w io.Writer, fs *vfs.MemFS, dir string) {
	for _, path := range ListSorted(fs, dir) {
		info, err := fs.Stat(path)
		if err != nil {
			broken(err)
		}
		_, _ = fmt.Fprintf(w, "%s %v %d\n", path, info.IsDir(), info.Size()) // a hash takes everything
		if info.IsDir() {
			hashTree(w, fs, path)
			continue
		}
		content, err := fs.UnsafeGetFileDataBuffer(path)
		if err != nil {
			broken(err)
		}
		_, _ = w.Write(content) // a hash takes everything
	}
}

// ListSorted returns the paths of what is in dir.
func ListSorted(fs *vfs.MemFS, dir string) []string {
	names, err := fs.List(dir)
	if err != nil {
		broken(err)
	}
	slices.Sort(names)
	for i := range names {
		names[i] = fs.PathJoin(dir, names[i])
	}
	return names
}

// broken ends a test whose file system in memory fails: nobody asked it to.
func broken(err error) {
	invariants.Violated("a file system in memory does what it is asked for", slog.Any("err", err))
}
