package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"

	"zkd/jute"
	"zkd/storage/apply"
	"zkd/storage/entry"
	"zkd/storage/entry/entrytest"
)

// heldView is a View with what it must show until its end.
type heldView struct {
	v      View
	want   string
	digest uint64
	below  int
}

// TestHeldViewsAgainstOracle holds Views while random entries are applied, flushed and compacted: each shows its own
// moment to its end, with data, children, Stats, quotas, ephemerals and sessions, and none leaves anything of the past
// in the cache. ZKD_MODEL_OPS and ZKD_MODEL_SEED are those of TestMachineAgainstOracle.
func TestHeldViewsAgainstOracle(t *testing.T) {
	ops := envNumber(t, "ZKD_MODEL_OPS", 6000)
	seed := uint64(envNumber(t, "ZKD_MODEL_SEED", 100))
	for worlds := 4; worlds > 0; worlds-- {
		holdViews(t, seed, ops/4)
		seed++
	}
}

// holdViews is TestHeldViewsAgainstOracle under one seed.
func holdViews(t *testing.T, seed uint64, ops int) {
	t.Helper()
	r, lists := rand.New(rand.NewPCG(seed, 0)), rand.New(rand.NewPCG(seed, 1))
	h := newHarness(t, modelOptions(r))
	g := entrytest.NewGenerator(r, func() string { return h.m.EnsembleConfig() })
	o := newOracle()
	var held []heldView
	check := func(i int) {
		k := &held[i]
		if diff := cmp.Diff(k.want, dumpView(k.v, true)); diff != "" {
			t.Fatalf("seed %d, after entry %d: a View of entry %d: oracle -, View +\n%s", seed, len(h.log),
				k.v.AppliedIndex(), diff)
		}
		if k.v.Digest() != k.digest || k.v.CountBelow("/a") != k.below || k.v.Err() != nil {
			t.Fatalf("seed %d: digest %#x, %d below /a (%v), want %#x and %d", seed, k.v.Digest(),
				k.v.CountBelow("/a"), k.v.Err(), k.digest, k.below)
		}
		listedIn(t, k.v, "/")
	}
	for done := 0; done < ops; {
		entry := make([]*entry.Proposal, 1+r.IntN(1+r.IntN(20)))
		for i := range entry {
			entry[i] = g.Proposal()
			o.apply(entry[i])
		}
		h.apply(entry...)
		done += len(entry)
		listSome(t, lists, h.m, o)
		switch n := r.IntN(40); {
		case n < 4 && len(held) < 8:
			want, digest := o.dump()
			held = append(held, heldView{h.m.View(), want, digest, below(o, "/a")})
		case n < 12 && len(held) > 0:
			check(r.IntN(len(held)))
		case n < 14 && len(held) > 0:
			i := r.IntN(len(held))
			check(i)
			held[i].v.Close()
			held = append(held[:i], held[i+1:]...)
		case n == 14:
			if err := h.m.Flush(context.Background()); err != nil {
				t.Fatal(err)
			}
		case n == 15:
			compareState(t, seed, o, h)
		case n == 16:
			checkCache(t, h.m)
		}
	}
	for i := range held {
		check(i)
		held[i].v.Close()
	}
	checkCache(t, h.m)
	compareState(t, seed, o, h)
}

// below counts the oracle's znodes below path.
func below(o *oracle, path string) (n int) {
	for other := range o.nodes { // any order: they are counted
		if strings.HasPrefix(other, path+"/") {
			n++
		}
	}
	return n
}

