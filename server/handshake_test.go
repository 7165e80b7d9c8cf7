package server

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"testing"
	"time"

	"zkd/jute"
)

// wantRefused proves that the answer is that to a session that is not there.
func (c *client) wantRefused() {
	c.t.Helper()
	w := c.welcome
	if w.SessionID != 0 || w.TimeoutMillis != 0 || !bytes.Equal(w.Passwd, make([]byte, 16)) {
		c.t.Fatalf("want a refusal, got %+v", w)
	}
	c.wantClosed()
}

func TestHandshakeOfANewSession(t *testing.T) {
	r := newRig(t, func(o *Options) { o.MaxTimeout = 40 * time.Second })
	for _, test := range []struct {
		name    string
		req     jute.ConnectRequest
		timeout int32
	}{
		{"plain", jute.ConnectRequest{TimeoutMillis: 10000, Passwd: make([]byte, 16), HasReadOnly: true}, 10000},
		{"without the read-only byte", jute.ConnectRequest{TimeoutMillis: 10000, Passwd: make([]byte, 16)}, 10000},
		{"null password", jute.ConnectRequest{TimeoutMillis: 10000, HasReadOnly: true}, 10000},
		{"any version", jute.ConnectRequest{ProtocolVersion: 7, TimeoutMillis: 10000, HasReadOnly: true}, 10000},
		{"negative zxid", jute.ConnectRequest{LastZxidSeen: -1, TimeoutMillis: 10000, HasReadOnly: true}, 10000},
		{"timeout 0", jute.ConnectRequest{HasReadOnly: true}, 4000},
		{"timeout below", jute.ConnectRequest{TimeoutMillis: 3999, HasReadOnly: true}, 4000},
		{"timeout negative", jute.ConnectRequest{TimeoutMillis: math.MinInt32, HasReadOnly: true}, 4000},
		{"timeout above", jute.ConnectRequest{TimeoutMillis: 40001, HasReadOnly: true}, 40000},
		{"timeout huge", jute.ConnectRequest{TimeoutMillis: math.MaxInt32, HasReadOnly: true}, 40000},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := r.dial(t)
			c.hello(&test.req)
			w := c.welcome
			if w.SessionID == 0 || w.TimeoutMillis != test.timeout || len(w.Passwd) != 16 || w.ProtocolVersion != 0 {
				t.Errorf("answer %+v, want timeout %d", w, test.timeout)
			}
			if bytes.Equal(w.Passwd, make([]byte, 16)) {
				t.Error("the password is all zeros")
			}
			if w.HasReadOnly != test.req.HasReadOnly || w.ReadOnly {
				t.Errorf("answer %+v to a request with the read-only byte %v", w, test.req.HasReadOnly)
			}
			c.mustCreate("/e-", "", jute.ModeEphemeralSequential)
		})
	}
}

func TestSessionIDsAreAsZooKeeperLaysThemOut(t *testing.T) {
	r := newRig(t, nil)
	a, b := r.connect(t), r.connect(t)
	if got := uint64(a.welcome.SessionID) >> 56; got != 1 {
		t.Errorf("session 0x%x, want the server's id 1 in the top byte", uint64(a.welcome.SessionID))
	}
	if a.welcome.SessionID+1 != b.welcome.SessionID {
		t.Errorf("sessions 0x%x and 0x%x, want consecutive ones", a.welcome.SessionID, b.welcome.SessionID)
	}
	if bytes.Equal(a.welcome.Passwd, b.welcome.Passwd) {
		t.Error("two sessions have the same password")
	}
}

func TestReattachTakesTheSessionOver(t *testing.T) {
	r := newRig(t, nil)
	first := r.connect(t)
	first.mustCreate("/e", "", jute.ModeEphemeral)
	zxid := r.machine.LastZxid()
	second := r.dial(t)
	second.hello(&jute.ConnectRequest{TimeoutMillis: 70_000, SessionID: first.welcome.SessionID,
		Passwd: first.welcome.Passwd, HasReadOnly: true, LastZxidSeen: zxid})
	if got := second.welcome; got.SessionID != first.welcome.SessionID || got.TimeoutMillis != 70_000 ||
		!bytes.Equal(got.Passwd, first.welcome.Passwd) {
		t.Errorf("reattached as %+v, want %+v with timeout 70000", got, first.welcome)
	}
	first.wantClosed()
	if got := r.machine.LastZxid(); got != zxid {
		t.Errorf("reattaching moved the zxid from %d to %d", zxid, got)
	}
	own := second.must(jute.OpGetEphemerals, &jute.PathRequest{Path: "/"}, jute.OK)
	var list jute.GetEphemeralsResponse
	own.decodeBody(t, &list)
	if len(list.Ephemerals) != 1 || list.Ephemerals[0] != "/e" {
		t.Errorf("ephemerals %v of the session that was taken over", list.Ephemerals)
	}
	r.count(1)
	// The session's end must not be undone by the connection that lost it.
	second.mustCreate("/f", "", jute.ModeEphemeral)
}

