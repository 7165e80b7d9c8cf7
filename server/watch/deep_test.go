package watch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"zkd/jute"
)

// TestFarBelow: who watches all below a znode hears of one that is a thousand others deep, whatever the length of its
// path, and nobody else does.
func TestFarBelow(t *testing.T) {
	table := New()
	deep := strings.Repeat("/d", 1000)
	watching := map[string]*client{}
	var session jute.SessionID
	watch := func(path string, m jute.AddWatchMode) {
		session++
		watching[path] = newClient(session)
		if code := table.AddWatch(&watching[path].Holder, path, m); code != jute.OK {
			t.Fatal(code)
		}
	}
	for _, above := range []string{"/", "/d", deep[:longPathBytes-2], deep[:longPathBytes], deep[:len(deep)-2], deep} {
		watch(above, jute.WatchPersistentRecursive)
	}
	strangers := []string{deep[:longPathBytes] + "/e", "/e" + deep[2:], "x" + deep[1:], deep[:longPathBytes] + "/",
		deep + "/d"}
	for _, other := range strangers {
		watch(other, jute.WatchPersistentRecursive)
	}
	watch(deep[:longPathBytes+2], jute.WatchPersistent) // of that alone
	check(t, table)
	for range 2 {
		table.Fire(&Event{Type: jute.EventNodeDataChanged, Path: deep, Zxid: 7})
		for path, c := range watching { // order: each by itself
			hears := strings.HasPrefix(deep, path) && !slices.Contains(strangers, path) && len(path) != longPathBytes+2
			if got := c.take(); len(got) > 1 || (len(got) == 1) != hears {
				t.Errorf("who watches %.10s, of %d bytes: told %d times, want %v", path, len(path), len(got), hears)
			}
		}
	}
	for path, c := range watching { // order: each by itself
		if !table.Remove(&c.Holder, path, jute.WatcherAny) {
			t.Errorf("the watch of a path of %d bytes, %.10s, is not found", len(path), path)
		}
	}
	check(t, table)
	if n := table.Counts().All; n != 0 {
		t.Errorf("%d watches are left", n)
	}
}

// BenchmarkFireFarBelow is a change of a znode that is many others deep, which the watchers of these hear of, who may
// not read it.
func BenchmarkFireFarBelow(b *testing.B) {
	for _, depth := range []int{5, 3000} {
		b.Run(fmt.Sprint(depth), func(b *testing.B) {
			table := New()
			path := strings.Repeat("/d", depth)
			c := newClient(1)
			c.deny = map[string]bool{"x": true}
			for n := 2; n < len(path); n += 2 {
				table.AddWatch(&c.Holder, path[:n], jute.WatchPersistentRecursive)
			}
			ev := &Event{Type: jute.EventNodeDataChanged, Path: path, ACL: listOf("x")}
			for b.Loop() {
				table.Fire(ev)
			}
		})
	}
}
