package session

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"zkd/jute"
	"zkd/jute/client"
)

// peer is the server's end of a connection.
type peer struct {
	t  *testing.T
	nc net.Conn
}

// frame takes a frame's payload; nil at the end of the connection.
func (p *peer) frame() []byte {
	var head [jute.FrameHeaderBytes]byte
	if _, err := io.ReadFull(p.nc, head[:]); err != nil {
		return nil
	}
	payload := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(p.nc, payload); err != nil {
		return nil
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
	_, _ = p.nc.Write(jute.EndFrame(b, mark)) // the session may be gone
}

// welcome answers a handshake, and returns what was asked.
func (p *peer) welcome(r jute.ConnectResponse) (asked jute.ConnectRequest) {
	d := jute.NewDecoder(p.frame())
	asked.Decode(&d)
	b, mark := jute.BeginFrame(nil)
	_, _ = p.nc.Write(jute.EndFrame(r.Append(b), mark))
	return asked
}

// accepted is a session as a server gives it.
func accepted() jute.ConnectResponse {
	return jute.ConnectResponse{TimeoutMillis: 9000, SessionID: 7, Passwd: []byte("secret"), HasReadOnly: true}
}

// request takes the next request that is no ping; its op is OpCloseSession at the end of the connection.
func (p *peer) request() (jute.RequestHeader, *jute.Decoder) {
	for {
		payload := p.frame()
		if payload == nil {
			return jute.RequestHeader{Op: jute.OpCloseSession}, nil
		}
		d := jute.NewDecoder(payload)
		var header jute.RequestHeader
		header.Decode(&d)
		if header.Op != jute.OpPing {
			return header, &d
		}
		p.say(jute.ReplyHeader{Xid: jute.XidPing}, nil)
	}
}

// serve answers all requests with OK until the connection ends, and keeps their names.
func (p *peer) serve(got *[]string) {
	for {
		header, d := p.request()
		if d == nil {
			return
		}
		*got = append(*got, header.Op.String())
		p.say(jute.ReplyHeader{Xid: header.Xid, Zxid: 1}, func(b []byte) []byte {
			return append(b, make([]byte, 80)...)
		})
		if header.Op == jute.OpCloseSession {
			return
		}
	}
}

// world is where sessions of tests find their servers. Its events are read when all stands still.
type world struct {
	t       *testing.T
	mu      sync.Mutex
	servers map[string]func(p *peer) // nil or missing: nothing listens
	dialed  []string
	events  []string
}

func (w *world) dial(_ context.Context, _, address string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dialed = append(w.dialed, address)
	serve := w.servers[address]
	if serve == nil {
		return nil, errors.New("nothing listens")
	}
	near, far := net.Pipe()
	go func() {
		defer far.Close() //nolint:errcheck // a pipe
		serve(&peer{w.t, far})
	}()
	return near, nil
}

func (w *world) open(o Options) *Session {
	w.t.Helper()
	o.Dial, o.Now, o.After = w.dial, time.Now, time.After
	o.OnEvent = func(e Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.events = append(w.events, describe(e))
	}
	o.OnTrouble = func(address string, err error) { w.t.Logf("%s: %v", address, err) }
	s, err := Open(o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { s.stop(); <-s.ended })
	return s
}

func describe(e Event) string {
	switch e.Kind {
	case EventNode:
		return "node " + e.Path
	case EventWatchRemoved:
		return "removed " + e.Path
	}
	return []string{"connecting", "connected", "readonly", "closed", "expired", "authfailed"}[e.State]
}

// told returns the events up to now, and forgets them.
func (w *world) told() string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.events = nil }()
	return strings.Join(w.events, ", ")
}

