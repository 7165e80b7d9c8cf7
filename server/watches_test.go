package server

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"zkd/jute"
)

// Short names of the event types.
const (
	created  = jute.EventNodeCreated
	deleted  = jute.EventNodeDeleted
	changed  = jute.EventNodeDataChanged
	children = jute.EventNodeChildrenChanged
)

func TestEventsComeBeforeTheReplyOfTheWrite(t *testing.T) {
	r := newRig(t, nil)
	c := r.connect(t)
	c.must(jute.OpExists, watching("/n"), jute.NoNode)
	c.must(jute.OpGetChildren, watching("/"), jute.OK)
	c.send(jute.OpCreate, makeNode("/n", "", jute.ModePersistent))
	c.wantEvents(event{created, "/n"}, event{children, "/"})
	if got := c.receive(); got.Xid != c.xid || got.Err != jute.OK {
		t.Fatalf("reply %+v", got)
	}
	c.must(jute.OpSetData, setTo("/n", "x"), jute.OK) // one-shot: nothing more
	c.must(jute.OpGetData, watching("/n"), jute.OK)
	c.must(jute.OpGetChildren2, watching("/n"), jute.OK)
	c.send(jute.OpDelete, gone("/n"))
	c.wantEvents(event{deleted, "/n"}) // once, although two watches were there
	if got := c.receive(); got.Err != jute.OK {
		t.Fatalf("reply %+v", got)
	}
}

func TestAnEventComesBeforeTheReadThatShowsTheChange(t *testing.T) {
	r := newRig(t, nil)
	writer, reader := r.connect(t), r.connect(t)
	writer.mustCreate("/n", "0", jute.ModePersistent)
	for i := range 300 {
		old := reader.must(jute.OpGetData, watching("/n"), jute.OK)
		writer.send(jute.OpSetData, setTo("/n", string(rune('a'+i%26))))
		told := false
		for seen := old.data(t); seen == old.data(t); {
			reader.send(jute.OpGetData, look("/n"))
			got := reader.receive()
			if got.Xid == jute.XidNotification {
				told = true
				got = reader.receive()
			}
			seen = got.data(t)
			if seen != old.data(t) && !told {
				t.Fatalf("round %d: the change was read before its event came", i)
			}
			if seen == old.data(t) && told {
				t.Fatalf("round %d: the event came, and the read behind it shows the old data", i)
			}
		}
		if got := writer.receive(); got.Err != jute.OK {
			t.Fatalf("setData: %v", got.Err)
		}
	}
}

func TestPersistentAndRecursiveWatches(t *testing.T) {
	r := newRig(t, nil)
	c, w := r.connect(t), r.connect(t)
	c.must(jute.OpAddWatch, &jute.AddWatchRequest{Path: "/p", Mode: jute.WatchPersistent}, jute.OK)
	recursive := r.connect(t)
	recursive.must(jute.OpAddWatch, &jute.AddWatchRequest{Path: "/p", Mode: jute.WatchPersistentRecursive}, jute.OK)
	w.mustCreate("/p", "", jute.ModePersistent)
	w.must(jute.OpSetData, setTo("/p", "x"), jute.OK)
	w.must(jute.OpSetData, setTo("/p", "y"), jute.OK)
	w.mustCreate("/p/c", "", jute.ModePersistent)
	w.must(jute.OpSetData, setTo("/p/c", "x"), jute.OK)
	w.must(jute.OpDelete, gone("/p/c"), jute.OK)
	w.must(jute.OpDelete, gone("/p"), jute.OK)
	c.wantEvents(event{created, "/p"}, event{changed, "/p"}, event{changed, "/p"}, event{children, "/p"},
		event{children, "/p"}, event{deleted, "/p"})
	recursive.wantEvents(event{created, "/p"}, event{changed, "/p"}, event{changed, "/p"}, event{created, "/p/c"},
		event{changed, "/p/c"}, event{deleted, "/p/c"}, event{deleted, "/p"})
	c.wantSilence()
	recursive.wantSilence()

	query := &jute.WatcherTypeRequest{Path: "/p", Type: jute.WatcherPersistent}
	c.must(jute.OpCheckWatches, query, jute.OK)
	recursive.must(jute.OpCheckWatches, query, jute.NoWatcher)
	c.must(jute.OpRemoveWatches, query, jute.OK)
	c.must(jute.OpRemoveWatches, query, jute.NoWatcher)
	w.mustCreate("/p", "", jute.ModePersistent)
	c.wantSilence()
	recursive.wantEvents(event{created, "/p"})
}

