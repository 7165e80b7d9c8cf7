package transport

import (
	"bytes"
	"errors"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"zkd/quorum/clock"
	"zkd/quorum/warning"
)

// call makes a connection to m, says h, and returns the answer and the connection.
func call(t *testing.T, m *member, h hello) (*answer, net.Conn) {
	t.Helper()
	conn, err := net.Dial("tcp", m.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Write(h.encode()); err != nil {
		t.Fatal(err)
	}
	a, err := readAnswer(conn)
	if err != nil {
		t.Fatal(err)
	}
	return a, conn
}

// good returns the hello of server 2 to server 1.
func good() hello {
	return hello{
		oldest: versionOldest, newest: versionNewest, cluster: cluster, from: 2, to: 1, processID: 99,
		purpose: forMessages, name: "zkd/9",
	}
}

func TestAnswers(t *testing.T) {
	b := newMember(t, 2, nil)
	for name, tc := range map[string]struct { // order: each case has a server of its own
		change func(h *hello, processID uint64)
		want   Code
	}{
		"good":              {func(*hello, uint64) {}, Accepted},
		"cluster not known": {func(h *hello, _ uint64) { h.cluster = [16]byte{} }, Accepted},
		"older and newest":  {func(h *hello, _ uint64) { h.newest = versionOldest }, Accepted},
		"newer and older":   {func(h *hello, _ uint64) { h.newest = 7 }, Accepted},
		"newer only":        {func(h *hello, _ uint64) { h.oldest, h.newest = versionNewest+1, 7 }, BadVersion},
		"older only":        {func(h *hello, _ uint64) { h.oldest, h.newest = 0, 0 }, BadVersion},
		"other cluster":     {func(h *hello, _ uint64) { h.cluster[3]++ }, OtherCluster},
		"other server":      {func(h *hello, _ uint64) { h.to = 3 }, WrongServer},
		"same id":           {func(h *hello, _ uint64) { h.from = 1 }, SameID},
		"itself":            {func(h *hello, processID uint64) { h.from, h.to, h.processID = 1, 2, processID }, Itself},
		"no member":         {func(h *hello, _ uint64) { h.from = 5 }, NotMember},
		"no streams":        {func(h *hello, _ uint64) { h.purpose = forSnapshot }, NoStreams},
		"unknown purpose":   {func(h *hello, _ uint64) { h.purpose = 77 }, NoStreams},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMember(t, 1, nil)
			m.know(b)
			m.Start(m.heard)
			h := good()
			tc.change(&h, m.processID)
			a, conn := call(t, m, h)
			wantCluster, wantProcess := cluster, m.processID
			if h.from != 2 {
				wantCluster, wantProcess = disguised, 0
			}
			if a.code != tc.want || a.id != 1 || a.processID != wantProcess || a.cluster != wantCluster ||
				a.name != "test" {
				t.Errorf("answer %+v, want code %d", a, tc.want)
			}
			if tc.want == Accepted {
				if a.version != min(h.newest, versionNewest) || a.text != "" {
					t.Errorf("answer %+v", a)
				}
				return
			}
			line := "peer connection rejected"
			if tc.want == NotMember {
				line = "a server that is no member calls"
			}
			m.logs(line, strings.ReplaceAll(a.text, `"`, `\"`))
			if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
				t.Error("the connection is open after a refusal")
			}
		})
	}
}

