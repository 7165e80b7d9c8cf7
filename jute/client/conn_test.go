package client

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"zkd/jute"
)

// peer is the other end of a connection, which says what a test has it say.
type peer struct {
	t  *testing.T
	nc net.Conn
}

// frame takes a frame's payload.
func (p *peer) frame() []byte {
	var head [jute.FrameHeaderBytes]byte
	if _, err := io.ReadFull(p.nc, head[:]); err != nil {
		p.t.Errorf("the server reads: %v", err)
		return nil
	}
	payload := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(p.nc, payload); err != nil {
		p.t.Errorf("the server reads: %v", err)
	}
	return payload
}

// say sends a record behind a reply header.
func (p *peer) say(header jute.ReplyHeader, record func([]byte) []byte) {
	b, mark := jute.BeginFrame(nil)
	b = header.Append(b)
	if record != nil {
		b = record(b)
	}
	if _, err := p.nc.Write(jute.EndFrame(b, mark)); err != nil {
		p.t.Errorf("the server writes: %v", err)
	}
}

// welcome answers a handshake with a session and returns what was asked.
func (p *peer) welcome(session jute.SessionID) (asked jute.ConnectRequest) {
	d := jute.NewDecoder(p.frame())
	asked.Decode(&d)
	response := jute.ConnectResponse{TimeoutMillis: asked.TimeoutMillis / 2, SessionID: session,
		Passwd: []byte("secret")}
	b, mark := jute.BeginFrame(nil)
	if _, err := p.nc.Write(jute.EndFrame(response.Append(b), mark)); err != nil {
		p.t.Errorf("the server writes: %v", err)
	}
	return asked
}

// options lead to a peer that does what serve says, which is over at the end of the test.
func options(t *testing.T, serve func(p *peer)) Options {
	t.Helper()
	return Options{Addr: "there", Now: time.Now, Timeout: 20 * time.Second,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			done := make(chan struct{})
			go func() {
				defer close(done)
				serve(&peer{t: t, nc: far})
			}()
			t.Cleanup(func() {
				_ = near.Close()
				<-done
				_ = far.Close()
			})
			return near, nil
		}}
}

// TestEventsBeforeAReplyAreTold has events and a ping come before the reply to a request, and before that to a ping.
func TestEventsBeforeAReplyAreTold(t *testing.T) {
	event := func(p *peer, path string) {
		record := jute.WatcherEvent{Type: jute.EventNodeCreated, Path: path}
		p.say(jute.ReplyHeader{Xid: jute.XidNotification}, record.Append)
	}
	c, err := Dial(t.Context(), options(t, func(p *peer) {
		p.welcome(7)
		p.frame()
		event(p, "/a")
		p.say(jute.ReplyHeader{Xid: jute.XidPing}, nil)
		event(p, "/b")
		p.say(jute.ReplyHeader{Xid: 1, Zxid: 5, Err: jute.NoNode}, nil)
		p.frame()
		event(p, "/c")
		p.say(jute.ReplyHeader{Xid: jute.XidPing}, nil)
	}))
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	c.OnEvent = func(_ jute.Zxid, e *jute.WatcherEvent) { told = append(told, string([]byte(e.Path))) }
	request := jute.PathWatchRequest{Path: "/n"}
	if header, _, err := c.Do(jute.OpGetData, request.Append); err != nil || header.Err != jute.NoNode {
		t.Errorf("reply %v and %v", header, err)
	}
	if err := c.Alive(); err != nil {
		t.Error(err)
	}
	if !slices.Equal(told, []string{"/a", "/b", "/c"}) {
		t.Errorf("told %q", told)
	}
}

// TestTheLastWordsOfAConnectionCount: a server answers that it knows no such identity, and closes the connection before
// its answer has been looked at.
func TestTheLastWordsOfAConnectionCount(t *testing.T) {
	closed := make(chan struct{})
	o := options(t, func(p *peer) {
		p.welcome(7)
		p.frame()
		p.say(jute.ReplyHeader{Xid: 1, Err: jute.AuthFailed}, nil)
		_ = p.nc.Close()
		close(closed)
	})
	dial := o.Dial
	o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := dial(ctx, network, addr)
		return &lateReader{Conn: nc, closed: closed}, err
	}
	c, err := Dial(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	nc, ok := c.nc.(*lateReader)
	if !ok {
		t.Fatalf("the connection is a %T", c.nc)
	}
	nc.late = true
	token := jute.SASLToken{Token: []byte("wrong")}
	if header, _, err := c.Do(jute.OpSASL, token.Append); err != nil || header.Err != jute.AuthFailed {
		t.Errorf("reply %v and %v", header, err)
	}
}

// lateReader returns what it has read, once it is late, when the other end has closed the connection.
type lateReader struct {
	net.Conn

	closed <-chan struct{}
	late   bool
}

