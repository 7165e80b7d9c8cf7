package state

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"zkd/jute"
	"zkd/storage/crashfs/powercut"
	"zkd/storage/datadir"
	"zkd/storage/disk"
	"zkd/storage/entry"
	"zkd/storage/entry/entrytest"
)

// stage puts a checkpoint of a machine that has applied the harness's log, and more of its entries, where Install
// takes it from.
func (h *harness) stage(more ...*entry.Proposal) (dir string) {
	h.t.Helper()
	dir = "state" + datadir.StagedSuffix
	donor, err := OpenMachine(MachineOptions{Dir: "donor", FS: h.fs, countPiece: h.opts.countPiece,
		endPiece: h.opts.endPiece})
	if err != nil {
		h.t.Fatal(err)
	}
	entries := h.log
	if len(more) > 0 {
		b := entry.AppendEntryHeader(nil, 7, uint64(len(h.log)))
		for _, p := range more {
			b = entry.AppendProposal(b, p)
		}
		entries = append(entries, b)
	}
	for i, data := range entries {
		if err := donor.Apply(uint64(i)+1, 1, data, discard{}); err != nil {
			h.t.Fatal(err)
		}
	}
	index, term, err := donor.Checkpoint(context.Background(), dir)
	if err != nil || index != uint64(len(entries)) || term != 1 {
		h.t.Fatalf("checkpoint of entry %d, term %d, want %d: %v", index, term, len(entries), err)
	}
	if err := errors.Join(donor.Close(), h.fs.RemoveAll("donor")); err != nil {
		h.t.Fatal(err)
	}
	h.log = entries
	return dir
}

// install installs such a checkpoint.
func (h *harness) install(more ...*entry.Proposal) {
	h.t.Helper()
	if err := h.m.Install(h.stage(more...)); err != nil {
		h.t.Fatal(err)
	}
}

