package state

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/entry/entrytest"
	"zkd/storage/raftlog"
	"zkd/storage/raftlog/logtest"
	"zkd/storage/space"
)

// smallVolume is a file system of 256 MiB, as far as its size is asked for.
type smallVolume struct{ vfs.FS }

// GetDiskUsage implements vfs.FS.
func (smallVolume) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{TotalBytes: 256 << 20, AvailBytes: 128 << 20, UsedBytes: 128 << 20}, nil
}

// diskBytes adds up the files in a directory.
func diskBytes(t *testing.T, fs vfs.FS, dir string) (n int64) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if info, err := fs.Stat(fs.PathJoin(dir, name)); err == nil {
			n += info.Size()
		}
	}
	return n
}

// reclaimWithin bounds each step of these tests: it is long, for under the race detector they share the processors with
// other packages.
const reclaimWithin = 5 * time.Minute

// TestReclaim removes three quarters of the znodes, short ones and long ones: their room is given back at once, and no
// store grows by more than a fraction meanwhile.
func TestReclaim(t *testing.T) {
	for _, bytes := range []int{100, 1000, 50_000} {
		t.Run(fmt.Sprint(bytes), func(t *testing.T) {
			mem := vfs.NewMem()
			m, err := OpenMachine(MachineOptions{Dir: "state", FS: smallVolume{mem}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := m.Close(); err != nil {
					t.Error(err)
				}
			}()
			m.Frugal(true)
			h := &harness{t: t, m: m}
			h.apply(entrytest.Session(1))
			count := min(8<<20/bytes, 20_000)
			for i := range count {
				h.apply(entrytest.Create(fmt.Sprintf("/%06d", i), make([]byte, bytes), 0))
			}
			if err := m.Reclaim(t.Context()); err != nil {
				t.Fatal(err)
			}
			full := diskBytes(t, mem, "state")
			for i := range count {
				if i%4 != 0 {
					h.apply(entrytest.Delete(fmt.Sprintf("/%06d", i)))
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), reclaimWithin)
			defer cancel()
			for left := full; left > full/2; { // files of values are written anew in the background
				if err := m.Reclaim(ctx); err != nil || ctx.Err() != nil {
					t.Fatalf("of %d bytes %d are left: %v", full, left, err)
				}
				left = diskBytes(t, mem, "state")
			}
			v := m.View()
			defer v.Close()
			if v.NodeCount() < count/4 {
				t.Errorf("%d znodes are left of %d", v.NodeCount(), count/4)
			}
		})
	}
}

// TestRaftLogReclaim compacts a log away: its room is given back.
func TestRaftLogReclaim(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), reclaimWithin)
	defer cancel()
	mem := vfs.NewMem()
	l := logtest.Open(t, mem, "log")
	const count, bytes = 400, 20 << 10
	for range count / 20 {
		logtest.Append(t, l, 20, bytes)
	}
	before := diskBytes(t, mem, "log")
	if err := l.Compact(count-10, 1, nil); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is nothing to do
		if err := l.Reclaim(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if before < count*bytes {
		t.Errorf("the log takes %d bytes: this tests nothing", before)
	}
	for after := before; after > before/2; { // files are removed in the background
		if ctx.Err() != nil {
			t.Fatalf("%d bytes before, %d after", before, after)
		}
		after = diskBytes(t, mem, "log")
	}
	if l.FirstIndex() != count-9 || l.LastIndex() != count {
		t.Errorf("the log has entries %d to %d", l.FirstIndex(), l.LastIndex())
	}
}

// failOnce returns a file system whose n-th write operation after armed is set fails for want of room, once.
func failOnce(fs vfs.FS, n int64, armed *atomic.Bool, failed *atomic.Int64) vfs.FS {
	var at atomic.Int64
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		fails := op.Kind.ReadOrWrite() == errorfs.OpIsWrite && op.Kind != errorfs.OpFileSync &&
			op.Kind != errorfs.OpFileSyncData && op.Kind != errorfs.OpFileSyncTo && op.Kind != errorfs.OpFileClose &&
			op.Kind != errorfs.OpFilePreallocate
		if armed.Load() && fails && at.Add(1) == n {
			failed.Add(1)
			return syscall.ENOSPC
		}
		return nil
	}))
}

