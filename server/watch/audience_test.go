package watch

import (
	"fmt"
	"slices"
	"testing"

	"zkd/jute"
)

// TestWhoHearsIsRemembered: while the table remembers, changes that the same watchers hear of have one audience, also
// when others come in between; one whose watches have fired is another, and so is one that somebody has joined. What
// was remembered is forgotten.
func TestWhoHearsIsRemembered(t *testing.T) {
	table := New()
	a, b := newClient(1), newClient(2)
	table.AddWatch(&a.Holder, "/", jute.WatchPersistentRecursive)
	table.AddWatch(&b.Holder, "/b", jute.WatchPersistent)
	hear := func(typ jute.EventType, path string, want ...*client) int {
		t.Helper()
		got := table.Audience(&Event{Type: typ, Path: path})
		var who []*client
		for i := range got.Len() {
			who = append(who, got.At(i).(*client))
		}
		if !slices.Equal(who, want) {
			t.Errorf("%d watchers hear of %s, want %d", len(who), path, len(want))
		}
		return got.Number
	}
	if n := hear(jute.EventNodeDataChanged, "/a", a); n != 0 {
		t.Errorf("number %d before anything is to be remembered", n)
	}
	table.Remember()
	first := hear(jute.EventNodeDataChanged, "/a", a)
	both := hear(jute.EventNodeDataChanged, "/b", b, a)
	children := hear(jute.EventNodeChildrenChanged, "/b", b)
	for i := range 3 * changesKept {
		if n := hear(jute.EventNodeDataChanged, fmt.Sprint("/n", i), a); i > 0 && n != first {
			t.Fatalf("change %d has audience %d, want %d", i, n, first)
		} else if i == 0 {
			first = n
		}
		if n := hear(jute.EventNodeChildrenChanged, "/b", b); n != children {
			t.Fatalf("change %d: audience %d of the children, want %d", i, n, children)
		}
	}
	if first == 0 || both == 0 || first == both || children == first || children == both {
		t.Errorf("audiences %d, %d and %d", first, both, children)
	}
	table.AddData(&b.Holder, "/a")
	if n := hear(jute.EventNodeDataChanged, "/a", b, a); n != 0 {
		t.Errorf("audience %d, with a watch that has fired", n)
	}
	hear(jute.EventNodeDataChanged, "/a", a)
	hear(jute.EventNodeDataChanged, "/elsewhere", a)
	table.Forget()
	if n := hear(jute.EventNodeDataChanged, "/a", a); n != 0 {
		t.Errorf("audience %d, after all was forgotten", n)
	}
	table.RemoveAll(&a.Holder)
	table.RemoveAll(&b.Holder)
	hear(jute.EventNodeDataChanged, "/a")
	check(t, table)
}
