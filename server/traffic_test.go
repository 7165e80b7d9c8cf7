package server

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/server/traffic"
)

// metering is a client that counts the bytes of what it sends and gets by operation, as a frame has them.
type metering struct {
	*client
	want map[jute.Op]*traffic.Counts
}

// of returns what is counted of an operation.
func (m *metering) of(op jute.Op) *traffic.Counts {
	if m.want[op] == nil {
		m.want[op] = &traffic.Counts{}
	}
	return m.want[op]
}

// ask sends a request and takes its reply, and the events before it.
func (m *metering) ask(op jute.Op, body record, want jute.Code) {
	m.t.Helper()
	request := m.encode(op, body)
	m.write(request)
	for {
		payload, err := m.next()
		if err != nil {
			m.t.Fatalf("%v: %v", op, err)
		}
		r := m.parse(payload)
		if r.Xid == jute.XidNotification {
			m.notice(len(payload))
			continue
		}
		if r.Err != want {
			m.t.Fatalf("%v is answered %v, want %v", op, r.Err, want)
		}
		n := m.of(op)
		n.Requests++
		n.BytesIn += uint64(len(request))
		n.BytesOut += uint64(len(payload) + 4)
		if want != jute.OK {
			n.Failed++
		}
		return
	}
}

// notice counts an event.
func (m *metering) notice(payload int) {
	n := m.of(jute.OpNotification)
	n.Notices++
	n.BytesOut += uint64(payload + 4)
}

// startCounting starts a server whose clock the test moves on.
func startCounting(t *testing.T, set func(*Options)) (*rig, *clock.Manual) {
	now := clock.NewManual(time.Now()) // deadlines of sockets go by it
	return startRig(t, rigOptions{clock: now, set: set}), now
}

// window moves the clock on by one second until all that was counted is in a window that is found good. What is counted
// after its reply may be late for that second: there is another one after 1, 2, 4 looks, and so on, few enough for all
// of them to stay in the window.
func window(t *testing.T, r *rig, now *clock.Manual, what string, good func(w *traffic.Window) bool) *traffic.Window {
	t.Helper()
	var w *traffic.Window
	looks := 0
	eventually(t, what, func() bool {
		if looks&(looks-1) == 0 {
			now.Advance(time.Second)
		}
		looks++
		w = r.server.Traffic(traffic.WindowMax)
		return good(w)
	})
	return w
}

// byOperation is what a window has of operations, without what is not compared.
func byOperation(w *traffic.Window) map[jute.Op]traffic.Counts {
	found := map[jute.Op]traffic.Counts{}
	for i := range w.Operations {
		n := w.Operations[i].Counts
		n.Latency, n.Apply = traffic.Latency{}, 0
		found[w.Operations[i].Op] = n
	}
	return found
}

