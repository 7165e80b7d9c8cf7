package server

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"zkd/jute"
	"zkd/server/auth"
)

func TestPipelinedReadsSeeExactlyTheWritesBefore(t *testing.T) {
	r := newRig(t, nil)
	c := r.connect(t)
	c.mustCreate("/n", "start", jute.ModePersistent)
	const rounds = 200
	var b []byte
	first := c.xid + 1
	for i := range rounds {
		b = append(b, c.encode(jute.OpSetData, setTo("/n", strconv.Itoa(i)))...)
		b = append(b, c.encode(jute.OpGetData, look("/n"))...)
	}
	c.write(b)
	last := jute.Zxid(0)
	for i := range rounds {
		w := c.receive()
		if w.Xid != first+jute.Xid(2*i) || w.Err != jute.OK || w.Zxid <= last {
			t.Fatalf("reply %d: %+v after zxid %d", i, w.ReplyHeader, last)
		}
		last = w.Zxid
		got := c.receive()
		if got.Xid != w.Xid+1 || got.data(t) != strconv.Itoa(i) {
			t.Fatalf("the read behind write %d has xid %d and sees %q", i, got.Xid, got.data(t))
		}
		if got.Zxid != last {
			t.Fatalf("the read behind write %d has zxid %d, want %d", i, got.Zxid, last)
		}
	}
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	r := newRig(t, nil)
	c := r.connect(t)
	c.mustCreate("/n", "", jute.ModePersistent)
	ops := []struct {
		op   jute.Op
		body record
		code jute.Code
	}{
		{jute.OpSetData, setTo("/n", "x"), jute.OK},
		{jute.OpSetData, setTo("/missing", "x"), jute.NoNode},
		{jute.OpExists, look("/missing"), jute.NoNode},
		{jute.OpSync, &jute.PathRequest{Path: "/"}, jute.OK},
		{jute.OpCreate2, makeNode("/n", "", jute.ModePersistent), jute.NodeExists},
		{jute.OpSetData, raw{1}, jute.MarshallingError},
		{jute.OpGetChildren2, look("/n"), jute.OK},
		{jute.OpCreate, makeNode("/n/s-", "", jute.ModePersistentSequential), jute.OK},
		{jute.OpGetACL, &jute.PathRequest{Path: "/n"}, jute.OK},
		{jute.OpDelete, gone("/n"), jute.NotEmpty},
		{jute.OpReconfig, &jute.ReconfigRequest{}, jute.ReconfigDisabled},
		{jute.OpWhoAmI, nil, jute.OK},
		{jute.OpGetAllChildrenNumber, &jute.PathRequest{Path: "/n"}, jute.OK},
	}
	var b []byte
	first := c.xid + 1
	const rounds = 30
	for range rounds {
		for _, o := range ops {
			b = append(b, c.encode(o.op, o.body)...)
		}
	}
	c.write(b)
	for i := range rounds * len(ops) {
		o := ops[i%len(ops)]
		if got := c.receive(); got.Xid != first+jute.Xid(i) || got.Err != o.code {
			t.Fatalf("reply %d: xid %d code %v, want xid %d code %v (%v)", i, got.Xid, got.Err, first+jute.Xid(i),
				o.code, o.op)
		}
	}
}

func TestUnknownOperationsEndTheConnection(t *testing.T) {
	r := newRig(t, nil)
	path := &jute.PathVersionRequest{Path: "/n", Version: jute.AnyVersion}
	r.connect(t).mustCreate("/n", "", jute.ModePersistent)
	for _, test := range []struct {
		op   jute.Op
		body record
	}{
		{0, nil}, {-1, nil}, {10, nil}, {99, nil}, {500, nil}, {-12, nil}, {-18, nil},
		{-2147483648, nil}, {2147483647, nil},
		{jute.OpCheck, path}, {jute.OpDeleteContainer, path}, {jute.OpCreateSession, raw{0, 0, 0x75, 0x30}},
	} {
		t.Run(fmt.Sprint(int32(test.op)), func(t *testing.T) {
			c := r.connect(t)
			before := r.machine.LastZxid()
			// Behind a write, whose reply comes first.
			b := c.encode(jute.OpSetData, setTo("/n", "x"))
			b = append(b, c.encode(test.op, test.body)...)
			b = append(b, c.encode(jute.OpSetData, setTo("/n", "never"))...)
			c.write(b)
			if got := c.receive(); got.Xid != 1 || got.Err != jute.OK {
				t.Fatalf("the write before: %+v", got.ReplyHeader)
			}
			if got := c.receive(); got.Xid != 2 || got.Zxid != -1 || got.Err != jute.Unimplemented ||
				len(got.body) > 0 {
				t.Fatalf("answer %+v, want -6 with zxid -1", got)
			}
			c.wantClosed()
			if got := r.machine.LastZxid(); got != before+1 {
				t.Errorf("zxid moved from %d to %d, want one step", before, got)
			}
		})
	}
	if !r.exists("/n") {
		t.Error("deleteContainer from a client was obeyed")
	}
}

