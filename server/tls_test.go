package server

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"zkd/jute"
	"zkd/server/auth"
	"zkd/server/socket"
	"zkd/storage/entry"
)

// certificate makes a certificate that signs itself.
func certificate(t testing.TB, subject pkix.Name) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: subject, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// securePort has a rig serve one more port, and returns its address. Clients may show any certificate.
func (r *rig) securePort(p *Port) string {
	r.t.Helper()
	return r.securePortOn(listen(r.t), p)
}

// listen returns a listener of this machine alone.
func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// securePortOn is securePort on a listener.
func (r *rig) securePortOn(l net.Listener, p *Port) string {
	r.t.Helper()
	if p.TLS == nil {
		p.TLS = &tls.Config{Certificates: []tls.Certificate{certificate(r.t, pkix.Name{CommonName: "server"})},
			ClientAuth: tls.RequestClientCert, DynamicRecordSizingDisabled: true}
	}
	if p.Identity == nil {
		p.Identity, _ = r.options.Registry.Provider(auth.SchemeX509).(auth.Certifier)
	}
	served := make(chan error, 1)
	go func() { served <- r.server.ServePort(l, p) }()
	r.t.Cleanup(func() {
		r.stop()
		if err := <-served; err != nil {
			r.t.Errorf("serve: %v", err)
		}
	})
	return l.Addr().String()
}

// withX509 has the scheme x509, whose superuser is CN=root.
func withX509(t testing.TB, o *Options) {
	t.Helper()
	p, err := auth.NewX509(auth.X509Options{SuperUser: "CN=root"})
	if err != nil {
		t.Fatal(err)
	}
	if o.Registry, err = auth.New(auth.Options{SuperDigest: superDigest, Extra: []auth.Provider{p}}); err != nil {
		t.Fatal(err)
	}
	o.Flags |= entry.FlagX509
}

// dialTLS connects with TLS and without a word.
func dialTLS(t testing.TB, addr string, certs ...tls.Certificate) *client {
	t.Helper()
	dialer := &net.Dialer{Timeout: testDeadline}
	//nolint:gosec // the server's certificate is the test's own
	nc, err := tls.DialWithDialer(dialer, "tcp", addr, &tls.Config{InsecureSkipVerify: true, Certificates: certs})
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	return &client{t: t, net: nc}
}

// connectTLS opens a session over TLS.
func connectTLS(t testing.TB, addr string, certs ...tls.Certificate) *client {
	t.Helper()
	c := dialTLS(t, addr, certs...)
	c.hello(&jute.ConnectRequest{TimeoutMillis: longMillis, Passwd: make([]byte, 16), HasReadOnly: true})
	if c.welcome.SessionID == 0 {
		t.Fatal("a new session is refused")
	}
	return c
}

// TestTLS has a client with a certificate, one without, and a plain one use what each may.
func TestTLS(t *testing.T) {
	r := newRig(t, func(o *Options) { withX509(t, o) })
	addr := r.securePort(&Port{Secure: true})
	alice := connectTLS(t, addr, certificate(t, pkix.Name{CommonName: "alice", Organization: []string{"Acme"}}))
	root := connectTLS(t, addr, certificate(t, pkix.Name{CommonName: "root"}))
	nobody := connectTLS(t, addr)
	plain := r.connect(t)

	own := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "x509", ID: "CN=alice,O=Acme"}}}
	create := &jute.CreateRequest{Path: "/a", Data: []byte("x"), ACL: own}
	if got := alice.call(jute.OpCreate, create); got.Err != jute.OK {
		t.Fatalf("create: %v", got.Err)
	}
	get := &jute.PathWatchRequest{Path: "/a"}
	rights := map[*client]jute.Code{alice: jute.OK, root: jute.OK, nobody: jute.NoAuth, plain: jute.NoAuth}
	for who, want := range rights {
		if got := who.call(jute.OpGetData, get); got.Err != want { // order: each by itself
			t.Errorf("getData: %v, want %v", got.Err, want)
		}
	}
	again := &jute.AuthPacket{Scheme: "x509", Auth: []byte("CN=root")}
	if got := alice.call(jute.OpAuth, again); got.Err != jute.OK {
		t.Errorf("an auth packet beside a certificate: %v", got.Err)
	}
	if got := plain.call(jute.OpAuth, again); got.Err != jute.AuthFailed {
		t.Errorf("an auth packet without a certificate: %v", got.Err)
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 50_000)
	set := &jute.SetDataRequest{Path: "/a", Data: large, Version: -1}
	if got := alice.call(jute.OpSetData, set); got.Err != jute.OK {
		t.Fatalf("setData: %v", got.Err)
	}
	if got := alice.call(jute.OpGetData, get); got.Err != jute.OK || !bytes.Contains(got.body, large) {
		t.Errorf("getData of %d bytes: %v, %d bytes", len(large), got.Err, len(got.body))
	}
	closed := alice.call(jute.OpCloseSession, raw(nil))
	if _, err := alice.next(); closed.Err != jute.OK || !errors.Is(err, io.EOF) {
		t.Errorf("after closeSession: %v, %v, want OK and an orderly end", closed.Err, err)
	}
}