// TestReattachWaitsForWritesOfTheConnectionBefore: what a session has sent on one connection comes before what it sends
// on the next, though it was proposed behind the reattach, and refers to what only that one had proven.
func TestReattachWaitsForWritesOfTheConnectionBefore(t *testing.T) {
	for name, cut := range map[string]bool{"that is open": false, "that has ended": true} {
		for connections := 1; connections <= 3; connections++ { // all but the last are given up while they wait
			t.Run(fmt.Sprintf("%s, on connection %d after it", name, connections), func(t *testing.T) {
				r, node := startHolding(t, rigOptions{})
				first, other := r.connect(t), r.connect(t)
				for i := range 3 { // so many that they travel once
					first.prove(user(i), jute.OK)
				}
				first.mustCreate("/a", "old", jute.ModePersistent)
				first.send(jute.OpSetData, setTo("/a", "new"))
				node.holds(t, 1)
				if cut {
					r.connOf(first).Out.Close()
					eventually(t, "the server forgets the connection", func() bool {
						return r.server.connections.count() == 1
					})
				}
				var second *client
				for range connections {
					second = r.dial(t)
					second.hello(&jute.ConnectRequest{TimeoutMillis: 70_000, SessionID: first.welcome.SessionID,
						Passwd: first.welcome.Passwd})
				}
				second.send(jute.OpGetData, look("/a"))
				for range 20 { // as good as certainly enough for the read to be answered too early
					other.must(jute.OpGetData, look("/a"), jute.OK)
				}
				node.release(-1)
				if got := second.receive(); got.data(t) != "new" {
					t.Errorf("the session reads %q on its next connection, after it has sent %q", got.data(t), "new")
				}
			})
		}
	}
}

func TestReattachIsRefusedWithoutHarm(t *testing.T) {
	r := newRig(t, nil)
	rightful := r.connect(t)
	closed := r.connect(t)
	closed.must(jute.OpCloseSession, nil, jute.OK)
	closed.wantClosed()
	wrong := bytes.Clone(rightful.welcome.Passwd)
	wrong[15] ^= 1
	id := rightful.welcome.SessionID
	for _, test := range []struct {
		name   string
		id     jute.SessionID
		passwd []byte
	}{
		{"wrong", id, wrong},
		{"short", id, rightful.welcome.Passwd[:15]},
		{"long", id, append(bytes.Clone(rightful.welcome.Passwd), 0)},
		{"empty", id, []byte{}},
		{"null", id, nil},
		{"zeros", id, make([]byte, 16)},
		{"unknown session", id + 1000, rightful.welcome.Passwd},
		{"negative session", -1, rightful.welcome.Passwd},
		{"closed session", closed.welcome.SessionID, closed.welcome.Passwd},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, hasReadOnly := range []bool{true, false} {
				c := r.dial(t)
				c.hello(&jute.ConnectRequest{TimeoutMillis: 10000, SessionID: test.id, Passwd: test.passwd,
					HasReadOnly: hasReadOnly})
				if c.welcome.HasReadOnly != hasReadOnly {
					t.Errorf("refusal with the read-only byte %v, want %v", c.welcome.HasReadOnly, hasReadOnly)
				}
				c.wantRefused()
			}
			rightful.wantSilence() // it is not kicked
		})
	}
}

func TestAClientFromTheFutureIsClosedWithoutReply(t *testing.T) {
	r := newRig(t, nil)
	old := r.connect(t)
	for _, id := range []jute.SessionID{0, old.welcome.SessionID} {
		c := r.dial(t)
		c.write(frame((&jute.ConnectRequest{LastZxidSeen: r.machine.LastZxid() + 1, TimeoutMillis: 10000, SessionID: id,
			Passwd: old.welcome.Passwd, HasReadOnly: true}).Append(nil)))
		c.wantClosed()
	}
	old.wantSilence()
}