func TestDialerLogsWhatToDo(t *testing.T) {
	for name, tc := range map[string]struct { // order: each case has servers of its own
		id   uint64
		set  func(*Options)
		know bool
		want []string
	}{
		"other cluster": {2, func(o *Options) {
			o.ClusterID = func() [16]byte { return [16]byte{8} }
		}, true, []string{"is of cluster 08", "empty the data directory"}},
		"wrong server": {3, nil, true, []string{"this is server 3, not 2", "myid"}},
		"same id":      {1, nil, true, []string{"this is server 1 too", "two servers have one id"}},
		"no member":    {2, nil, false, []string{"server 2 knows no server 1", "reconfig"}},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newMember(t, 1, nil), newMember(t, tc.id, tc.set)
			if tc.know {
				b.SetPeers(map[uint64]Peer{1: {}})
			}
			b.Start(b.heard)
			a.SetPeers(map[uint64]Peer{2: {Addresses: []string{b.address}}})
			a.Start(a.heard)
			a.logs(append(tc.want, "peer unreachable", "peer=2")...)
			refused := (*RefusalError)(nil)
			if err := a.of(2).LastError; !errors.As(err, &refused) {
				t.Errorf("last error is %v", err)
			}
		})
	}
}

func TestDialerFindsItselfAndOthers(t *testing.T) {
	t.Parallel() // it waits for most of its time
	a := newMember(t, 1, nil)
	a.SetPeers(map[uint64]Peer{2: {Addresses: []string{a.address}}})
	a.Start(a.heard)
	a.logs("peer unreachable", "leads to server 1 itself", "has an address of this server")

	for name, reply := range map[string]string{ // order: each case has servers of its own
		"hung up":   "",
		"HTTP":      "HTTP/1.1 400 Bad Request\r\n\r\n",
		"TLS alert": "\x15\x03\x01\x00\x02\x02\x0a..........",
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
					_, _ = readHello(conn)
					_, _ = io.WriteString(conn, reply)
					_ = conn.Close()
				}
			}()
			t.Cleanup(func() { _ = l.Close(); <-ended })
			c := newMember(t, 1, nil)
			c.SetPeers(map[uint64]Peer{2: {Addresses: []string{l.Addr().String()}}})
			c.Start(c.heard)
			c.logs("peer unreachable", "no zkd")
		})
	}
}

func TestAnswerOfAnotherServerIsRefused(t *testing.T) {
	a := newMember(t, 1, nil)
	p := newPeer(a.Transport, 2, Peer{}, nil)
	fine := answer{version: 1, cluster: cluster, id: 2, processID: 5}
	if err := p.judge(&fine, cluster); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[Code]func(*answer){ // order: each case is judged alone
		WrongServer:  func(a *answer) { a.id = 3 },
		OtherCluster: func(a *answer) { a.cluster[0]++ },
		BadVersion:   func(a *answer) { a.version = versionNewest + 1 },
		Itself:       func(n *answer) { n.processID = a.processID },
		NotMember:    func(a *answer) { a.code = NotMember },
		200:          func(a *answer) { a.code = 200 },
	} {
		bad := fine
		change(&bad)
		refused := (*RefusalError)(nil)
		if err := p.judge(&bad, cluster); !errors.As(err, &refused) || refused.Code != want || refused.Error() == "" {
			t.Errorf("code %d: %v", want, err)
		}
	}
}

func TestSecondProcessWithAnIDIsRefusedWhileTheFirstLives(t *testing.T) {
	a := newMember(t, 1, nil)
	address, _ := muteListener(t)
	a.SetPeers(map[uint64]Peer{2: {Addresses: []string{address}}})
	a.Start(a.heard)
	eventually(t, "the outgoing stream is up", func() bool { return a.of(2).Out })
	first, second := good(), good()
	first.processID, second.processID = muteProcess, muteProcess+1
	answered, conn := call(t, a, first)
	if answered.code != Accepted {
		t.Fatalf("the first process is answered %+v", answered)
	}
	a.logs("peer connected", conn.LocalAddr().String()) // one replaced before that is not lost: it never was
	if answered, _ := call(t, a, second); answered.code != AlreadyConnected {
		t.Errorf("the second process is answered %+v", answered)
	}
	if s := a.of(2); !s.In || !s.Out || a.heard.losses(2) != 0 {
		t.Errorf("the living streams were disturbed: %+v", s)
	}
	if answered, _ := call(t, a, first); answered.code != Accepted {
		t.Errorf("the first process, again, is answered %+v", answered)
	}
	eventually(t, "its old stream is closed", func() bool { return a.heard.losses(2) == 1 })
}

