package target

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
)

// SelfSigned makes a key and a certificate with that common name for the loopback address that signs itself, and writes
// as PEM what a server or a client shows (ssl.keyStore.location) and what the others trust. Both files end with the
// test. Java takes no certificate without a name.
func SelfSigned(tb testing.TB, name string) (keyStore, trustStore string) {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		Subject:  pkix.Name{CommonName: name},
		NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true,
		DNSNames: []string{"localhost"}, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		tb.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	dir := tb.TempDir()
	trust := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	own := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), trust...)
	keyStore, trustStore = filepath.Join(dir, "server.pem"), filepath.Join(dir, "trust.pem")
	for file, text := range map[string][]byte{keyStore: own, trustStore: trust} { // any order: they differ
		if err := os.WriteFile(file, text, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return keyStore, trustStore
}

// LoadSelfSigned returns what a client shows, and what it trusts, that has the files of SelfSigned.
func LoadSelfSigned(tb testing.TB, keyStore, trustStore string) (own tls.Certificate, roots *x509.CertPool) {
	tb.Helper()
	own, err := tls.LoadX509KeyPair(keyStore, keyStore)
	if err != nil {
		tb.Fatal(err)
	}
	text, err := os.ReadFile(trustStore) //nolint:gosec // a file of the test's own
	if err != nil {
		tb.Fatal(err)
	}
	if roots = x509.NewCertPool(); !roots.AppendCertsFromPEM(text) {
		tb.Fatalf("%s holds no certificate", trustStore)
	}
	return own, roots
}
