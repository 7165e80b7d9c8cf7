package acl_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"zkd/compat-tests/wire"
)

// dialWithin bounds a TLS handshake. A guess: some milliseconds, many times that on a busy machine.
const dialWithin = 30 * time.Second

// authority signs the certificates of one test, and is trusted by its server.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	last int64  // serial number
	addr string // of the server's port for TLS
}

// newAuthority makes an authority.
func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	template := a.template(pkix.Name{CommonName: "authority"})
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	a.cert = template
	own := a.sign(template, true)
	var err error
	if a.cert, err = x509.ParseCertificate(own.Certificate[0]); err != nil {
		t.Fatal(err)
	}
	return a
}

// template is what all certificates have.
func (a *authority) template(subject pkix.Name) *x509.Certificate {
	a.last++
	return &x509.Certificate{SerialNumber: big.NewInt(a.last), Subject: subject, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
}

// sign makes a key and its certificate; the first is the authority's own.
func (a *authority) sign(template *x509.Certificate, own bool) *tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if own {
		a.key = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// of makes a certificate.
func (a *authority) of(subject pkix.Name) *tls.Certificate { return a.sign(a.template(subject), false) }

// trustStore writes the trusted certificate as PEM.
func (a *authority) trustStore() string {
	return a.write("trust.pem", pemOf("CERTIFICATE", a.cert.Raw))
}

// keyStore writes a key and its certificate as PEM.
func (a *authority) keyStore(own *tls.Certificate) string {
	a.t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.write("server.pem", append(pemOf("PRIVATE KEY", key), pemOf("CERTIFICATE", own.Certificate[0])...))
}

// pemOf is one block.
func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// write writes a file.
func (a *authority) write(name string, text []byte) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// certificate connects to the port for TLS with a certificate of a subject; nil: without any.
func (a *authority) certificate(subject *pkix.Name) proof {
	return func(t *testing.T, _ string) *wire.Conn {
		t.Helper()
		roots := x509.NewCertPool()
		roots.AddCert(a.cert)
		config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
		if subject != nil {
			config.Certificates = []tls.Certificate{*a.of(*subject)}
		}
		c, err := wire.Open(wire.Options{Addr: a.addr, Dial: func(addr string) (net.Conn, error) {
			return tls.DialWithDialer(&net.Dialer{Timeout: dialWithin}, "tcp", addr, config)
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Cut)
		return c
	}
}

// await returns when the port for TLS is open: ZooKeeper opens it after the other.
func (a *authority) await() {
	a.t.Helper()
	deadline := time.NewTimer(dialWithin)
	defer deadline.Stop()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		nc, err := net.Dial("tcp", a.addr)
		if err == nil {
			_ = nc.Close() // nothing was said
			return
		}
		select {
		case <-poll.C:
		case <-deadline.C:
			a.t.Fatalf("the port for TLS is not open within %v: %v", dialWithin, err)
		}
	}
}
