package watch

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"zkd/jute"
	"zkd/server/stats"
	"zkd/storage/acl"
	"zkd/storage/invariants"
)

// changes are the events of one change each, as the state machine reports them.
var changes = map[string][]Event{
	"create /p/c": {{Type: jute.EventNodeCreated, Path: "/p/c"}, {Type: jute.EventNodeChildrenChanged, Path: "/p"}},
	"delete /p/c": {{Type: jute.EventNodeDeleted, Path: "/p/c"}, {Type: jute.EventNodeChildrenChanged, Path: "/p"}},
	"setData /p":  {{Type: jute.EventNodeDataChanged, Path: "/p"}},
	"setData /":   {{Type: jute.EventNodeDataChanged, Path: "/"}},
	"delete /q":   {{Type: jute.EventNodeDeleted, Path: "/q"}, {Type: jute.EventNodeChildrenChanged, Path: "/"}},
}

// register sets the watch that a word names: data, child, pers, rec.
func register(t *testing.T, table *Table, c *client, what, path string) {
	t.Helper()
	switch what {
	case "data":
		table.AddData(&c.Holder, path)
	case "child":
		table.AddChild(&c.Holder, path)
	case "pers":
		table.AddWatch(&c.Holder, path, jute.WatchPersistent)
	case "rec":
		table.AddWatch(&c.Holder, path, jute.WatchPersistentRecursive)
	default:
		t.Fatalf("unknown watch %q", what)
	}
}

// TestEvents has a case for each rule of ZooKeeper about who is told of what.
func TestEvents(t *testing.T) {
	cases := []struct {
		name    string
		watches string // of one connection
		changes []string
		want    []string
		left    int // watches in both tables afterwards
	}{
		{"nobody watches", "", []string{"create /p/c"}, nil, 0},
		{"a data watch of a missing node hears of its creation", "data /p/c", []string{"create /p/c"},
			[]string{"created /p/c"}, 0},
		{"a data watch hears of a change once", "data /p", []string{"setData /p", "setData /p"},
			[]string{"changed /p"}, 0},
		{"a data watch hears of the deletion", "data /p/c", []string{"delete /p/c"}, []string{"deleted /p/c"}, 0},
		{"a data watch does not hear of children", "data /p", []string{"create /p/c", "delete /p/c"}, nil, 1},
		{"a child watch hears of a creation", "child /p", []string{"create /p/c"}, []string{"children /p"}, 0},
		{"a child watch hears of a deletion", "child /p", []string{"delete /p/c"}, []string{"children /p"}, 0},
		{"a child watch hears that its node is deleted", "child /p/c", []string{"delete /p/c"},
			[]string{"deleted /p/c"}, 0},
		{"a child watch does not hear of data", "child /p", []string{"setData /p"}, nil, 1},
		{"a child watch does not hear of grandchildren", "child /", []string{"create /p/c"}, nil, 1},
		{"data and child watch of a deleted node: one event", "data /p/c,child /p/c", []string{"delete /p/c"},
			[]string{"deleted /p/c"}, 0},
		{"deletion comes before the parent's children", "child /p,data /p/c", []string{"delete /p/c"},
			[]string{"deleted /p/c", "children /p"}, 0},
		{"creation comes before the parent's children", "child /p,data /p/c", []string{"create /p/c"},
			[]string{"created /p/c", "children /p"}, 0},
		{"a persistent watch stays", "pers /p", []string{"setData /p", "create /p/c", "delete /p/c", "setData /p"},
			[]string{"changed /p", "children /p", "children /p", "changed /p"}, 2},
		{"a persistent watch of a deleted node: one event", "pers /p/c", []string{"delete /p/c"},
			[]string{"deleted /p/c"}, 2},
		{"a persistent watch does not hear of descendants", "pers /", []string{"setData /p"}, nil, 2},
		{"a recursive watch hears of descendants and stays", "rec /",
			[]string{"create /p/c", "setData /p", "delete /p/c"},
			[]string{"created /p/c", "changed /p", "deleted /p/c"}, 1},
		{"a recursive watch hears of its own node", "rec /p", []string{"setData /p"}, []string{"changed /p"}, 1},
		{"a recursive watch of the root hears of the root", "rec /", []string{"setData /"}, []string{"changed /"}, 1},
		{"a recursive watch never hears of children", "rec /p", []string{"create /p/c"}, []string{"created /p/c"}, 1},
		{"a recursive watch does not hear of siblings", "rec /p", []string{"delete /q"}, nil, 1},
		{"modes add up to one event", "data /p,pers /p,rec /p,rec /", []string{"setData /p", "setData /p"},
			[]string{"changed /p", "changed /p"}, 3},
		{"recursive and child watch hear in both tables", "rec /p,child /p", []string{"create /p/c"},
			[]string{"created /p/c", "children /p"}, 1},
		{"one that heard of a deletion through an ancestor is not told again", "rec /p,child /p/c",
			[]string{"delete /p/c"}, []string{"deleted /p/c"}, 1},
		{"the root's children", "child /", []string{"delete /q"}, []string{"children /"}, 0},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			table, c := New(), newClient(7)
			for w := range strings.SplitSeq(tc.watches, ",") {
				if what, path, ok := strings.Cut(w, " "); ok {
					register(t, table, c, what, path)
				}
			}
			for _, name := range tc.changes {
				events, ok := changes[name]
				if !ok {
					t.Fatalf("unknown change %q", name)
				}
				for _, ev := range events {
					table.Fire(&ev)
				}
			}
			var got []string
			for _, line := range c.take() {
				got = append(got, strings.TrimSuffix(line, "@0"))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if got := table.Counts().All; got != tc.left {
				t.Errorf("%d watches are left, want %d", got, tc.left)
			}
			check(t, table)
		})
	}
}

