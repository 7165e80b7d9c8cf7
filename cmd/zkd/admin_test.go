package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"zkd/conf"
)

// pemStores writes a key store and a trust store in PEM, and returns what a client needs to know of them.
func pemStores(t *testing.T) (end conf.TLSEnd, own tls.Certificate, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	both := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), cert...)
	dir := t.TempDir()
	end.KeyStore.Location, end.TrustStore.Location = filepath.Join(dir, "key.pem"), filepath.Join(dir, "trust.pem")
	for name, content := range map[string][]byte{end.KeyStore.Location: both, end.TrustStore.Location: cert} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roots = x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	end.Protocol, end.HostnameVerification = "TLSv1.3", true
	return end, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

// TestOperatorTLS: the port for operators has the members' stores, and asks for a certificate only if it is to.
func TestOperatorTLS(t *testing.T) {
	for _, tc := range []struct{ needed, shown, ok bool }{
		{false, false, true}, {false, true, true}, {true, true, true}, {true, false, false},
	} {
		end, own, roots := pemStores(t)
		i := &instance{logger: slog.New(slog.DiscardHandler)}
		config, err := i.operatorTLS(&end, "ssl.quorum.", tc.needed)
		if err != nil {
			t.Fatal(err)
		}
		client := &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS13}
		if tc.shown {
			client.Certificates = []tls.Certificate{own}
		}
		near, far := net.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- tls.Server(far, config).Handshake() }()
		_ = tls.Client(near, client).Handshake() // the server knows more: it ends last
		_ = near.Close()                         // it was only for the handshake
		if err := <-ended; (err == nil) != tc.ok {
			t.Errorf("needed %v, shown %v: %v", tc.needed, tc.shown, err)
		}
		_ = far.Close() // likewise
	}
	i := &instance{logger: slog.New(slog.DiscardHandler)}
	if _, err := i.operatorTLS(&conf.TLSEnd{Protocol: "TLSv1.3"}, "ssl.quorum.", false); err == nil {
		t.Error("no stores, and no error")
	}
}

func TestShownAddr(t *testing.T) {
	for addr, want := range map[string]string{ // any order
		":2181": "0.0.0.0:2181", "10.0.0.1:1": "10.0.0.1:1", "": "",
	} {
		if got := shownAddr(addr); got != want {
			t.Errorf("%q is shown as %q, want %q", addr, got, want)
		}
	}
}
