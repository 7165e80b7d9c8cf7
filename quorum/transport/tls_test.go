package transport

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	cryptorand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"testing"
	"time"
)

// authority signs certificates for the loopback.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{pool: x509.NewCertPool()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, key := makeCertificate(t, template, nil, nil)
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a.cert, a.key = cert, key
	a.pool.AddCert(cert)
	return a
}

// makeCertificate signs template, by itself without a parent.
func makeCertificate(t *testing.T, template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (
	der []byte, key *ecdsa.PrivateKey,
) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), cryptorand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if parent == nil {
		parent, signer = template, key
	}
	der, err = x509.CreateCertificate(cryptorand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	return der, key
}

// configs returns both sides' configuration of a server with a certificate of a.
func (a *authority) configs(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	der, key := makeCertificate(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, a.key)
	own := []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
	server = &tls.Config{
		Certificates: own, ClientCAs: a.pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
	}
	return server, &tls.Config{Certificates: own, RootCAs: a.pool, MinVersion: tls.VersionTLS12}
}

// secured sets both sides' TLS.
func (a *authority) secured(t *testing.T) func(*Options) {
	return func(o *Options) {
		server, client := a.configs(t)
		o.TLSServer, o.TLSClient = server, func(string) *tls.Config { return client }
	}
}

// swap sends a frame each way.
func swap(t *testing.T, a, b *member) {
	t.Helper()
	a.linked(b)
	n, m := b.heard.count(), a.heard.count()
	if !a.Send(b.id, 1, body("there")) || !b.Send(a.id, 1, body("back")) {
		t.Fatal("frames are refused")
	}
	eventually(t, "both arrive", func() bool { return b.heard.count() == n+1 && a.heard.count() == m+1 })
}

func TestMutualTLS(t *testing.T) {
	a, b := pair(t, newAuthority(t).secured(t))
	swap(t, a, b)
	b.Close()
	eventually(t, "the end is noticed", func() bool { return a.heard.losses(2) == 2 })
}

func TestStrangersCertificateIsRefused(t *testing.T) {
	t.Parallel() // it waits for most of its time
	a, b := newMember(t, 1, newAuthority(t).secured(t)), newMember(t, 2, newAuthority(t).secured(t))
	a.know(b)
	b.know(a)
	a.Start(a.heard)
	b.Start(b.heard)
	a.logs("peer unreachable", "certificate")
	b.logs("peer connection rejected", "TLS")
	if s := a.of(2); s.Out || s.In {
		t.Errorf("status %+v", s)
	}
}

func TestTLSAndPlainAreToldApart(t *testing.T) {
	t.Parallel() // it waits for most of its time
	ca := newAuthority(t)
	plain, secure := newMember(t, 1, nil), newMember(t, 2, ca.secured(t))
	plain.know(secure)
	secure.know(plain)
	plain.Start(plain.heard)
	secure.Start(secure.heard)
	secure.logs("peer connection rejected", "no TLS", "sslQuorum=true there")
	plain.logs("peer connection rejected", "TLS", "sslQuorum=true")
	plain.logs("peer unreachable", "wants TLS")
	secure.logs("peer unreachable", "does the peer use TLS")
}

func TestPortUnificationTakesBoth(t *testing.T) {
	ca := newAuthority(t)
	unified := func(o *Options) {
		ca.secured(t)(o)
		o.PortUnification = true
	}
	early := func(o *Options) { // the first step of a rolling change: understands TLS, dials plain
		unified(o)
		o.TLSClient = nil
	}
	a, b, c := newMember(t, 1, unified), newMember(t, 2, early), newMember(t, 3, ca.secured(t))
	a.know(b, c)
	b.know(a)
	c.know(a)
	for _, m := range []*member{a, b, c} {
		m.Start(m.heard)
	}
	swap(t, a, b)
	swap(t, a, c)
}

func TestStreams(t *testing.T) {
	for name, set := range map[string]func(*Options){"plain": nil, "TLS": newAuthority(t).secured(t)} { // order: alike
		t.Run(name, func(t *testing.T) {
			froms := make(chan uint64, 1)
			a, b := pair(t, func(o *Options) {
				if set != nil {
					set(o)
				}
				o.Streams = func(from uint64, conn net.Conn) { // an echo
					froms <- from
					_, _ = io.Copy(conn, conn)
				}
			})
			conn, err := a.OpenStream(context.Background(), 2)
			if err != nil {
				t.Fatal(err)
			}
			if from := <-froms; from != 1 {
				t.Errorf("from %d", from)
			}
			got := make([]byte, 5)
			_, _ = io.WriteString(conn, "hello")
			if _, err := io.ReadFull(conn, got); err != nil || string(got) != "hello" {
				t.Errorf("%q, %v", got, err)
			}
			swap(t, a, b)
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
			eventually(t, "the place is free", func() bool {
				p := (*b.peers.Load())[1]
				p.mu.Lock()
				defer p.mu.Unlock()
				return len(p.snapshots) == 0 && len(p.held) == 2
			})
			again, err := a.OpenStream(context.Background(), 2)
			if err != nil {
				t.Fatal(err)
			}
			<-froms
			a.know()
			if _, err := again.Read(got); err == nil {
				t.Error("the stream is open after its peer was removed")
			}
			_ = again.Close()
			if _, err := a.OpenStream(context.Background(), 2); err == nil {
				t.Error("a stream to a removed peer is opened")
			}
		})
	}
}

func TestStreamsAreBoundedAndEndWithClose(t *testing.T) {
	a, b := pair(t, func(o *Options) {
		o.Streams = func(_ uint64, conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }
	})
	for range streamsPerPeerMax {
		conn, err := a.OpenStream(context.Background(), 2)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	if _, err := a.OpenStream(context.Background(), 2); err == nil {
		t.Error("a stream beyond the bound is opened")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := a.OpenStream(ctx, 2); err == nil {
		t.Error("a stream is opened for nobody")
	}
	b.Close()
	a.Close()
	if _, err := a.OpenStream(context.Background(), 2); err == nil {
		t.Error("a stream is opened after Close")
	}
	a.SetPeers(nil)
}

func TestSilenceOnAUnifiedPort(t *testing.T) {
	m := newMember(t, 1, func(o *Options) {
		newAuthority(t).secured(t)(o)
		o.PortUnification, o.DetectionTimeout, o.DialTimeout = true, time.Millisecond, time.Hour
	})
	m.Start(m.heard)
	m.know()
	conn, err := net.Dial("tcp", m.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	m.logs("peer connection rejected", "wait for the first byte")
}
