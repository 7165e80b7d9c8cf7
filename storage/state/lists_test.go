package state

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/entry/entrytest"
)

// encodeNames is a list of names as replies have it.
func encodeNames(names []string) []byte {
	b := jute.AppendInt(nil, int32(len(names)))
	for _, name := range names {
		b = jute.AppendBuffer(b, []byte(name))
	}
	return b
}

// askFor lists the children of path as a client's read does: from memory if they are kept, or from a View of the same
// moment. It returns them as the reply has them, and whether they were kept.
func askFor(t testing.TB, m *Machine, path string) (b []byte, kept, found bool) {
	t.Helper()
	p, n, ok := m.LookChildren(path)
	if !ok {
		p.Close()
		return nil, false, false
	}
	children := int(n.Stat().NumChildren)
	list := p.List(path, children)
	defer list.Close()
	v := p.View()
	defer v.Close()
	if list.Settle() {
		return list.Names().Append(nil), true, true
	}
	b = jute.AppendInt(nil, int32(children))
	v.EachChild(path, children, func(name []byte) { b = jute.AppendBuffer(b, name) })
	list.Keep(b[4:])
	return b, false, true
}

// listSome asks for the lists of some znodes and compares them with those of the oracle.
func listSome(t *testing.T, r *rand.Rand, m *Machine, o *oracle) (kept int) {
	t.Helper()
	paths := slices.Sorted(maps.Keys(o.nodes))
	for range r.IntN(4) {
		path := paths[r.IntN(len(paths))]
		for len(o.nodes[path].child) == 0 && r.IntN(10) > 0 {
			path = paths[r.IntN(len(paths))]
		}
		for range 1 + r.IntN(3) {
			got, is, found := askFor(t, m, path)
			want := encodeNames(slices.Sorted(maps.Keys(o.nodes[path].child)))
			if !found || !bytes.Equal(got, want) {
				t.Fatalf("children of %s: %q (kept: %t, found: %t), want %q", path, got, is, found, want)
			}
			if is {
				kept++
			}
		}
	}
	checkListAccounts(t, m)
	return kept
}

// listedIn compares what is kept for a View, if anything is, with what it shows.
func listedIn(t *testing.T, v View, path string) {
	t.Helper()
	names, ok := v.Children(path, nil)
	if !ok {
		return
	}
	if list := v.List(path, len(names)); list.Settle() && !bytes.Equal(list.Names().Append(nil), encodeNames(names)) {
		t.Fatalf("entry %d: children of %s: %q, want %q", v.AppliedIndex(), path, list.Names().Append(nil), names)
	}
	for _, name := range names {
		child := path + "/" + name
		if path == "/" {
			child = path + name
		}
		listedIn(t, v, child)
	}
}

// checkListAccounts checks that what is counted is there, and no more than may be.
func checkListAccounts(t testing.TB, m *Machine) {
	t.Helper()
	s := &m.lists
	s.mu.Lock()
	defer s.mu.Unlock()
	var bytes int64
	for _, k := range s.mu.byPath { // any order: a sum
		bytes += k.bytes
	}
	if bytes != s.mu.bytes || bytes > s.bytesMax || s.mu.order.Len() != len(s.mu.byPath) ||
		int(s.count.Load()) != len(s.mu.byPath) {
		t.Fatalf("%d bytes in %d lists, the accounts say %d, %d, %d, at most %d", bytes, len(s.mu.byPath), s.mu.bytes,
			s.mu.order.Len(), s.count.Load(), s.bytesMax)
	}
}

// applyAll applies proposals, so many an entry.
func applyAll(t testing.TB, m *Machine, size int, paths []string, remove bool) {
	t.Helper()
	proposals := creates(paths)
	for i := range proposals {
		if remove {
			proposals[i] = entrytest.Delete(paths[i])
		}
	}
	for _, e := range entrytest.Entries(size, proposals) {
		if err := m.Apply(m.AppliedIndex()+1, 1, e, discard{}); err != nil {
			t.Fatal(err)
		}
	}
}

// childPaths are the paths of n children of parent.
func childPaths(parent string, from, n int) (paths []string) {
	for i := range n {
		paths = append(paths, fmt.Sprintf("%s/child-%07d", parent, from+i))
	}
	return paths
}