func TestForeignProtocolsAreNamed(t *testing.T) {
	a := newMember(t, 1, nil)
	a.know()
	a.Start(a.heard)
	for text, want := range map[string]string{ // order: each is a connection of its own
		"\x00\x00\x00\x0b\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x14": "a server of Apache ZooKeeper",
		"\xff\xff\xff\xff\xff\xff\x00\x01\x00\x00\x00\x00\x00\x00\x00\x03": "the election protocol",
		"\xa0\xdb\xca\xfe\xca\xfe\x12\x34":                                 "SASL between servers",
		"\x16\x03\x01\x00\xf4\x01\x00\x00\xf0":                             "TLS",
		"\x00\x00\x00\x2d\x00\x00\x00\x00\x00\x00":                         "a ZooKeeper client",
		"GET / HTTP/1.1\r\n":                                               "HTTP",
		"ruok":                                                             "four-letter word",
		"\x01\x02\x03\x04\x05\x06\x07\x08":                                 "unknown bytes",
	} {
		conn, err := net.Dial("tcp", a.address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, text)
		_ = conn.(*net.TCPConn).CloseWrite()
		if got, _ := io.ReadAll(conn); len(got) != 0 {
			t.Errorf("%q is answered %q", text, got)
		}
		_ = conn.Close()
		a.logs("peer connection rejected", want)
	}
}

func TestHandshakesAreBoundedInNumberAndTime(t *testing.T) {
	manual := clock.NewManual(time.Unix(1e6, 0))
	a, b := newMember(t, 1, func(o *Options) { o.Clock = manual }), newMember(t, 2, nil)
	a.know()
	a.Start(a.heard)
	silent := []net.Conn{}
	for range handshakesPerHostMax + 1 {
		conn, err := net.Dial("tcp", a.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		silent = append(silent, conn)
	}
	if n, err := silent[handshakesPerHostMax].Read(make([]byte, 1)); n != 0 || err == nil {
		t.Error("one more than the bound is not closed")
	}
	a.logs("too many peer handshakes")
	manual.AwaitEvents(1 + handshakesPerHostMax)
	manual.Advance(defaultDialTimeout)
	for _, conn := range silent {
		if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Error("a silent connection is not closed in time")
		}
	}
	eventually(t, "the places are free", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.handshaking == 0 && len(a.handshakes) == 0
	})
	a.SetPeers(map[uint64]Peer{2: {Addresses: []string{b.address}}})
	if answered, _ := call(t, a, good()); answered.code != Accepted {
		t.Errorf("then a peer is answered %+v", answered)
	}
}

// remoteConn is a connection that seems to come from elsewhere and says nothing.
type remoteConn struct {
	net.Conn
	from net.Addr
}

func (s remoteConn) RemoteAddr() net.Addr { return s.from }

func TestStrangersDoNotTakeThePlacesOfPeers(t *testing.T) {
	still := clock.NewManual(time.Unix(1e6, 0)) // so that nobody's time runs out
	a, b := newMember(t, 1, func(o *Options) { o.Clock = still }), newMember(t, 2, nil)
	a.know(b)
	b.know(a)
	b.Start(b.heard)
	a.Start(a.heard)
	eventually(t, "the peer is found", func() bool { return a.isHostOfPeer("127.0.0.1") })
	from := func(host int) net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, byte(host)), Port: 9} }
	silent := func(host int) net.Conn {
		near, far := net.Pipe()
		t.Cleanup(func() { _ = far.Close() })
		a.admit(remoteConn{near, from(host)}, "here")
		return far
	}
	for i := range 2 * handshakesMax {
		silent(i / handshakesPerHostMax)
	}
	if n, err := silent(200).Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("one more than the bound is not closed: %d, %v", n, err)
	}
	call(t, a, good()) // fails unless it is answered; that server 2 has a connection already, for one
}

