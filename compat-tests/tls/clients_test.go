package tls_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zkd/compat-tests/authority"
	"zkd/compat-tests/target"
)

// TestClients has zkCli, which is the Java client, and Kazoo do the same over TLS.
func TestClients(t *testing.T) {
	t.Parallel()
	ca := authority.New(t, "ca")
	_, addr := secured(t, map[string]string{
		"ssl.keyStore.location": ca.Named("server").PEM("server.pem"), "ssl.trustStore.location": ca.Trust(),
		"ssl.enabledProtocols": "TLSv1.2,TLSv1.3", "X509AuthenticationProvider.superUser": "CN=root",
	})
	client := ca.Issue(pkix.Name{CommonName: "client", Organization: []string{"Acme"}}, nil)
	t.Run("java", func(t *testing.T) {
		target.Require(t, target.Java, target.Maven)
		java := func(store string, flags ...string) string {
			argv := append([]string{"java"}, target.JVMOptions(t)...)
			argv = append(argv, flags...)
			argv = append(argv, "-Dcompat.loglevel=OFF", "-Dzookeeper.client.secure=true",
				"-Dzookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty",
				"-Dzookeeper.ssl.keyStore.location="+store, "-Dzookeeper.ssl.keyStore.password="+authority.Password,
				"-Dzookeeper.ssl.trustStore.location="+store, "-Dzookeeper.ssl.trustStore.password="+authority.Password,
				"-cp", target.Classpath(t, target.ServerPOM, "zookeeper.version="+target.ServerVersion),
				"org.apache.zookeeper.ZooKeeperMain", "-timeout", "40000", "-server", addr)
			out, _ := target.Client{ // who is refused ends with an error
				Argv: argv, Within: 5 * time.Minute,
				Stdin: "whoami\ncreate /java x auth:x:cdrwa\ngetAcl /java\nget /java\nquit\n",
			}.Run(t)
			return out
		}
		out := java(client.JKS("client.jks"))
		for _, want := range []string{"x509: CN=client,O=Acme\n", "'x509,'CN=client%2CO=Acme\n: cdrwa\nx\n"} {
			if !strings.Contains(out, want) {
				t.Errorf("the Java client does not print %q:\n%s", want, out)
			}
		}
		if out := java(authority.New(t, "ca").Named("client").JKS("client.jks")); strings.Contains(out, "x509: ") {
			t.Errorf("a Java client of another authority is served:\n%s", out)
		}
	})
	t.Run("kazoo", func(t *testing.T) {
		target.Require(t, target.Python)
		client.PEM("client.pem")
		out, err := target.Client{
			Argv: []string{
				filepath.Join(environment(t), "bin", "python"), filepath.Join("testdata", "kazoo_tls.py"), addr,
				filepath.Join(ca.Dir, "client.pem"), ca.Trust(),
			},
			Within: 5 * time.Minute,
		}.Run(t)
		if err != nil {
			t.Fatalf("kazoo_tls.py: %v", err)
		}
		const want = "x509:CN=client,O=Acme x 100000\nrefused without a certificate\nrefused with another authority\n"
		if out != want {
			t.Errorf("Kazoo prints %q, want %q", out, want)
		}
	})
}

// environment is a Python with Kazoo.
func environment(t *testing.T) string {
	t.Helper()
	const kazoo = "kazoo==2.11.0"
	return target.Cached(t, "python", []string{kazoo}, func(ctx context.Context, dir string) error {
		return target.PythonEnvironment(ctx, dir, kazoo)
	})
}

// TestReload replaces the certificate of a server while it runs, by one that cannot be read and by a right one; who is
// connected stays.
func TestReload(t *testing.T) {
	t.Parallel()
	ca := authority.New(t, "ca")
	store := ca.Named("first").PEM("server.pem")
	s, addr := secured(t, map[string]string{
		"ssl.keyStore.location": store, "ssl.trustStore.location": ca.Trust(), "client.certReload": "true",
		"ssl.authProvider": "x509",
	})
	client := ca.Config(ca.Named("client"))
	conn := session(t, addr, client)
	shown := func() string {
		nc, err := tls.DialWithDialer(&net.Dialer{Timeout: within}, "tcp", addr, client)
		if err != nil {
			return err.Error()
		}
		defer nc.Close() //nolint:errcheck // nothing was sent
		return nc.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	if got := shown(); got != "first" {
		t.Fatalf("the server shows %s", got)
	}
	second := ca.Named("second")
	if target.Selected(t) == target.Zkd { // ZooKeeper would serve nobody any more
		ca.Write("server.pem", []byte("no store"))
		await(t, "the broken store is seen", func() bool { return strings.Contains(s.LogTail(50), "failed to reload") })
		if got := shown(); got != "first" {
			t.Errorf("with a broken store the server shows %s", got)
		}
	}
	second.PEM("server.pem")
	await(t, "the server shows its new certificate", func() bool { return shown() == "second" })
	if _, _, err := conn.Get("/zookeeper"); err != nil {
		t.Errorf("who was connected: %v", err)
	}
	// The trust store, too.
	other := authority.New(t, "other")
	newcomer := other.Config(other.Named("client"))
	newcomer.RootCAs = client.RootCAs
	if got := outcome(addr, newcomer); got != "refused" {
		t.Errorf("a client of an authority that is not trusted yet: %s", got)
	}
	ca.TrustBoth("trust.pem", other)
	await(t, "the new authority is trusted", func() bool { return outcome(addr, newcomer) == "served" })
}

// await waits for a condition.
func await(t *testing.T, what string, ready func() bool) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for !ready() {
		select {
		case <-poll.C:
		case <-deadline.C:
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// TestRevocation has clients whose certificates a list names, does not name, and cannot speak of.
func TestRevocation(t *testing.T) {
	t.Parallel()
	ca := authority.New(t, "ca")
	lists := newLists(t, ca)
	_, addr := secured(t, map[string]string{
		"ssl.keyStore.location": ca.Named("server").PEM("server.pem"), "ssl.trustStore.location": ca.Trust(),
		"ssl.crl": "true",
	})
	at := func(name string, address string) *authority.Identity {
		return ca.Issue(pkix.Name{CommonName: name}, func(c *x509.Certificate) {
			if address != "" {
				c.CRLDistributionPoints = []string{address}
			}
		})
	}
	good, bad := at("good", lists.url), at("bad", lists.url)
	lists.revoke(bad)
	var out transcript
	for _, c := range []*authority.Identity{
		good, bad, at("without a list", ""), at("with a list that is not there", lists.url+"/none"),
		at("with an old list", lists.url+"/old"), at("with a list of another", lists.url+"/other"),
		at("with a list in a file", "file://"+ca.Write("list.crl", lists.list(time.Now().Add(time.Hour)))),
	} {
		out.line("%s: %s", c.Cert.Subject.CommonName, outcome(addr, ca.Config(c)))
	}
	target.Golden(t, "revocation", out.String(), *update)
}