// TestListIsKeptWhenAskedForTwice: the second who asks has the list kept, and later ones have it from memory, with all
// that comes and goes meanwhile.
func TestListIsKeptWhenAskedForTwice(t *testing.T) {
	m := benchMachine(t, MachineOptions{})
	applyAll(t, m, 100, append([]string{"/a"}, childPaths("/a", 0, 500)...), false)
	for i, want := range []bool{false, false, true, true} {
		if _, kept, _ := askFor(t, m, "/a"); kept != want {
			t.Errorf("ask %d: kept: %t", i+1, kept)
		}
	}
	applyAll(t, m, 1, childPaths("/a", 500, 20), false)
	applyAll(t, m, 7, childPaths("/a", 100, 30), true)
	got, kept, _ := askFor(t, m, "/a")
	v := m.View()
	defer v.Close()
	names, _ := v.Children("/a", nil)
	if !kept || len(names) != 490 || !bytes.Equal(got, encodeNames(names)) {
		t.Errorf("kept: %t, %d names: %q", kept, len(names), got)
	}
}

// TestListThatNobodyAsksForIsDropped: changes that nobody makes up for do not gather, and who was dropped unused must
// be asked for more often.
func TestListThatNobodyAsksForIsDropped(t *testing.T) {
	m := benchMachine(t, MachineOptions{})
	applyAll(t, m, 100, append([]string{"/a"}, childPaths("/a", 0, 100)...), false)
	outrun := func() {
		from := int(m.LastZxid())
		applyAll(t, m, 10, childPaths("/a", from, 500), false)
		if found := m.Metrics(); found.Lists != 0 || found.ListBytes != 0 {
			t.Fatalf("%d lists of %d bytes behind 500 changes", found.Lists, found.ListBytes)
		}
	}
	asked := func() (n int) {
		for kept := false; !kept; n++ {
			_, kept, _ = askFor(t, m, "/a")
		}
		return n
	}
	first := asked()
	outrun() // it was used: nothing changes
	if again := asked(); again != first {
		t.Errorf("asked for %d times, then %d", first, again)
	}
	outrun()
	for range 2 {
		askFor(t, m, "/a")
	}
	outrun() // it was kept and not used
	if again := asked(); again <= first {
		t.Errorf("asked for %d times after it was dropped unused", again)
	}
}

// TestListLongerThanTheBound is never kept, and costs others nothing.
func TestListLongerThanTheBound(t *testing.T) {
	m := benchMachine(t, MachineOptions{ListBytes: 8 << 10})
	applyAll(t, m, 100, append([]string{"/a", "/b"}, childPaths("/a", 0, 1000)...), false)
	applyAll(t, m, 100, childPaths("/b", 0, 10), false)
	for range 5 {
		askFor(t, m, "/b")
	}
	for range 20 {
		if _, kept, _ := askFor(t, m, "/a"); kept {
			t.Fatal("a list longer than the bound is kept")
		}
		checkListAccounts(t, m)
	}
	if _, kept, _ := askFor(t, m, "/b"); !kept {
		t.Error("another one has gone for it")
	}
}

// TestListThatCouldNotBeReadIsReadByAnother: who gives up leaves the list to the next.
func TestListThatCouldNotBeReadIsReadByAnother(t *testing.T) {
	m := benchMachine(t, MachineOptions{})
	applyAll(t, m, 100, append([]string{"/a"}, childPaths("/a", 0, 10)...), false)
	askFor(t, m, "/a")
	for _, encoded := range [][]byte{nil, jute.AppendBuffer(nil, []byte("child-0000000"))} {
		p := m.Present()
		list := p.List("/a", 10)
		p.Close()
		if encoded != nil {
			list.Keep(encoded) // of a scan that was stopped
		}
		list.Close()
		if found := m.Metrics(); found.Lists != 0 {
			t.Fatalf("%d lists", found.Lists)
		}
	}
	for range 4 {
		askFor(t, m, "/a")
	}
	if _, kept, _ := askFor(t, m, "/a"); !kept {
		t.Error("not kept")
	}
}

// TestListsConcurrently lists while znodes come and go: each list is of one moment, has as many names as the Stat says,
// and those of a pair that one entry makes and another deletes are there both or not at all.
func TestListsConcurrently(t *testing.T) {
	for _, bytesMax := range []int64{4 << 10, 1 << 20} {
		m := benchMachine(t, MachineOptions{ListBytes: bytesMax, FlushReplay: 300 * replayRequest})
		applyAll(t, m, 100, append([]string{"/a", "/b"}, childPaths("/a", 0, 300)...), false)
		var stop atomic.Bool
		var wg sync.WaitGroup
		var kept atomic.Int64
		for i := range 4 {
			wg.Go(func() {
				for !stop.Load() {
					parent := []string{"/a", "/b"}[i%2]
					b, is, _ := askFor(t, m, parent)
					if n := bytes.Count(b, []byte("pair-")); n%2 != 0 {
						t.Errorf("%d of pairs in a list", n)
						return
					}
					if is {
						kept.Add(1)
					}
				}
			})
		}
		r := rand.New(rand.NewPCG(1, uint64(bytesMax)))
		there := map[string]bool{}
		for range 1500 {
			pair := fmt.Sprintf("%s/pair-%03d", []string{"/a", "/b"}[r.IntN(2)], r.IntN(200))
			applyAll(t, m, 2, []string{pair + "x", pair + "y"}, there[pair])
			there[pair] = !there[pair]
		}
		stop.Store(true)
		wg.Wait()
		checkListAccounts(t, m)
		if kept.Load() == 0 && bytesMax > 4<<10 {
			t.Error("no list was kept")
		}
	}
}

