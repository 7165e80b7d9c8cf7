package tls_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	jks "github.com/pavlo-v-chernykh/keystore-go/v4"
	"software.sslmate.com/src/go-pkcs12"
)

// password is that of all stores.
const password = "changeit"

// authority signs certificates, and keeps them as files.
type authority struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
	last int64 // serial number
}

// rsaKey is that of all certificates but the authorities', made once. RSA, because every client knows it.
var rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{t: t, dir: t.TempDir(), key: key, last: 1}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:  x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	a.cert = a.sign(template, template, a.key)
	return a
}

func (a *authority) sign(template, parent *x509.Certificate, key crypto.Signer) *x509.Certificate {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert
}

// identity is a certificate with its key.
type identity struct {
	by   *authority
	cert *x509.Certificate
	key  *rsa.PrivateKey
}

// issue makes a certificate for the loopback address, which change may make another.
func (a *authority) issue(subject pkix.Name, change func(*x509.Certificate)) *identity {
	a.t.Helper()
	key, err := rsaKey()
	if err != nil {
		a.t.Fatal(err)
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
	return &identity{by: a, cert: a.sign(template, a.cert, key), key: key}
}

// named makes a certificate with a common name.
func (a *authority) named(name string) *identity { return a.issue(pkix.Name{CommonName: name}, nil) }

// write writes a file of the authority's folder, all at once.
func (a *authority) write(name string, content []byte) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		a.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		a.t.Fatal(err)
	}
	return path
}

func pemOf(typ string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: der})
}

// trust writes the trusted certificate as PEM.
func (a *authority) trust() string { return a.write("trust.pem", pemOf("CERTIFICATE", a.cert.Raw)) }

// der is the key as PKCS8.
func (i *identity) der() []byte {
	i.by.t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(i.key)
	if err != nil {
		i.by.t.Fatal(err)
	}
	return der
}

// pem writes key and certificate as PEM, into one file.
func (i *identity) pem(name string) string {
	return i.by.write(name, append(pemOf("PRIVATE KEY", i.der()), pemOf("CERTIFICATE", i.cert.Raw)...))
}

// pkcs12 writes key and certificate as PKCS12.
func (i *identity) pkcs12(name string) string {
	i.by.t.Helper()
	content, err := pkcs12.Modern.Encode(i.key, i.cert, []*x509.Certificate{i.by.cert}, password)
	if err != nil {
		i.by.t.Fatal(err)
	}
	return i.by.write(name, content)
}

// jks writes key and certificate, and the trusted certificate, as JKS.
func (i *identity) jks(name string) string {
	i.by.t.Helper()
	store := jks.New()
	err := store.SetPrivateKeyEntry("own", jks.PrivateKeyEntry{
		CreationTime: time.Now(), PrivateKey: i.der(),
		CertificateChain: []jks.Certificate{{Type: "X.509", Content: i.cert.Raw}},
	}, []byte(password))
	if err == nil {
		err = store.SetTrustedCertificateEntry("ca", jks.TrustedCertificateEntry{
			CreationTime: time.Now(), Certificate: jks.Certificate{Type: "X.509", Content: i.by.cert.Raw},
		})
	}
	var b bytes.Buffer
	if err == nil {
		err = store.Store(&b, []byte(password))
	}
	if err != nil {
		i.by.t.Fatal(err)
	}
	return i.by.write(name, b.Bytes())
}

// config is that of a client of a, with a certificate or without.
func (a *authority) config(own *identity) *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	//nolint:gosec // some of the tests have a client that knows no better
	c := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS10, ServerName: "127.0.0.1"}
	if own != nil {
		// Whatever the server says that it wants.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &tls.Certificate{Certificate: [][]byte{own.cert.Raw}, PrivateKey: own.key}, nil
		}
	}
	return c
}
