package server

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"zkd/jute"
	"zkd/server/socket"
	"zkd/server/watch"
)

// TestEventsOfAWriteAreToldTogether: who watches what a multi changes thousands of times hears of each change, in
// order, more of them than gather; who has sent it hears of all before the answer. What single writes change comes in
// its place.
func TestEventsOfAWriteAreToldTogether(t *testing.T) {
	r := newRig(t, nil)
	const parts = 3000
	path := func(i int) string { return []string{"/a", "/b", "/" + strings.Repeat("c", 900)}[i%3] }
	owner, other, gone := r.connect(t), r.connect(t), r.connect(t)
	for i := range 3 {
		owner.mustCreate(path(i), "", jute.ModePersistent)
	}
	for _, c := range []*client{owner, other, gone} {
		c.must(jute.OpAddWatch, &jute.AddWatchRequest{Path: "/", Mode: jute.WatchPersistentRecursive}, jute.OK)
	}
	r.connOf(gone).Out.Close()
	var many multi
	want := make([]event, 0, parts)
	for i := range parts {
		many = append(many, multi{{jute.OpSetData, setTo(path(i), "")}}...)
		want = append(want, event{jute.EventNodeDataChanged, path(i)})
	}
	before := r.server.metrics.sent.Load()
	for range 2 {
		owner.send(jute.OpMulti, many)
		owner.wantEvents(want...)
		if got := owner.receive(); got.Xid != owner.xid || got.Err != jute.OK {
			t.Fatalf("behind the events: %+v, want the answer", got.ReplyHeader)
		}
		other.wantEvents(want...)
		owner.send(jute.OpSetData, setTo("/a", "x"))
		owner.wantEvents(event{jute.EventNodeDataChanged, "/a"})
		owner.wantReplies(1, jute.OK)
		other.wantEvents(event{jute.EventNodeDataChanged, "/a"})
	}
	if n := r.server.metrics.sent.Load() - before; n != 2*(2*(parts+1)+2) {
		t.Errorf("%d packets are counted, want %d", n, 2*(2*(parts+1)+2))
	}
}

// longParent makes a few hundred events more than gather.
var longParent = "/" + strings.Repeat("p", 900)

// listener is a client with one watch of the test below.
type listener struct {
	*client
	kind  string // of a watch
	path  string
	fired bool
}

// watches are those that listeners set.
var listenersOf = []listener{
	{kind: "recursive", path: "/"}, {kind: "recursive", path: "/"}, {kind: "recursive", path: longParent},
	{kind: "persistent", path: longParent}, {kind: "persistent", path: "/a"}, {kind: "persistent", path: "/a"},
	{kind: "data", path: "/a"}, {kind: "data", path: longParent + "/x3"}, {kind: "exists", path: longParent + "/x1"},
	{kind: "exists", path: longParent + "/x77"}, {kind: "children", path: longParent}, {kind: "recursive", path: "/a"},
}

// set sets the watch.
func (l *listener) set() {
	l.t.Helper()
	switch l.kind {
	case "recursive":
		l.must(jute.OpAddWatch, &jute.AddWatchRequest{Path: l.path, Mode: jute.WatchPersistentRecursive}, jute.OK)
	case "persistent":
		l.must(jute.OpAddWatch, &jute.AddWatchRequest{Path: l.path, Mode: jute.WatchPersistent}, jute.OK)
	case "data":
		l.call(jute.OpExists, watching(l.path))
	case "exists":
		l.must(jute.OpExists, watching(l.path), jute.NoNode)
	case "children":
		l.must(jute.OpGetChildren, watching(l.path), jute.OK)
	}
	l.fired = false
}

// hears says whether an event is for l.
func (l *listener) hears(e event) bool {
	ofChildren := e.kind == children
	switch l.kind {
	case "recursive":
		return !ofChildren && (l.path == "/" || e.path == l.path || strings.HasPrefix(e.path, l.path+"/"))
	case "persistent":
		return e.path == l.path
	case "children":
		ofChildren = !ofChildren && e.kind != deleted
	}
	hears := !l.fired && !ofChildren && e.path == l.path
	l.fired = l.fired || hears
	return hears
}

// longMulti is a multi of many changes, with the events that it makes.
func longMulti(random *rand.Rand) (m multi, events []event) {
	add := func(op jute.Op, body record, made ...event) {
		m = append(m, multi{{op, body}}...)
		events = append(events, made...)
	}
	for i := range 700 {
		path := fmt.Sprint(longParent, "/x", i)
		add(jute.OpCreate, makeNode(path, "", jute.ModePersistent), event{created, path}, event{children, longParent})
		for range random.IntN(4) {
			at := []string{"/a", "/b", path}[random.IntN(3)]
			add(jute.OpSetData, setTo(at, ""), event{changed, at})
		}
		if i%2 == 0 {
			add(jute.OpDelete, gone(path), event{deleted, path}, event{children, longParent})
		}
	}
	return m, events
}

