package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"zkd/jute"
)

// longName is the name of one of many children whose list is longer than what is copied under a Present.
func longName(i int) string { return fmt.Sprintf("%s-%04d", strings.Repeat("n", 60), i) }

// fillLong makes /long with so many of them.
func fillLong(c *client, n int) {
	c.mustCreate("/long", "", jute.ModePersistent)
	var all []byte
	for i := range n {
		all = append(all, c.encode(jute.OpCreate, makeNode("/long/"+longName(i), "", jute.ModePersistent))...)
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		c.write(all)
	}()
	c.wantReplies(n, jute.OK)
	<-sent
}

// kept counts the lists that were answered from memory.
func (r *rig) kept() uint64 { return r.machine.Metrics().ListHits }

// TestListsFromMemoryAreThoseOfTheStore lists short and long znodes in all three ways, often enough for memory, while
// children come and go: each reply has the children of its moment, sorted, and a Stat that counts them.
func TestListsFromMemoryAreThoseOfTheStore(t *testing.T) {
	r := newRig(t, nil)
	c := r.connect(t)
	const longChildren = 1500
	fillLong(c, longChildren)
	c.mustCreate("/short", "", jute.ModePersistent)
	want := map[string][]string{}
	for i := range longChildren {
		want["/long"] = append(want["/long"], longName(i))
	}
	check := func(path string) {
		t.Helper()
		got := c.must(jute.OpGetChildren, look(path), jute.OK)
		if list := names(t, &got); !slices.Equal(list, want[path]) {
			t.Fatalf("getChildren of %s: %d names, want %d", path, len(list), len(want[path]))
		}
		var resp jute.GetChildren2Response
		got = c.must(jute.OpGetChildren2, look(path), jute.OK)
		got.decodeBody(t, &resp)
		if !slices.Equal(resp.Children, want[path]) || int(resp.Stat.NumChildren) != len(want[path]) {
			t.Fatalf("getChildren2 of %s: %d names of %d, want %d", path, len(resp.Children), resp.Stat.NumChildren,
				len(want[path]))
		}
		got = c.must(jute.OpMultiRead, multi{{jute.OpGetChildren, look(path)}}, jute.OK)
		d := jute.NewDecoder(got.body)
		var children jute.GetChildrenResponse
		if ops := jute.NewMultiDecoder(&d); !ops.Next() {
			t.Fatal("no result")
		}
		if children.Decode(&d); !slices.Equal(children.Children, want[path]) {
			t.Fatalf("multiRead of %s: %d names, want %d", path, len(children.Children), len(want[path]))
		}
	}
	for _, path := range []string{"/short", "/long"} {
		for i := range 12 {
			check(path)
			name := fmt.Sprintf("a%02d", i)
			c.mustCreate(path+"/"+name, "", jute.ModePersistent)
			want[path] = append(want[path], name)
			slices.Sort(want[path])
			check(path)
			if i%3 == 2 {
				victim := want[path][len(want[path])/2]
				c.must(jute.OpDelete, gone(path+"/"+victim), jute.OK)
				want[path] = slices.DeleteFunc(want[path], func(name string) bool { return name == victim })
			}
		}
	}
	if r.kept() < 100 {
		t.Errorf("%d lists were answered from memory", r.kept())
	}
}

// TestAListInMemoryIsForWhoMayRead: what is kept is shown to nobody who may not read the znode, and not after its end.
func TestAListInMemoryIsForWhoMayRead(t *testing.T) {
	r := newRig(t, nil)
	c := r.connect(t)
	c.mustCreate("/a", "", jute.ModePersistent)
	c.mustCreate("/a/x", "", jute.ModePersistent)
	for range 4 {
		c.must(jute.OpGetChildren, look("/a"), jute.OK)
	}
	if r.kept() == 0 {
		t.Fatal("the list is not kept")
	}
	none := []jute.ACL{{Perms: jute.PermAll &^ jute.PermRead, ID: jute.ID{Scheme: "world", ID: "anyone"}}}
	c.must(jute.OpSetACL, &jute.SetACLRequest{Path: "/a", ACL: none, Version: jute.AnyVersion}, jute.OK)
	c.must(jute.OpGetChildren, look("/a"), jute.NoAuth)
	c.must(jute.OpDelete, gone("/a/x"), jute.OK)
	c.must(jute.OpDelete, gone("/a"), jute.OK)
	c.must(jute.OpGetChildren, look("/a"), jute.NoNode)
	c.mustCreate("/a", "", jute.ModePersistent)
	got := c.must(jute.OpGetChildren, look("/a"), jute.OK)
	if list := names(t, &got); len(list) != 0 {
		t.Errorf("children %q", list)
	}
	c.mustCreate("/a/y", "", jute.ModePersistent)
	got = c.must(jute.OpGetChildren, look("/a"), jute.OK)
	if list := names(t, &got); !slices.Equal(list, []string{"y"}) {
		t.Errorf("children %q", list)
	}
}

// TestALongListInMemoryTakesTurns: a copy that takes long is a large read as any other; what is sent without a copy is
// none.
func TestALongListInMemoryTakesTurns(t *testing.T) {
	r := newRig(t, nil)
	c := r.connect(t)
	const longChildren = 5000 // more than 256 KiB
	fillLong(c, longChildren)
	for range 4 {
		c.must(jute.OpGetChildren, look("/long"), jute.OK)
	}
	turns := r.takeTurns()
	got := c.must(jute.OpGetChildren, look("/long"), jute.OK)
	if list := names(t, &got); len(list) != longChildren || r.kept() == 0 {
		t.Errorf("%d children", len(list))
	}
	before := r.kept()
	waits, other := r.connect(t), r.connect(t)
	waits.send(jute.OpMultiRead, multi{{jute.OpGetChildren, look("/long")}})
	eventually(t, "a long list that waits", func() bool { return r.server.readTurns.InLine() == 1 })
	other.mustCreate("/long/one-more", "", jute.ModePersistent)
	r.endTurns(turns)
	got = waits.receive()
	d := jute.NewDecoder(got.body)
	var children jute.GetChildrenResponse
	if ops := jute.NewMultiDecoder(&d); !ops.Next() {
		t.Fatal("no result")
	}
	if children.Decode(&d); len(children.Children) != longChildren || r.kept() == before {
		t.Errorf("%d children, want those of the moment before the create: %d", len(children.Children), longChildren)
	}
}
