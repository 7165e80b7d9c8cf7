package server

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"zkd/jute"
	"zkd/server/socket"
	"zkd/server/watch"
)

func TestConnectionLimits(t *testing.T) {
	for name, set := range map[string]func(*Options){ // order: each has its own server
		"per address": func(o *Options) { o.MaxConnectionsPerIP = 2 },
		"total":       func(o *Options) { o.MaxConnections = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, set)
			a, b := r.connect(t), r.connect(t)
			refused := r.dial(t)
			refused.wantClosed()
			if got := r.server.metrics.rejected.Load(); got != 1 {
				t.Errorf("%d connections counted as rejected, want 1", got)
			}
			a.wantSilence()
			b.wantSilence()
			_ = a.net.Close() // makes room
			r.count(1)
			r.connect(t).wantSilence()
		})
	}
}

func TestConnectionDropsAreThoseOfClients(t *testing.T) {
	r := newRig(t, nil)
	cut, long, bye, quiet := r.connect(t), r.connect(t), r.connect(t), r.dial(t)
	long.write([]byte{0x7f, 0, 0, 0}) // a length that is refused
	long.wantClosed()
	bye.must(jute.OpCloseSession, nil, jute.OK)
	bye.wantClosed()
	_ = cut.net.Close()
	_ = quiet.net.Close()
	eventually(t, "the silent one is accepted and gone", func() bool { return r.server.metrics.drops.Load() >= 2 })
	r.count(0)
	if got := r.server.metrics.drops.Load(); got != 2 {
		t.Errorf("%d connections are counted as dropped by their clients, want 2", got)
	}
}

// liveHeap is what the heap holds after a collection.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestALengthCostsNoMemory(t *testing.T) {
	r := newRig(t, nil)
	before := liveHeap()
	some := min(600, floodMax(t))
	n := some * 5 / 6
	head := []byte{0, 0x0f, 0xff, 0xff}
	clients := make([]*client, n)
	for i := range clients {
		clients[i] = r.dial(t)
		clients[i].write(binary.BigEndian.AppendUint32(nil, handshakeBytesMax)) // more is refused at once
	}
	// And some with a session, and more than one buffer of what they announce.
	for range some - n {
		c := r.connect(t)
		c.write(append(head, make([]byte, 5000)...))
	}
	r.count(some)
	witness := r.connect(t)
	witness.wantSilence()
	// Sockets, goroutines and one small buffer each: far below the megabyte that is announced.
	if grown := liveHeap() - before; grown > int64(n)*64<<10 {
		t.Errorf("the heap has grown by %d bytes, %d each", grown, grown/int64(n))
	}
}

func TestAClientThatDoesNotReadIsCutOff(t *testing.T) {
	r := newRig(t, func(o *Options) { o.MaxUnreadBytes = 64 << 10 })
	deaf, writer := r.connect(t), r.connect(t)
	shrink(t, deaf)
	path := "/" + string(bytes.Repeat([]byte("p"), 4000))
	deaf.must(jute.OpAddWatch, &jute.AddWatchRequest{Path: path, Mode: jute.WatchPersistent}, jute.OK)
	writer.mustCreate(path, "", jute.ModePersistent)
	r.count(2)
	for i := 0; r.server.connections.count() == 2; i++ {
		if i > 20000 {
			t.Fatal("a client with 80 MB of unread events is still connected")
		}
		writer.must(jute.OpSetData, setTo(path, "x"), jute.OK)
	}
	// Its session goes on: it may come back.
	if again := r.reattach(t, deaf); again.welcome.SessionID != deaf.welcome.SessionID {
		t.Errorf("the session is gone: %+v", again.welcome)
	}
}

// shrink makes the kernel buffer little for the client.
func shrink(t *testing.T, c *client) {
	t.Helper()
	if err := c.net.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
}

func TestAClientThatDoesNotReadBlocksItselfOnly(t *testing.T) {
	r := newRig(t, nil)
	deaf, other := r.connect(t), r.connect(t)
	other.mustCreate("/big", string(bytesOf('x', 1000000)), jute.ModePersistent)
	other.mustCreate("/n", "", jute.ModePersistent)
	const reads = 50 // of a megabyte
	var b []byte
	for range reads {
		b = append(b, deaf.encode(jute.OpGetData, look("/big"))...)
		b = append(b, deaf.encode(jute.OpSetData, setTo("/n", "deaf"))...)
	}
	deaf.write(b)
	before := liveHeap()
	for range 100 {
		other.must(jute.OpSetData, setTo("/n", "x"), jute.OK)
		other.must(jute.OpGetData, look("/n"), jute.OK)
	}
	if grown := liveHeap() - before; grown > 10<<20 {
		t.Errorf("the heap has grown by %d bytes for a client that does not read", grown)
	}
	for i := range 2 * reads { // and once it reads, it gets all
		if got := deaf.receive(); got.Xid != jute.Xid(i+1) || got.Err != jute.OK {
			t.Fatalf("reply %d: %+v", i, got.ReplyHeader)
		}
	}
}