func TestRefusalsDoNotFillTheLog(t *testing.T) {
	manual := clock.NewManual(time.Unix(1e6, 0))
	a := newMember(t, 1, func(o *Options) { o.Clock = manual })
	a.know()
	a.Start(a.heard)
	wrong := good()
	wrong.to = 3
	for range 3 * warning.Burst {
		call(t, a, wrong)
	}
	lines := func() int { return strings.Count(a.log.String(), "peer connection rejected") }
	eventually(t, "the burst is logged", func() bool { return lines() == warning.Burst })
	manual.Advance(time.Second)
	call(t, a, wrong)
	a.logs("peer connection rejected", "omitted=")
}

func TestHandshakeComesBackAsItWas(t *testing.T) {
	h := good()
	got, err := readHello(bytes.NewReader(h.encode()))
	if err != nil || !reflect.DeepEqual(*got, h) {
		t.Errorf("hello %+v, %v", got, err)
	}
	long := answer{version: 3, code: 4, cluster: cluster, id: 5, processID: 6, name: strings.Repeat("n", 300),
		text: strings.Repeat("t", 600)}
	want := long
	want.name, want.text = long.name[:nameBytesMax], long.text[:textBytesMax]
	back, err := readAnswer(bytes.NewReader(long.encode()))
	if err != nil || !reflect.DeepEqual(*back, want) {
		t.Errorf("answer %+v, %v", back, err)
	}
}

func TestLaterVersionsMayAddFields(t *testing.T) {
	h := good()
	b := h.encode()
	b = append(b[:len(b)-sumBytes], "more"...)
	b = seal(b, helloHeadBytes)
	if got, err := readHello(bytes.NewReader(b)); err != nil || !reflect.DeepEqual(*got, h) {
		t.Errorf("hello %+v, %v", got, err)
	}
}

func TestDamagedHandshakesAreRefused(t *testing.T) {
	h, a := good(), answer{version: 1, text: "x"}
	for i := range h.encode() {
		b := h.encode()
		b[i] ^= 0x10
		if _, err := readHello(bytes.NewReader(b)); err == nil {
			t.Errorf("hello with a wrong byte %d is read", i)
		}
		if _, err := readHello(bytes.NewReader(h.encode()[:i])); err == nil {
			t.Errorf("hello of %d bytes is read", i)
		}
	}
	for i := range a.encode() {
		b := a.encode()
		b[i] ^= 0x10
		if _, err := readAnswer(bytes.NewReader(b)); err == nil {
			t.Errorf("answer with a wrong byte %d is read", i)
		}
	}
	short := seal(h.encode()[:helloHeadBytes+20], helloHeadBytes)
	if _, err := readHello(bytes.NewReader(short)); err == nil {
		t.Error("a hello without all fields is read")
	}
}

func FuzzHandshake(f *testing.F) {
	h, a := good(), answer{version: 1, code: NotMember, text: "no"}
	f.Add(h.encode())
	f.Add(a.encode())
	f.Add([]byte("\x16\x03\x01\x00\xf4"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := readHello(bytes.NewReader(b)); err == nil {
			if again, err := readHello(bytes.NewReader(got.encode())); err != nil || !reflect.DeepEqual(again, got) {
				t.Errorf("%+v comes back as %+v, %v", got, again, err)
			}
		} else if err.Error() == "" {
			t.Error("an error without text")
		}
		if got, err := readAnswer(bytes.NewReader(b)); err == nil {
			want := *got
			want.text = want.text[:min(len(want.text), textBytesMax)]
			if again, err := readAnswer(bytes.NewReader(got.encode())); err != nil || *again != want {
				t.Errorf("%+v comes back as %+v, %v", got, again, err)
			}
		}
	})
}
