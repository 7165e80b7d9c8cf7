package tls_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/authority"
	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/target"
)

// reconfigure replaces keys in the zoo.cfg of a server; an empty value removes one.
func reconfigure(t *testing.T, s *ensemble.Server, keys map[string]string) {
	t.Helper()
	path := filepath.Join(s.Dir, "zoo.cfg")
	text, err := os.ReadFile(path) //nolint:gosec // the test's own
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		key, _, _ := strings.Cut(line, "=")
		if _, replaced := keys[key]; !replaced {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if keys[key] != "" {
			lines = append(lines, key+"="+keys[key])
		}
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// stores are the keys of an identity between servers.
func stores(own *authority.Identity, name string) map[string]string {
	return map[string]string{
		"ssl.quorum.keyStore.location": own.PEM(name), "ssl.quorum.trustStore.location": own.By.Trust(),
	}
}

// writing writes through one server until it is told to stop; each write is tried until it is done.
func writing(t *testing.T, e *ensemble.Ensemble) (stop func() int) {
	t.Helper()
	conn, _, err := zk.Connect(e.Addrs(), 30*time.Second, zk.WithLogger(quiet{}), zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	done, written := make(chan struct{}), make(chan int, 1)
	go func() {
		n := 0
		for {
			select {
			case <-done:
				written <- n
				return
			default:
			}
			_, err := conn.Create(fmt.Sprintf("/w%d", n), nil, 0, zk.WorldACL(zk.PermAll))
			if err == nil || err == zk.ErrNodeExists { //nolint:errorlint // the client returns it as it is
				n++
			}
		}
	}()
	return func() int {
		close(done)
		return <-written
	}
}

// TestRollingMove moves three servers from plain text to TLS one by one, as the documents say, while a client writes.
func TestRollingMove(t *testing.T) {
	t.Parallel()
	ca := authority.New(t, "ca")
	e := ensemble.Start(t, ensemble.Options{})
	stop := writing(t, e)
	for _, step := range []map[string]string{
		{"portUnification": "true"},
		{"sslQuorum": "true"},
		{"portUnification": ""},
	} {
		for _, s := range e.Servers {
			keys := stores(ca.Named("server"), "server.pem")
			maps.Copy(keys, step)
			reconfigure(t, s, keys)
			s.Stop()
			s.Launch()
			e.AwaitServing(s)
		}
	}
	written := stop()
	conn := session(t, e.Servers[0].Client, nil)
	if _, err := conn.Sync("/"); err != nil {
		t.Fatal(err)
	}
	names, _, err := conn.Children("/")
	if err != nil || len(names)-1 < written || written == 0 {
		t.Errorf("%d were written, %d are there, %v", written, len(names)-1, err)
	}
	t.Logf("%d writes during the move", written)
	for _, s := range e.Servers { // and now plain text is refused
		_, ports, _ := strings.Cut(s.Address, ":")
		port, _, _ := strings.Cut(ports, ":")
		if got := outcome(net.JoinHostPort("127.0.0.1", port), nil); got != "refused" {
			t.Errorf("plain text at the port for servers: %s", got)
		}
	}
}

// TestPeersAreKnown has servers that must not join: with a certificate of another authority, of which nobody's list
// knows better, with one that is revoked, for another host, and without TLS.
func TestPeersAreKnown(t *testing.T) {
	t.Parallel()
	if target.Selected(t) != target.Zkd {
		t.Skip("looks for the refusals in zkd's log")
	}
	ca, other := authority.New(t, "ca"), authority.New(t, "other")
	list := newLists(t, ca)
	listed := func(name string, change func(*x509.Certificate)) *authority.Identity {
		return ca.Issue(pkix.Name{CommonName: name}, func(c *x509.Certificate) {
			c.CRLDistributionPoints = []string{list.url}
			if change != nil {
				change(c)
			}
		})
	}
	good, revoked := listed("good", nil), listed("revoked", nil)
	list.revoke(revoked)
	config := stores(good, "good.pem")
	config["sslQuorum"], config["ssl.quorum.crl"] = "true", "true"
	e := ensemble.Prepare(t, ensemble.Options{Config: config, Calm: true}) // its clients try nothing again
	third := e.Servers[2]
	for _, s := range e.Servers[:2] {
		s.Launch()
	}
	e.AwaitServing(e.Servers[:2]...)
	conn := session(t, e.Servers[0].Client, nil)
	for _, c := range []struct {
		name string
		keys map[string]string
	}{
		{"another authority", stores(other.Named("server"), "other.pem")},
		{"revoked", stores(revoked, "revoked.pem")},
		{"for another host", stores(listed("elsewhere", authority.Elsewhere), "elsewhere.pem")},
		{"without TLS", map[string]string{"sslQuorum": ""}},
	} {
		keys := maps.Clone(config)
		maps.Copy(keys, c.keys)
		if c.name == "another authority" { // it trusts both: only the others refuse
			keys["ssl.quorum.trustStore.location"] = other.TrustBoth("both.pem", ca)
			keys["ssl.quorum.crl"] = "false"
		}
		reconfigure(t, third, keys)
		third.Launch()
		await(t, "server 3 is refused: "+c.name, func() bool {
			all := ""
			for _, s := range e.Servers {
				all += s.LogTail(400)
			}
			return strings.Contains(all, refusals[c.name])
		})
		path := "/without" + strings.ReplaceAll(c.name, " ", "")
		if _, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Errorf("the others do not go on: %v", err)
		}
		if answer, err := third.FourLetterWord("srvr"); err == nil && strings.Contains(answer, "Mode: follower") {
			t.Errorf("%s: server 3 has joined: %s", c.name, answer)
		}
		third.Stop()
	}
	reconfigure(t, third, config)
	third.Launch()
	e.AwaitServing(e.Servers...)
}

// refusals are what zkd says, so that the test knows that the others were asked: they themselves, or, when it is they
// who connect, server 3.
var refusals = map[string]string{
	"another authority": "which is not in ssl.quorum.trustStore.location", "revoked": "it is revoked",
	"for another host": "TLS: remote error: tls: bad certificate", "without TLS": "no TLS: the connection began with",
}

// TestPeerReload replaces the certificates of all servers, and the authority, while they run.
func TestPeerReload(t *testing.T) {
	t.Parallel()
	if target.Selected(t) != target.Zkd {
		t.Skip("looks at the certificates on zkd's port for servers")
	}
	ca, next := authority.New(t, "ca"), authority.New(t, "next")
	config := stores(ca.Named("first"), "server.pem")
	config["sslQuorum"], config["sslQuorumReloadCertFiles"] = "true", "true"
	e := ensemble.Start(t, ensemble.Options{Config: config})
	ca.TrustBoth("trust.pem", next)
	second := next.Named("second")
	ca.Write("server.pem", second.Blocks())
	shown := func(s *ensemble.Server) string {
		_, ports, _ := strings.Cut(s.Address, ":")
		port, _, _ := strings.Cut(ports, ":")
		config := next.Config(second)
		name := ""
		config.InsecureSkipVerify = true //nolint:gosec // it looks
		config.VerifyPeerCertificate = func(raw [][]byte, _ [][]*x509.Certificate) error {
			cert, err := x509.ParseCertificate(raw[0])
			if err == nil {
				name = cert.Subject.CommonName
			}
			return err
		}
		outcome(net.JoinHostPort("127.0.0.1", port), config)
		return name
	}
	for _, s := range e.Servers {
		await(t, "a server shows its new certificate", func() bool { return shown(s) == "second" })
	}
	follower := e.Followers()[0]
	follower.Stop()
	follower.Launch()
	e.AwaitServing(follower)
}
