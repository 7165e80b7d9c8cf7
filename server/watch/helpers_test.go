package watch

import (
	"fmt"
	"sync"
	"testing"

	"zkd/jute"
	"zkd/storage/acl"
)

// client is a connection that writes down what it is told.
type client struct {
	Holder
	mu   sync.Mutex
	got  []string
	deny map[string]bool // users whom it has not proven to be, of list's
	hook func()
}

func newClient(id jute.SessionID) *client {
	c := &client{}
	c.Init(c, id)
	return c
}

// users are those that lists of tests name.
var users = []string{"x", "y"}

// lists are those of listOf.
var lists = map[string][]jute.ACL{"x": allTo("x"), "y": allTo("y")}

// allTo returns a list that gives all to a user.
func allTo(user string) []jute.ACL {
	return []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: acl.SchemeDigest, ID: user}}}
}

// listOf returns a list that lets one of users read, the same each time; of "" none.
func listOf(user string) []jute.ACL { return lists[user] }

func (c *client) Proven() *acl.Proven {
	var ids []jute.ID
	for _, user := range users {
		if !c.deny[user] {
			ids = append(ids, jute.ID{Scheme: acl.SchemeDigest, ID: user})
		}
	}
	return acl.NewProven(ids)
}

func (c *client) WatchFired(ev *Event, notice []byte) {
	c.mu.Lock()
	c.got = append(c.got, fmt.Sprintf("%s %s@%d", eventName(ev.Type), ev.Path, ev.Zxid))
	c.mu.Unlock()
	if c.hook != nil {
		c.hook()
	}
}

// take returns what c was told since the last call.
func (c *client) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	got := c.got
	c.got = nil
	return got
}

func eventName(t jute.EventType) string {
	switch t {
	case jute.EventNodeCreated:
		return "created"
	case jute.EventNodeDeleted:
		return "deleted"
	case jute.EventNodeDataChanged:
		return "changed"
	case jute.EventNodeChildrenChanged:
		return "children"
	}
	return fmt.Sprint(t)
}

// check fails if the table's lists, indexes and counts do not agree with one another.
func check(t testing.TB, table *Table) {
	t.Helper()
	table.mu.Lock()
	defer table.mu.Unlock()
	m := &table.mu
	data, child, recursives, dataPaths, paths, bytes := 0, 0, 0, 0, 0, 0
	for id := uint32(1); id < m.paths.end(); id++ {
		p := m.paths.at(id)
		if p.text == nil {
			continue
		}
		paths++
		bytes += int(p.bytes)
		if p.data == 0 && p.child == 0 {
			t.Fatalf("path %s is kept without watches", p.name())
		}
		if got := table.findPath(p.name(), table.hashPath(p.name())); got != id {
			t.Fatalf("index finds path %s as %d, want %d", p.name(), got, id)
		}
		if p.data != 0 {
			dataPaths++
		}
		n, r := checkList(t, table, id, dataKind)
		data, recursives = data+n, recursives+r
		n, _ = checkList(t, table, id, childKind)
		child += n
	}
	held, listed := checkHolders(t, table)
	got := [...]int{m.dataCount, m.childCount, int(table.recursive.Load()), m.dataPaths, m.listed,
		m.pathIndex.count, int(table.watched.Load()), m.watchIndex.count, m.watches.live(), m.bytes}
	want := [...]int{data, child, recursives, dataPaths, listed, paths, paths, held, held,
		bytes + held*recordBytes}
	if got != want || held != data+child {
		t.Fatalf("counts %v, want %v (%d held)", got, want, held)
	}
}

// checkList walks one list of a path and returns its length and how many are recursive.
func checkList(t testing.TB, table *Table, path uint32, k kind) (n, recursives int) {
	t.Helper()
	head := *table.mu.paths.at(path).list(k)
	last, plain := uint32(0), false
	for id := head; id != 0; n++ {
		r := table.mu.watches.at(id)
		if id != head && r.prev != last {
			t.Fatalf("watch %d: prev is %d, want %d", id, r.prev, last)
		}
		if r.path() != path || r.kind() != k || r.modes() == 0 {
			t.Fatalf("watch %d is in the wrong list or has no modes: %x", id, r.word)
		}
		if r.modes()&recursive == 0 {
			plain = true
		} else if recursives++; plain {
			t.Fatalf("recursive watch %d is behind one that is not", id)
		}
		if got := table.findWatch(r.holder, path, k); got != id {
			t.Fatalf("index finds watch %d as %d", id, got)
		}
		last, id = id, r.next
	}
	if head != 0 && table.mu.watches.at(head).prev != last {
		t.Fatalf("path %d: the head's prev is not the last", path)
	}
	return n, recursives
}

// checkHolders walks the lists of the holders.
func checkHolders(t testing.TB, table *Table) (held, listed int) {
	t.Helper()
	for number := uint32(1); number < table.mu.holders.end(); number++ {
		h := *table.mu.holders.at(number)
		if h == nil {
			continue
		}
		data, bytes, last := 0, 0, uint32(0)
		for id := h.first; id != 0; held++ {
			r := table.mu.watches.at(id)
			if r.prevHeld != last || r.holder != number {
				t.Fatalf("watch %d: prevHeld %d, want %d; holder %d, want %d", id, r.prevHeld, last, r.holder, number)
			}
			if r.kind() == dataKind {
				data++
			}
			bytes += recordBytes + int(table.mu.paths.at(r.path()).bytes)
			last, id = id, r.nextHeld
		}
		if h.bytes != bytes {
			t.Fatalf("holder %d counts %d bytes, has %d", number, h.bytes, bytes)
		}
		if int(h.data) != data {
			t.Fatalf("holder %d counts %d data watches, has %d", number, h.data, data)
		}
		if h.listed {
			listed++
		}
	}
	return held, listed
}