// checkCache fails if the cache holds anything but the present state.
func checkCache(t *testing.T, m *Machine) {
	t.Helper()
	for i := range m.cache.shards {
		for _, slot := range m.cache.shards[i].mu.slots {
			if slot.node == nil {
				continue
			}
			n, err := m.store.node(slot.node.Path)
			if slot.gone {
				if err != nil || n != nil {
					t.Fatalf("%s is gone in the cache, and in the store (%v)", slot.node.Path, err)
				}
				continue
			}
			if err == nil && n != nil && slot.node.DataLoaded {
				n, err = m.store.withData(n)
			}
			if err != nil || n == nil {
				t.Fatalf("%s is in the cache and not in the store (%v)", slot.node.Path, err)
			}
			if n.Stat() != slot.node.Stat() || !bytes.Equal(n.Data, slot.node.Data) && slot.node.DataLoaded {
				t.Fatalf("%s: in the cache %+v %q, in the store %+v %q", n.Path, slot.node.Stat(), slot.node.Data,
					n.Stat(), n.Data)
			}
		}
	}
}

// unhurried lets other goroutines run whenever a table is read.
func unhurried(fs vfs.FS) vfs.FS {
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileReadAt {
			runtime.Gosched()
		}
		return nil
	}))
}

// TestColdReadsUnderWrites reads znodes that are seldom in the cache, one by one, many at once and in Views, while they
// are written, made and deleted: header and data are always of one moment, nothing goes back, and the cache ends with
// the present state.
func TestColdReadsUnderWrites(t *testing.T) {
	for _, cache := range []int64{1, 40 << 10} {
		t.Run(fmt.Sprintf("cache=%d", cache), func(t *testing.T) { readUncached(t, cache) })
	}
}

const coldPaths = 40

func coldPath(i int) string { return fmt.Sprintf("/c/%02d", i) }

// uncachedData is what a znode holds after so many writes: with a key of its own, and of a length that changes.
func uncachedData(path string, version jute.Version) []byte {
	return append(fmt.Appendf(nil, "%s %d ", path, version), make([]byte, 300+version%3)...)
}

func readUncached(t *testing.T, cacheBytes int64) {
	m := benchMachine(t, MachineOptions{Dir: "state", FS: unhurried(vfs.NewMem()), CacheBytes: cacheBytes,
		BlockCacheBytes: 1, FlushBytes: 1, MemTableBytes: 256 << 10})
	apply := func(proposals ...*entry.Proposal) {
		if err := m.Apply(m.AppliedIndex()+1, 1, entrytest.Entries(len(proposals), proposals)[0],
			discard{}); err != nil {
			t.Error(err)
		}
	}
	apply(entrytest.Create("/c", make([]byte, 1000), 0))
	var done atomic.Bool
	var readers sync.WaitGroup
	for seed := range 4 {
		readers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(seed), 1))
			last := map[string]jute.Zxid{}
			for !done.Load() {
				readColdOnce(t, m, r, last)
			}
		})
	}
	r := rand.New(rand.NewPCG(9, 9))
	entries := 600
	if testing.Short() {
		entries = 150
	}
	for range entries {
		var entry []*entry.Proposal
		for range 1 + r.IntN(4) {
			path := coldPath(r.IntN(coldPaths))
			p, n, ok := m.Look(path)
			p.Close()
			switch {
			case !ok:
				entry = append(entry, entrytest.Create(path, uncachedData(path, 0), 0))
			case r.IntN(4) == 0:
				entry = append(entry, entrytest.Delete(path))
			default:
				s := entrytest.SetData(path, uncachedData(path, n.Stat().Version+1))
				s.Body = (&jute.SetDataRequest{Path: path, Data: uncachedData(path, n.Stat().Version+1),
					Version: n.Stat().Version}).Append(nil)
				entry = append(entry, s)
			}
		}
		apply(entry...)
	}
	done.Store(true)
	readers.Wait()
	checkCache(t, m)
	if err := m.err(); err != nil {
		t.Error(err)
	}
}