func TestFirstFramesThatAreNoHandshake(t *testing.T) {
	r := newRig(t, nil)
	good := (&jute.ConnectRequest{TimeoutMillis: 10000, Passwd: make([]byte, 16)}).Append(nil)
	for _, test := range []struct {
		name  string
		bytes []byte
	}{
		{"too short", frame(good[:20])},
		{"empty", frame(nil)},
		{"password cut off", frame(good[:len(good)-1])},
		{"negative length", []byte{0xff, 0xff, 0xff, 0xff}},
		{"most negative length", []byte{0x80, 0, 0, 0}},
		{"one too long", binary.BigEndian.AppendUint32(nil, 0x100000)},
		{"longest", []byte{0x7f, 0xff, 0xff, 0xff}},
		{"http", []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")},
		{"tls", []byte{0x16, 3, 1, 0, 0xa5, 1, 0, 0, 0xa1, 3, 3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := r.dial(t)
			c.write(test.bytes)
			c.wantClosed()
		})
	}
	r.count(0)
	v := r.machine.View()
	defer v.Close()
	if n := v.SessionCount(); n != 0 {
		t.Errorf("%d sessions were made", n)
	}
}

func TestRequestsBehindTheHandshakeInOneSegment(t *testing.T) {
	r := newRig(t, nil)
	c := r.dial(t)
	b := frame((&jute.ConnectRequest{TimeoutMillis: 10000, HasReadOnly: true}).Append(nil))
	b = append(b, encodeRequest(jute.XidAuth, jute.OpAuth, &jute.AuthPacket{Scheme: "digest", Auth: []byte("a:b")})...)
	b = append(b, c.encode(jute.OpCreate, makeNode("/n", "v", jute.ModePersistent))...)
	b = append(b, c.encode(jute.OpGetData, look("/n"))...)
	c.write(b)
	c.welcomed()
	if got := c.receive(); got.Xid != jute.XidAuth || got.Err != jute.OK {
		t.Fatalf("answer to auth: %+v", got)
	}
	if got := c.receive(); got.Xid != 1 || got.Err != jute.OK {
		t.Fatalf("answer to create: %+v", got)
	}
	got := c.receive()
	if got.Xid != 2 || got.data(t) != "v" {
		t.Fatalf("answer to getData: %+v", got)
	}
}

func TestHandshakeByteByByte(t *testing.T) {
	r := newRig(t, nil)
	c := r.dial(t)
	b := frame((&jute.ConnectRequest{TimeoutMillis: 10000, HasReadOnly: true}).Append(nil))
	b = append(b, c.encode(jute.OpCreate, makeNode("/n", "value", jute.ModePersistent))...)
	for i := range b {
		c.write(b[i : i+1])
	}
	c.welcomed()
	if got := c.receive(); got.Err != jute.OK {
		t.Fatalf("answer to create: %+v", got)
	}
}

func TestASilentConnectionIsClosed(t *testing.T) {
	r := newRig(t, func(o *Options) { o.HandshakeTimeout = 50 * time.Millisecond })
	silent, half := r.dial(t), r.dial(t)
	half.write(frame(make([]byte, 44))[:20])
	silent.wantClosed()
	half.wantClosed()
	bound := r.connectWithin(t) // once there is a session, only its own timeout counts
	late := r.dial(t)
	late.wantClosed()
	bound.wantSilence()
}

// connectWithin opens a session of a server that may cut off a client before its handshake is through.
func (r *rig) connectWithin(t *testing.T) (c *client) {
	t.Helper()
	hello := jute.ConnectRequest{TimeoutMillis: 30_000, Passwd: make([]byte, 16), HasReadOnly: true}
	eventually(t, "a handshake is through in time", func() bool {
		c = r.dial(t)
		_, _ = c.net.Write(frame(hello.Append(nil))) // an error shows with the answer
		payload, err := c.next()
		if err != nil {
			return false
		}
		d := jute.NewDecoder(payload)
		c.welcome.Decode(&d)
		return c.welcome.SessionID != 0
	})
	return c
}

func TestFourLetterCommandsThroughASocket(t *testing.T) {
	r := newRig(t, nil)
	for _, test := range []struct{ send, want string }{
		{"ruok", "imok"},
		{"ruok\n", "imok"},
		{"srvr", "Zookeeper version: "},
		{"stat", "Zookeeper version: "},
		{"mntr", "zk_version\t"},
		{"cons", " /127.0.0.1:"},
		{"dump", "SessionTracker dump:\n"},
		{"wchs", "0 connections watching 0 paths\n"},
		{"envi", "Environment:\n"},
		{"conf", "clientPort="},
		{"isro", "rw"},
	} {
		t.Run(test.send[:4], func(t *testing.T) {
			c := r.dial(t)
			c.write([]byte(test.send))
			if got := c.rest(); !bytes.HasPrefix(got, []byte(test.want)) {
				t.Errorf("%q is answered %q, want %q first", test.send, got, test.want)
			}
		})
	}
}

func TestCommandsThatAreNotOnTheWhitelist(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Commands = commandsOf("srvr, ruok") })
	c := r.dial(t)
	c.write([]byte("mntr"))
	if got, want := string(c.rest()), "mntr is not executed because it is not in the whitelist.\n"; got != want {
		t.Errorf("answer %q, want %q", got, want)
	}
	c = r.dial(t)
	c.write([]byte("ruok"))
	if got := string(c.rest()); got != "imok" {
		t.Errorf("answer %q, want imok", got)
	}
}

func TestACommandIsOneOnlyBeforeTheHandshake(t *testing.T) {
	r := newRig(t, nil)
	c := r.connect(t)
	c.write([]byte("ruok")) // a length of 1.9 billion
	c.wantClosed()
}
