package state

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"zkd/jute"
	"zkd/storage/crashfs"
	"zkd/storage/datadir"
	"zkd/storage/ensemble"
	"zkd/storage/entry"
	"zkd/storage/entry/entrytest"
	"zkd/storage/schema"
	"zkd/storage/zkdata"
	"zkd/storage/zkdata/zkdatatest"
)

// TestRestoreKeepsWhatIsAgreed: the members, the cluster id, and sessions of both sides stay; the zxid goes on, and
// sessions of one side end or come back.
func TestRestoreKeepsWhatIsAgreed(t *testing.T) {
	h := newHarness(t, MachineOptions{})
	id := entry.ClusterID{9}
	config := "server.1=a:1:2:participant;3\nversion=0"
	if _, err := ensemble.Parse(config); err != nil {
		t.Fatal(err)
	}
	stays := &entry.SessionTxn{Owner: 1, TimeoutMillis: 4000, Passwd: entry.Passwd{1, 2, 3}}
	h.apply(&entry.Proposal{Op: jute.OpCreateSession, Session: 1, Body: stays.Append(nil)}, entrytest.Session(2),
		entrytest.Create("/kept", []byte("then"), 0), entrytest.Create("/container", nil, 0))
	ephemeral := entrytest.Create("/kept/of-2", nil, 1)
	ephemeral.Session = 2
	h.apply(ephemeral)
	content := h.snapshotOf(zkdata.WriteOptions{})
	lines := dumpState(h.m, true)

	h.apply(&entry.Proposal{Op: entry.OpFoundEnsemble,
		Body: (&entry.FoundTxn{ClusterID: id, Config: []byte(config)}).Append(nil)})
	h.apply(&entry.Proposal{Op: jute.OpCloseSession, Session: 2}, entrytest.Session(3),
		entrytest.SetData("/kept", []byte("now")),
		entrytest.Delete("/container"), entrytest.Create("/new", nil, 0))
	ephemeral = entrytest.Create("/new/of-3", nil, 1)
	ephemeral.Session = 3
	h.apply(ephemeral)
	h.apply(&entry.Proposal{Op: entry.OpRaiseLevel, Body: (&entry.RaiseTxn{Level: entry.LevelNewest}).Append(nil)})
	zxid := h.m.LastZxid()
	if out := h.upload(content); !strings.Contains(out, "ok") {
		t.Fatal(out)
	}
	if h.m.Level() != entry.LevelNewest {
		t.Errorf("level %d: a restore has lowered it", h.m.Level())
	}
	v := h.m.View()
	one, _ := v.Session(1)
	two, back := v.Session(2)
	_, gone := v.Session(3)
	node, _ := v.Get(schema.ConfigPath)
	if one.Passwd != stays.Passwd || one.TimeoutMillis != 4000 || !back || two.Passwd != zkdata.Passwd(2) || gone {
		t.Errorf("sessions %+v, %+v, %t", one, two, gone)
	}
	if v.ClusterID() != id || v.EnsembleConfig() != config || string(node.Data()) != config || v.Zxid() != zxid+1 {
		t.Errorf("cluster %x, config %q and %q, zxid %d after %d", v.ClusterID(), v.EnsembleConfig(), node.Data(),
			v.Zxid(), zxid)
	}
	v.Close()
	got, want := strings.Split(dumpState(h.m, true), "\n"), strings.Split(lines, "\n")
	differ := 0
	for i := range got { // /zookeeper/config, the password of session 2, and the counters
		if got[i] != want[i] {
			differ++
		}
	}
	if len(got) != len(want) || differ != 3 {
		t.Errorf("restored:\n%s\nwant\n%s", strings.Join(got, "\n"), lines)
	}
	checkStore(t, h.m)
	if out := h.apply(entrytest.Create("/kept/more", nil, 0)); !strings.Contains(out, "/kept/more") {
		t.Error(out)
	}
	want[0] = dumpState(h.m, true)
	h.crash()
	if dump := dumpState(h.m, true); dump != want[0] {
		t.Errorf("after a crash:\n%s\nwant\n%s", dump, want[0])
	}
}