// TestListOfAnotherState: what is kept goes with the state it is of.
func TestListOfAnotherState(t *testing.T) {
	h := newHarness(t, MachineOptions{})
	h.apply(entrytest.Session(1), entrytest.Create("/a", nil, 0), entrytest.Create("/a/x", nil, 0))
	for range 3 {
		askFor(t, h.m, "/a")
	}
	h.install(entrytest.Create("/a/y", nil, 0))
	if found := h.m.Metrics(); found.Lists != 0 || found.ListBytes != 0 {
		t.Errorf("%d lists of %d bytes", found.Lists, found.ListBytes)
	}
	for range 4 {
		if got, _, _ := askFor(t, h.m, "/a"); !bytes.Equal(got, encodeNames([]string{"x", "y"})) {
			t.Errorf("%q", got)
		}
	}
}

// TestListInAView: a View has what is kept only if that is what it shows.
func TestListInAView(t *testing.T) {
	m := benchMachine(t, MachineOptions{})
	applyAll(t, m, 100, append([]string{"/a"}, childPaths("/a", 0, 10)...), false)
	before := m.View()
	defer before.Close()
	for range 2 {
		// The View would be the second of this goroutine, but nothing replaces the state here.
		askFor(t, m, "/a")
	}
	if list := before.List("/a", 10); !list.Settle() || list.Names().Len() != 10 {
		t.Error("nothing is kept for a View of now")
	}
	applyAll(t, m, 1, childPaths("/a", 10, 1), false)
	if list := before.List("/a", 10); list.Settle() {
		t.Errorf("%d names for a View of the past", list.Names().Len())
	}
}

// BenchmarkList lists children from memory, of a list that does not change and of one that changes once for each list,
// and from the store.
func BenchmarkList(b *testing.B) {
	for _, n := range []int{10, 1000, 100000} {
		for _, kind := range []struct {
			name  string
			bytes int64
			every int // lists for a change; 0: none
		}{{"store", 1, 0}, {"memory", 0, 0}, {"changes", 0, 1}} {
			b.Run(fmt.Sprintf("names=%d/%s", n, kind.name), func(b *testing.B) {
				m := benchMachine(b, MachineOptions{ListBytes: kind.bytes})
				applyAll(b, m, 256, append([]string{"/a"}, childPaths("/a", 0, n)...), false)
				for range 3 {
					askFor(b, m, "/a")
				}
				buf := make([]byte, 0, 64+20*n)
				extra := childPaths("/a", n, 1)
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					if i++; kind.every > 0 && i%kind.every == 0 {
						b.StopTimer()
						applyAll(b, m, 1, extra, i/kind.every%2 == 0)
						b.StartTimer()
					}
					p, node, _ := m.LookChildren("/a")
					children := int(node.Stat().NumChildren)
					list := p.List("/a", children)
					if list.Settle() {
						buf = list.Names().Append(buf[:0])
						p.Close()
						continue
					}
					v := p.View()
					buf = buf[:0]
					v.EachChild("/a", children, func(name []byte) { buf = jute.AppendBuffer(buf, name) })
					v.Close()
					list.Close()
				}
			})
		}
	}
}

// BenchmarkApplyCreateListed is BenchmarkApplyCreate of a parent whose list is kept, and asked for after each entry.
func BenchmarkApplyCreateListed(b *testing.B) {
	for _, listed := range []bool{false, true} {
		b.Run(fmt.Sprintf("listed=%t", listed), func(b *testing.B) {
			m := benchMachine(b, MachineOptions{})
			applyAll(b, m, 256, append([]string{"/a"}, childPaths("/a", 0, 10000)...), false)
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				if n%256 == 0 {
					b.StopTimer()
					for range 3 {
						if listed {
							askFor(b, m, "/a")
						}
					}
					e := entrytest.Entries(256, creates(childPaths("/a", 10000+n, 256)))[0]
					b.StartTimer()
					if err := m.Apply(m.AppliedIndex()+1, 1, e, discard{}); err != nil {
						b.Fatal(err)
					}
				}
				n++
			}
		})
	}
}

// creates are proposals that create these paths.
func creates(paths []string) (all []*entry.Proposal) {
	for _, path := range paths {
		all = append(all, entrytest.Create(path, nil, jute.ModePersistent))
	}
	return all
}
