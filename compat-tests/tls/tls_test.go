package tls_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/authority"
	"zkd/compat-tests/target"
)

var update = flag.Bool("update", false, "record the transcripts anew from the real ZooKeeper")

func TestMain(m *testing.M) { os.Exit(target.Main(m, "tls")) }

// within bounds one connection. A guess: a handshake takes some milliseconds, many times that on a busy machine.
const within = time.Minute

// secured starts a server with TLS and returns the address of its port for TLS alone.
func secured(t *testing.T, config map[string]string) (s *target.Server, addr string) {
	t.Helper()
	return target.StartSecure(t, target.Options{Config: config})
}

// outcome connects, asks ruok, and tells what comes of it.
func outcome(addr string, config *tls.Config) string {
	dialer := &net.Dialer{Timeout: within}
	var nc net.Conn
	var err error
	if config == nil {
		nc, err = dialer.Dial("tcp", addr)
	} else {
		nc, err = tls.DialWithDialer(dialer, "tcp", addr, config)
	}
	if err != nil {
		return explain(err)
	}
	defer nc.Close() //nolint:errcheck // all is read
	if err := nc.SetDeadline(time.Now().Add(within)); err != nil {
		return err.Error()
	}
	_, errWrite := io.WriteString(nc, "ruok\n")
	answer, err := io.ReadAll(nc)
	if string(answer) == "imok" {
		return "served"
	}
	return explain(errors.Join(err, errWrite))
}

// explain tells only what a user of either server would see: that the server refuses, or the client.
func explain(err error) string {
	var timeout net.Error
	var unknown *tls.CertificateVerificationError
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return "silence"
	case errors.As(err, &unknown):
		return "the client refuses"
	}
	return "refused"
}

// transcript is what is compared.
type transcript struct{ strings.Builder }

func (w *transcript) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

// TestHandshakes has clients of all kinds at servers of three kinds.
func TestHandshakes(t *testing.T) {
	t.Parallel()
	ca, other := authority.New(t, "ca"), authority.New(t, "other")
	client := ca.Named("client")
	expired := ca.Issue(pkix.Name{CommonName: "expired"}, authority.Expired)
	early := ca.Issue(pkix.Name{CommonName: "early"}, authority.Early)
	serverOnly := ca.Issue(pkix.Name{CommonName: "serverOnly"}, func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})
	elsewhere := ca.Issue(pkix.Name{CommonName: "elsewhere"}, authority.Elsewhere)
	only := func(c *tls.Config, version uint16) *tls.Config {
		c.MinVersion, c.MaxVersion = version, version
		return c
	}
	wrongName := ca.Config(client)
	wrongName.ServerName = "elsewhere.example"
	stranger := ca.Config(other.Named("client"))
	clients := []struct {
		name   string
		config *tls.Config
	}{
		{"with a certificate", ca.Config(client)},
		{"without a certificate", ca.Config(nil)},
		{"with a certificate of another authority", stranger},
		{"with an expired certificate", ca.Config(expired)},
		{"with a certificate of tomorrow", ca.Config(early)},
		{"with a certificate for servers alone", ca.Config(serverOnly)},
		{"with a certificate for another host", ca.Config(elsewhere)},
		{"with TLSv1.2", only(ca.Config(client), tls.VersionTLS12)},
		{"with TLSv1.1", only(ca.Config(client), tls.VersionTLS11)},
		{"that trusts another authority", other.Config(client)},
		{"that means another host", wrongName},
		{"without TLS", nil},
	}
	server := ca.Named("server")
	var out transcript
	for _, s := range []struct {
		name   string
		config map[string]string
	}{
		{"the defaults, stores in PEM", map[string]string{
			"ssl.keyStore.location": server.PEM("server.pem"), "ssl.trustStore.location": ca.Trust(),
		}},
		{"want, TLSv1.2 and TLSv1.3, unified, stores in JKS", map[string]string{
			"ssl.keyStore.location": server.JKS("server.jks"), "ssl.keyStore.password": authority.Password,
			"ssl.trustStore.location":     server.JKS("server.jks"),
			"ssl.trustStore.passwordPath": ca.Write("password", []byte(authority.Password+"\n")),
			"ssl.clientAuth":              "want", "ssl.enabledProtocols": "TLSv1.2,TLSv1.3",
			"client.portUnification": "true",
		}},
		{"names of clients, TLSv1.2, stores in PKCS12", map[string]string{
			"ssl.keyStore.location": server.PKCS12("server.p12"), "ssl.keyStore.password": authority.Password,
			"ssl.trustStore.location": ca.Trust(), "ssl.protocol": "TLSv1.2",
			"ssl.ciphersuites":               "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
			"ssl.clientHostnameVerification": "true", "fips-mode": "false",
		}},
		{"no certificates of clients, no trust store", map[string]string{
			"ssl.keyStore.location": server.PEM("server.pem"), "ssl.clientAuth": "none",
		}},
	} {
		s1, addr := secured(t, s.config)
		for port, at := range []string{addr, s1.Addr} {
			out.line("%s, %s:", s.name, []string{"secureClientPort", "clientPort"}[port])
			for _, c := range clients {
				out.line("  a client %s: %s", c.name, outcome(at, c.config))
			}
		}
		s1.Stop()
	}
	target.Golden(t, "handshakes", out.String(), *update)
}