func TestUnreadableBodiesLeaveTheConnection(t *testing.T) {
	r := newRig(t, nil)
	c := r.connect(t)
	null := raw{0xff, 0xff, 0xff, 0xff}
	nullAndMore := append(slices.Clone(null), make([]byte, 20)...)
	for _, test := range []struct {
		name string
		op   jute.Op
		body record
	}{
		{"create cut off", jute.OpCreate, raw{0, 0, 0, 9, '/'}},
		{"createTTL without ttl", jute.OpCreateTTL, makeNode("/n", "", jute.ModePersistent)},
		{"delete empty", jute.OpDelete, nil},
		{"setData empty", jute.OpSetData, nil},
		{"setData of a negative length", jute.OpSetData, raw{0, 0, 0, 1, '/', 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 0}},
		{"setACL cut off", jute.OpSetACL, raw{0, 0, 0, 1, '/', 0, 0, 0, 9}},
		{"exists empty", jute.OpExists, nil},
		{"exists null", jute.OpExists, nullAndMore},
		{"getData null", jute.OpGetData, nullAndMore},
		{"getData without the watch byte", jute.OpGetData, raw{0, 0, 0, 1, '/'}},
		{"getChildren null", jute.OpGetChildren, nullAndMore},
		{"getChildren2 null", jute.OpGetChildren2, nullAndMore},
		{"getACL null", jute.OpGetACL, null},
		{"getAllChildrenNumber null", jute.OpGetAllChildrenNumber, null},
		{"getEphemerals empty", jute.OpGetEphemerals, nil},
		{"sync empty", jute.OpSync, nil},
		{"reconfig empty", jute.OpReconfig, nil},
		{"setWatches null lists", jute.OpSetWatches, append(raw(make([]byte, 8)), bytesOf(0xff, 12)...)},
		{"setWatches2 null lists", jute.OpSetWatches2, append(raw(make([]byte, 20)), bytesOf(0xff, 8)...)},
		{"setWatches endless list", jute.OpSetWatches, append(raw(make([]byte, 8)), 0x7f, 0xff, 0xff, 0xff)},
		{"addWatch of an unknown mode", jute.OpAddWatch, &jute.AddWatchRequest{Path: "/", Mode: 2}},
		{"checkWatches of an unknown type", jute.OpCheckWatches, &jute.WatcherTypeRequest{Path: "/", Type: 6}},
		{"removeWatches of an unknown type", jute.OpRemoveWatches, &jute.WatcherTypeRequest{Path: "/", Type: 0}},
		{"multiRead cut off", jute.OpMultiRead, raw{0, 0, 0, 4, 0}},
		{"multiRead with a write", jute.OpMultiRead, multi{{jute.OpDelete, gone("/")}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := r.machine.LastZxid()
			got := c.must(test.op, test.body, jute.MarshallingError)
			if last := r.machine.LastZxid(); last != before || got.Zxid != before {
				t.Errorf("zxid moved from %d to %d, reply with %d", before, last, got.Zxid)
			}
			c.wantSilence()
		})
	}
}

// bytesOf repeats a byte.
func bytesOf(b byte, n int) []byte { return slices.Repeat([]byte{b}, n) }

// multi is the body of a multi.
type multi []struct {
	op   jute.Op
	body record
}

// Append implements record.
func (m multi) Append(b []byte) []byte {
	for _, o := range m {
		h := jute.MultiHeader{Type: o.op, Err: -1}
		b = o.body.Append(h.Append(b))
	}
	return jute.AppendMultiEnd(b)
}

func TestMultiThatCannotBeReadTakesAZxid(t *testing.T) {
	r := newRig(t, nil)
	c := r.connect(t)
	for _, body := range []record{
		nil,
		raw{0, 0, 0, 1},
		multi{{jute.OpGetData, look("/")}},
		multi{{jute.OpCreate, makeNode("/m", "", jute.ModePersistent)}, {jute.OpGetData, look("/m")}},
		multi{{jute.OpCreate, makeNode("/m", "", 7)}},
	} {
		before := r.machine.LastZxid()
		got := c.must(jute.OpMulti, body, jute.MarshallingError)
		if got.Zxid != before+1 || r.machine.LastZxid() != before+1 {
			t.Errorf("multi %v: zxid %d and %d after %d, want one step", body, got.Zxid, r.machine.LastZxid(), before)
		}
	}
	c.must(jute.OpExists, look("/m"), jute.NoNode)
}