// TestEveryOperationIsCounted has each operation of the protocol counted with its bytes, failures and watches as its
// client has counted them.
func TestEveryOperationIsCounted(t *testing.T) {
	r, now := startCounting(t, nil)
	m := &metering{r.connect(t), map[jute.Op]*traffic.Counts{}}
	hello := m.of(jute.OpCreateSession)
	hello.Requests, hello.Applied = 1, 1
	hello.BytesIn = uint64(4 + len((&jute.ConnectRequest{Passwd: make([]byte, 16), HasReadOnly: true}).Append(nil)))
	hello.BytesOut = uint64(4 + len(m.welcome.Append(nil)))
	write := func(op jute.Op, body record, want jute.Code) {
		t.Helper()
		m.ask(op, body, want)
		m.of(op).Applied++
	}
	create := func(path string) *jute.CreateRequest {
		return &jute.CreateRequest{Path: path, Data: []byte("x"), ACL: openACL}
	}
	watched := func(path string) *jute.PathWatchRequest { return &jute.PathWatchRequest{Path: path, Watch: true} }

	write(jute.OpCreate, create("/a"), jute.OK)
	write(jute.OpCreate2, create("/a/b"), jute.OK)
	write(jute.OpCreate, create("/a"), jute.NodeExists)
	container := create("/c")
	container.Flags = jute.ModeContainer
	write(jute.OpCreateContainer, container, jute.OK)
	m.ask(jute.OpGetData, watched("/a"), jute.OK)
	m.ask(jute.OpExists, watched("/none"), jute.NoNode)
	m.ask(jute.OpGetChildren2, watched("/a"), jute.OK)
	m.ask(jute.OpGetChildren, watched("/a/b"), jute.OK)
	m.of(jute.OpGetData).WatchesSet, m.of(jute.OpExists).WatchesSet = 1, 1
	m.of(jute.OpGetChildren2).WatchesSet, m.of(jute.OpGetChildren).WatchesSet = 1, 1
	m.ask(jute.OpAddWatch, &jute.AddWatchRequest{Path: "/a", Mode: jute.WatchPersistent}, jute.OK)
	m.of(jute.OpAddWatch).WatchesSet = 2
	m.ask(jute.OpSetWatches, &jute.SetWatchesRequest{RelativeZxid: 1 << 40, Data: []string{"/c"}, Exist: []string{},
		Child: []string{"/c"}}, jute.OK)
	m.of(jute.OpSetWatches).WatchesSet = 2
	m.ask(jute.OpCheckWatches, &jute.WatcherTypeRequest{Path: "/a", Type: jute.WatcherAny}, jute.OK)
	write(jute.OpSetData, &jute.SetDataRequest{Path: "/a", Data: make([]byte, 3000), Version: -1}, jute.OK)
	write(jute.OpSetData, &jute.SetDataRequest{Path: "/a", Version: 77}, jute.BadVersion)
	write(jute.OpSetACL, &jute.SetACLRequest{Path: "/a", ACL: openACL, Version: -1}, jute.OK)
	m.ask(jute.OpGetACL, &jute.PathRequest{Path: "/a"}, jute.OK)
	m.ask(jute.OpGetAllChildrenNumber, &jute.PathRequest{Path: "/a"}, jute.OK)
	m.ask(jute.OpGetEphemerals, &jute.PathRequest{Path: "/"}, jute.OK)
	m.ask(jute.OpSync, &jute.PathRequest{Path: "/a"}, jute.OK)
	m.ask(jute.OpWhoAmI, nil, jute.OK)
	m.ask(jute.OpMultiRead, raw(multiReadOf("/a", "/a/b")), jute.OK)
	m.ask(jute.OpRemoveWatches, &jute.WatcherTypeRequest{Path: "/none", Type: jute.WatcherData}, jute.OK)
	m.ask(jute.OpAuth, &jute.AuthPacket{Scheme: "digest", Auth: []byte("bob:secret")}, jute.OK)
	m.ask(jute.OpSASL, &jute.SASLToken{Token: []byte{}}, jute.OK)
	write(jute.OpDelete, &jute.PathVersionRequest{Path: "/a/b", Version: -1}, jute.OK)
	m.ask(jute.OpGetData, raw{0, 0}, jute.MarshallingError)
	m.ask(jute.OpPing, nil, jute.OK)

	want, requests := map[jute.Op]traffic.Counts{}, uint64(0)
	for op, n := range m.want { // any order
		want[op] = *n
		requests += n.Requests
	}
	// A write is counted once its reply may leave, and then its path: that of the delete is the last one.
	w := window(t, r, now, "all to be counted", func(w *traffic.Window) bool {
		return w.Total.Requests == requests && slices.ContainsFunc(w.Znodes, func(row traffic.Row[string]) bool {
			return row.Key == "/a/b" && row.Requests == 3
		})
	})
	got := byOperation(w)
	for op, n := range want { // any order
		if got[op] != n {
			t.Errorf("%v: %+v, want %+v", op, got[op], n)
		}
	}
	for op := range got { // any order
		if _, ok := want[op]; !ok {
			t.Errorf("%v is counted: %+v", op, got[op])
		}
	}
	if w.Every != 1 || w.Total.Apply <= 0 {
		t.Errorf("one in %d is sampled; %v of apply", w.Every, w.Total.Apply)
	}
	wantPaths(t, w)
	wantClient(t, w, m)
}

// wantPaths looks at the paths: all were counted, as there were few.
func wantPaths(t *testing.T, w *traffic.Window) {
	t.Helper()
	find := func(rows []traffic.Row[string], path string) traffic.Counts {
		for i := range rows {
			if rows[i].Key == path {
				if rows[i].Missed != 0 {
					t.Errorf("%s: %d missed", path, rows[i].Missed)
				}
				return rows[i].Counts
			}
		}
		t.Errorf("%s is not there", path)
		return traffic.Counts{}
	}
	subtree, znode, below := find(w.Subtrees, "/a"), find(w.Znodes, "/a"), find(w.Znodes, "/a/b")
	if subtree.Requests != znode.Requests+below.Requests || znode.Requests != 13 || below.Requests != 3 {
		t.Errorf("%d requests below /a, %d at it, %d at /a/b", subtree.Requests, znode.Requests, below.Requests)
	}
	if znode.Failed != 2 || znode.WatchesSet != 4 || znode.Notices == 0 || znode.Applied != 2 || znode.BytesIn < 3000 {
		t.Errorf("/a: %+v", znode)
	}
	if none := find(w.Znodes, "/none"); none.Requests != 2 || none.Failed != 1 {
		t.Errorf("/none: %+v", none)
	}
}

// wantClient looks at who it was.
func wantClient(t *testing.T, w *traffic.Window, m *metering) {
	t.Helper()
	if len(w.Sessions) == 0 || len(w.Addresses) != 1 {
		t.Fatalf("sessions %+v, addresses %+v", w.Sessions, w.Addresses)
	}
	var all traffic.Counts
	for _, n := range m.want { // any order: sums
		all.Requests += n.Requests
		all.Notices += n.Notices
		all.BytesIn += n.BytesIn
		all.BytesOut += n.BytesOut
	}
	got := w.Addresses[0]
	if got.Requests != all.Requests || got.Notices != all.Notices || got.BytesIn != all.BytesIn ||
		got.BytesOut != all.BytesOut || got.Key.String() != "127.0.0.1" {
		t.Errorf("the client: %+v, want %+v", got, all)
	}
	user := w.Users[0].Key
	if who := w.Sessions[0].Key; who.Session != m.welcome.SessionID || who.User != "digest:bob" || user != who.User {
		t.Errorf("the session is of %+v, user %q", who, user)
	}
}