// TestTLSBatches: requests that come at once are answered at once, but each reply comes in a record of its own, without
// which Apache's C client waits for replies that it has got.
func TestTLSBatches(t *testing.T) {
	r := newRig(t, nil)
	addr := r.securePort(&Port{Secure: true})
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	out := &gathering{Conn: nc}
	c := &client{t: t, net: tls.Client(out, &tls.Config{InsecureSkipVerify: true})} //nolint:gosec // as dialTLS
	t.Cleanup(func() { _ = c.net.Close() })
	c.hello(&jute.ConnectRequest{TimeoutMillis: longMillis, Passwd: make([]byte, 16), HasReadOnly: true})
	const many = 30
	out.hold = true
	for i := range many {
		h := jute.RequestHeader{Xid: jute.Xid(i + 1), Op: jute.OpExists}
		c.write(frame((&jute.PathWatchRequest{Path: "/zookeeper"}).Append(h.Append(nil))))
	}
	out.records, out.reads = 0, 0
	if err := out.release(); err != nil {
		t.Fatal(err)
	}
	for i := range many {
		if got := c.receive(); got.Xid != jute.Xid(i+1) || got.Err != jute.OK {
			t.Fatalf("reply %d is %+v", i, got)
		}
	}
	if out.records != many {
		t.Errorf("%d replies came in %d records", many, out.records)
	}
	if out.reads > many/2 { // of 512 bytes at least: crypto/tls reads ahead
		t.Errorf("%d replies were written one by one: they took %d reads", many, out.reads)
	}
}

// gathering holds back what is written while hold is set, and counts the reads and the records that are read.
type gathering struct {
	net.Conn
	hold    bool
	held    []byte
	records int
	reads   int
	head    []byte
	left    int
}

func (g *gathering) Write(b []byte) (int, error) {
	if g.hold {
		g.held = append(g.held, b...)
		return len(b), nil
	}
	return g.Conn.Write(b)
}

func (g *gathering) release() error {
	g.hold = false
	_, err := g.Conn.Write(g.held)
	return err
}

// Read follows the headers of records.
func (g *gathering) Read(b []byte) (int, error) {
	n, err := g.Conn.Read(b)
	g.reads++
	for _, c := range b[:n] {
		if g.left > 0 {
			g.left--
			continue
		}
		if g.head = append(g.head, c); len(g.head) == socket.RecordHeaderBytes {
			g.left = int(binary.BigEndian.Uint16(g.head[3:]))
			g.head = g.head[:0]
			g.records++
		}
	}
	return n, err
}

// TestPortUnification has both kinds of clients on one port, and shows whom the commands speak of.
func TestPortUnification(t *testing.T) {
	r := newRig(t, func(o *Options) { withX509(t, o) })
	unified, alone := r.securePort(&Port{Plain: true, CountPlain: true}), r.securePort(&Port{Secure: true})
	r.addr = unified
	connectTLS(t, unified)
	r.connect(t)
	connectTLS(t, alone)
	ask := func(c *client, word string) string {
		c.write([]byte(word))
		answer, err := io.ReadAll(c.net)
		if err != nil {
			t.Errorf("%s: %v", word, err)
		}
		return string(answer)
	}
	if got := strings.Count(ask(r.dial(t), "cons"), "sid="); got != 2 {
		t.Errorf("cons in plain text shows %d sessions, want the 2 of its port", got)
	}
	if got := strings.Count(ask(dialTLS(t, unified), "cons"), "sid="); got != 2 {
		t.Errorf("cons with TLS shows %d sessions, want the 2 of its port", got)
	}
	if got := strings.Count(ask(dialTLS(t, alone), "cons"), "sid="); got != 1 {
		t.Errorf("cons of the TLS port shows %d sessions, want its 1", got)
	}
	sessions := map[bool]int{}
	info := r.server.Info()
	for cn := range info.Connections {
		if cn.Session != 0 {
			sessions[cn.Secure]++
		}
	}
	if sessions[false] != 2 || sessions[true] != 1 {
		t.Errorf("the admin commands are shown %v sessions by port, want 2 and 1", sessions)
	}
	info.ResetConnections()
	for cn := range info.Connections {
		if cn.Session != 0 && cn.Received != 0 {
			t.Errorf("%v (secure %v) was not reset", cn.Remote, cn.Secure)
		}
	}
	mntr := ask(dialTLS(t, alone), "mntr")
	for _, line := range []string{"zk_non_mtls_local_conn_count\t2\n", "zk_outstanding_tls_handshake\t0\n"} {
		if !strings.Contains(mntr, line) {
			t.Errorf("mntr lacks %q", line)
		}
	}
}