func TestRequestsWaitForAConnectionAndGoBelowTheChroot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, servers: map[string]func(*peer){"b": func(p *peer) {
			if asked := p.welcome(accepted()); asked.ReadOnly || asked.TimeoutMillis != 30_000 {
				t.Errorf("asked %+v", asked)
			}
			header, d := p.request()
			var request jute.CreateRequest
			request.Decode(d)
			if header.Op != jute.OpCreate || request.Path != "/app/x" {
				t.Errorf("%v of %s", header.Op, request.Path)
			}
			event := jute.WatcherEvent{Type: jute.EventNodeCreated, Path: "/app"}
			p.say(jute.ReplyHeader{Xid: jute.XidNotification, Zxid: 5}, event.Append)
			created := jute.CreateResponse{Path: "/app/x"}
			p.say(jute.ReplyHeader{Xid: header.Xid, Zxid: 5}, created.Append)
			header, _ = p.request()
			p.say(jute.ReplyHeader{Xid: header.Xid, Zxid: 6, Err: jute.NoNode}, nil)
			p.serve(new([]string))
		}}}
		s := w.open(Options{Servers: []string{"a", "b"}, Chroot: "/app"})
		if path, err := s.Create(t.Context(), "/x", NewNode{ACL: World()}); path != "/x" || err != nil {
			t.Errorf("created %q, %v", path, err)
		}
		_, _, err := s.Get(t.Context(), "/y", false)
		if CodeOf(err) != jute.NoNode || err.Error() != "noNode for /y" {
			t.Errorf("get: %v", err)
		}
		if s.ID() != 7 || s.Timeout() != 9*time.Second || s.Server() != "b" || s.State() != Connected {
			t.Errorf("session %v of %v on %v is %v", s.ID(), s.Timeout(), s.Server(), s.State())
		}
		s.Close(t.Context())
		if told := w.told(); told != "connected, node /, closed" {
			t.Errorf("told %q", told)
		}
		if _, _, err := s.Get(t.Context(), "/y", false); CodeOf(err) != jute.SessionExpired {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestAConnectionIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var again []string
		var watches jute.SetWatches2Request
		w := &world{t: t}
		w.servers = map[string]func(*peer){
			"a": func(p *peer) {
				p.welcome(accepted())
				var got []string
				for range 3 { // getData, addWatch, auth
					header, _ := p.request()
					got = append(got, header.Op.String())
					p.say(jute.ReplyHeader{Xid: header.Xid, Zxid: 4}, func(b []byte) []byte {
						return append(b, make([]byte, 80)...)
					})
				}
				if !slices.Equal(got, []string{"getData", "addWatch", "auth"}) {
					t.Errorf("got %q", got)
				}
				p.request() // is not answered
			},
			"b": func(p *peer) {
				if asked := p.welcome(accepted()); asked.SessionID != 7 || string(asked.Passwd) != "secret" ||
					asked.LastZxidSeen != 4 {
					t.Errorf("asked %+v", asked)
				}
				header, _ := p.request()
				again = append(again, header.Op.String())
				p.say(jute.ReplyHeader{Xid: header.Xid}, nil)
				header, d := p.request()
				again = append(again, header.Op.String())
				watches.Decode(d)
				event := jute.WatcherEvent{Type: jute.EventNodeDataChanged, Path: "/w"}
				p.say(jute.ReplyHeader{Xid: jute.XidNotification, Zxid: -1}, event.Append)
				p.say(jute.ReplyHeader{Xid: header.Xid}, nil)
				p.serve(&again)
			},
		}
		s := w.open(Options{Servers: []string{"a", "b"}})
		if _, _, err := s.Get(t.Context(), "/w", true); err != nil {
			t.Fatal(err)
		}
		if err := s.AddWatch(t.Context(), "/r", jute.WatchPersistentRecursive); err != nil {
			t.Fatal(err)
		}
		if err := s.AddAuth(t.Context(), "digest", []byte("ann:pw")); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Set(t.Context(), "/w", nil, -1); CodeOf(err) != jute.ConnectionLoss {
			t.Errorf("a request on its way: %v", err)
		}
		if _, err := s.Exists(t.Context(), "/w", false); err != nil {
			t.Errorf("on the next server: %v", err)
		}
		if told := w.told(); told != "connected, connecting, node /w, connected" {
			t.Errorf("told %q", told)
		}
		if !slices.Equal(again, []string{"auth", "setWatches2", "exists"}) || watches.RelativeZxid != 4 ||
			!slices.Equal(watches.Data, []string{"/w"}) || !slices.Equal(watches.PersistentRecursive, []string{"/r"}) {
			t.Errorf("the second server got %q, %+v", again, watches)
		}
		if err := s.RemoveWatches(t.Context(), "/w", jute.WatcherData, false); CodeOf(err) != jute.NoWatcher {
			t.Errorf("a watch that has fired: %v", err)
		}
		if err := s.RemoveWatches(t.Context(), "/r", jute.WatcherAny, false); err != nil {
			t.Error(err)
		}
		if told := w.told(); told != "removed /r" {
			t.Errorf("told %q", told)
		}
	})
}

// TestAnIdleSessionKeepsItsConnection: the deadline of its last request is not that of its pings.
func TestAnIdleSessionKeepsItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, servers: map[string]func(*peer){"a": func(p *peer) {
			p.welcome(accepted())
			p.serve(new([]string))
		}}}
		s := w.open(Options{Servers: []string{"a"}})
		if _, err := s.Exists(t.Context(), "/", false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if told := w.told(); told != "connected" {
			t.Errorf("told %q", told)
		}
	})
}