// TestRestoreIsFenced: the sink is told before and after, and not when nothing happens.
func TestRestoreIsFenced(t *testing.T) {
	h := newHarness(t, MachineOptions{})
	h.apply(entrytest.Session(1), entrytest.Create("/after", nil, 0))
	content := h.snapshotOf(zkdata.WriteOptions{})
	h.apply(entrytest.Delete("/after"), entrytest.Create("/before", nil, 0))
	for _, c := range []struct {
		content []byte
		want    []string
	}{
		{content[:len(content)-1], []string{fmt.Sprintf("result %v", jute.DataInconsistency)}},
		{content, []string{"replacing /before", fmt.Sprintf("result %v", jute.OK), "replaced /after"}},
	} {
		upload, commit := entrytest.Upload(1, c.content, entry.LoadChunkBytesMax)
		h.apply(upload...)
		entry := entry.AppendProposal(entry.AppendEntryHeader(nil, 7, uint64(len(h.log))), commit)
		h.log = append(h.log, entry)
		sink := &fences{m: h.m}
		if err := h.m.Apply(uint64(len(h.log)), 1, entry, sink); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, sink.told); diff != "" {
			t.Error(diff)
		}
	}
}

// crasher leaves clones of a file system behind, as crashes at some of its renames and syncs would.
type crasher struct {
	fs *crashfs.FS

	mu    sync.Mutex // the store's goroutines sync, too; guards what follows
	armed bool
	rand  *rand.Rand
	most  int // how many more are left by chance
	left  []*crashfs.FS
}

// newCrasher returns one that crashes fs, which nobody uses yet, once it is armed: by chance so many times at most.
func newCrasher(fs *crashfs.FS, most int, seed uint64) *crasher {
	c := &crasher{fs: fs, most: most, rand: rand.New(rand.NewPCG(seed, 1))}
	fs.OnRename = func(_, to string) { c.maybe(strings.HasPrefix(to, "state") && !strings.Contains(to, "/")) }
	fs.OnSync = func(name string) bool {
		c.maybe(!strings.Contains(name, "state"))
		return true
	}
	return c
}

// arm lets the crashes begin.
func (c *crasher) arm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = true
}

// maybe crashes, always or by chance.
func (c *crasher) maybe(always bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.armed || !always && (c.most == 0 || c.rand.IntN(10) > 0) {
		return
	}
	if !always {
		c.most--
	}
	cfg := vfs.CrashCloneCfg{UnsyncedDataPercent: 50 * c.rand.IntN(3), RNG: c.rand}
	c.left = append(c.left, c.fs.CrashClone(cfg))
}