// TestTLSIsDemanded: who does not use TLS on a port for it, or badly, is cut off and counted.
func TestTLSIsDemanded(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Limits.Handshakes = 2 })
	addr := r.securePort(&Port{Secure: true})
	for _, sent := range []string{"ruok", "\x00\x00\x00\x2c", "\x16\x03\x01\x00\x05hello"} {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = nc.SetDeadline(time.Now().Add(testDeadline))
		_, _ = io.WriteString(nc, sent)
		answer, err := io.ReadAll(nc)
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() || strings.Contains(string(answer), "imok") {
			t.Errorf("%q: %q, %v", sent, answer, err)
		}
		_ = nc.Close()
	}
	eventually(t, "three are counted", func() bool { return r.server.metrics.unsuccessfulHandshakes.Load() == 3 })
	r.count(0)
	for range 2 { // that say nothing
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
	}
	eventually(t, "two are under way", func() bool { return r.server.handshakes.Outstanding() == 2 })
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(testDeadline))
	if n, err := nc.Read(make([]byte, 1)); err == nil {
		t.Errorf("one beyond the limit reads %d bytes", n)
	}
	if got := r.server.handshakes.Exceeded(); got != 1 {
		t.Errorf("%d exceeded the limit, want 1", got)
	}
}

// TestFewHandshakesComputeAtOnce: who waits for the turn of another one is served when that is through.
func TestFewHandshakesComputeAtOnce(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Limits.HandshakesComputing = 2 })
	cert := certificate(t, pkix.Name{CommonName: "server"})
	computes, goOn := make(chan struct{}), make(chan struct{})
	addr := r.securePort(&Port{TLS: &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		computes <- struct{}{}
		<-goOn
		return &cert, nil
	}}})
	const clients = 5
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			//nolint:gosec // the server's certificate is the test's own
			nc, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
			if err != nil {
				t.Error(err)
				return
			}
			_ = nc.Close() // it was for the handshake
		})
	}
	<-computes
	<-computes
	eventually(t, "the others wait", func() bool { return r.server.handshakes.InLine() == clients-2 })
	close(goOn)
	for range clients - 2 {
		<-computes
	}
	all.Wait()
}

// TestSlowHandshakes: clients that begin a handshake and go no further keep nobody from connecting.
func TestSlowHandshakes(t *testing.T) {
	r := newRig(t, nil)
	addr := r.securePort(&Port{Secure: true})
	half, far := net.Pipe()
	_, _ = far.Close(), half.Close()
	g := &gathering{Conn: half, hold: true}
	_ = tls.Client(g, &tls.Config{InsecureSkipVerify: true}).Handshake() //nolint:gosec // as dialTLS; nobody answers
	hello := g.held
	for i := range 200 {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		_, _ = nc.Write(hello[:len(hello)-i%7])
	}
	eventually(t, "they wait", func() bool { return r.server.handshakes.Outstanding() == 200 })
	connectTLS(t, addr)
	r.stop()
}

// TestSilenceOnAUnifiedPort: who does not show what it speaks is cut off.
func TestSilenceOnAUnifiedPort(t *testing.T) {
	r := newRig(t, nil)
	addr := r.securePort(&Port{Plain: true, DetectionTimeout: time.Millisecond})
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(testDeadline)) // HandshakeTimeout is longer
	if _, err := nc.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a silent connection reads %v, want its end", err)
	}
	r.count(0)
}
