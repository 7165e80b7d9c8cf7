package cclient_test

import (
	"crypto/tls"
	"io"
	"net"
	"path/filepath"
	"testing"

	"zkd/compat-tests/authority"
	"zkd/compat-tests/kdc"
	"zkd/compat-tests/target"
)

// users are those of the servers.
const users = `Server { org.apache.zookeeper.server.auth.DigestLoginModule required
	user_bob="secret" user_root="of all"; };
`

// withLogins starts a server with a JAAS file, and returns its port for plain text and a tunnel to that for TLS: the
// library speaks TLS or SASL, not both, so its users have something that speaks TLS for them.
func withLogins(
	t *testing.T, jaas string, config map[string]string, flags ...string,
) (plain *target.Server, tunnel string) {
	t.Helper()
	ca := authority.New(t, "ca")
	all := map[string]string{
		"authProvider.1":        "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
		"ssl.keyStore.location": ca.Named("server").PEM("server.pem"), "ssl.trustStore.location": ca.Trust(),
	}
	for key, value := range config { // any order: the keys differ
		all[key] = value
	}
	flags = append(flags, "-Djava.security.auth.login.config="+target.WriteFile(t, "jaas.conf", jaas),
		"-Dzookeeper.superUser=root")
	plain, addr := target.StartSecure(t, target.Options{Config: all, JVMFlags: flags})
	return plain, startTunnel(t, addr, ca.Config(acme(ca, "tunnel")))
}

// startTunnel returns an address of which every connection goes on, over TLS, to addr.
func startTunnel(t *testing.T, addr string, config *tls.Config) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // the connections end with the client
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer in.Close() //nolint:errcheck // all is copied, or the other side is gone
				out, err := tls.Dial("tcp", addr, config)
				if err != nil {
					return
				}
				go func() {
					_, _ = io.Copy(out, in) // its end is that of the client
					_ = out.Close()
				}()
				_, _ = io.Copy(in, out) // its end is that of the server
			}()
		}
	}()
	return l.Addr().String()
}

// bySASL is a client that logs in by a mechanism, to a server that it knows by a name.
func bySASL(name, mechanism, host, user, passwordFile string, env ...string) client {
	return client{name, env, []string{"sasl", mechanism, host, user, passwordFile}}
}

// TestDigestMD5 logs in by DIGEST-MD5, and by what nobody should take in its place.
func TestDigestMD5(t *testing.T) {
	requireLibrary(t, digestTool)
	v := newVisits(t)
	const host = "zk-sasl-md5"
	secret, wrong := target.WriteFile(t, "secret", "secret\n"), target.WriteFile(t, "wrong", "wrong\n")
	bob := bySASL("bob", "DIGEST-MD5", host, "bob", secret)
	nobody := client{"a client that does not log in", nil, []string{"plain"}}

	v.WriteString("# a server with users\n")
	server, tunnel := withLogins(t, users, nil)
	proxy := target.StartProxy(t, server.Addr)
	mine := v.by(bob, proxy.Addr, "cut:"+proxy.CutServer(t), "/zookeeper/quota")
	v.by(bob, server.Addr, mine)
	v.by(nobody, server.Addr, mine)
	v.by(bySASL("root", "DIGEST-MD5", host, "root", target.WriteFile(t, "root", "of all\n")), server.Addr, mine)
	over := bob
	over.name = "bob, over TLS"
	v.by(over, tunnel, mine)
	for _, c := range []client{
		bySASL("bob with a wrong password", "DIGEST-MD5", host, "bob", wrong),
		bySASL("a user that is none", "DIGEST-MD5", host, "eve", secret),
		bySASL("bob at a server that he takes for another", "DIGEST-MD5", "elsewhere", "bob", secret),
		bySASL("bob by PLAIN", "PLAIN", host, "bob", secret),
		bySASL("anybody by ANONYMOUS", "ANONYMOUS", host, "bob", secret),
	} {
		v.by(c, server.Addr, mine)
		c.name += ", over TLS"
		v.by(c, tunnel, mine)
	}

	v.WriteString("# a server where everybody must log in\n")
	server, tunnel = withLogins(t, users, map[string]string{"sessionRequireClientSASLAuth": "true"})
	v.by(bob, server.Addr)
	v.by(nobody, server.Addr)
	nobody.name += ", over TLS"
	v.by(nobody, tunnel)
	v.by(bySASL("bob with a wrong password", "DIGEST-MD5", host, "bob", wrong), server.Addr)
	target.Golden(t, "digest-md5", v.String(), *update)
}

// TestKerberos logs in by GSSAPI with tickets of a KDC.
func TestKerberos(t *testing.T) {
	requireLibrary(t, kdc.Tool, gssapiTool)
	v := newVisits(t)
	k := kdc.Start(t)
	logins := k.Logins(map[string]string{"Server": kdc.Server})
	server, tunnel := withLogins(t, logins, nil, "-Djava.security.krb5.conf="+k.Config)
	with := func(principal string) []string { return append(k.Env(), "KRB5CCNAME="+k.Ticket(t, principal)) }
	const host = "localhost"
	bob := bySASL("bob", "GSSAPI", host, "bob", "", with(kdc.Bob)...)
	proxy := target.StartProxy(t, server.Addr)
	mine := v.by(bob, proxy.Addr, "cut:"+proxy.CutServer(t), "/zookeeper/quota")
	bob.name += ", over TLS"
	v.by(bob, tunnel, mine)
	for _, c := range []client{
		bySASL("alice", "GSSAPI", host, "alice", "", with(kdc.Alice)...),
		bySASL("alice, who says that she is bob", "GSSAPI", host, "bob@"+kdc.Realm, "", with(kdc.Alice)...),
		bySASL("bob without a ticket", "GSSAPI", host, "bob", "",
			append(k.Env(), "KRB5CCNAME=FILE:"+filepath.Join(k.Dir, "none"))...),
		bySASL("bob at a server that the KDC does not know", "GSSAPI", "elsewhere", "bob", "", with(kdc.Bob)...),
		bySASL("bob by DIGEST-MD5", "DIGEST-MD5", "zk-sasl-md5", "bob", target.WriteFile(t, "secret", "secret\n")),
		{"a client that does not log in", nil, []string{"plain"}},
	} {
		v.by(c, server.Addr, mine)
	}
	target.Golden(t, "gssapi", v.String(), *update)
}
