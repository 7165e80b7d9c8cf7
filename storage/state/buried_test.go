package state

import (
	"context"
	"fmt"
	"testing"
	"time"

	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/entry/entrytest"
)

// emptied is a machine with a znode of which so many children were made and deleted, all but those that stay. Nothing
// is flushed before a test asks for it: the store compacts what is flushed when it likes.
func emptied(t *testing.T, children int, stay ...int) *harness {
	t.Helper()
	h := newHarness(t, MachineOptions{FlushBytes: 1 << 30, FlushReplay: time.Hour})
	child := func(i int) string { return fmt.Sprintf("/a/%06d", i) }
	proposals := []*entry.Proposal{entrytest.Session(1), entrytest.Create("/a", nil, jute.ModePersistent)}
	for i := range children {
		proposals = append(proposals, entrytest.Create(child(i), nil, jute.ModePersistent))
	}
	h.apply(proposals...)
	proposals = nil
	stays := map[int]bool{}
	for _, i := range stay {
		stays[i] = true
	}
	for i := range children {
		if !stays[i] {
			proposals = append(proposals, entrytest.Delete(child(i)))
		}
	}
	h.apply(proposals...)
	return h
}

// listed lists the children of /a, and tells how many keys the list has stepped over, and how often it has paced.
func listed(t *testing.T, h *harness) (names []string, steps, paces int) {
	t.Helper()
	v := h.m.View()
	defer v.Close()
	v.Pace(func() bool { paces++; return true })
	before := v.at.steps()
	n, ok := v.Exists("/a")
	if !ok {
		t.Fatal("no znode")
	}
	children := int(n.Stat().NumChildren)
	if !v.EachChild("/a", children, func(name []byte) { names = append(names, string(name)) }) {
		t.Fatal(v.Err())
	}
	if len(names) != children {
		t.Errorf("%d names, want %d", len(names), children)
	}
	return names, v.at.steps() - before, paces
}

// keysOf is what a View expects of a list of /a.
func keysOf(h *harness) int {
	v := h.m.View()
	defer v.Close()
	n, _ := v.Exists("/a")
	return v.ListKeys("/a", int(n.Stat().NumChildren))
}

// TestAListEndsWithItsLastName: what was deleted behind it, or of all of it, is not stepped over.
func TestAListEndsWithItsLastName(t *testing.T) {
	for _, stay := range [][]int{nil, {0}, {0, 1, 2}} {
		if _, steps, _ := listed(t, emptied(t, 2000, stay...)); steps > 10 {
			t.Errorf("with %v the list has stepped over %d keys", stay, steps)
		}
	}
}

// TestWhatAListStepsOverIsRemembered: a list that has to step over many deleted keys paces for them, and the next one
// is known to be large before it begins, until the store is compacted.
func TestWhatAListStepsOverIsRemembered(t *testing.T) {
	const children = 4000
	h := emptied(t, children, children-1)
	if n := keysOf(h); n != 1 {
		t.Errorf("a list of one name is expected to read %d keys", n)
	}
	if _, steps, paces := listed(t, h); steps < children-1 || paces < (children-1)/ScanPace {
		t.Errorf("the list has stepped over %d keys, and paced %d times", steps, paces)
	}
	if n := keysOf(h); n < children-1 {
		t.Errorf("after a list the next is expected to read %d keys", n)
	}
	if err := h.m.Reclaim(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, steps, _ := listed(t, h); steps > 10 {
		t.Errorf("compacted, the list has stepped over %d keys", steps)
	}
	if n := keysOf(h); n != 1 {
		t.Errorf("compacted, a list of one name is expected to read %d keys", n)
	}
}

// TestLookAllAsksTheFilters: paths that are not there cost no blocks of the store but the filter of each table that may
// have them, however many are asked for at once.
func TestLookAllAsksTheFilters(t *testing.T) {
	h := emptied(t, 20000, func() (all []int) {
		for i := range 20000 {
			all = append(all, i)
		}
		return all
	}()...)
	if err := h.m.Reclaim(context.Background()); err != nil {
		t.Fatal(err)
	}
	paths := make([]string, 1000)
	for i := range paths {
		paths[i] = fmt.Sprintf("/a/%06d-none", i*20)
	}
	blocks := func() int64 {
		m := h.m.store.db.Metrics().BlockCache
		return m.Hits + m.Misses
	}
	before := blocks()
	v, nodes := h.m.LookAll(paths, nil)
	v.Close()
	for i := range nodes {
		if nodes[i].Found() {
			t.Fatalf("%s is found", paths[i])
		}
	}
	metrics := h.m.store.db.Metrics()
	if n, tables := blocks()-before, int64(metrics.ReadAmp()); n > int64(len(paths))*(2*tables+1)/2 {
		t.Errorf("%d blocks were asked for, with %d tables one upon another", n, tables)
	}
}
