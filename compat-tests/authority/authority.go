package authority

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Authority signs certificates, and keeps them as files. Its methods fail the test that made it.
type Authority struct {
	Dir  string // holds what it writes; removed with the test
	Cert *x509.Certificate
	Key  crypto.Signer

	tb   testing.TB
	last int64 // serial number
}

// rsaKey is that of all certificates but the authorities', made once. RSA, because every client knows it.
var rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// New makes an authority with a common name, which holds for a day.
func New(tb testing.TB, name string) *Authority {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	a := &Authority{tb: tb, Dir: tb.TempDir(), Key: key, last: 1}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:  x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	a.Cert = a.sign(template, template, a.Key)
	return a
}

func (a *Authority) sign(template, parent *x509.Certificate, key crypto.Signer) *x509.Certificate {
	a.tb.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), a.Key)
	if err != nil {
		a.tb.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.tb.Fatal(err)
	}
	return cert
}

// Identity is a certificate with its key.
type Identity struct {
	By   *Authority
	Cert *x509.Certificate
	Key  *rsa.PrivateKey
}

// Issue makes a certificate for servers and clients at the loopback address, which change may make another; nil: none.
func (a *Authority) Issue(subject pkix.Name, change func(*x509.Certificate)) *Identity {
	a.tb.Helper()
	key, err := rsaKey()
	if err != nil {
		a.tb.Fatal(err)
	}
	a.last++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.last), Subject: subject,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
	}
	if change != nil {
		change(template)
	}
	return &Identity{By: a, Cert: a.sign(template, a.Cert, key), Key: key}
}

// Named makes a certificate with a common name.
func (a *Authority) Named(name string) *Identity { return a.Issue(pkix.Name{CommonName: name}, nil) }

// Expired is what Issue takes for a certificate that has ended an hour ago, Early for one that begins in an hour, and
// Elsewhere for one of another host.
func Expired(c *x509.Certificate) {
	c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
}

// Early is one of three: see Expired.
func Early(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }

// Elsewhere is one of three: see Expired.
func Elsewhere(c *x509.Certificate) {
	c.IPAddresses, c.DNSNames = []net.IP{net.IPv4(192, 0, 2, 1)}, []string{"elsewhere.example"}
}

// Write writes a file of the authority's folder, all at once, and returns its path.
func (a *Authority) Write(name string, content []byte) string {
	a.tb.Helper()
	path := filepath.Join(a.Dir, name)
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		a.tb.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		a.tb.Fatal(err)
	}
	return path
}

// Config is that of a client of a, with a certificate or, if own is nil, without.
func (a *Authority) Config(own *Identity) *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(a.Cert)
	//nolint:gosec // some of the tests have a client that knows no better
	c := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS10, ServerName: "127.0.0.1"}
	if own != nil {
		// Whatever the server says that it wants.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &tls.Certificate{Certificate: [][]byte{own.Cert.Raw}, PrivateKey: own.Key}, nil
		}
	}
	return c
}