// multiReadOf is a multiRead of data.
func multiReadOf(paths ...string) (b []byte) {
	for _, path := range paths {
		h := jute.MultiHeader{Type: jute.OpGetData, Err: -1}
		b = (&jute.PathWatchRequest{Path: path}).Append(h.Append(b))
	}
	return jute.AppendMultiEnd(b)
}

// TestPipelinedRequestsAreCounted: of many connections that send many requests at once, of several operations, none is
// lost.
func TestPipelinedRequestsAreCounted(t *testing.T) {
	r, now := startCounting(t, nil)
	const clients, rounds = 8, 200
	ops := []jute.Op{jute.OpGetData, jute.OpExists, jute.OpGetChildren, jute.OpGetChildren2, jute.OpGetACL, jute.OpSync}
	root := &jute.PathWatchRequest{Path: "/"}
	var all sync.WaitGroup
	for range clients {
		c := r.connect(t)
		all.Go(func() {
			var b []byte
			for i := range rounds {
				if op := ops[i%len(ops)]; op == jute.OpGetACL || op == jute.OpSync {
					b = append(b, encodeRequest(jute.Xid(i), op, &jute.PathRequest{Path: "/"})...)
				} else {
					b = append(b, encodeRequest(jute.Xid(i), op, root)...)
				}
			}
			c.write(b)
			for range rounds {
				if _, err := c.next(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	const want = clients*rounds + clients // with createSession
	w := window(t, r, now, fmt.Sprintf("%d requests", want), func(w *traffic.Window) bool {
		return w.Total.Requests == want
	})
	requests := uint64(0)
	for i := range w.Sessions {
		requests += w.Sessions[i].Requests
	}
	if requests != want || len(w.Sessions) != clients {
		t.Errorf("%d requests of %d sessions, want %d of %d", requests, len(w.Sessions), want, clients)
	}
}

// TestTheSlowestAreTold: with their paths and clients, and the phases of their time, which add up.
func TestTheSlowestAreTold(t *testing.T) {
	r := newRig(t, nil)
	c := r.connect(t)
	c.mustCreate("/a", "x", jute.ModePersistent)
	c.must(jute.OpGetData, &jute.PathWatchRequest{Path: "/a"}, jute.OK)
	c.must(jute.OpSync, &jute.PathRequest{Path: "/b"}, jute.OK)
	found := map[jute.Op]traffic.Slow{}
	eventually(t, "the slowest of a second", func() bool {
		for _, s := range r.server.Traffic(traffic.WindowMax).Slowest {
			found[s.Op] = s
		}
		return len(found) >= 3
	})
	for op, path := range map[jute.Op]string{ // any order
		jute.OpCreate: "/a", jute.OpGetData: "/a", jute.OpSync: "/b",
	} {
		s := found[op]
		p := &s.Phases
		sum := p.Queue + p.Turn + p.Confirm + p.Log + p.Replicate + p.Apply + p.Answer
		if sum != s.Took || s.Took <= 0 {
			t.Errorf("%v took %v, its phases %v: %+v", op, s.Took, sum, *p)
		}
		if s.Path != path || s.Client.Session != c.welcome.SessionID || s.Bytes == 0 {
			t.Errorf("%v: %+v", op, s)
		}
	}
	if p := found[jute.OpCreate].Phases; p.Log == 0 || p.Apply == 0 {
		t.Errorf("phases of a write: %+v", p)
	}
}

// TestTrafficOff counts nothing.
func TestTrafficOff(t *testing.T) {
	r, now := startCounting(t, func(o *Options) { o.TrafficOff = true })
	c := r.connect(t)
	c.mustCreate("/a", "x", jute.ModePersistent)
	now.Advance(3 * time.Second)
	if w := r.server.Traffic(time.Second); w != nil {
		t.Errorf("a window: %+v", w)
	}
}

// TestTrafficAllocations: counting a read allocates nothing, sampled or not.
func TestTrafficAllocations(t *testing.T) {
	r, _ := startCounting(t, nil)
	c := newConn(r.server, &Port{}, netip.AddrPort{})
	body := binary.BigEndian.AppendUint32(nil, 2)
	req := &request{xid: 1, op: jute.OpExists, body: append(append(body, "/a"...), 0)}
	got := testing.AllocsPerRun(1000, func() {
		c.metered.tally(req, 100, jute.OK, 20*time.Microsecond)
		c.metered.Flush()
	})
	if got != 0 {
		t.Errorf("a read allocates %v times to be counted", got)
	}
}
