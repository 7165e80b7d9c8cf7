package sim

import (
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/crashfs"
	"zkd/storage/disk"
	"zkd/storage/invariants"
)

// Operation is what a process asks a disk for.
type Operation string

// The operations.
const (
	Create Operation = "create" // a name, or open a file to write to it
	Write  Operation = "write"
	Sync   Operation = "sync"
	Rename Operation = "rename"
	Remove Operation = "remove"
)

// Class is what a file is for.
type Class string

// The classes of what stores hold.
const (
	Log       Class = "write-ahead log"
	Table     Class = "table"
	Manifest  Class = "MANIFEST"
	Marker    Class = "marker" // which names the MANIFEST
	Mark      Class = "mark"   // of what the log has acknowledged
	Directory Class = "directory"
	other     Class = "other file"
)

// classOf is what a file of this name is for.
func classOf(name string) Class {
	switch base := path.Base(name); {
	case path.Ext(base) == ".log":
		return Log
	case path.Ext(base) == ".sst":
		return Table
	case strings.HasPrefix(base, "MANIFEST-"):
		return Manifest
	case strings.HasPrefix(base, "marker."):
		return Marker
	case base == "SYNCED":
		return Mark
	case !strings.Contains(base, ".") && strings.ToLower(base) == base:
		return Directory
	}
	return other
}

// Trip is a single operation of a disk that stalls until the disk is mended, or fails.
type Trip struct {
	Op     Operation
	Of     Class
	After  int // so many of these are done as ever
	Stalls bool
}

// String says which one.
func (t *Trip) String() string {
	what := "fails"
	if t.Stalls {
		what = "stalls"
	}
	return fmt.Sprintf("the %s of a %s after %d others %s", t.Op, t.Of, t.After, what)
}

// tripped is the fault of an operation that stalls or fails, nil of any other. It is called with the lock held.
func (v *volume) tripped(op Operation, name string) *Trip {
	t := v.fault.trip
	if t == nil || t.Op != op || t.Of != classOf(name) {
		return nil
	}
	if t.After--; t.After != -1 {
		return nil
	}
	v.came = true
	return t
}

// stray is a write that goes elsewhere.
type stray struct {
	after int  // so many writes to a write-ahead log, or to any file, are done as ever
	any   bool // any file
	// last has the next write to a write-ahead log stall, so that nothing behind it tells that it is missing; it goes
	// where no file is.
	last bool
	tell func(what string)
}

// goesAstray tells whether a write goes elsewhere, and has it do so. Of what is written to the log, the mark beside it
// is spared: with both gone a log cannot know what it has lost.
func (v *volume) goesAstray(name string, p []byte) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.fault.stray
	if s == nil || !s.any && classOf(name) != Log {
		return false
	}
	s.after--
	files := slices.DeleteFunc(filesIn(v.fs.MemFS, "/"), func(f stored) bool {
		return f.name == name || classOf(f.name) == Mark
	})
	if s.after >= 0 || len(files) == 0 {
		return false
	}
	v.fault.stray, v.came, v.astray = nil, true, true
	if s.last {
		v.fault.trip = &Trip{Op: Write, Of: Log, Stalls: true}
		s.tell(fmt.Sprintf("%d bytes for %s go where nothing is", len(p), name))
		return true
	}
	f := files[v.random.IntN(len(files))]
	at := v.random.Int64N(f.size)
	at -= at % disk.SectorBytes
	v.overwrite(f.name, at, p[:min(int64(len(p)), f.size-at)])
	s.tell(fmt.Sprintf("%d bytes for %s go to byte %d of %s", len(p), name, at, f.name))
	return true
}

// overwrite writes over some of a file.
func (v *volume) overwrite(name string, at int64, p []byte) {
	file, err := v.fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = file.WriteAt(p, at)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		invariants.Violated("a disk in memory fails", slog.Any("err", err))
	}
}

// single sets a fault of a single operation.
func (v *volume) single(f diskFault) {
	v.set(f)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.came = false
}

// hasCome tells whether the operation that was to stall, fail or go astray has come.
func (v *volume) hasCome() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.came
}

// staleness is what is wrong with what one process reads: some sectors are what they were.
type staleness struct {
	before *vfs.MemFS // the disk as it was; what it has not is zeros
	one    int        // read of so many
	tell   func(what string)
}

// age makes of what was read at an offset of a file what was there before.
func (m *mount) age(name string, p []byte, at int64) {
	s, v := m.stale, m.volume
	if s == nil || len(p) == 0 {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.random.IntN(s.one) > 0 {
		return
	}
	from := v.random.IntN(len(p))
	from = max(0, from-int((at+int64(from))%disk.SectorBytes))
	sector := p[from:min(len(p), from+disk.SectorBytes-int((at+int64(from))%disk.SectorBytes))]
	was := make([]byte, len(sector))
	if file, err := s.before.Open(name); err == nil {
		_, _ = file.ReadAt(was, at+int64(from)) // it may be shorter
		_ = file.Close()                        // in memory
	}
	if !slices.Equal(sector, was) {
		copy(sector, was)
		s.tell(fmt.Sprintf("%d bytes at byte %d of %s", len(sector), at+int64(from), name))
	}
}

// copied is the disk as it would come back if its power failed now.
func (v *volume) copied() (left *vfs.MemFS) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.fs.Still(func(mem *vfs.MemFS) { left = mem.CrashClone(vfs.CrashCloneCfg{}) })
	return left
}

// restore puts an earlier copy in the place of what is on the disk. No process may run.
func (v *volume) restore(copied *vfs.MemFS) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.hold(crashfs.Of(copied.CrashClone(vfs.CrashCloneCfg{})))
}

// lie has the disk say of nothing from now on that it was not synced, though it was not.
func (v *volume) lie() {
	truth := v.copied()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.truth = truth
}

// lose takes what the disk has lied about: all of it, or what a power cut takes of what was not synced. No process may
// run.
func (v *volume) lose(all bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	moment := &crashfs.Moment{Synced: v.truth, Written: v.fs.MemFS}
	if !all {
		if _, err := moment.Tear(v.random.Uint64(), v.replaced); err != nil {
			invariants.Violated("a disk in memory fails", slog.Any("err", err))
		}
	}
	v.hold(crashfs.Of(moment.Synced))
	v.truth = nil
}

// keepLies makes true what the disk has lied about.
func (v *volume) keepLies() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.truth = nil
}