// TestOrderOfTables: of one deletion, all data watchers hear before any child watcher does, in order of registration.
func TestOrderOfTables(t *testing.T) {
	table := New()
	var order []jute.SessionID
	join := func(id jute.SessionID) *client {
		c := newClient(id)
		c.hook = func() { order = append(order, id) }
		return c
	}
	table.AddChild(&join(1).Holder, "/a")
	table.AddData(&join(2).Holder, "/a")
	table.AddData(&join(3).Holder, "/a")
	table.AddChild(&join(4).Holder, "/a")
	table.Fire(&Event{Type: jute.EventNodeDeleted, Path: "/a"})
	if diff := cmp.Diff([]jute.SessionID{2, 3, 1, 4}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// TestUnreadable: who may not read does not hear, but a standard watch is gone all the same.
func TestUnreadable(t *testing.T) {
	table, c := New(), newClient(1)
	c.deny = map[string]bool{"x": true}
	table.AddData(&c.Holder, "/a")
	table.AddWatch(&c.Holder, "/", jute.WatchPersistentRecursive)
	table.Fire(&Event{Type: jute.EventNodeDataChanged, Path: "/a", ACL: listOf("x")})
	if got := c.take(); got != nil {
		t.Errorf("told %v without READ", got)
	}
	if table.Has(&c.Holder, "/a", jute.WatcherAny) {
		t.Error("the standard watch is still there")
	}
	table.Fire(&Event{Type: jute.EventNodeDataChanged, Path: "/a", Zxid: 9})
	if diff := cmp.Diff([]string{"changed /a@9"}, c.take()); diff != "" {
		t.Errorf("the recursive watch (-want +got):\n%s", diff)
	}
}

// strangers are n connections with m identities each, watching /a for good.
func strangers(table *Table, n, m int) []quietWatcher {
	all := make([]quietWatcher, n)
	for i := range all {
		var ids []jute.ID
		for k := range m {
			ids = append(ids, jute.ID{Scheme: acl.SchemeDigest, ID: fmt.Sprintf("nobody%d:%d", i, k)})
		}
		all[i].who = acl.NewProven(ids)
		all[i].Init(&all[i], jute.SessionID(i))
		table.AddWatch(&all[i].Holder, "/a", jute.WatchPersistent)
	}
	return all
}

// longList is a list of n entries.
func longList(n int) (list []jute.ACL) {
	for i := range n {
		list = append(list, jute.ACL{Perms: jute.PermRead,
			ID: jute.ID{Scheme: acl.SchemeDigest, ID: fmt.Sprintf("somebody:%d", i)}})
	}
	return list
}

// TestLongListsCostOnce: changes of a znode whose list is long, watched by many who are many, cost the list once and
// each watcher's identities once, in one entry of the log and in the next.
func TestLongListsCostOnce(t *testing.T) {
	const entries, connections, identities, changes = 2000, 50, 900, 700
	table := New()
	watchers := strangers(table, connections, identities)
	list := longList(entries)
	for i := range changes {
		if i%100 == 0 {
			table.Begin()
		}
		table.Fire(&Event{Type: jute.EventNodeDataChanged, Path: "/a", ACL: list})
	}
	if work, most := table.firing.verdicts.Work(), entries+connections*(identities+1); work > most {
		t.Errorf("looked at %d entries and identities, want at most %d", work, most)
	}
	for i := range watchers {
		if watchers[i].fired != 0 {
			t.Fatalf("watcher %d was told %d times", i, watchers[i].fired)
		}
	}
	watchers[7].who = acl.NewProven([]jute.ID{list[1999].ID})
	table.Fire(&Event{Type: jute.EventNodeDataChanged, Path: "/a", ACL: list})
	if watchers[7].fired != 1 || watchers[8].fired != 0 {
		t.Error("what a watcher has proven meanwhile does not count, or counts for another")
	}
}

// TestVerdictsAreForgotten: what Fire knows of lists is bounded between two entries of the log, and not before.
func TestVerdictsAreForgotten(t *testing.T) {
	table := New()
	strangers(table, 1, 10)
	for range 2 * keepVerdicts / 100 {
		table.Fire(&Event{Type: jute.EventNodeDataChanged, Path: "/a", ACL: longList(100)})
	}
	if size := table.firing.verdicts.Size(); size < 2*keepVerdicts-200 {
		t.Errorf("%d are known inside an entry, want all", size)
	}
	if table.Begin(); table.firing.verdicts.Size() != 0 {
		t.Error("all are known after it")
	}
}

// TestRemoveTypes: each watcher type removes its own mode and nothing else.
func TestRemoveTypes(t *testing.T) {
	types := map[string]jute.WatcherType{
		"child": jute.WatcherChildren, "data": jute.WatcherData, "pers": jute.WatcherPersistent,
		"rec": jute.WatcherPersistentRecursive,
	}
	for name, which := range types {
		table, c := New(), newClient(1)
		for what := range types {
			register(t, table, c, what, "/a")
		}
		if !table.Remove(&c.Holder, "/a", which) || table.Remove(&c.Holder, "/a", which) {
			t.Errorf("%s: was not removed exactly once", name)
		}
		for what, other := range types {
			if got := table.Has(&c.Holder, "/a", other); got != (what != name) {
				t.Errorf("after the removal of %s: Has %s is %v", name, what, got)
			}
		}
		if !table.Remove(&c.Holder, "/a", jute.WatcherAny) || table.Has(&c.Holder, "/a", jute.WatcherAny) {
			t.Errorf("%s: any did not remove the rest", name)
		}
		if table.Remove(&c.Holder, "/a", 0) || table.Has(&c.Holder, "/a", 6) {
			t.Error("an unknown type matched")
		}
		check(t, table)
	}
	table, c := New(), newClient(1)
	if got := table.AddWatch(&c.Holder, "/a", 2); got != jute.BadArguments {
		t.Errorf("unknown mode: %v", got)
	}
	if table.Counts() != (Counts{}) {
		t.Error("an unknown mode left a watch")
	}
}

// TestListedUntilClose: a connection whose watches have fired still counts, one that removed its last does not.
func TestListedUntilClose(t *testing.T) {
	table, fired, removed := New(), newClient(1), newClient(2)
	table.AddData(&fired.Holder, "/a")
	table.AddData(&removed.Holder, "/b")
	table.AddChild(&newClient(3).Holder, "/a") // the child table does not count
	table.Fire(&Event{Type: jute.EventNodeDataChanged, Path: "/a"})
	table.Remove(&removed.Holder, "/b", jute.WatcherData)
	if got, want := table.Counts(), (Counts{Connections: 1, All: 1}); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
	table.RemoveAll(&fired.Holder)
	if got, want := table.Counts(), (Counts{All: 1}); got != want {
		t.Errorf("after the close: counts %+v, want %+v", got, want)
	}
}

// TestFired: the counts of connections found, deletions once per table as ZooKeeper has them.
func TestFired(t *testing.T) {
	table, c, d := New(), newClient(1), newClient(2)
	table.AddWatch(&c.Holder, "/a", jute.WatchPersistent)
	table.AddWatch(&d.Holder, "/", jute.WatchPersistentRecursive)
	for typ := jute.EventNodeCreated; typ <= jute.EventNodeChildrenChanged; typ++ {
		table.Fire(&Event{Type: typ, Path: "/a"})
		table.Fire(&Event{Type: typ, Path: "a path that nobody watches, and that has no parent"})
	}
	f := table.Fired()
	got := []stats.Snapshot{f.Created.Load(), f.Deleted.Load(), f.Changed.Load(), f.Children.Load()}
	want := []stats.Snapshot{
		{Count: 1, Sum: 2, Min: 2, Max: 2, Avg: 2},
		{Count: 2, Sum: 3, Min: 1, Max: 2, Avg: 1.5},
		{Count: 1, Sum: 2, Min: 2, Max: 2, Avg: 2},
		{Count: 1, Sum: 1, Min: 1, Max: 1, Avg: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("created, deleted, changed, children (-want +got):\n%s", diff)
	}
}

// TestNotice: the frame has the bytes that the protocol asks for, and the path in it is not the caller's memory.
func TestNotice(t *testing.T) {
	frame := AppendNotice([]byte{9}, jute.EventNodeDeleted, "/é", 0x0102)
	want := "\x09" + "\x00\x00\x00\x1f" + "\xff\xff\xff\xff" + "\x00\x00\x00\x00\x00\x00\x01\x02" + "\x00\x00\x00\x00" +
		"\x00\x00\x00\x02" + "\x00\x00\x00\x03" + "\x00\x00\x00\x03/é"
	if string(frame) != want {
		t.Errorf("got  %q\nwant %q", frame, want)
	}
}

// TestPathIsCopied: a registration does not keep the frame it was read from.
func TestPathIsCopied(t *testing.T) {
	table, c := New(), newClient(1)
	frame := jute.AppendString(nil, "/abc")
	d := jute.NewDecoder(frame)
	var nulls jute.Nulls
	table.AddData(&c.Holder, d.Ustring(&nulls, 0))
	clear(frame)
	if !table.Has(&c.Holder, "/abc", jute.WatcherData) {
		t.Fatal("not registered")
	}
	table.ByPath(func(path string, _ []jute.SessionID) bool {
		if path != "/abc" {
			t.Errorf("path %q", path)
		}
		return true
	})
}

// TestMissed has each cell of setWatches' table.
func TestMissed(t *testing.T) {
	const relative = 10
	old, changed := &jute.Stat{Mzxid: 10, Pzxid: 10}, &jute.Stat{Mzxid: 11, Pzxid: 10}
	children := &jute.Stat{Mzxid: 10, Pzxid: 11}
	cases := []struct {
		list  SetList
		stat  *jute.Stat // nil: missing
		event jute.EventType
	}{
		{SetData, nil, jute.EventNodeDeleted},
		{SetData, old, jute.EventNone},
		{SetData, changed, jute.EventNodeDataChanged},
		{SetData, children, jute.EventNone},
		{SetExist, nil, jute.EventNone},
		{SetExist, old, jute.EventNodeCreated},
		{SetExist, changed, jute.EventNodeCreated},
		{SetChild, nil, jute.EventNodeDeleted},
		{SetChild, old, jute.EventNone},
		{SetChild, changed, jute.EventNone},
		{SetChild, children, jute.EventNodeChildrenChanged},
		{SetPersistent, nil, jute.EventNone},
		{SetPersistent, changed, jute.EventNone},
		{SetPersistentRecursive, nil, jute.EventNone},
		{SetPersistentRecursive, children, jute.EventNone},
	}
	for _, tc := range cases {
		event, reg := Missed(tc.list, relative, tc.stat != nil, tc.stat)
		if event != tc.event || reg != (tc.event == jute.EventNone) {
			t.Errorf("list %d, stat %+v: %d, %v; want %d", tc.list, tc.stat, event, reg, tc.event)
		}
	}
}

// TestFireInsideFire: a watcher that fires would tear the scratch memory; it is stopped.
func TestFireInsideFire(t *testing.T) {
	table, c := New(), newClient(1)
	ev := Event{Type: jute.EventNodeDataChanged, Path: "/a"}
	var violation any
	c.hook = func() {
		defer func() { violation = recover() }()
		table.Fire(&ev)
	}
	table.AddData(&c.Holder, "/a")
	table.Fire(&ev)
	if _, ok := violation.(invariants.Violation); !ok {
		t.Errorf("recovered %v, want a violation", violation)
	}
}

// TestConcurrent lets connections come, watch, unwatch and go while changes fire: for the race detector, and for what
// is left.
func TestConcurrent(t *testing.T) {
	const connections, rounds = 8, 300
	table := New()
	paths := []string{"/", "/a", "/a/b", "/a/b/c"}
	var wg sync.WaitGroup
	for i := range connections {
		wg.Go(func() {
			for n := range rounds {
				c := newClient(jute.SessionID(i))
				for k := range 6 {
					p := paths[(n+k)%len(paths)]
					table.Register(&c.Holder, SetList((n+k)%5), p)
					if k%3 == 2 {
						table.Remove(&c.Holder, p, jute.WatcherAny)
					}
				}
				table.RemoveAll(&c.Holder)
			}
		})
	}
	done := make(chan struct{})
	go func() { defer close(done); wg.Wait() }()
	for n := 0; ; n++ {
		select {
		case <-done:
			if got := table.Counts(); got != (Counts{}) {
				t.Errorf("left: %+v", got)
			}
			check(t, table)
			return
		default:
			table.Fire(&Event{Type: jute.EventType(n%4 + 1), Path: paths[n%len(paths)]})
			table.ByPath(func(string, []jute.SessionID) bool { return true })
			table.ByConnection(func(jute.SessionID, []string) bool { return true })
		}
	}
}

// TestWatcherMayCallBack: what is told may register again and leave.
func TestWatcherMayCallBack(t *testing.T) {
	table, c, other := New(), newClient(1), newClient(2)
	c.hook = func() {
		table.AddData(&c.Holder, "/a")
		table.RemoveAll(&other.Holder)
	}
	table.AddData(&c.Holder, "/a")
	table.AddData(&other.Holder, "/a")
	for range 2 {
		table.Fire(&Event{Type: jute.EventNodeDataChanged, Path: "/a"})
	}
	if got := len(c.take()); got != 2 {
		t.Errorf("told %d times, want 2", got)
	}
	if got := table.Counts().All; got != 1 {
		t.Errorf("%d watches are left, want 1", got)
	}
}