func TestMultiAnswers(t *testing.T) {
	r := newRig(t, nil)
	c := r.connect(t)
	before := r.machine.LastZxid()
	got := c.must(jute.OpMulti, multi{
		{jute.OpCreate, makeNode("/a", "1", jute.ModePersistent)},
		{jute.OpCreate2, makeNode("/b", "2", jute.ModePersistent)},
		{jute.OpSetData, setTo("/a", "3")},
		{jute.OpCheck, &jute.PathVersionRequest{Path: "/a", Version: 1}},
		{jute.OpDelete, gone("/b")},
	}, jute.OK)
	wantMulti(t, &got, []jute.Op{jute.OpCreate, jute.OpCreate2, jute.OpSetData, jute.OpCheck, jute.OpDelete}, nil)
	if got.Zxid != before+1 {
		t.Errorf("zxid %d after %d", got.Zxid, before)
	}
	got = c.must(jute.OpMulti, multi{
		{jute.OpCreate, makeNode("/b", "", jute.ModePersistent)},
		{jute.OpCheck, &jute.PathVersionRequest{Path: "/a", Version: 7}},
		{jute.OpDelete, gone("/a")},
	}, jute.OK)
	wantMulti(t, &got, []jute.Op{jute.OpError, jute.OpError, jute.OpError},
		[]jute.Code{jute.OK, jute.BadVersion, jute.RuntimeInconsistency})
	c.must(jute.OpExists, look("/b"), jute.NoNode)

	got = c.must(jute.OpMultiRead, multi{
		{jute.OpGetData, look("/missing")}, {jute.OpGetData, watching("/a")}, {jute.OpGetChildren, look("/zookeeper")},
	}, jute.OK)
	wantMulti(t, &got, []jute.Op{jute.OpError, jute.OpGetData, jute.OpGetChildren}, []jute.Code{jute.NoNode, 0, 0})
	c.must(jute.OpSetData, setTo("/a", "4"), jute.OK) // multiRead sets no watch
}

// wantMulti checks the results of a multi; codes may be nil for all OK.
func wantMulti(t *testing.T, r *reply, ops []jute.Op, codes []jute.Code) {
	t.Helper()
	d := jute.NewDecoder(r.body)
	results := jute.NewMultiDecoder(&d)
	i := 0
	for ; results.Next(); i++ {
		h := results.Header()
		want := jute.OK
		if codes != nil {
			want = codes[i]
		}
		if h.Type != ops[i] || h.Err != want {
			t.Errorf("result %d: %v %v, want %v %v", i, h.Type, h.Err, ops[i], want)
		}
		skipResult(&d, h.Type)
	}
	if d.Err() != nil || i != len(ops) {
		t.Errorf("%d results, want %d: %v", i, len(ops), d.Err())
	}
}

// skipResult reads the body of a result.
func skipResult(d *jute.Decoder, op jute.Op) {
	switch op {
	case jute.OpCreate:
		(&jute.CreateResponse{}).Decode(d)
	case jute.OpCreate2:
		(&jute.Create2Response{}).Decode(d)
	case jute.OpSetData:
		(&jute.StatResponse{}).Decode(d)
	case jute.OpGetData:
		(&jute.GetDataResponse{}).Decode(d)
	case jute.OpGetChildren:
		(&jute.GetChildrenResponse{}).Decode(d)
	case jute.OpError:
		(&jute.ErrorResponse{}).Decode(d)
	}
}

func TestFramesThatEndTheConnection(t *testing.T) {
	r := newRig(t, nil)
	for name, b := range map[string][]byte{ // order: each has its own connection
		"shorter than a header": frame(make([]byte, 7)),
		"empty":                 frame(nil),
		"negative":              bytesOf(0xff, 4),
		"too long":              {0, 0x10, 0, 0},
		"unreadable auth":       encodeRequest(-4, jute.OpAuth, raw{0}),
	} {
		t.Run(name, func(t *testing.T) {
			c := r.connect(t)
			c.write(b)
			c.wantClosed()
		})
	}
}

func TestTheLongestFrameIsTaken(t *testing.T) {
	r := newRig(t, nil)
	c := r.connect(t)
	empty := len(encodeRequest(1, jute.OpSetData, setTo("/n", ""))) - 4
	c.mustCreate("/n", "", jute.ModePersistent)
	data := string(bytesOf('x', 0xfffff-empty))
	c.must(jute.OpSetData, setTo("/n", data), jute.OK)
	got := c.must(jute.OpGetData, look("/n"), jute.OK)
	if got.data(t) != data {
		t.Error("the data came back different")
	}
	c.write(c.encode(jute.OpSetData, setTo("/n", data+"y"))[:4])
	c.wantClosed()
}

