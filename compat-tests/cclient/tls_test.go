package cclient_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"zkd/compat-tests/authority"
	"zkd/compat-tests/target"
)

// visitWithin bounds one run of the program of one client, which waits for nothing longer than 100 s.
const visitWithin = 4 * time.Minute

// visits is a transcript of clients that try to get in.
type visits struct {
	strings.Builder

	t       *testing.T
	program string
	count   int
}

// newVisits builds the program.
func newVisits(t *testing.T) *visits {
	t.Helper()
	return &visits{t: t, program: compile(t, "visit", library(t)...)}
}

// by has one client come, which creates a znode with an ACL of whom it is known as, and does what steps say: see the
// program. It returns the path of the znode.
func (v *visits) by(c client, addr string, steps ...string) (path string) {
	v.t.Helper()
	v.count++
	path = fmt.Sprintf("/visit%d", v.count)
	fmt.Fprintf(v, "%s\n", c.name)
	argv := slices.Concat([]string{v.program, addr}, c.how, []string{path}, steps)
	out, err := target.Client{Argv: argv, Env: c.env, Within: visitWithin}.Run(v.t)
	if err != nil {
		v.t.Fatalf("%s: the program failed: %v", c.name, err)
	}
	v.WriteString(out)
	return path
}

// client is who comes: its environment, and how the program makes its handle.
type client struct {
	name string
	env  []string
	how  []string
}

// withTLS is a client with the files that zookeeper_init_ssl takes.
func withTLS(name, files string, env ...string) client {
	return client{name, env, []string{"tls", files}}
}

// files are those that zookeeper_init_ssl takes: who is trusted, own certificate, own key.
func files(trusted *authority.Authority, own *authority.Identity) string {
	pem := own.PEM(own.Cert.SerialNumber.String() + ".pem")
	return trusted.Trust() + "," + pem + "," + pem
}

// acme makes a certificate of the firm that the server knows.
func acme(ca *authority.Authority, name string) *authority.Identity {
	return ca.Issue(pkix.Name{CommonName: name, Organization: []string{"Acme"}}, nil)
}

// openSSL makes settings of OpenSSL's, of which the library has none itself, and returns the environment of who has
// them.
func openSSL(t *testing.T, settings ...string) (env []string) {
	t.Helper()
	head := "openssl_conf = all\n[all]\nssl_conf = ssl\n[ssl]\nsystem_default = tls\n[tls]\n"
	return []string{"OPENSSL_CONF=" + target.WriteFile(t, "openssl.cnf", head+strings.Join(settings, "\n")+"\n")}
}

// oldAndNew are clients that speak some of the versions of TLS, and offer some of the ciphers. That they do is looked
// at first: a refusal would not show it.
func oldAndNew(t *testing.T, v *visits, right client) (all []client) {
	t.Helper()
	const weak = "ALL:COMPLEMENTOFALL:@SECLEVEL=0"
	for _, c := range []struct {
		name, least, most, ciphers string
		version                    uint16 // the newest
	}{
		{"TLSv1.3 alone", "TLSv1.3", "TLSv1.3", "DEFAULT", tls.VersionTLS13},
		{"TLSv1.2 alone", "TLSv1.2", "TLSv1.2", "DEFAULT", tls.VersionTLS12},
		{"TLSv1.1 and TLSv1.0", "TLSv1", "TLSv1.1", weak, tls.VersionTLS11},
		{"TLSv1.0 alone", "TLSv1", "TLSv1", weak, tls.VersionTLS10},
		{"TLSv1.2 without encryption", "TLSv1.2", "TLSv1.2", "eNULL:@SECLEVEL=0", tls.VersionTLS12},
	} {
		visitor := withTLS("a client of "+c.name, right.how[1], openSSL(t, "MinProtocol = "+c.least,
			"MaxProtocol = "+c.most, "CipherString = "+c.ciphers)...)
		hello := helloOf(t, v, visitor)
		if got := slices.Max(hello.SupportedVersions); got != c.version {
			t.Errorf("%s offers %s", visitor.name, tls.VersionName(got))
		}
		encrypts := slices.ContainsFunc(tls.CipherSuites(), func(s *tls.CipherSuite) bool {
			return slices.Contains(hello.CipherSuites, s.ID)
		})
		if encrypts == strings.HasPrefix(c.ciphers, "eNULL") {
			t.Errorf("%s offers the ciphers %#x", visitor.name, hello.CipherSuites)
		}
		all = append(all, visitor)
	}
	return all
}

