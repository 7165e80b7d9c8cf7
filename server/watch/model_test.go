package watch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"zkd/jute"
)

// oracle is one of ZooKeeper's two WatchManagers in the plainest form.
type oracle struct {
	modes  map[*client]map[string]mode
	listed map[*client]bool
}

func newOracle() *oracle {
	return &oracle{modes: map[*client]map[string]mode{}, listed: map[*client]bool{}}
}

func (o *oracle) add(c *client, path string, m mode) {
	if o.modes[c] == nil {
		o.modes[c] = map[string]mode{}
	}
	o.modes[c][path] |= m
	o.listed[c] = true
}

func (o *oracle) remove(c *client, path string, m mode) bool {
	had := o.modes[c][path]
	if had&m == 0 {
		return false
	}
	if o.modes[c][path] = had &^ m; had&^m == 0 {
		delete(o.modes[c], path)
		if len(o.modes[c]) == 0 {
			delete(o.listed, c)
		}
	}
	return true
}

func (o *oracle) removeAll(c *client) {
	delete(o.modes, c)
	delete(o.listed, c)
}

// trigger returns who is found by a change of path, and consumes.
func (o *oracle) trigger(path string) map[*client]bool {
	found := map[*client]bool{}
	for c, paths := range o.modes {
		for p, m := range maps.Clone(paths) {
			under := p == "/" || strings.HasPrefix(path, p+"/")
			switch {
			case p == path:
				found[c] = true
				if paths[p] = m &^ standard; paths[p] == 0 {
					delete(paths, p)
				}
			case under && m&recursive != 0:
				found[c] = true
			}
		}
	}
	return found
}

// world is a table, its oracle, and the clients of both.
type world struct {
	table       *Table
	data, child *oracle
	clients     []*client
	zxid        jute.Zxid
	ids         jute.SessionID
}

var modelPaths = []string{"/", "/a", "/a/b", "/ab", "/ab/é"}

// clientsMax keeps the clients so few that they meet on paths.
const clientsMax = 4

func (w *world) connect(t *rapid.T) {
	if len(w.clients) == clientsMax {
		return
	}
	w.ids++
	c := newClient(w.ids)
	c.deny = map[string]bool{"x": rapid.Bool().Draw(t, "denyX"), "y": rapid.Bool().Draw(t, "denyY")}
	w.clients = append(w.clients, c)
}

func (w *world) register(t *rapid.T, c *client, path string) {
	switch list := SetList(rapid.IntRange(0, 4).Draw(t, "list")); list {
	case SetData:
		w.table.AddData(&c.Holder, path)
		w.data.add(c, path, standard)
	case SetExist:
		w.table.Register(&c.Holder, list, path)
		w.data.add(c, path, standard)
	case SetChild:
		w.table.AddChild(&c.Holder, path)
		w.child.add(c, path, standard)
	case SetPersistent:
		w.table.AddWatch(&c.Holder, path, jute.WatchPersistent)
		w.data.add(c, path, persistent)
		w.child.add(c, path, persistent)
	case SetPersistentRecursive:
		w.table.AddWatch(&c.Holder, path, jute.WatchPersistentRecursive)
		w.data.add(c, path, recursive)
	}
}

func (w *world) unregister(t *rapid.T, c *client, path string) {
	which := jute.WatcherType(rapid.IntRange(1, 5).Draw(t, "type"))
	has := w.table.Has(&c.Holder, path, which)
	var want bool
	switch which {
	case jute.WatcherChildren:
		want = w.child.remove(c, path, standard)
	case jute.WatcherData:
		want = w.data.remove(c, path, standard)
	case jute.WatcherAny:
		want = w.child.remove(c, path, anyMode)
		want = w.data.remove(c, path, anyMode) || want
	case jute.WatcherPersistent:
		want = w.child.remove(c, path, persistent)
		dataHad := w.data.remove(c, path, persistent)
		if has != dataHad {
			t.Fatalf("Has persistent %s: %v, want %v", path, has, dataHad)
		}
		want, has = want || dataHad, want || dataHad
	case jute.WatcherPersistentRecursive:
		want = w.data.remove(c, path, recursive)
	}
	if has != want {
		t.Fatalf("Has %d %s: %v, want %v", which, path, has, want)
	}
	if got := w.table.Remove(&c.Holder, path, which); got != want {
		t.Fatalf("Remove %d %s: %v, want %v", which, path, got, want)
	}
}