// session opens a session with go-zookeeper, over TLS with a configuration.
func session(t *testing.T, addr string, config *tls.Config) *zk.Conn {
	t.Helper()
	dial := func(network, address string, timeout time.Duration) (net.Conn, error) {
		if config == nil {
			return net.DialTimeout(network, address, timeout)
		}
		return tls.DialWithDialer(&net.Dialer{Timeout: timeout}, network, address, config)
	}
	conn, events, err := zk.Connect([]string{addr}, 30*time.Second, zk.WithLogger(quiet{}), zk.WithDialer(dial))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return conn
			}
		case <-ctx.Done():
			t.Fatalf("no session at %s", addr)
		}
	}
}

// quiet drops what go-zookeeper says.
type quiet struct{}

// Printf implements zk.Logger.
func (quiet) Printf(string, ...any) {}

// TestIdentities shows by which names clients are known, and what names an ACL takes.
func TestIdentities(t *testing.T) {
	t.Parallel()
	ca := authority.New(t, "ca")
	_, addr := secured(t, map[string]string{
		"ssl.keyStore.location": ca.Named("server").PEM("server.pem"), "ssl.trustStore.location": ca.Trust(),
		"ssl.clientAuth": "want", "X509AuthenticationProvider.superUser": "CN=root,O=Acme",
	})
	var out transcript
	subjects := []pkix.Name{
		{CommonName: "client", OrganizationalUnit: []string{"dev"}, Organization: []string{"Acme"}},
		{CommonName: `odd, "name" + #1 = <x>;\`, Country: []string{"DE"}, Locality: []string{"Köln"}},
		{CommonName: " #blanks ", Province: []string{"a"}, StreetAddress: []string{"b"}, PostalCode: []string{"c"}},
		{ExtraNames: []pkix.AttributeTypeAndValue{
			{Type: asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 25}, Value: "example"},
			{Type: asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 1}, Value: "uid"},
			{Type: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 1}, Value: "a@example"},
			{Type: asn1.ObjectIdentifier{2, 5, 4, 5}, Value: "17"},
			{Type: asn1.ObjectIdentifier{2, 5, 4, 12}, Value: "t"},
		}},
		{CommonName: "root", Organization: []string{"Acme"}},
	}
	all := zk.WorldACL(zk.PermAll)
	nobody := session(t, addr, ca.Config(nil))
	mine := []zk.ACL{{Perms: zk.PermAll, Scheme: "x509", ID: "CN=client,OU=dev,O=Acme"}}
	_, err := nobody.Create("/mine", []byte("x"), 0, mine)
	out.line("create with an ACL of another: %v", err)
	for i, subject := range subjects {
		conn := session(t, addr, ca.Config(ca.Issue(subject, nil)))
		path := fmt.Sprintf("/by%d", i)
		_, err := conn.Create(path, nil, 0, zk.AuthACL(zk.PermAll))
		list, _, errACL := conn.GetACL(path)
		out.line("create %s with auth: %v, %v", path, err, errACL)
		for _, entry := range list {
			out.line("  %s:%s:%d", entry.Scheme, entry.ID, entry.Perms)
		}
		_, _, err = conn.Get("/mine")
		out.line("  get /mine: %v", err)
		_, _, err = nobody.Get(path)
		out.line("  get of one without a certificate: %v", err)
		out.line("  auth x509: %v", conn.AddAuth("x509", []byte("CN=other")))
	}
	_, err = nobody.Create("/none", nil, 0, zk.AuthACL(zk.PermAll))
	out.line("create with auth, without a certificate: %v", err)
	for i, name := range aclNames {
		path := fmt.Sprintf("/name%d", i)
		_, err := nobody.Create(path, nil, 0, []zk.ACL{all[0], {Perms: zk.PermRead, Scheme: "x509", ID: name}})
		out.line("ACL x509:%s: %v", name, err)
	}
	target.Golden(t, "identities", out.String(), *update)
}

// aclNames are ids of the scheme x509 that an ACL may hold, or not.
var aclNames = []string{
	"CN=a", "cn=a", "CN = a", "CN=a,O=b", "CN=a, O=b", "CN=a;O=b", "CN=a+O=b", "", " ", "a", "=a", "CN", "CN=", "CN=a,",
	",CN=a", "CN=a,,O=b", "FOO=a", "1.2.3=a", "OID.1.2.3=a", "oid.1.2.3=a", "1.2.3=#0401ff", "1.2.3=#xyz", "1.2.3=#0",
	"CN=#0c0161", "3.1=a", "1.40=a", "1=a", "1.2.3.=a", `CN="a,b"`, `CN="a`, `CN=a"b`, `CN=a\`, `CN=a\,b`, `CN=a\zb`,
	`CN=a\41`, "CN=a=b", "CN=a<b", "CN=a#b", "CN=ä", "EMAILADDRESS=a@b", "E=a@b", "EMAIL=a@b", "DC=a", "UID=a",
	"USERID=a",
	"SERIALNUMBER=1", "T=a", "TITLE=a", "STREET=a", "ST=a", "S=a", "L=a", "C=a", "C=ab", "DNQ=a", "DNQUALIFIER=a",
	"SURNAME=a", "SN=a", "GIVENNAME=a", "GN=a", "INITIALS=a", "GENERATION=a", "IP=1.2.3.4", "POSTALCODE=1", "NAME=a",
	"CN=a\nO=b", "CN=a\n,O=b", "\nCN=a", "CN=a ", "CN= a", `CN=\ a`, `CN="a"b`, `CN="a" `, "CN=a;", "CN=a+", "+",
	"CN=a,O",
}