func TestManyWritesUnderWay(t *testing.T) {
	r := newRig(t, nil)
	c := r.connect(t)
	c.mustCreate("/n", "", jute.ModePersistent)
	const n = 3*socket.MaxOutstanding + 17
	go func() {
		var b []byte
		for i := range jute.Xid(n) {
			b = append(b, encodeRequest(100+i, jute.OpSetData, setTo("/n", fmt.Sprint(i)))...)
		}
		_ = c.net.SetWriteDeadline(time.Now().Add(testDeadline)) // an error shows with the replies
		_, _ = c.net.Write(b)
	}()
	for i := range jute.Xid(n) {
		if got := c.receive(); got.Xid != 100+i || got.Err != jute.OK {
			t.Fatalf("reply %d: %+v", i, got.ReplyHeader)
		}
	}
}

func TestWatchesAreBounded(t *testing.T) {
	for name, bounds := range map[string]watch.Bounds{ // order: each has its own server
		"of all": {All: 5}, "of one": {PerHolder: 5},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(o *Options) { o.Limits.Watches = bounds })
			c, other := r.connect(t), r.connect(t)
			c.mustCreate("/n", "", jute.ModePersistent)
			c.must(jute.OpGetData, watching("/n"), jute.OK)
			c.must(jute.OpGetChildren2, watching("/n"), jute.OK)
			c.must(jute.OpExists, watching("/none"), jute.NoNode)
			c.must(jute.OpAddWatch, &jute.AddWatchRequest{Path: "/p", Mode: jute.WatchPersistent}, jute.OK)
			for op, record := range map[jute.Op]record{ // order: none of them does anything
				jute.OpGetData: watching("/n"), jute.OpGetChildren: watching("/n"), jute.OpExists: watching("/none"),
				jute.OpAddWatch: &jute.AddWatchRequest{Path: "/r", Mode: jute.WatchPersistentRecursive},
			} {
				c.must(op, record, jute.Throttled)
			}
			c.must(jute.OpGetData, look("/n"), jute.OK)
			code := jute.OK
			if bounds.All > 0 {
				code = jute.Throttled
			}
			other.must(jute.OpGetData, watching("/n"), code)
			c.must(jute.OpRemoveWatches, &jute.WatcherTypeRequest{Path: "/p", Type: jute.WatcherAny}, jute.OK)
			c.must(jute.OpGetData, watching("/"), jute.OK)
			c.send(jute.OpSetWatches, &jute.SetWatchesRequest{Data: []string{"/1", "/2"}, Exist: []string{},
				Child: []string{}})
			c.wantClosed()
			r.count(1)
			if bounds.All > 0 { // all of the first connection's are gone with it
				other.must(jute.OpGetData, watching("/n"), jute.OK)
			}
		})
	}
}

func TestSessionsAreBounded(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Limits.SessionsMax = 2 })
	a, b := r.connect(t), r.connect(t)
	hello := frame((&jute.ConnectRequest{TimeoutMillis: 30000, Passwd: make([]byte, 16)}).Append(nil))
	refused := r.dial(t)
	refused.write(hello)
	refused.wantClosed()
	if got := r.server.metrics.rejected.Load(); got != 1 {
		t.Errorf("%d connections counted as rejected, want 1", got)
	}
	_ = a.net.Close() // its session is there still, and may come back
	r.count(1)
	refused = r.dial(t)
	refused.write(hello)
	refused.wantClosed()
	if again := r.reattach(t, a); again.welcome.SessionID != a.welcome.SessionID {
		t.Errorf("the session is gone: %+v", again.welcome)
	}
	b.must(jute.OpCloseSession, nil, jute.OK)
	b.wantClosed()
	r.connect(t)
}

// TestAHandshakeIsShort: who has no session cannot have the server keep a megabyte for it.
func TestAHandshakeIsShort(t *testing.T) {
	r := newRig(t, nil)
	long := r.dial(t)
	long.write(binary.BigEndian.AppendUint32(nil, handshakeBytesMax+1))
	long.wantClosed()
	padded := r.dial(t)
	hello := (&jute.ConnectRequest{TimeoutMillis: 30000, Passwd: make([]byte, 16)}).Append(nil)
	padded.write(frame(append(hello, make([]byte, handshakeBytesMax-len(hello))...)))
	padded.welcomed()
	if padded.welcome.SessionID == 0 {
		t.Error("a handshake of all that is allowed gives no session")
	}
	padded.wantSilence()
}