// readColdOnce reads in one of the ways that there are.
func readColdOnce(t *testing.T, m *Machine, r *rand.Rand, last map[string]jute.Zxid) {
	t.Helper()
	check := func(path string, n Node, zxid jute.Zxid) {
		s := n.Stat()
		if want := uncachedData(path, s.Version); !bytes.Equal(n.Data(), want) || int(s.DataLength) != len(want) {
			t.Errorf("%s: %q, the Stat says version %d and %d bytes", path, n.Data()[:20], s.Version, s.DataLength)
		}
		if s.Mzxid > zxid || s.Mzxid < last[path] {
			t.Errorf("%s: mzxid %d at zxid %d, after %d", path, s.Mzxid, zxid, last[path])
		}
		last[path] = s.Mzxid
	}
	path := coldPath(r.IntN(coldPaths))
	switch r.IntN(4) {
	case 0:
		v, n, ok := m.LookData(path)
		if ok {
			check(path, n, v.Zxid())
		}
		v.Close()
	case 1:
		v, n, ok := m.LookData("/c") // its header changes with each child, its data never does
		if !ok || len(n.Data()) != 1000 {
			t.Errorf("/c: %t, %d bytes", ok, len(n.Data()))
		}
		v.Close()
	case 2:
		paths := []string{coldPath(0), coldPath(r.IntN(coldPaths)), "/c", "", "/none", "c"}
		v, nodes := m.LookAll(paths, nil)
		again, _ := m.cache.look(paths[1])
		if again != nil && (!nodes[1].Found() || again.Stat() != nodes[1].Stat()) || v.Zxid() < nodes[2].Stat().Pzxid {
			t.Errorf("%s: not what is in the cache, or not of this moment", paths[1])
		}
		if !nodes[2].Found() || !nodes[3].Found() || nodes[4].Found() || nodes[5].Found() {
			t.Error("wrong znodes are found")
		}
		v.Close()
	default:
		v := m.View()
		n, _ := v.Exists("/c")
		names, _ := v.Children("/c", nil)
		if len(names) != int(n.Stat().NumChildren) {
			t.Errorf("%d children, the Stat says %d", len(names), n.Stat().NumChildren)
		}
		for _, name := range names {
			if n, ok := v.Get("/c/" + name); ok {
				check("/c/"+name, n, v.Zxid())
			} else {
				t.Errorf("/c/%s is listed and not there", name)
			}
		}
		v.Close()
	}
}

// stuckReads is a file system in which the next read of a table, once armed, waits for ever: until the test's end.
type stuckReads struct {
	armed atomic.Bool
	stuck chan struct{} // closed when a read is
	free  chan struct{} // ends it
}

func newStuckReads() *stuckReads {
	return &stuckReads{stuck: make(chan struct{}), free: make(chan struct{})}
}

func (s *stuckReads) wrap(fs vfs.FS) vfs.FS {
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileReadAt && strings.HasSuffix(op.Path, ".sst") &&
			s.armed.CompareAndSwap(true, false) {
			close(s.stuck)
			<-s.free
		}
		return nil
	}))
}

// TestReadsThatHangHoldUpNobody lets one read wait for the disk for ever: entries are applied, and others read what is
// in memory and what is not.
func TestReadsThatHangHoldUpNobody(t *testing.T) {
	cold := benchPath(20077)
	filled := vfs.NewCrashableMem()
	first := benchMachine(t, MachineOptions{Dir: "state", FS: filled})
	fill(t, first, 30000, 100)
	if err := first.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func(m *Machine){ // any order
		"look": func(m *Machine) {
			v, _, _ := m.LookData(cold)
			v.Close()
		},
		"look all": func(m *Machine) {
			v, _ := m.LookAll([]string{cold}, nil)
			v.Close()
		},
		"view": func(m *Machine) {
			v := m.View()
			defer v.Close()
			v.Get(cold)
		},
		"children": func(m *Machine) {
			v := m.View()
			defer v.Close()
			v.Children("/p77", nil)
		},
		"search": func(m *Machine) {
			v := m.View()
			defer v.Close()
			v.CountBelow("/p77")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStuckReads()
			fs := filled.CrashClone(vfs.CrashCloneCfg{})
			m := benchMachine(t, MachineOptions{Dir: "state", FS: s.wrap(fs)})
			m.cache.clear()
			// The filters and the index of the table are in memory from now on, as is the block of /p05.
			warm := m.View()
			for _, path := range []string{benchPath(0), "/p05", "/p05/none"} {
				warm.Exists(path)
			}
			warm.Close()
			s.armed.Store(true)
			var reader sync.WaitGroup
			reader.Go(func() { read(m) })
			<-s.stuck
			done := make(chan struct{})
			go func() {
				defer close(done)
				writeAndRead(t, m)
			}()
			select {
			case <-done:
			case <-time.After(hangsAfter):
				t.Error("a read that waits for the disk holds up others")
			}
			close(s.free)
			reader.Wait()
			<-done
			checkCache(t, m)
		})
	}
}