// TestStartOnFullDisk lets each write of a start find the disk full, in turn, with a reserve that is given back then:
// both stores open, with all that was in them.
func TestStartOnFullDisk(t *testing.T) {
	const entries = 40
	for n := int64(1); ; n++ {
		disk := vfs.NewCrashableMem()
		l := logtest.Open(t, disk, "log")
		logtest.Append(t, l, entries, 10<<10)
		h := &harness{t: t, fs: disk}
		h.open()
		h.apply(entrytest.Session(1), entrytest.Create("/a", make([]byte, 1000), 0))
		if err := h.m.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
		crashed := disk.CrashClone(vfs.CrashCloneCfg{})
		h.close()
		var armed atomic.Bool
		var failed, given atomic.Int64
		armed.Store(true)
		fs := vfs.OnDiskFull(failOnce(crashed, n, &armed, &failed), func() { given.Add(1) })
		again, err := raftlog.Open(logtest.Options(fs, "log"))
		if err != nil {
			t.Fatalf("write %d finds the disk full: %v", n, err)
		}
		m, err := OpenMachine(MachineOptions{Dir: "state", FS: fs})
		if err != nil {
			t.Fatalf("write %d finds the disk full: %v", n, err)
		}
		view := m.View()
		if _, found := view.Get("/a"); !found || again.LastIndex() != entries {
			t.Errorf("write %d: the znode is there: %v; the log ends at %d", n, found, again.LastIndex())
		}
		view.Close()
		armed.Store(false)
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
		if failed.Load() != given.Load() {
			t.Errorf("write %d: failed %d times, the reserve was asked for %d times", n, failed.Load(), given.Load())
		}
		if failed.Load() == 0 {
			if n < 15 {
				t.Errorf("%d writes: this tests nothing", n-1)
			}
			return
		}
	}
}

// TestGrows is the table of what is refused at each level.
func TestGrows(t *testing.T) {
	h := newHarness(t, MachineOptions{})
	h.apply(entrytest.Session(1), entrytest.Create("/a", []byte("12345"), 0))
	multi := func(ops ...*entry.Proposal) *entry.Proposal {
		var b []byte
		for _, p := range ops {
			b = (&jute.MultiHeader{Type: p.Op, Err: -1}).Append(b)
			b = append(b, p.Body...)
		}
		return &entry.Proposal{Op: jute.OpMulti, Body: jute.AppendMultiEnd(b)}
	}
	longer, same := entrytest.SetData("/a", []byte("123456")), entrytest.SetData("/a", []byte("54321"))
	view := h.m.View()
	defer view.Close()
	for _, c := range []struct {
		what     string
		p        *entry.Proposal
		low      bool
		critical bool
	}{
		{"create", entrytest.Create("/b", nil, 0), true, true},
		{"delete", entrytest.Delete("/a"), false, false},
		{"longer data", longer, true, true},
		{"data as long", same, false, true},
		{"data of nothing", entrytest.SetData("/none", []byte("1")), false, true},
		{"ACL", &entry.Proposal{Op: jute.OpSetACL}, false, true},
		{"session", entrytest.Session(2), false, false},
		{"end of session", &entry.Proposal{Op: jute.OpCloseSession}, false, false},
		{"reconfig", &entry.Proposal{Op: jute.OpReconfig}, false, false},
		{"restore", &entry.Proposal{Op: entry.OpLoadBegin}, true, true},
		{"end of restore", &entry.Proposal{Op: entry.OpLoadAbort}, false, false},
		{"multi of deletes", multi(entrytest.Delete("/a"), entrytest.Delete("/b")), false, false},
		{"multi with a create", multi(entrytest.Delete("/a"), entrytest.Create("/b", nil, 0)), true, true},
		{"multi with longer data", multi(entrytest.Delete("/b"), longer), true, true},
		{"multi with data as long", multi(same, entrytest.Delete("/b")), false, true},
		{"multi that cannot be read", &entry.Proposal{Op: jute.OpMulti, Body: []byte{1}}, false, false},
	} {
		for level, want := range map[space.Level]bool{ // any order
			space.Ample: false, space.Low: c.low, space.Critical: c.critical,
		} {
			if got := view.Grows(c.p, level); got != want {
				t.Errorf("%s, %v: %v, want %v", c.what, level, got, want)
			}
			if Grows(c.p, level) && !want {
				t.Errorf("%s, %v: refused without the state, not with it", c.what, level)
			}
		}
	}
}