func (w *world) fire(t *rapid.T, path string) {
	typ := jute.EventType(rapid.IntRange(1, 4).Draw(t, "event"))
	user := rapid.SampledFrom(append(users, "")).Draw(t, "acl")
	w.zxid++
	ev := Event{Type: typ, Path: path, Zxid: w.zxid, ACL: listOf(user)}
	told := map[*client]bool{}
	if typ != jute.EventNodeChildrenChanged {
		told = w.data.trigger(path)
	}
	if typ == jute.EventNodeDeleted || typ == jute.EventNodeChildrenChanged {
		maps.Copy(told, w.child.trigger(path))
	}
	w.table.Fire(&ev)
	for _, c := range w.clients {
		var want []string
		if told[c] && !c.deny[user] {
			want = []string{fmt.Sprintf("%s %s@%d", eventName(typ), path, w.zxid)}
		}
		if diff := cmp.Diff(want, c.take()); diff != "" {
			t.Fatalf("client %d, %s %s (-want +got):\n%s", c.session, eventName(typ), path, diff)
		}
	}
}

// counts compares the sizes and both reports.
func (w *world) counts(t *rapid.T) {
	byPath, byClient := map[string][]jute.SessionID{}, map[jute.SessionID][]string{}
	total, all := 0, 0
	for _, c := range w.clients {
		for p := range w.data.modes[c] {
			total++
			byPath[p] = append(byPath[p], c.session)
		}
		all += len(w.child.modes[c])
		if w.data.listed[c] {
			byClient[c.session] = slices.Sorted(maps.Keys(w.data.modes[c]))
		}
	}
	want := Counts{Connections: len(w.data.listed), Paths: len(byPath), Watches: total, All: total + all}
	if got := w.table.Counts(); got != want {
		t.Fatalf("counts %+v, want %+v", got, want)
	}
	gotPaths, gotClients := map[string][]jute.SessionID{}, map[jute.SessionID][]string{}
	w.table.ByPath(func(path string, sessions []jute.SessionID) bool {
		gotPaths[path] = slices.Sorted(slices.Values(sessions))
		return true
	})
	w.table.ByConnection(func(id jute.SessionID, paths []string) bool {
		gotClients[id] = slices.Sorted(slices.Values(paths))
		return true
	})
	if diff := cmp.Diff(byPath, gotPaths); diff != "" {
		t.Fatalf("by path (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(byClient, gotClients); diff != "" {
		t.Fatalf("by connection (-want +got):\n%s", diff)
	}
}

// TestModel holds random operations against the oracle.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{table: New(), data: newOracle(), child: newOracle()}
		for range clientsMax {
			w.connect(rt)
		}
		pick := func(rt *rapid.T) (*client, string) {
			return rapid.SampledFrom(w.clients).Draw(rt, "client"), rapid.SampledFrom(modelPaths).Draw(rt, "path")
		}
		register := func(rt *rapid.T) { c, p := pick(rt); w.register(rt, c, p) }
		rt.Repeat(map[string]func(*rapid.T){
			"connect":    w.connect,
			"register":   register,
			"register2":  register,
			"unregister": func(rt *rapid.T) { w.table.Forget(); c, p := pick(rt); w.unregister(rt, c, p) },
			"fire":       func(rt *rapid.T) { _, p := pick(rt); w.fire(rt, p) },
			"remember":   func(*rapid.T) { w.table.Remember() },
			"close": func(rt *rapid.T) {
				w.table.Forget() // it takes leaving as something that comes behind
				c, p := pick(rt)
				w.table.RemoveAll(&c.Holder)
				w.table.AddData(&c.Holder, p) // too late: without effect
				w.data.removeAll(c)
				w.child.removeAll(c)
				w.clients = slices.DeleteFunc(w.clients, func(x *client) bool { return x == c })
				if len(w.clients) == 0 {
					w.connect(rt)
				}
			},
			"": func(rt *rapid.T) { w.counts(rt); check(t, w.table) },
		})
	})
}