// hangsAfter is when a test gives up.
const hangsAfter = 5 * time.Minute

// writeAndRead writes znodes of a directory that others do not read, and reads them and others.
func writeAndRead(t *testing.T, m *Machine) {
	for i := range 300 {
		path := fmt.Sprintf("/p05/more%d", i)
		proposals := []*entry.Proposal{entrytest.Create(path, nil, 0), entrytest.SetData(path, []byte("new"))}
		if err := m.Apply(m.AppliedIndex()+1, 1, entrytest.Entries(2, proposals)[0], discard{}); err != nil {
			t.Error(err)
			return
		}
		for _, path := range []string{path, benchPath(i * 100)} { // one in memory, the other not
			v, n, ok := m.LookData(path)
			if !ok || len(n.Data()) == 0 {
				t.Errorf("%s: %t, %q", path, ok, n.Data())
			}
			v.Close()
		}
		v := m.View()
		if names, _ := v.Children("/p05", nil); len(names) != 300+i+1 {
			t.Errorf("%d children after %d creates", len(names), i+1)
		}
		v.Close()
	}
}

// waitingSink is a Sink whose decision takes until the test lets it go on, and may fail.
type waitingSink struct {
	discard
	deciding, decide chan struct{}
	err              error
	codes            []jute.Code
}

// Decided implements Decider.
func (s *waitingSink) Decided(results []apply.Result) error {
	for i := range results {
		s.codes = append(s.codes, results[i].Code)
	}
	close(s.deciding)
	<-s.decide
	return s.err
}

// TestADecisionHoldsUpNoReader lets a sink take its time between the outcome of an entry and its publication: others
// read the state before it, and see nothing of an entry that the sink could not go along with.
func TestADecisionHoldsUpNoReader(t *testing.T) {
	for _, failure := range []error{nil, errors.New("no disk")} {
		m := benchMachine(t, MachineOptions{})
		fill(t, m, 100, 100)
		s := &waitingSink{deciding: make(chan struct{}), decide: make(chan struct{}), err: failure}
		entry := entrytest.Entries(2, []*entry.Proposal{entrytest.Create("/new", nil, 0), entrytest.Delete("/none")})[0]
		applied := make(chan error, 1)
		before := m.AppliedIndex()
		go func() { applied <- m.Apply(before+1, 1, entry, s) }()
		<-s.deciding
		p, _, ok := m.LookData(benchPath(7))
		zxid := p.Zxid()
		p.Close()
		v := m.View()
		_, there := v.Exists("/new")
		v.Close()
		if !ok || there || m.AppliedIndex() != before {
			t.Errorf("before the decision: a znode of old %t, one of the entry %t", ok, there)
		}
		close(s.decide)
		if err := <-applied; !errors.Is(err, failure) {
			t.Errorf("apply: %v, want %v", err, failure)
		}
		p, _, there = m.Look("/new")
		if there != (failure == nil) || (p.Zxid() > zxid) != (failure == nil) {
			t.Errorf("after the decision (%v): the entry is visible: %t", failure, there)
		}
		p.Close()
		if want := []jute.Code{jute.OK, jute.NoNode}; !slices.Equal(s.codes, want) {
			t.Errorf("decided on %v, want %v", s.codes, want)
		}
	}
}
