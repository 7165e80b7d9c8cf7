package space

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// disk is a file system in memory with so much room. Files take what was allocated or written of them, and nothing is
// left to write once used is total.
type disk struct {
	vfs.FS
	total, other atomic.Int64 // other is what is used beside the reserve
	fails        atomic.Bool  // nothing can be allocated
}

// newDisk returns an empty disk of so many bytes with the directory /data.
func newDisk(t *testing.T, total int64) *disk {
	t.Helper()
	d := &disk{FS: vfs.NewMem()}
	d.total.Store(total)
	if err := d.MkdirAll("/data", 0o755); err != nil {
		t.Fatal(err)
	}
	return d
}

// reserve is the size of the reserve.
func (d *disk) reserve() int64 {
	info, err := d.Stat("/data/" + ReserveName)
	if err != nil {
		return 0
	}
	return info.Size()
}

// GetDiskUsage implements vfs.FS.
func (d *disk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	used := min(d.other.Load()+d.reserve(), d.total.Load())
	return vfs.DiskUsage{
		TotalBytes: uint64(d.total.Load()), AvailBytes: uint64(d.total.Load() - used), UsedBytes: uint64(used),
	}, nil
}

// OpenReadWrite implements vfs.FS.
func (d *disk) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	if d.fails.Load() {
		return nil, &os.PathError{Op: "open", Path: name, Err: syscall.ENOSPC}
	}
	return d.FS.OpenReadWrite(name, c, o...)
}

// Create implements vfs.FS: it fails on a full disk.
func (d *disk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if usage, _ := d.GetDiskUsage(name); usage.AvailBytes == 0 {
		return nil, &os.PathError{Op: "create", Path: name, Err: syscall.ENOSPC}
	}
	return d.FS.Create(name, c)
}

const mib = 1 << 20

// hangingDisk is a disk that can stop answering.
type hangingDisk struct {
	*disk
	asked  chan struct{} // gets one from each who asks for the room
	answer chan struct{} // lets one go on
}

// GetDiskUsage implements vfs.FS.
func (d hangingDisk) GetDiskUsage(name string) (vfs.DiskUsage, error) {
	d.asked <- struct{}{}
	<-d.answer
	return d.disk.GetDiskUsage(name)
}

// TestVolumesBesideADiskThatHangs: what the last look has found is known while the next one waits for the disk.
func TestVolumesBesideADiskThatHangs(t *testing.T) {
	d := hangingDisk{newDisk(t, 1024*mib), make(chan struct{}), make(chan struct{})}
	g := New(Options{FS: d, Dirs: []string{"/data"}, ReserveBytes: 32 * mib})
	over := make(chan struct{})
	look := func() { g.Look(); over <- struct{}{} }
	go look()
	<-d.asked
	if all := g.Volumes(); len(all) != 0 {
		t.Errorf("%v is known before the first look has ended", all)
	}
	d.answer <- struct{}{}
	<-over
	d.other.Store(100 * mib)
	go look()
	<-d.asked
	if all := g.Volumes(); len(all) != 1 || all[0].FreeBytes != (1024-32)*mib {
		t.Errorf("%v, not what the first look has found", all)
	}
	d.answer <- struct{}{}
	<-over
	if all := g.Volumes(); len(all) != 1 || all[0].FreeBytes != (1024-32-100)*mib {
		t.Errorf("%v, not what the second look has found", all)
	}
}

// TestUnit shows what the reserve comes to by default.
func TestUnit(t *testing.T) {
	for total, want := range map[int64]int64{ // any order
		0: 0, 64 * mib: 8 * mib, 256 * mib: 32 * mib, 512 * mib: 64 * mib, 5 << 30: 64 * mib,
		20 << 30: (20 << 30) / 100, 100 << 30: 1 << 30, 10 << 40: 1 << 30,
	} {
		if got := Unit(total); got != want {
			t.Errorf("of %d MiB: %d, want %d", total/mib, got, want)
		}
	}
}

// TestLevels fills a disk and empties it again: each level is entered at one mark and left above it, and the reserve is
// given back at the end only and made anew.
func TestLevels(t *testing.T) {
	d := newDisk(t, 256*mib)
	g := New(Options{FS: d, Dirs: []string{"/data", "/data"}, ReserveBytes: Automatic})
	for _, step := range []struct {
		other   int64 // MiB
		want    Level
		reserve int64 // MiB
	}{
		{10, Ample, 32}, {161, Tight, 32}, {150, Tight, 32}, {135, Ample, 32}, {161, Tight, 32}, {193, Low, 32},
		{180, Low, 32}, {176, Tight, 32}, {193, Low, 32}, {222, Low, 32}, {223, Low, 0}, {225, Critical, 0},
		{217, Critical, 0}, {215, Low, 0}, {180, Low, 0}, {175, Tight, 32}, {100, Ample, 32},
	} {
		d.other.Store(step.other * mib)
		if got := g.Look(); got != step.want || g.Level() != got || d.reserve() != step.reserve*mib {
			t.Errorf("with %d of 256 MiB used: %v and a reserve of %d MiB, want %v and %d", step.other, got,
				d.reserve()/mib, step.want, step.reserve)
		}
	}
	if all := g.Volumes(); len(all) != 1 || all[0].FreeBytes != (256-100-32)*mib {
		t.Errorf("volumes: %+v", all)
	}
}