// TestRepliesAreReadWhileRequestsAreWritten: a server may read no further until its replies are read.
func TestRepliesAreReadWhileRequestsAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, servers: map[string]func(*peer){"a": func(p *peer) {
			p.welcome(accepted())
			p.serve(new([]string))
		}}}
		s := w.open(Options{Servers: []string{"a"}})
		var all sync.WaitGroup
		for range 200 { // some before there is a connection, some after
			all.Go(func() {
				if _, err := s.Exists(t.Context(), "/", false); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for range 200 {
			all.Go(func() {
				if _, err := s.Exists(t.Context(), "/", false); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	})
}

// TestAReplyThatIsTooLong: whoever has asked for it is told why there is none, and others that there is none.
func TestAReplyThatIsTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := func(p *peer) {
			p.welcome(accepted())
			for range 2 {
				p.request()
			}
			p.say(jute.ReplyHeader{Xid: 1}, func(b []byte) []byte { return append(b, make([]byte, 2000)...) })
		}
		w := &world{t: t, servers: map[string]func(*peer){"a": long}}
		s := w.open(Options{Servers: []string{"a"}, MaxReplyBytes: 1000})
		if err := s.Await(t.Context()); err != nil {
			t.Fatal(err)
		}
		first := make(chan error)
		go func() {
			_, _, err := s.Children(t.Context(), "/long", false)
			first <- err
		}()
		synctest.Wait()
		if _, err := s.Exists(t.Context(), "/", false); CodeOf(err) != jute.ConnectionLoss {
			t.Errorf("another request: %v", err)
		}
		if err := <-first; !errors.Is(err, client.ErrTooLong) {
			t.Errorf("the long one: %v", err)
		}
	})
}

func TestASilentServerIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, servers: map[string]func(*peer){
			"a": func(p *peer) {
				p.welcome(accepted())
				for p.frame() != nil { // pings that are not answered
				}
			},
			"b": func(p *peer) {
				p.welcome(accepted())
				p.serve(new([]string))
			},
		}}
		s := w.open(Options{Servers: []string{"a", "b"}})
		if err := s.Await(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := s.Exists(t.Context(), "/", false); CodeOf(err) != jute.ConnectionLoss {
			t.Errorf("asked the silent one: %v", err)
		}
		if took := time.Since(began); took > 9*time.Second {
			t.Errorf("left after %v", took)
		}
		if err := s.Await(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // the other one answers pings
		if s.Server() != "b" || s.State() != Connected {
			t.Errorf("%v is %v", s.Server(), s.State())
		}
		if left := time.Until(s.AliveUntil()); left < 5*time.Second || left > 9*time.Second {
			t.Errorf("alive for %v", left)
		}
	})
}

func TestWhatEndsASession(t *testing.T) {
	for name, c := range map[string]struct {
		serve func(w *world, p *peer)
		told  string
		code  jute.Code
	}{
		"expired": {func(w *world, p *peer) {
			p.welcome(accepted())
			w.servers["a"] = func(p *peer) { p.welcome(jute.ConnectResponse{}) }
		}, "connected, connecting, expired", jute.SessionExpired},
		"an identity is refused": {func(_ *world, p *peer) {
			p.welcome(accepted())
			header, _ := p.request()
			p.say(jute.ReplyHeader{Xid: header.Xid, Err: jute.AuthFailed}, nil)
		}, "connected, authfailed", jute.AuthFailed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{t: t, servers: map[string]func(*peer){}}
				w.servers["a"] = func(p *peer) { c.serve(w, p) }
				s := w.open(Options{Servers: []string{"a"}})
				_ = s.Await(t.Context())                    // it may have ended already
				_ = s.AddAuth(t.Context(), "nonsense", nil) // its outcome is seen below
				<-s.Done()
				if told := w.told(); told != c.told {
					t.Errorf("told %q, want %q", told, c.told)
				}
				if _, err := s.Exists(t.Context(), "/", false); CodeOf(err) != c.code {
					t.Errorf("afterwards: %v", err)
				}
			})
		})
	}
}

func TestARequestFailsWhenEachServerWasTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		s := w.open(Options{Servers: []string{"a", "b", "c"}})
		if _, err := s.Exists(t.Context(), "/", false); CodeOf(err) != jute.ConnectionLoss {
			t.Errorf("no server: %v", err)
		}
		w.mu.Lock()
		dialed := slices.Clone(w.dialed)
		w.mu.Unlock()
		if len(dialed) < 3 || !slices.Equal(dialed[:3], []string{"a", "b", "c"}) {
			t.Errorf("dialed %q", dialed)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.Await(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("await: %v", err)
		}
	})
}

func TestAServerWithAQuorumIsLookedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		met := false
		alone := func(p *peer) {
			if met {
				return // the four-letter word
			}
			met = true
			r := accepted()
			r.ReadOnly, r.SessionID = true, 99
			if asked := p.welcome(r); !asked.ReadOnly || asked.SessionID != 0 {
				t.Errorf("asked %+v", asked)
			}
			p.serve(new([]string))
		}
		w := &world{t: t, servers: map[string]func(*peer){"a": alone}}
		s := w.open(Options{Servers: []string{"a", "b"}, ReadOnly: true})
		time.Sleep(time.Second)
		if told := w.told(); told != "readonly" {
			t.Errorf("told %q", told)
		}
		asked := false
		w.mu.Lock()
		w.servers["a"] = nil
		w.servers["b"] = func(p *peer) {
			if !asked { // the four-letter word
				asked = true
				_, _ = io.ReadFull(p.nc, make([]byte, 4))
				_, _ = io.WriteString(p.nc, "rw")
				return
			}
			if got := p.welcome(accepted()); got.SessionID != 0 {
				t.Errorf("asked %+v of a session that a server without a quorum gave", got)
			}
			p.serve(new([]string))
		}
		w.mu.Unlock()
		time.Sleep(5 * time.Minute)
		if told := w.told(); told != "connecting, connected" || s.State() != Connected || s.ID() != 7 {
			t.Errorf("told %q, now %v", told, s.State())
		}
	})
}

// steps is a dialogue of SASL that expects challenges, and says tokens.
type steps struct{ challenges []string }

func (s *steps) Next(challenge []byte) ([]byte, bool, error) {
	s.challenges = append(s.challenges, string(challenge))
	switch len(s.challenges) {
	case 1:
		return []byte{}, false, nil
	case 2:
		return []byte("proof"), false, nil
	}
	if string(challenge) != "yes" {
		return nil, false, errors.New("not the server")
	}
	return nil, true, nil
}

func TestLogin(t *testing.T) {
	for _, last := range []string{"yes", "no"} {
		synctest.Test(t, func(t *testing.T) {
			answers := []string{"nonce", last}
			w := &world{t: t, servers: map[string]func(*peer){"a": func(p *peer) {
				p.welcome(accepted())
				for _, answer := range answers {
					header, _ := p.request()
					if header.Op != jute.OpSASL {
						t.Errorf("got %v", header.Op)
					}
					token := jute.SASLToken{Token: []byte(answer)}
					p.say(jute.ReplyHeader{Xid: header.Xid}, token.Append)
				}
				p.serve(new([]string))
			}}}
			s := w.open(Options{Servers: []string{"a"}, Login: func(string) (Login, error) { return &steps{}, nil }})
			err := s.Await(t.Context())
			if last == "yes" && err != nil || last == "no" && CodeOf(err) != jute.AuthFailed {
				t.Errorf("server says %s: %v", last, err)
			}
		})
	}
}

func TestMultiNamesWhatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, servers: map[string]func(*peer){"a": func(p *peer) {
			p.welcome(accepted())
			header, _ := p.request()
			p.say(jute.ReplyHeader{Xid: header.Xid}, func(b []byte) []byte {
				for _, code := range []jute.Code{jute.OK, jute.NodeExists, jute.RuntimeInconsistency} {
					h, e := jute.MultiHeader{Type: jute.OpError, Err: code}, jute.ErrorResponse{Err: code}
					b = e.Append(h.Append(b))
				}
				return jute.AppendMultiEnd(b)
			})
			p.serve(new([]string))
		}}}
		s := w.open(Options{Servers: []string{"a"}})
		err := s.Multi(t.Context(), []Op{CheckOp("/a", 0), CreateOp("/b", NewNode{}), DeleteOp("/c", -1)})
		if CodeOf(err) != jute.NodeExists || !strings.Contains(err.Error(), "/b") {
			t.Errorf("multi: %v", err)
		}
	})
}

func TestManyWatchesAreSetInPieces(t *testing.T) {
	w := newWatches()
	for i := range 3000 {
		w.data["/"+strings.Repeat("x", 100)+string(rune('a'+i%26))+strings.Repeat("y", i/26)] = true
	}
	w.persistent["/p"] = true
	lists := w.lists(3)
	total := 0
	for _, l := range lists {
		total += len(l.Data)
	}
	if len(lists) < 3 || total != len(w.data) || len(lists[len(lists)-1].Persistent) != 1 {
		t.Errorf("%d watches in %d requests", total, len(lists))
	}
	if lists[0].op() != jute.OpSetWatches || lists[len(lists)-1].op() != jute.OpSetWatches2 {
		t.Errorf("asked by %v and %v", lists[0].op(), lists[len(lists)-1].op())
	}
}