func TestWatchesOfFailedReads(t *testing.T) {
	r := newRig(t, nil)
	c, w := r.connect(t), r.connect(t)
	c.must(jute.OpGetData, watching("/n"), jute.NoNode)
	c.must(jute.OpGetChildren, watching("/n"), jute.NoNode)
	w.mustCreate("/n", "", jute.ModePersistent)
	c.wantSilence()
}

func TestEventsGoOnlyToWhoMayRead(t *testing.T) {
	r := newRig(t, nil)
	owner, other := r.connect(t), r.connect(t)
	owner.must(jute.OpAuth, &jute.AuthPacket{Scheme: "digest", Auth: []byte("u:p")}, jute.OK)
	owner.mustCreate("/n", "", jute.ModePersistent)
	for _, c := range []*client{owner, other} {
		c.must(jute.OpGetData, watching("/n"), jute.OK)
		c.must(jute.OpAddWatch, &jute.AddWatchRequest{Path: "/n", Mode: jute.WatchPersistentRecursive}, jute.OK)
	}
	private := &jute.SetACLRequest{Path: "/n", Version: jute.AnyVersion,
		ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "auth"}}}}
	owner.must(jute.OpSetACL, private, jute.OK)
	owner.send(jute.OpSetData, setTo("/n", "secret"))
	owner.wantEvents(event{changed, "/n"})
	if got := owner.receive(); got.Err != jute.OK {
		t.Fatalf("setData: %v", got.Err)
	}
	other.wantSilence()
	other.must(jute.OpGetData, look("/n"), jute.NoAuth)
	// The one-shot watch is used up although nothing was told; the persistent one tells again when it may.
	owner.must(jute.OpSetACL, &jute.SetACLRequest{Path: "/n", Version: jute.AnyVersion, ACL: openACL}, jute.OK)
	other.must(jute.OpCheckWatches, &jute.WatcherTypeRequest{Path: "/n", Type: jute.WatcherData}, jute.NoWatcher)
	r.connect(t).must(jute.OpSetData, setTo("/n", "open"), jute.OK)
	other.wantEvents(event{changed, "/n"})
	// Identities that come later count, too.
	owner.wantEvents(event{changed, "/n"})
	owner.send(jute.OpSetACL, private)
	if got := owner.receive(); got.Err != jute.OK {
		t.Fatalf("setACL: %v", got.Err)
	}
	other.must(jute.OpAuth, &jute.AuthPacket{Scheme: "digest", Auth: []byte("super:superpw")}, jute.OK)
	owner.send(jute.OpSetData, setTo("/n", "again"))
	other.wantEvents(event{changed, "/n"})
}

func TestSetWatchesTellsWhatWasMissedBeforeTheReply(t *testing.T) {
	for _, op := range []jute.Op{jute.OpSetWatches, jute.OpSetWatches2} {
		t.Run(op.String(), func(t *testing.T) { testSetWatches(t, op) })
	}
}

// testSetWatches misses events, and has them told by op.
func testSetWatches(t *testing.T, op jute.Op) {
	r := newRig(t, nil)
	w, c := r.connect(t), r.connect(t)
	for _, path := range []string{"/same", "/data", "/gone", "/kids", "/calm"} {
		w.mustCreate(path, "", jute.ModePersistent)
	}
	seen := r.machine.LastZxid()
	w.must(jute.OpSetData, setTo("/data", "x"), jute.OK)
	w.must(jute.OpDelete, gone("/gone"), jute.OK)
	w.mustCreate("/new", "", jute.ModePersistent)
	w.mustCreate("/kids/1", "", jute.ModePersistent)
	lists := jute.SetWatchesRequest{RelativeZxid: seen, Data: []string{"/same", "/data", "/gone"},
		Exist: []string{"/new", "/later"}, Child: []string{"/kids", "/calm", "/gone"}}
	var body record = &lists
	if op == jute.OpSetWatches2 {
		body = &jute.SetWatches2Request{RelativeZxid: seen, Data: lists.Data, Exist: lists.Exist, Child: lists.Child,
			Persistent: []string{"/same"}, PersistentRecursive: []string{"/calm"}}
	}
	c.write(encodeRequest(jute.XidSetWatches, op, body))
	missed, bytes := map[event]int{}, 0
	for range 5 {
		got := c.receive()
		missed[got.event(t)]++
		bytes += len(got.ReplyHeader.Append(nil)) + len(got.body)
		if got.Zxid != -1 {
			t.Errorf("missed event with zxid %d, want -1", got.Zxid)
		}
	}
	want := map[event]int{{changed, "/data"}: 1, {deleted, "/gone"}: 2, {created, "/new"}: 1, {children, "/kids"}: 1}
	if diff := cmp.Diff(want, missed, cmp.AllowUnexported(event{})); diff != "" {
		t.Errorf("missed events (-want +got):\n%s", diff)
	}
	if got := c.receive(); got.Xid != jute.XidSetWatches || got.Err != jute.OK || len(got.body) > 0 {
		t.Fatalf("reply %+v", got)
	}
	if counted := int(r.server.metrics.watchBytes.Load()); counted != bytes {
		t.Errorf("%d bytes of events are counted, %d came", counted, bytes)
	}
	// Received: the handshake and this; sent: the answers to both and the events.
	name := map[jute.Op]string{jute.OpSetWatches: "SETW", jute.OpSetWatches2: "STW2"}[op]
	r.wantCons(t, c, "2", "7", name, "0x0", fmt.Sprintf("0x%x", r.machine.LastZxid()))
	w.must(jute.OpSetData, setTo("/same", "y"), jute.OK)
	w.mustCreate("/later", "", jute.ModePersistent)
	w.mustCreate("/calm/1", "", jute.ModePersistent)
	w.must(jute.OpSetData, setTo("/same", "z"), jute.OK)
	c.wantEvents(event{changed, "/same"}, event{created, "/later"})
	if op == jute.OpSetWatches2 {
		c.wantEvents(event{created, "/calm/1"}, event{children, "/calm"}, event{changed, "/same"})
	} else {
		c.wantEvents(event{children, "/calm"})
	}
	c.wantSilence()
}

