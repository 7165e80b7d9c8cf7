package instance

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"os"
	"testing"

	"zkd/compat-tests/authority"
	"zkd/compat-tests/target"
	"zkd/conf"
)

// pemStores writes a key store and a trust store in PEM, and returns what a client needs to know of them.
func pemStores(t *testing.T) (end conf.TLSEnd, own tls.Certificate, roots *x509.CertPool) {
	t.Helper()
	end.KeyStore.Location, end.TrustStore.Location = target.SelfSigned(t, "test")
	own, roots = target.LoadSelfSigned(t, end.KeyStore.Location, end.TrustStore.Location)
	end.Protocol, end.HostnameVerification = "TLSv1.3", true
	return end, own, roots
}

// bareInstance is one of which nothing is open.
func bareInstance() *Instance {
	return newInstance(&conf.Config{}, realWorld(), Options{Logger: slog.New(slog.DiscardHandler)})
}

// TestOperatorTLS: the port for operators has the members' stores, and asks for a certificate only if it is to.
func TestOperatorTLS(t *testing.T) {
	for _, tc := range []struct{ needed, shown, ok bool }{
		{false, false, true}, {false, true, true}, {true, true, true}, {true, false, false},
	} {
		end, own, roots := pemStores(t)
		end = operatorsEnd(end, tc.needed)
		i := bareInstance()
		config, err := i.operatorTLS(&end, "ssl.quorum.")
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
	i := bareInstance()
	if _, err := i.operatorTLS(&conf.TLSEnd{Protocol: "TLSv1.3"}, "ssl.quorum."); err == nil {
		t.Error("no stores, and no error")
	}
}

// TestOperatorTLSWithRevocation: the members' stores serve operators also where members look for revoked certificates;
// then those of operators are looked for, too: the one here does not say where.
func TestOperatorTLSWithRevocation(t *testing.T) {
	ca := authority.New(t, "ca")
	own := ca.Named("server")
	for _, needed := range []bool{false, true} {
		end := operatorsEnd(conf.TLSEnd{Protocol: "TLSv1.3", CRL: true}, needed)
		end.KeyStore.Location, end.TrustStore.Location = own.PEM("server.pem"), ca.Trust()
		i := bareInstance()
		config, err := i.operatorTLS(&end, "ssl.quorum.")
		if err != nil {
			t.Fatal(err)
		}
		near, far := net.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- tls.Server(far, config).Handshake() }()
		_ = tls.Client(near, ca.Config(ca.Named("operator"))).Handshake() // the server knows more: it ends last
		_ = near.Close()                                                  // it was only for the handshake
		if err := <-ended; (err != nil) != needed {
			t.Errorf("a certificate is needed %v: %v", needed, err)
		}
		_ = far.Close() // likewise
	}
}

// TestOperatorTLSReload: a port for operators shows a certificate that was replaced while it is served.
func TestOperatorTLSReload(t *testing.T) {
	end, first, _ := pemStores(t)
	end = operatorsEnd(end, false)
	i := bareInstance()
	config, err := i.operatorTLS(&end, "ssl.quorum.")
	if err != nil || len(i.stores) != 1 {
		t.Fatalf("%v, and %d stores are looked after", err, len(i.stores))
	}
	other, second, _ := pemStores(t)
	for _, step := range []struct {
		what     string
		keyStore func() ([]byte, error)
		want     tls.Certificate
	}{
		{"as it was opened", nil, first},
		{"broken", func() ([]byte, error) { return []byte("no store"), nil }, first},
		{"another", func() ([]byte, error) { return os.ReadFile(other.KeyStore.Location) }, second},
	} {
		if step.keyStore != nil {
			content, err := step.keyStore()
			if err == nil {
				err = os.WriteFile(end.KeyStore.Location, content, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		i.stores[0].Look()
		if got := shownBy(t, config); !bytes.Equal(got.Raw, step.want.Certificate[0]) {
			t.Errorf("%s: the port shows certificate %v", step.what, got.SerialNumber)
		}
	}
}

// shownBy is the certificate that a server shows.
func shownBy(t *testing.T, config *tls.Config) *x509.Certificate {
	t.Helper()
	near, far := net.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- tls.Server(far, config).Handshake() }()
	client := tls.Client(near, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // it is looked at by the test
	errClient := client.Handshake()
	_ = near.Close() // it was only for the handshake
	if err := errors.Join(errClient, <-ended); err != nil {
		t.Fatal(err)
	}
	_ = far.Close() // likewise
	return client.ConnectionState().PeerCertificates[0]
}
