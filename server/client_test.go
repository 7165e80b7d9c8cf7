package server

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"zkd/jute"
)

// client speaks the protocol frame by frame, and never does anything by itself.
type client struct {
	t       testing.TB
	net     net.Conn
	welcome jute.ConnectResponse
	xid     jute.Xid
}

// record is the body of a request.
type record interface{ Append([]byte) []byte }

// raw is a body as it goes out.
type raw []byte

// Append implements record.
func (r raw) Append(b []byte) []byte { return append(b, r...) }

// reply is one frame from the server.
type reply struct {
	jute.ReplyHeader
	body []byte
}

// event is a watch event; its zxid is the header's.
type event struct {
	kind jute.EventType
	path string
}

// openACL lets everyone do everything.
var openACL = []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "world", ID: "anyone"}}}

// dial connects without a word.
func (r *rig) dial(t testing.TB) *client {
	t.Helper()
	nc, err := net.DialTimeout("tcp", r.addr, testDeadline)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	return &client{t: t, net: nc}
}

// connectFrom opens a session from another address of this machine.
func (r *rig) connectFrom(t testing.TB, addr string) *client {
	t.Helper()
	nc, err := (&net.Dialer{Timeout: testDeadline, LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr)}}).Dial("tcp", r.addr)
	if err != nil {
		t.Skipf("not an address of this machine: %v", err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	c := &client{t: t, net: nc}
	c.hello(&jute.ConnectRequest{TimeoutMillis: int32(longSession.Milliseconds()), Passwd: make([]byte, 16),
		HasReadOnly: true})
	return c
}

// connect opens a session that does not expire.
func (r *rig) connect(t testing.TB) *client {
	t.Helper()
	return r.connectTimeout(t, longSession)
}

// connectTimeout opens a session.
func (r *rig) connectTimeout(t testing.TB, timeout time.Duration) *client {
	t.Helper()
	c := r.dial(t)
	c.hello(&jute.ConnectRequest{TimeoutMillis: int32(timeout.Milliseconds()), Passwd: make([]byte, 16),
		HasReadOnly: true})
	if c.welcome.SessionID == 0 {
		t.Fatal("a new session is refused")
	}
	return c
}

// reattach opens another connection of old's session.
func (r *rig) reattach(t testing.TB, old *client) *client {
	t.Helper()
	c := r.dial(t)
	c.hello(old.again())
	return c
}

// again asks for the session of c.
func (c *client) again() *jute.ConnectRequest {
	return &jute.ConnectRequest{TimeoutMillis: c.welcome.TimeoutMillis, SessionID: c.welcome.SessionID,
		Passwd: c.welcome.Passwd, HasReadOnly: true}
}

// write sends bytes.
func (c *client) write(b []byte) {
	c.t.Helper()
	_ = c.net.SetWriteDeadline(time.Now().Add(testDeadline)) // an error shows with the write
	if _, err := c.net.Write(b); err != nil {
		c.t.Fatalf("send: %v", err)
	}
}

// frame makes a frame.
func frame(payload []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}

// hello sends a ConnectRequest and waits for the answer.
func (c *client) hello(req *jute.ConnectRequest) {
	c.t.Helper()
	c.write(frame(req.Append(nil)))
	c.welcomed()
}

// welcomed takes the answer to a ConnectRequest.
func (c *client) welcomed() {
	c.t.Helper()
	payload, err := c.next()
	if err != nil {
		c.t.Fatalf("no answer to the handshake: %v", err)
	}
	d := jute.NewDecoder(payload)
	c.welcome.Decode(&d)
	if d.Err() != nil {
		c.t.Fatalf("answer to the handshake: %v", d.Err())
	}
}

// next takes a frame's payload.
func (c *client) next() ([]byte, error) {
	_ = c.net.SetReadDeadline(time.Now().Add(testDeadline)) // an error shows with the read
	var head [4]byte
	if _, err := io.ReadFull(c.net, head[:]); err != nil {
		return nil, err
	}
	payload := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err := io.ReadFull(c.net, payload)
	return payload, err
}

// encode makes a request with the next xid.
func (c *client) encode(op jute.Op, body record) []byte {
	c.xid++
	return encodeRequest(c.xid, op, body)
}

// encodeRequest makes a request's frame.
func encodeRequest(xid jute.Xid, op jute.Op, body record) []byte {
	h := jute.RequestHeader{Xid: xid, Op: op}
	payload := h.Append(nil)
	if body != nil {
		payload = body.Append(payload)
	}
	return frame(payload)
}

// send sends a request.
func (c *client) send(op jute.Op, body record) {
	c.t.Helper()
	c.write(c.encode(op, body))
}

// receive takes a reply or an event.
func (c *client) receive() reply {
	c.t.Helper()
	payload, err := c.next()
	if err != nil {
		c.t.Fatalf("receive: %v", err)
	}
	return c.parse(payload)
}

// parse reads a reply's header.
func (c *client) parse(payload []byte) reply {
	c.t.Helper()
	d := jute.NewDecoder(payload)
	var r reply
	r.Decode(&d)
	r.body = d.Remaining()
	if d.Err() != nil {
		c.t.Fatalf("reply header: %v", d.Err())
	}
	return r
}

// call sends a request and takes its reply, which must be the next frame.
func (c *client) call(op jute.Op, body record) reply {
	c.t.Helper()
	c.send(op, body)
	r := c.receive()
	if r.Xid != c.xid {
		c.t.Fatalf("%v with xid %d is answered with xid %d", op, c.xid, r.Xid)
	}
	return r
}

// must is call, and the code must be want.
func (c *client) must(op jute.Op, body record, want jute.Code) reply {
	c.t.Helper()
	r := c.call(op, body)
	if r.Err != want {
		c.t.Fatalf("%v is answered %v, want %v", op, r.Err, want)
	}
	return r
}

// decodeBody reads the body of a reply.
func (r *reply) decodeBody(t testing.TB, into decodable) {
	t.Helper()
	d := jute.NewDecoder(r.body)
	into.Decode(&d)
	if d.Err() != nil {
		t.Fatalf("reply body: %v", d.Err())
	}
}

// event reads a watch event.
func (r *reply) event(t testing.TB) event {
	t.Helper()
	if r.Xid != jute.XidNotification {
		t.Fatalf("want an event, got the reply to xid %d: %v", r.Xid, r.Err)
	}
	var e jute.WatcherEvent
	r.decodeBody(t, &e)
	if e.State != jute.StateConnected {
		t.Errorf("event with state %d", e.State)
	}
	return event{e.Type, e.Path}
}

// wantEvents takes events, which must be these.
func (c *client) wantEvents(want ...event) {
	c.t.Helper()
	for _, w := range want {
		r := c.receive()
		if got := r.event(c.t); got != w {
			c.t.Fatalf("event %v, want %v", got, w)
		}
	}
}

// wantSilence proves that nothing was sent before the reply to a ping.
func (c *client) wantSilence() {
	c.t.Helper()
	c.send(jute.OpPing, nil)
	if r := c.receive(); r.Xid != jute.XidPing {
		c.t.Fatalf("want nothing before the ping, got xid %d code %v body %x", r.Xid, r.Err, r.body)
	}
}

// wantClosed proves that the server closes the connection and sends nothing before.
func (c *client) wantClosed() {
	c.t.Helper()
	payload, err := c.next()
	if err == nil {
		c.t.Fatalf("want the connection closed, got a frame %x", payload)
	}
	if !isClosed(err) {
		c.t.Fatalf("want the connection closed, got %v", err)
	}
}

// isClosed reports whether the peer has closed.
func isClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed) && !errors.Is(err, os.ErrDeadlineExceeded)
}