// TestEachHearsWhatItWatches: of a long write everybody hears what is for it, in order, whatever others hear: by
// watches of each kind, of which some fire once. Each has its events before it can see the change, and what is set
// again afterwards hears of the next write.
func TestEachHearsWhatItWatches(t *testing.T) {
	r := newRig(t, func(o *Options) { o.MaxFrameBytes = 4 << 20 })
	owner := r.connect(t)
	for _, path := range []string{"/a", "/b", longParent} {
		owner.mustCreate(path, "", jute.ModePersistent)
	}
	all := slices.Clone(listenersOf)
	for i := range all {
		all[i].client = r.connect(t)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 3 {
		for i := range all {
			all[i].set()
		}
		m, events := longMulti(random)
		owner.must(jute.OpMulti, m, jute.OK)
		for i := range all {
			l := &all[i]
			l.send(jute.OpExists, look("/a"))
			for _, e := range events {
				if l.hears(e) {
					l.wantEvents(e)
				}
			}
			if got := l.receive(); got.Xid != l.xid {
				t.Fatalf("watch %d, %s: %+v, want the answer behind all events", i, l.kind, got)
			}
		}
		var rest multi
		for i := range 350 {
			rest = append(rest, multi{{jute.OpDelete, gone(fmt.Sprint(longParent, "/x", 2*i+1))}}...)
		}
		owner.must(jute.OpMulti, rest, jute.OK)
		for i := range all { // each begins anew
			all[i].send(jute.OpPing, nil)
			for all[i].receive().Xid != jute.XidPing {
			}
		}
	}
}

// TestWhoLeavesWhileEventsAreTold: connections that come and go while long writes are told leave the others with each
// event, in order.
func TestWhoLeavesWhileEventsAreTold(t *testing.T) {
	r := newRig(t, nil)
	owner, stays := r.connect(t), r.connect(t)
	owner.mustCreate("/a", "", jute.ModePersistent)
	watch := &jute.AddWatchRequest{Path: "/a", Mode: jute.WatchPersistent}
	stays.must(jute.OpAddWatch, watch, jute.OK)
	const rounds, parts = 30, 200
	var many multi
	var want []event
	for range parts {
		many = append(many, multi{{jute.OpSetData, setTo("/a", "")}}...)
		want = append(want, event{changed, "/a"})
	}
	for range rounds {
		leaves := r.connect(t)
		leaves.must(jute.OpAddWatch, watch, jute.OK)
		owner.send(jute.OpMulti, many)
		_ = leaves.net.Close() // it was open
		stays.wantEvents(want...)
		if got := owner.receive(); got.Xid != owner.xid || got.Err != jute.OK {
			t.Fatalf("%+v, want the answer", got.ReplyHeader)
		}
	}
	stays.wantSilence()
}

// BenchmarkTelling is what 55 connections cost that hear of 38,000 changes of one write: all of the same; each of
// others; all of the same paths that never come again.
func BenchmarkTelling(b *testing.B) {
	const connections, changes = 55, 38_000
	for _, c := range []struct {
		name string
		path func(change int) string
		each func(connection int) []string // what it watches
		mode jute.AddWatchMode
	}{
		{"same", func(int) string { return "/w" }, func(int) []string { return []string{"/w"} }, jute.WatchPersistent},
		{"others", func(i int) string { return fmt.Sprint("/", i%64) }, func(c int) (all []string) {
			for i := range 64 {
				if i*(c+1)%7 < 4 {
					all = append(all, fmt.Sprint("/", i))
				}
			}
			return all
		}, jute.WatchPersistent},
		{"new paths", func(i int) string { return fmt.Sprint("/", i) }, func(int) []string { return []string{"/"} },
			jute.WatchPersistentRecursive},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := newRig(b, nil).server
			for i := range connections {
				listener := newConn(s, &Port{}, netip.AddrPort{})
				near, _ := net.Pipe()
				listener.Init(near, socket.Options{Account: &listener.account})
				listener.login.ids.Start(netip.Addr{}, s.opts.Limits.Identities)
				listener.Out.Close() // what is told goes nowhere
				listener.watch.Init(listener, jute.SessionID(i+1))
				for _, path := range c.each(i) {
					s.watches.AddWatch(&listener.watch, path, c.mode)
				}
			}
			events := make([]watch.Event, changes)
			for i := range events {
				events[i] = watch.Event{Type: changed, Path: c.path(i), ACL: openACL}
			}
			t := &s.telling
			for b.Loop() {
				t.begin(changes)
				for i := range events {
					t.gather(&events[i])
				}
				t.end()
			}
		})
	}
}