func TestPingIsAnsweredWithItsOwnXid(t *testing.T) {
	r := newRig(t, nil)
	c := r.connect(t)
	c.mustCreate("/n", "", jute.ModePersistent)
	c.write(encodeRequest(77, jute.OpPing, nil))
	got := c.receive()
	if got.Xid != jute.XidPing || got.Err != jute.OK || got.Zxid != r.machine.LastZxid() || len(got.body) > 0 {
		t.Errorf("answer %+v", got)
	}
}

func TestSyncEchoesThePath(t *testing.T) {
	r := newRig(t, nil)
	c := r.connect(t)
	for _, body := range []record{&jute.PathRequest{Path: "/missing"}, raw(bytesOf(0xff, 4))} {
		got := c.must(jute.OpSync, body, jute.OK)
		if want := body.Append(nil); string(got.body) != string(want) {
			t.Errorf("sync echoes %x, want %x", got.body, want)
		}
	}
}

func TestAuthOvertakesNothingItShouldNot(t *testing.T) {
	r := newRig(t, nil)
	c := r.connect(t)
	secret := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "auth"}}}
	body := &jute.CreateRequest{Path: "/secret", Data: []byte("s"), ACL: secret}
	c.must(jute.OpCreate, body, jute.InvalidACL)
	b := c.encode(jute.OpSetData, setTo("/", "x")) // auth may be answered before this one
	b = append(b, encodeRequest(jute.XidAuth, jute.OpAuth, &jute.AuthPacket{Scheme: "digest", Auth: []byte("u:p")})...)
	b = append(b, c.encode(jute.OpCreate, body)...)
	b = append(b, c.encode(jute.OpGetData, look("/secret"))...)
	c.write(b)
	var order []jute.Xid
	for range 4 {
		got := c.receive()
		if got.Err != jute.OK {
			t.Errorf("xid %d: %v", got.Xid, got.Err)
		}
		if got.Xid == jute.XidAuth {
			if got.Zxid != 0 {
				t.Errorf("auth is answered with zxid %d, want 0", got.Zxid)
			}
			continue
		}
		order = append(order, got.Xid)
	}
	if !slices.Equal(order, []jute.Xid{2, 3, 4}) {
		t.Errorf("order of the replies %v", order)
	}
	r.connect(t).must(jute.OpGetData, look("/secret"), jute.NoAuth)
}

func TestFailedAuthEndsTheConnection(t *testing.T) {
	r := newRig(t, nil)
	for _, packet := range []*jute.AuthPacket{
		{Scheme: "nothing", Auth: []byte("x")}, {Scheme: "world", Auth: []byte("anyone")}, {Scheme: "digest"},
	} {
		c := r.connect(t)
		b := encodeRequest(jute.XidAuth, jute.OpAuth, packet)
		c.write(append(b, c.encode(jute.OpPing, nil)...))
		if got := c.receive(); got.Xid != jute.XidAuth || got.Err != jute.AuthFailed || got.Zxid != 0 {
			t.Errorf("scheme %s: answer %+v", packet.Scheme, got.ReplyHeader)
		}
		c.wantClosed()
	}
}

func TestEnforcedAuth(t *testing.T) {
	r := newRig(t, func(o *Options) {
		registry, err := auth.New(auth.Options{EnforcedSchemes: []string{"digest"}})
		if err != nil {
			t.Fatal(err)
		}
		o.Registry = registry
	})
	c := r.connect(t)
	if got := c.call(jute.OpGetData, look("/")); got.Err != jute.SessionClosedAuth || got.Zxid != 0 {
		t.Errorf("answer %+v before the authentication", got.ReplyHeader)
	}
	c.wantClosed()
	c = r.connect(t)
	c.must(jute.OpAuth, &jute.AuthPacket{Scheme: "digest", Auth: []byte("u:p")}, jute.OK)
	c.must(jute.OpGetData, look("/"), jute.OK)
}

func TestCloseSession(t *testing.T) {
	r := newRig(t, nil)
	c, other := r.connect(t), r.connect(t)
	c.mustCreate("/e", "", jute.ModeEphemeral)
	other.must(jute.OpExists, watching("/e"), jute.OK)
	other.must(jute.OpGetChildren, watching("/"), jute.OK)
	c.must(jute.OpExists, watching("/e"), jute.OK)
	b := c.encode(jute.OpCloseSession, nil)
	xid := c.xid
	c.write(append(b, c.encode(jute.OpCreate, makeNode("/late", "", jute.ModePersistent))...))
	c.wantEvents(event{jute.EventNodeDeleted, "/e"})
	if got := c.receive(); got.Xid != xid || got.Err != jute.OK || len(got.body) > 0 ||
		got.Zxid != r.machine.LastZxid() {
		t.Errorf("answer to closeSession %+v", got)
	}
	c.wantClosed()
	other.wantEvents(event{jute.EventNodeDeleted, "/e"}, event{jute.EventNodeChildrenChanged, "/"})
	other.must(jute.OpExists, look("/late"), jute.NoNode)
	r.count(1)
}