// TestAMultiReadIsBounded: a short request cannot ask for an answer that fills the memory. One operation is answered
// however much it reads.
func TestAMultiReadIsBounded(t *testing.T) {
	r := newRig(t, func(o *Options) { o.MaxFrameBytes = 4 << 10 })
	c := r.connect(t)
	c.must(jute.OpCreate, makeNode("/a", strings.Repeat("x", 3<<10), jute.ModePersistent), jute.OK)
	for _, step := range []struct {
		reads int
		want  jute.Code
	}{{1, jute.OK}, {20, jute.OK}, {30, jute.MarshallingError}, {1, jute.OK}} {
		reads := make(multi, step.reads)
		for i := range reads {
			reads[i].op, reads[i].body = jute.OpGetData, look("/a")
		}
		got := c.must(jute.OpMultiRead, reads, step.want)
		if long := len(got.body) > step.reads*3<<10; long != (step.want == jute.OK) {
			t.Errorf("%d reads have an answer of %d bytes", step.reads, len(got.body))
		}
	}
}

// TestAMultiReadAsksOnceForEachList: who may read is found out for each znode all the same.
func TestAMultiReadAsksOnceForEachList(t *testing.T) {
	r := newRig(t, nil)
	c, other := r.connect(t), r.connect(t)
	c.must(jute.OpAuth, &jute.AuthPacket{Scheme: "digest", Auth: []byte("u:p")}, jute.OK)
	for _, path := range []string{"/open", "/shut"} {
		c.must(jute.OpCreate, makeNode(path, "x", jute.ModePersistent), jute.OK)
	}
	entry := func(perms jute.Perms, scheme, id string) jute.ACL {
		return jute.ACL{Perms: perms, ID: jute.ID{Scheme: scheme, ID: id}}
	}
	for path, last := range map[string]jute.ACL{ // order: each is set by itself
		"/open": entry(jute.PermRead, "world", "anyone"), "/shut": entry(jute.PermAll, "auth", ""),
	} {
		list := []jute.ACL{entry(jute.PermAdmin, "world", "anyone"), last}
		c.must(jute.OpSetACL, &jute.SetACLRequest{Path: path, ACL: list, Version: -1}, jute.OK)
	}
	reads := multi{{jute.OpGetData, look("/open")}, {jute.OpGetData, look("/shut")}, {jute.OpGetData, look("/open")},
		{jute.OpGetChildren, look("/shut")}}
	got := c.must(jute.OpMultiRead, reads, jute.OK)
	wantMulti(t, &got, []jute.Op{jute.OpGetData, jute.OpGetData, jute.OpGetData, jute.OpGetChildren}, nil)
	got = other.must(jute.OpMultiRead, reads, jute.OK)
	wantMulti(t, &got, []jute.Op{jute.OpGetData, jute.OpError, jute.OpGetData, jute.OpError},
		[]jute.Code{0, jute.NoAuth, 0, jute.NoAuth})
}

// TestAMultiReadReadsEachPathOnce: what is asked again is answered again, from what was read.
func TestAMultiReadReadsEachPathOnce(t *testing.T) {
	r := newRig(t, nil)
	c := r.connect(t)
	c.mustCreate("/a", "data", jute.ModePersistent)
	c.mustCreate("/a/child", "", jute.ModePersistent)
	var reads multi
	var ops []jute.Op
	for range 500 {
		reads = append(reads, multi{{jute.OpGetData, look("/a")}, {jute.OpGetChildren, look("/a")}}...)
		ops = append(ops, jute.OpGetData, jute.OpGetChildren)
	}
	before := r.machine.Metrics()
	got := c.must(jute.OpMultiRead, reads, jute.OK)
	after := r.machine.Metrics()
	wantMulti(t, &got, ops, nil)
	if looked := after.CacheHits + after.CacheMisses - before.CacheHits - before.CacheMisses; looked > 2 {
		t.Errorf("%d look-ups", looked)
	}
	d := jute.NewDecoder(got.body)
	for results := jute.NewMultiDecoder(&d); results.Next(); {
		if results.Header().Type == jute.OpGetData {
			var one jute.GetDataResponse
			if one.Decode(&d); string(one.Data) != "data" {
				t.Fatalf("data %q", one.Data)
			}
			continue
		}
		var one jute.GetChildrenResponse
		if one.Decode(&d); !slices.Equal(one.Children, []string{"child"}) {
			t.Fatalf("children %q", one.Children)
		}
	}
}