// TestInstall checks that after Install nothing shows of the state before it, and that the machine goes on from
// there.
func TestInstall(t *testing.T) {
	h := newHarness(t, MachineOptions{})
	h.apply(entrytest.Session(1), entrytest.Create("/a", []byte("old"), 0), entrytest.Create("/gone", nil, 0),
		entrytest.Create("/dir", nil, 0))
	h.apply(entrytest.Create("/dir/x", nil, 0)) // the names below /dir are followed from now on
	before := h.m.View()
	node, _ := before.Get("/a")
	if _, ok := before.Get("/gone"); !ok {
		t.Fatal("no /gone")
	}
	before.Close()
	ephemeral := entrytest.Create("/dir/e", nil, 1)
	ephemeral.Session = 2
	id := [16]byte{9}
	h.install(entrytest.SetData("/a", []byte("new")), entrytest.Delete("/gone"), entrytest.Session(2), ephemeral,
		entrytest.Create("/zookeeper/quota/a", nil, 0),
		entrytest.Create("/zookeeper/quota/a/zookeeper_limits",
			[]byte("count=-1,bytes=3;byteHardLimit=3;countHardLimit=-1"), 0),
		entrytest.Create("/zookeeper/quota/a/zookeeper_stats", []byte("count=1,bytes=3"), 0),
		&entry.Proposal{Op: entry.OpFoundEnsemble, Body: (&entry.FoundTxn{ClusterID: id}).Append(nil)})
	if string(node.Data()) != "old" {
		t.Errorf("a node from before has data %q", node.Data())
	}
	view := h.m.View()
	node, _ = view.Get("/a")
	_, gone := view.Exists("/gone")
	_, session := view.Session(2)
	if string(node.Data()) != "new" || gone || !session || view.AppliedIndex() != 3 || view.ClusterID() != id {
		t.Errorf("after the restore: data %q, deleted znode %t, new session %t, entry %d, cluster %x", node.Data(),
			gone, session, view.AppliedIndex(), view.ClusterID())
	}
	if got := view.EphemeralsOf(2, "", nil); len(got) != 1 {
		t.Errorf("ephemerals %q", got)
	}
	if err := view.Err(); err != nil {
		t.Error(err)
	}
	view.Close()
	if h.m.AppliedIndex() != 3 || h.m.DurableIndex() != 3 || h.m.ClusterID() != id {
		t.Errorf("applied %d, durable %d, cluster %x", h.m.AppliedIndex(), h.m.DurableIndex(), h.m.ClusterID())
	}
	over := entrytest.SetData("/a", []byte("more than the quota"))
	over.Flags |= entry.FlagEnforceQuota
	out := h.apply(entrytest.Create("/dir/e", nil, 0), entrytest.Create("/gone", nil, 0), over)
	for _, want := range []string{"nodeExists", "/gone", "quotaExceeded"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if err := h.m.Flush(context.Background()); err != nil || h.m.DurableIndex() != 4 {
		t.Errorf("flush: durable %d, %v", h.m.DurableIndex(), err)
	}
	want := dumpState(h.m, true)
	h.crash()
	if got := dumpState(h.m, true); got != want {
		t.Errorf("after a crash:\n%s\nwant\n%s", got, want)
	}
	checkStore(t, h.m)
}

// TestRestoreUnderReaders reads and flushes while the state is replaced again and again: each View shows one of the
// states, whole.
func TestRestoreUnderReaders(t *testing.T) {
	h := newHarness(t, MachineOptions{CacheBytes: 32 << 10})
	h.apply(entrytest.Session(1), entrytest.Create("/a", []byte("0"), 0), entrytest.Create("/b", []byte("0"), 0))
	var done atomic.Bool
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for last := jute.Zxid(0); !done.Load(); {
				view := h.m.View()
				a, _ := view.Get("/a")
				b, _ := view.Get("/b")
				names, _ := view.Children("/", nil)
				zxid := view.Zxid()
				if string(a.Data()) != string(b.Data()) || len(names) != 3 || view.Err() != nil || zxid < last {
					t.Errorf("a %q, b %q, children %q, zxid %d after %d: %v", a.Data(), b.Data(), names, zxid, last,
						view.Err())
				}
				last = zxid
				view.Close()
				if err := h.m.Flush(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 20 {
		value := []byte(fmt.Sprint(i))
		h.install(entrytest.SetData("/a", value), entrytest.SetData("/b", value))
		h.apply(entrytest.SetData("/b", append(value, 'x')), entrytest.SetData("/a", append(value, 'x')))
	}
	done.Store(true)
	readers.Wait()
}

// TestRestoreFailureIsFinal checks that a state that cannot be put into its place stops the machine, whose readers
// are told.
func TestRestoreFailureIsFinal(t *testing.T) {
	for _, c := range []struct {
		name  string
		stage func(t *testing.T, h *harness)
		want  string
	}{
		{"nothing is staged", func(*testing.T, *harness) {}, "there is no state"},
		{"an older state", func(t *testing.T, h *harness) {
			h.stage()
			h.apply(&entry.Proposal{Op: jute.OpError})
		}, "ends at log entry 1, but entry 2 was applied"},
		{"a damaged state", func(t *testing.T, h *harness) {
			for _, path := range powercut.ListSorted(h.fs, h.stage()) {
				if strings.Contains(path, "MANIFEST") {
					if err := disk.WriteFile(h.fs, path, "no manifest"); err != nil {
						t.Fatal(err)
					}
				}
			}
		}, "install the state from state.staged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			told := make(chan error, 1) // OnFatal is called once
			h := newHarness(t, MachineOptions{OnFatal: func(err error) { told <- err }})
			h.apply(entrytest.Session(1), entrytest.Create("/a", make([]byte, 1000), 0))
			c.stage(t, h)
			err := h.m.Install("state" + datadir.StagedSuffix)
			if !errors.Is(err, disk.ErrDiskFailed) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("restore: %v", err)
			}
			if err := <-told; !errors.Is(err, disk.ErrDiskFailed) {
				t.Errorf("told %v", err)
			}
			view := h.m.View()
			view.Get("/a")
			view.Children("/", nil)
			view.EphemeralsOf(1, "", nil)
			if view.Err() == nil {
				t.Error("a view does not say that the state is gone")
			}
			view.Close()
			_, _, err = h.m.Checkpoint(context.Background(), "copy")
			if err == nil {
				t.Error("a checkpoint was made")
			}
			if err := h.m.Apply(9, 1, nil, discard{}); err == nil {
				t.Error("an entry was applied")
			}
			_ = h.m.Close() // fails as the disk does
			h.m = nil
		})
	}
}

// TestCheckpointTellsItsPosition makes checkpoints while entries are applied and flushed: index and term are those of
// the copy.
func TestCheckpointTellsItsPosition(t *testing.T) {
	fs := vfs.NewMem()
	m, err := OpenMachine(MachineOptions{Dir: "state", FS: fs, FlushReplay: 6 * replayEntry, MemTableBytes: 256 << 10})
	if err != nil {
		t.Fatal(err)
	}
	term := func(index uint64) uint64 { return 1 + index/7 }
	var done atomic.Bool
	var applier sync.WaitGroup
	applier.Go(func() {
		for index := uint64(1); !done.Load(); index++ {
			entry := entry.AppendProposal(entry.AppendEntryHeader(nil, 1, index), &entry.Proposal{Op: jute.OpError})
			if err := m.Apply(index, term(index), entry, discard{}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	last := uint64(0)
	for i := range 30 {
		dir := fmt.Sprint("copy-", i)
		index, got, err := m.Checkpoint(context.Background(), dir)
		if err != nil {
			t.Fatal(err)
		}
		c, err := OpenMachine(MachineOptions{Dir: dir, FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		if c.AppliedIndex() != index || index > 0 && got != term(index) || index < last {
			t.Errorf("checkpoint after %d holds entry %d, told %d of term %d", last, c.AppliedIndex(), index, got)
		}
		last = index
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	done.Store(true)
	applier.Wait()
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

// writeGate holds back the writes of some files in the directory state once it is armed.
type writeGate struct {
	holds   func(name string) bool // tells which files; set before armed
	armed   atomic.Bool
	stuck   chan struct{} // has the first write that is held back; the others are not waited for
	release chan struct{}
	old     atomic.Pointer[disk.Fault] // of the store that is being replaced
	late    atomic.Int64               // writes that came when it was retired already
	usages  atomic.Int64               // how often it was asked what room there is, as Pebble does after each flush
}

var _ errorfs.Injector = (*writeGate)(nil)

func (g *writeGate) String() string { return "write gate" }

// MaybeError implements errorfs.Injector.
func (g *writeGate) MaybeError(op errorfs.Op) error {
	if !g.armed.Load() || op.Kind != errorfs.OpFileWrite || !strings.HasPrefix(op.Path, "state/") ||
		!g.holds(op.Path) {
		return nil
	}
	select {
	case <-g.release:
		if g.old.Load().Retired.Load() {
			g.late.Add(1)
		}
		return nil
	case g.stuck <- struct{}{}:
	default:
	}
	<-g.release
	return nil
}

// isTable tells whether name is a table.
// isManifestFile tells whether name is a MANIFEST.
func isManifestFile(name string) bool { return strings.HasPrefix(filepath.Base(name), "MANIFEST-") }

func isTable(name string) bool { return strings.HasSuffix(name, ".sst") }

// gatedFS is a file system with a gate.
type gatedFS struct {
	vfs.FS
	gate *writeGate
}

// GetDiskUsage implements vfs.FS.
func (f *gatedFS) GetDiskUsage(path string) (vfs.DiskUsage, error) {
	f.gate.usages.Add(1)
	return f.FS.GetDiskUsage(path)
}

// gatedHarness returns a harness on a gate for the files that holds tells. Its machine must not fail.
func gatedHarness(t *testing.T, holds func(name string) bool) (*harness, *writeGate) {
	t.Helper()
	gate := &writeGate{holds: holds, stuck: make(chan struct{}, 1), release: make(chan struct{})}
	h := &harness{t: t, fs: vfs.NewMem()}
	m, err := OpenMachine(MachineOptions{
		Dir: "state", FS: &gatedFS{errorfs.Wrap(h.fs, gate), gate},
		OnFatal: func(err error) { t.Errorf("told %v", err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	h.m = m
	return h, gate
}

// until waits until something is so, for two minutes.
func (h *harness) until(otherwise string, is func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !is(); runtime.Gosched() {
		if time.Now().After(deadline) {
			h.t.Fatal(otherwise)
		}
	}
}

// installOver installs from dir while a write of the old store is held back, and lets that go once the store is
// retired, and meanwhile was done with it.
func (h *harness) installOver(dir string, gate *writeGate, meanwhile func(old *stateStore)) {
	h.t.Helper()
	<-gate.stuck
	old := h.m.store
	gate.old.Store(&old.fault)
	restored := make(chan error, 1)
	go func() { restored <- h.m.Install(dir) }()
	h.until("the old store was not retired", old.fault.Retired.Load)
	meanwhile(old)
	close(gate.release)
	if err := <-restored; err != nil {
		h.t.Fatal(err)
	}
	if late := gate.late.Load(); late > 0 {
		h.t.Errorf("the old store wrote %d times more", late)
	}
	view := h.m.View()
	defer view.Close()
	if _, ok := view.Get("/new"); !ok || view.Err() != nil {
		h.t.Errorf("the new state is not there: %v", view.Err())
	}
}

// TestFlushOutlivesInstall checks that who waits for a flush is not told that the machine is closed because the state
// was replaced by one that is durable.
func TestFlushOutlivesInstall(t *testing.T) {
	h, gate := gatedHarness(t, isTable)
	h.apply(entrytest.Session(1))
	dir := h.stage(entrytest.Create("/new", nil, 0))
	gate.armed.Store(true)
	flushed := make(chan error, 1)
	go func() { flushed <- h.m.Flush(context.Background()) }()
	h.installOver(dir, gate, func(*stateStore) {})
	if err := errors.Join(<-flushed, h.m.Close()); err != nil {
		t.Error(err)
	}
}

// TestRestoreEndsACompaction replaces a state whose compaction is in the middle of a write, of a table or of the
// MANIFEST: nothing of it is written any more, and nobody is told that its writes fail.
func TestRestoreEndsACompaction(t *testing.T) {
	for name, holds := range map[string]func(string) bool{ // any order
		"table": isTable, "manifest": isManifestFile,
	} {
		t.Run(name, func(t *testing.T) {
			h, gate := gatedHarness(t, holds)
			h.overlappingTables(2000) // so that a table takes more than one write
			dir := h.stage(entrytest.Create("/new", nil, 0))
			gate.armed.Store(true)
			h.m.store.compactions.Release()
			h.installOver(dir, gate, func(*stateStore) {})
			if err := errors.Join(h.m.Flush(context.Background()), h.m.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAFlushOfAReplacedStateWaits: the state is replaced while one of its compactions waits for the disk. A flush that
// fails meanwhile, as nothing more may be written, does not begin again and again.
func TestAFlushOfAReplacedStateWaits(t *testing.T) {
	first := "" // the table that the compaction writes: the flush's may be written
	h, gate := gatedHarness(t, func(name string) bool {
		if first == "" && isTable(name) { // nobody else writes tables yet
			first = name
		}
		return name == first
	})
	h.overlappingTables(2000)
	h.apply(entrytest.Create("/unflushed", nil, 0))
	dir := h.stage(entrytest.Create("/new", nil, 0))
	gate.armed.Store(true)
	h.m.store.compactions.Release()
	h.installOver(dir, gate, func(old *stateStore) {
		before := gate.usages.Load()
		if _, err := old.db.AsyncFlush(); err != nil {
			t.Fatal(err)
		}
		const most = 1000
		h.until("the flush neither waits nor goes on", func() bool {
			return gate.usages.Load() > before+most || strings.Contains(goroutines(), "(*FenceFS).linger")
		})
		if again := gate.usages.Load() - before; again > most {
			t.Errorf("the flush has begun %d times", again)
		}
	})
	if err := h.m.Close(); err != nil {
		t.Error(err)
	}
}

// goroutines is what all of them are at.
func goroutines() string {
	buf := make([]byte, 4<<20)
	return string(buf[:runtime.Stack(buf, true)])
}

// holdingFS holds whoever creates a file in the copy.
type holdingFS struct {
	vfs.FS
	holds    chan struct{} // closed when it holds somebody
	released chan struct{}
}

func (f *holdingFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasPrefix(name, "copy") {
		close(f.holds)
		<-f.released
		return nil, errors.New("the disk has failed")
	}
	return f.FS.Create(name, category)
}

// TestACheckpointRightAfterAStart: the power failed when a start had begun its MANIFEST, and not its write-ahead log
// yet. So the next start has nothing to flush, and begins no MANIFEST. A copy has everything all the same.
func TestACheckpointRightAfterAStart(t *testing.T) {
	h := newHarness(t, MachineOptions{})
	h.lines(compareScript)
	if err := h.m.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.close()
	names, err := h.fs.List("state")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if filepath.Ext(name) == ".log" {
			err = errors.Join(err, h.fs.Remove("state/"+name))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	h.open()
	for _, dir := range []string{"copy", "another"} {
		index, _, err := h.m.Checkpoint(t.Context(), dir)
		if err != nil || index != h.m.AppliedIndex() {
			t.Fatalf("a copy up to entry %d of %d: %v", index, h.m.AppliedIndex(), err)
		}
		if _, err := Verify(h.fs, dir, discardLogger(), func() error { return nil }); err != nil {
			t.Error(err)
		}
	}
}

// TestCloseUnderAHungCheckpoint: a copy hangs on its disk, and is given up; it goes on after the machine was closed,
// when the store has files to delete.
func TestCloseUnderAHungCheckpoint(t *testing.T) {
	fs := &holdingFS{FS: vfs.NewMem(), holds: make(chan struct{}), released: make(chan struct{})}
	m, err := OpenMachine(MachineOptions{Dir: "state", FS: fs, Logger: discardLogger()})
	if err != nil {
		t.Fatal(err)
	}
	index := uint64(0)
	apply := func() {
		index++
		entry := entry.AppendProposal(entry.AppendEntryHeader(nil, 1, index), &entry.Proposal{Op: jute.OpError})
		if err := errors.Join(m.Apply(index, 1, entry, discard{}), m.Flush(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	apply()
	copied := make(chan error, 1)
	go func() {
		_, _, err := m.Checkpoint(context.Background(), "copy")
		copied <- err
	}()
	<-fs.holds
	apply()
	if err := m.store.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err == nil || !strings.Contains(err.Error(), "its disk does not answer") {
		t.Errorf("closed: %v", err)
	}
	close(fs.released)
	if err := <-copied; err == nil {
		t.Error("there is a copy")
	}
	if err := m.Close(); !errors.Is(err, disk.ErrDiskFailed) { // it is, now that nobody uses it
		t.Errorf("closed again: %v", err)
	}
}