// Read implements net.Conn.
func (l *lateReader) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if l.late {
		<-l.closed
	}
	return n, err
}

// TestAuth proves an identity, which has an xid of its own.
func TestAuth(t *testing.T) {
	c, err := Dial(t.Context(), options(t, func(p *peer) {
		p.welcome(7)
		d := jute.NewDecoder(p.frame())
		var header jute.RequestHeader
		var packet jute.AuthPacket
		header.Decode(&d)
		packet.Decode(&d)
		if header.Xid != jute.XidAuth || packet.Scheme != "digest" || string(packet.Auth) != "bob:pw" {
			t.Errorf("the server got %+v, %+v", header, packet)
		}
		p.say(jute.ReplyHeader{Xid: jute.XidAuth, Err: jute.AuthFailed}, nil)
	}))
	if err != nil {
		t.Fatal(err)
	}
	if code, err := c.Auth("digest", "bob:pw"); err != nil || code != jute.AuthFailed {
		t.Errorf("code %v and %v", code, err)
	}
}

// TestReattachShowsTheSession takes a session to a second connection, where another reply than the next is an error.
func TestReattachShowsTheSession(t *testing.T) {
	asked := make(chan jute.ConnectRequest, 2) // one for each connection
	c, err := Dial(t.Context(), options(t, func(p *peer) {
		asked <- p.welcome(7)
		p.frame()
		p.say(jute.ReplyHeader{Xid: 1, Zxid: 9}, nil)
	}))
	if err != nil {
		t.Fatal(err)
	}
	if first := <-asked; first.SessionID != 0 || first.TimeoutMillis != 20_000 {
		t.Errorf("asked %+v", first)
	}
	if c.Session != 7 || c.Timeout != 10*time.Second {
		t.Errorf("the session is %x of %v", c.Session, c.Timeout)
	}
	for _, want := range []error{nil, ErrOutOfOrder} {
		_, _, err := c.Do(jute.OpWhoAmI, nil)
		if !errors.Is(err, want) {
			t.Errorf("error %v, want %v", err, want)
		}
		if want != nil {
			return
		}
		if c, err = Reattach(t.Context(), "elsewhere", c); err != nil {
			t.Fatal(err)
		}
		if second := <-asked; second.SessionID != 7 || string(second.Passwd) != "secret" || second.LastZxidSeen != 9 {
			t.Errorf("asked %+v", second)
		}
		c.NextXid()
	}
}

// unstamped is a connection without the kernel's stamps.
type unstamped struct{ net.Conn }

// TestRequestsAllocateNothing: what a load does for each request makes no garbage, but for what asking the kernel for
// its stamp costs: unix.Recvmsg makes an address for each call, and the first may find nothing yet.
func TestRequestsAllocateNothing(t *testing.T) {
	const stampAllocsMax = 2
	request := jute.SetDataRequest{Path: "/n", Data: make([]byte, 100), Version: jute.AnyVersion}
	body := request.Append
	addr := acknowledging(t, len(Request(nil, 1, jute.OpSetData, body)))
	for name, o := range map[string]struct {
		dial DialFunc
		most float64
	}{
		"stamped": {dial: new(net.Dialer).DialContext, most: stampAllocsMax},
		"unstamped": {dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := new(net.Dialer).DialContext(ctx, network, addr)
			return unstamped{nc}, err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Dial(t.Context(), Options{Addr: addr, Now: time.Now, Dial: o.dial})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Cut()
			did := testing.AllocsPerRun(100, func() {
				if _, _, err := c.Do(jute.OpSetData, body); err != nil {
					t.Fatal(err)
				}
			})
			var out []byte
			loaded := testing.AllocsPerRun(100, func() {
				out = Request(out[:0], c.NextXid(), jute.OpSetData, body)
				if err := c.Write(out); err != nil {
					t.Fatal(err)
				}
				if _, _, err := c.ReadReply(); err != nil || c.Buffered() || c.Lag() < 0 {
					t.Fatal(err)
				}
			})
			if did > o.most || loaded > o.most {
				t.Errorf("Do allocates %v times, a request of a load %v times, at most %v", did, loaded, o.most)
			}
		})
	}
}

// acknowledging is the address of a server that answers requests of size bytes and allocates nothing for them.
func acknowledging(t *testing.T, size int) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	serve := func(nc net.Conn) {
		defer func() { _ = nc.Close() }()
		(&peer{t: t, nc: nc}).welcome(7)
		in, out := make([]byte, size), make([]byte, 0, 64)
		for xid := jute.Xid(1); ; xid++ {
			if _, err := io.ReadFull(nc, in); err != nil {
				return
			}
			b, mark := jute.BeginFrame(out)
			header := jute.ReplyHeader{Xid: xid, Zxid: 1}
			if _, err := nc.Write(jute.EndFrame(header.Append(b), mark)); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go serve(nc)
		}
	}()
	return l.Addr().String()
}