// makeNode is a create of a znode that everyone may use.
func makeNode(path, data string, mode jute.CreateMode) *jute.CreateRequest {
	return &jute.CreateRequest{Path: path, Data: []byte(data), ACL: openACL, Flags: mode}
}

// mustCreate creates a znode.
func (c *client) mustCreate(path, data string, mode jute.CreateMode) {
	c.t.Helper()
	c.must(jute.OpCreate, makeNode(path, data, mode), jute.OK)
}

// setTo is a setData of any version.
func setTo(path, data string) *jute.SetDataRequest {
	return &jute.SetDataRequest{Path: path, Data: []byte(data), Version: jute.AnyVersion}
}

// look is a read without a watch.
func look(path string) *jute.PathWatchRequest { return &jute.PathWatchRequest{Path: path} }

// watching is a read with a watch.
func watching(path string) *jute.PathWatchRequest {
	return &jute.PathWatchRequest{Path: path, Watch: true}
}

// gone is a delete of any version.
func gone(path string) *jute.PathVersionRequest {
	return &jute.PathVersionRequest{Path: path, Version: jute.AnyVersion}
}

// data returns what a getData reply holds.
func (r *reply) data(t testing.TB) string {
	t.Helper()
	var got jute.GetDataResponse
	r.decodeBody(t, &got)
	return string(got.Data)
}

// rest takes everything until the server closes.
func (c *client) rest() []byte {
	c.t.Helper()
	_ = c.net.SetReadDeadline(time.Now().Add(testDeadline)) // an error shows with the read
	b, err := io.ReadAll(c.net)
	if err != nil && !isClosed(err) {
		c.t.Fatalf("read to the end: %v", err)
	}
	return b
}

// dialQuietly connects, for goroutines that must not end the test.
func dialQuietly(addr string) (net.Conn, error) { return net.DialTimeout("tcp", addr, testDeadline) }