// TestSetWatchesWithANullPathTellsNothing: it is not read in part, neither for events nor for watches.
func TestSetWatchesWithANullPathTellsNothing(t *testing.T) {
	for op, lists := range map[jute.Op]int{jute.OpSetWatches: 3, jute.OpSetWatches2: 5} { // in any order
		for at := range lists {
			r := newRig(t, nil)
			w, c := r.connect(t), r.connect(t)
			w.mustCreate("/missed", "", jute.ModePersistent)
			body := jute.AppendLong(nil, 0)
			for i := range lists {
				body = jute.AppendString(jute.AppendInt(body, 2), "/missed")
				if i == at {
					body = jute.AppendInt(body, -1)
				} else {
					body = jute.AppendString(body, "/later")
				}
			}
			c.must(op, raw(body), jute.MarshallingError)
			w.must(jute.OpSetData, setTo("/missed", "x"), jute.OK)
			w.mustCreate("/later", "", jute.ModePersistent)
			c.wantSilence()
			r.stop()
		}
	}
}

func TestWatchesEndWithTheConnection(t *testing.T) {
	r := newRig(t, nil)
	c, w := r.connect(t), r.connect(t)
	w.mustCreate("/n", "", jute.ModePersistent)
	c.must(jute.OpGetData, watching("/n"), jute.OK)
	again := r.reattach(t, c)
	r.count(2)
	w.must(jute.OpSetData, setTo("/n", "x"), jute.OK)
	again.wantSilence()
	if n := r.server.watches.Counts().All; n != 0 {
		t.Errorf("%d watches are left", n)
	}
}

// TestLargeSetWatchesTakeTurns: while one is made a second one waits, and a small one does not; all are set.
func TestLargeSetWatchesTakeTurns(t *testing.T) {
	r := newRig(t, nil)
	large := &jute.SetWatchesRequest{Data: []string{}, Child: []string{}}
	for i := range 10 * watchesAtOnce {
		large.Exist = append(large.Exist, fmt.Sprintf("/missing%05d", i))
	}
	small := &jute.SetWatchesRequest{Data: []string{}, Child: []string{}, Exist: large.Exist[:watchesAtOnce]}
	turns, gone := 0, make(chan struct{})
	close(gone)
	for r.server.watchTurns.Begin(gone) {
		turns++
	}
	a, b := r.connect(t), r.connect(t)
	a.send(jute.OpSetWatches, large)
	eventually(t, "the large one to wait", func() bool { return r.server.watchTurns.InLine() == 1 })
	b.must(jute.OpSetWatches, small, jute.OK)
	for range turns {
		r.server.watchTurns.End()
	}
	a.receive()
	if n := r.server.watches.Counts().All; n != 11*watchesAtOnce {
		t.Errorf("%d watches are set", n)
	}
	eventually(t, "the turn given back", func() bool {
		n := 0
		for r.server.watchTurns.Begin(gone) {
			n++
		}
		for range n {
			r.server.watchTurns.End()
		}
		return n == turns
	})
}