// helloOf has a client come to a server that hears what it offers, and then turns it away.
func helloOf(t *testing.T, v *visits, c client) *tls.ClientHelloInfo {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nothing is lost
	heard := make(chan *tls.ClientHelloInfo, 1)
	config := &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		select {
		case heard <- h:
		default: // it tries again
		}
		return nil, errors.New("nobody is served")
	}, MinVersion: tls.VersionTLS10} //nolint:gosec // it serves nobody
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			_ = tls.Server(nc, config).Handshake() // it fails: see above
			_ = nc.Close()
		}
	}()
	argv := slices.Concat([]string{v.program, l.Addr().String()}, c.how)
	if _, err := (target.Client{Argv: argv, Env: c.env, Within: visitWithin}).Run(t); err != nil {
		t.Fatalf("%s: the program failed: %v", c.name, err)
	}
	select {
	case hello := <-heard:
		return hello
	default:
		t.Fatalf("%s offers nothing", c.name)
		return nil
	}
}

// TestTLS has clients of all kinds at servers of several kinds.
func TestTLS(t *testing.T) {
	requireLibrary(t)
	v := newVisits(t)
	ca := authority.New(t, "ca")
	right := withTLS("a client with a certificate", files(ca, ca.Named("client")))
	wrong, versions := wrongCertificates(ca, authority.New(t, "other")), oldAndNew(t, v, right)
	// The library insists on a certificate. Its key is RSA: OpenSSL finds it of no use.
	silent := withTLS("a client that shows no certificate", right.how[1],
		openSSL(t, "ClientSignatureAlgorithms = ECDSA+SHA256")...)
	signed := slices.Concat(wrong[:3], []client{silent}, versions[:3])
	own := ca.Named("server").PEM("server.pem")
	elsewhere := ca.Issue(pkix.Name{CommonName: "server"}, authority.Elsewhere).PEM("elsewhere.pem")
	for _, s := range []struct {
		name    string
		config  map[string]string
		clients []client
	}{
		{"a server with the defaults", nil, slices.Concat([]client{right, silent}, wrong, versions)},
		{"a server of TLSv1.2 alone", map[string]string{"ssl.protocol": "TLSv1.2"}, signed},
		{"a server of TLSv1.3 alone", map[string]string{"ssl.protocol": "TLSv1.3"}, signed},
		{"a server that wants a certificate", map[string]string{"ssl.clientAuth": "want"},
			slices.Concat([]client{right, silent}, wrong[:3])},
		{"a server that asks for no certificate", map[string]string{"ssl.clientAuth": "none"}, []client{right}},
		{"a server of another name", map[string]string{"ssl.keyStore.location": elsewhere}, []client{right}},
	} {
		config := map[string]string{"ssl.keyStore.location": own, "ssl.trustStore.location": ca.Trust()}
		maps.Copy(config, s.config)
		plain, addr := target.StartSecure(t, target.Options{Config: config})
		fmt.Fprintf(v, "# %s\n", s.name)
		for _, c := range s.clients {
			v.by(c, addr)
		}
		v.by(withTLS("a client with a certificate, at the port for plain text", right.how[1]), plain.Addr)
		plain.Stop()
	}
	target.Golden(t, "tls", v.String(), *update)
}

// wrongCertificates are clients that a server of ca does not serve, or that do not want it to. The first three show a
// certificate that it refuses.
func wrongCertificates(ca, other *authority.Authority) []client {
	none := strings.Join([]string{ca.Trust(), ca.Write("none.pem", nil), ca.Write("none.key", nil)}, ",")
	dated := func(name string, change func(*x509.Certificate)) string {
		return files(ca, ca.Issue(pkix.Name{CommonName: name}, change))
	}
	return []client{
		withTLS("a client of another authority", files(ca, other.Named("client"))),
		withTLS("a client with an expired certificate", dated("expired", authority.Expired)),
		withTLS("a client with a certificate of tomorrow", dated("early", authority.Early)),
		withTLS("a client that trusts another authority", files(other, ca.Named("client"))),
		withTLS("a client that has no certificate", none), // it does not even connect
		{"a client in plain text", nil, []string{"plain"}},
	}
}

// TestSchemes has three clients with certificates meet ACLs of every scheme.
func TestSchemes(t *testing.T) {
	requireLibrary(t)
	ca := authority.New(t, "ca")
	config := map[string]string{
		"ssl.keyStore.location": ca.Named("server").PEM("server.pem"), "ssl.trustStore.location": ca.Trust(),
		"X509AuthenticationProvider.superUser": "CN=root,O=Acme",
		"authProvider.1":                       "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
	}
	_, addr := target.StartSecure(t, target.Options{Config: config})
	argv := []string{compile(t, "schemes", library(t)...), addr}
	for _, name := range []string{"alice", "eve", "root"} {
		argv = append(argv, files(ca, acme(ca, name)))
	}
	out, err := target.Client{Argv: argv, Within: visitWithin}.Run(t)
	if err != nil {
		t.Fatalf("the program failed: %v", err)
	}
	target.Golden(t, "schemes", out, *update)
}