// TestLoadSurvivesACrash crashes at each rename of a state and at some syncs during a load, and again at those of
// the start after it: then the state is the one before or the one after, and with the log it is the one after.
func TestLoadSurvivesACrash(t *testing.T) {
	h := newHarness(t, MachineOptions{})
	h.apply(entrytest.Session(1), entrytest.Create("/a", make([]byte, 1000), 0), entrytest.Create("/after", nil, 0))
	content := h.snapshotOf(zkdata.WriteOptions{})
	h.apply(entrytest.Create("/before", nil, 0), entrytest.Delete("/after"))
	upload, commit := entrytest.Upload(1, content, 200)
	h.apply(upload...)
	h.apply(commit)
	want := storeContent(t, h.m)
	seen := map[string]int{}

	var open func(fs *crashfs.FS, crashing ...int) // so many times at most, at this start and those that follow
	open = func(fs *crashfs.FS, crashing ...int) {
		seen[strings.Join(stateDirs(fs), " ")]++
		c := &crasher{}
		if len(crashing) > 0 {
			c = newCrasher(fs, crashing[0], uint64(len(seen)))
		}
		if len(stateDirs(fs)) != 1 {
			c.arm()
		}
		m, err := OpenMachine(MachineOptions{Dir: "state", FS: fs})
		if err != nil {
			t.Fatalf("%v: %v", stateDirs(fs), err)
		}
		for i := m.AppliedIndex(); i < uint64(len(h.log)); i++ {
			if i == 3 {
				if err := m.Flush(context.Background()); err != nil {
					t.Fatal(err)
				}
				c.arm()
			}
			if err := m.Apply(i+1, 1, h.log[i], discard{}); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(want, storeContent(t, m)); diff != "" {
			t.Fatalf("%v: want -, after a crash +\n%s", stateDirs(fs), diff)
		}
		// What was replaced is for datadir.Dir.DiscardInstall.
		if err := errors.Join(m.Close(), fs.RemoveAll("state"+datadir.ReplacedSuffix)); err != nil {
			t.Fatal(err)
		}
		if dirs := stateDirs(fs); len(dirs) != 1 {
			t.Errorf("left behind: %v", dirs)
		}
		for _, fs := range c.left {
			open(fs, crashing[1:]...)
		}
	}
	open(crashfs.New(), 16, 2)
	for _, dirs := range []string{"state state.restored", "state.restored state.replaced", "state state.restoring"} {
		if seen[dirs] == 0 {
			t.Errorf("no crash left %s: %v", dirs, seen)
		}
	}
}

// TestRestoreIsDeterministic applies the same log to machines of other options, one of them with a checkpoint of
// another one in the middle of the upload, and expects the same bytes.
func TestRestoreIsDeterministic(t *testing.T) {
	o := zkdatatest.NewServer(rand.New(rand.NewPCG(3, 3)))
	for range 300 {
		o.Step()
	}
	upload, commit := entrytest.Upload(1, snapshotBytes(t, o.Snapshot(0), zkdata.WriteOptions{}), 1000)
	h := newHarness(t, MachineOptions{FlushBytes: 1, MemTableBytes: 256 << 10, CacheBytes: 1})
	other := newHarness(t, MachineOptions{})
	late := newHarness(t, MachineOptions{})
	entries := [][]*entry.Proposal{{entrytest.Session(1), entrytest.Create("/before", nil, 0)}}
	for i, p := range upload {
		entries = append(entries, []*entry.Proposal{p, entrytest.Create(fmt.Sprint("/", i), nil, 0)})
	}
	entries = append(entries, []*entry.Proposal{commit}, []*entry.Proposal{entrytest.Create("/behind", nil, 0)})
	for i, e := range entries {
		h.apply(e...)
		other.apply(e...)
		if diff := cmp.Diff(storeContent(t, h.m), storeContent(t, other.m)); diff != "" {
			t.Fatalf("entry %d: %s", i, diff)
		}
		switch {
		case i == len(upload)/2:
			late.copyOf(h)
		case i > len(upload)/2:
			late.apply(e...)
		}
	}
	if diff := cmp.Diff(storeContent(t, h.m), storeContent(t, late.m)); diff != "" {
		t.Errorf("the one with a checkpoint of the upload: %s", diff)
	}
	checkStore(t, h.m)
}

// copyOf makes the state of h that of another one.
func (h *harness) copyOf(other *harness) {
	h.t.Helper()
	if _, _, err := other.m.Checkpoint(context.Background(), "copy"); err != nil {
		h.t.Fatal(err)
	}
	if _, err := vfs.Clone(other.fs, h.fs, "copy", "state"+datadir.StagedSuffix); err != nil {
		h.t.Fatal(err)
	}
	if err := errors.Join(other.fs.RemoveAll("copy"), h.m.Install("state"+datadir.StagedSuffix)); err != nil {
		h.t.Fatal(err)
	}
	h.log = slices.Clone(other.log)
}