// TestFullDiskTakesTheReserve makes a file on a full disk: it succeeds, once the reserve is given back.
func TestFullDiskTakesTheReserve(t *testing.T) {
	d := newDisk(t, 256*mib)
	g := New(Options{FS: d, Dirs: []string{"/data"}, ReserveBytes: Automatic})
	g.Look()
	d.other.Store(224 * mib)
	if _, err := d.Create("/data/x", vfs.WriteCategoryUnspecified); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	file, err := g.FS().Create("/data/x", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_ = file.Close() // in memory
	if d.reserve() != 0 || g.Level() < Low {
		t.Errorf("after it: a reserve of %d bytes, level %v", d.reserve(), g.Level())
	}
	d.other.Store(256 * mib)
	if _, err := g.FS().Create("/data/y", vfs.WriteCategoryUnspecified); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("with nothing left to give back: %v", err)
	}
}

// TestReserveCannotBeMade shows that a reserve that cannot be made stops nothing, and is made later.
func TestReserveCannotBeMade(t *testing.T) {
	d := newDisk(t, 256*mib)
	d.fails.Store(true)
	g := New(Options{FS: d, Dirs: []string{"/missing", "/data"}, ReserveBytes: Automatic})
	if got := g.Look(); got != Ample || d.reserve() != 0 {
		t.Errorf("level %v, reserve %d", got, d.reserve())
	}
	d.fails.Store(false)
	if g.Look(); d.reserve() != 32*mib {
		t.Errorf("reserve %d", d.reserve())
	}
}

// TestReserveSizes shows sizes that are configured: none, one that is changed, and one that is too large.
func TestReserveSizes(t *testing.T) {
	d := newDisk(t, 256*mib)
	for _, step := range []struct{ configured, want int64 }{
		{5 * mib, 5 * mib}, {0, 0}, {Automatic, 32 * mib}, {1 << 40, 64 * mib}, {7 * mib, 7 * mib},
	} {
		New(Options{FS: d, Dirs: []string{"/data"}, ReserveBytes: step.configured}).Look()
		if d.reserve() != step.want {
			t.Errorf("configured %d: %d bytes, want %d", step.configured, d.reserve(), step.want)
		}
	}
}

// TestReserveIsAllocated looks at a reserve on a real file system: it takes its blocks.
func TestReserveIsAllocated(t *testing.T) {
	path := filepath.Join(t.TempDir(), ReserveName)
	if err := allocate(vfs.Default, path, 3*mib); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() != 3*mib {
		t.Fatalf("size %v, %v", info, err)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Blocks*512 < 3*mib {
		t.Errorf("it takes %d bytes: it is sparse", stat.Blocks*512)
	}
}

// TestLeastToOpen: what a start needs.
func TestLeastToOpen(t *testing.T) {
	d := newDisk(t, 256*mib)
	file, err := d.Create("/data/000001.log", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(make([]byte, 2*mib)); err != nil {
		t.Fatal(err)
	}
	if got := LeastToOpen(d, "/data"); got != 6*mib {
		t.Errorf("got %d", got)
	}
}

// TestAssessFindsWhatALookWould: a check tells beforehand what the server says, and changes nothing.
func TestAssessFindsWhatALookWould(t *testing.T) {
	const total = 64 << 20
	for used := int64(0); used <= total; used += 512 << 10 {
		assessed, looked := newDisk(t, total), newDisk(t, total)
		assessed.other.Store(used)
		looked.other.Store(used)
		got := New(Options{FS: assessed, Dirs: []string{"/data", "/none"}, ReserveBytes: Automatic}).Assess()
		guard := New(Options{FS: looked, Dirs: []string{"/data", "/none"}, ReserveBytes: Automatic})
		guard.Look()
		want := guard.Volumes()
		if len(got) != 1 || len(want) != 1 || got[0] != want[0] {
			t.Fatalf("with %d KiB used: assessed %+v, looked %+v", used>>10, got, want)
		}
		if assessed.reserve() != 0 {
			t.Fatalf("with %d KiB used: a reserve was made", used>>10)
		}
	}
}
