package acl_test

import (
	"crypto/md5" //nolint:gosec // the mechanism is made of it
	"crypto/x509/pkix"
	"fmt"
	"regexp"
	"testing"

	"zkd/compat-tests/authority"
	"zkd/compat-tests/target"
	"zkd/jute"
	"zkd/jute/client"
)

// saslUsers are the users of the server, as its JAAS file has them. root is the superuser.
const saslUsers = `Server { org.apache.zookeeper.server.auth.DigestLoginModule required
	user_bob="pw" user_eve="pw" user_root="pw"; };
`

// Subjects of certificates. rootSubject is the superuser's.
var (
	aliceSubject = &pkix.Name{CommonName: "alice", Organization: []string{"Acme"}}
	eveSubject   = &pkix.Name{CommonName: "eve", Organization: []string{"Acme"}}
	rootSubject  = &pkix.Name{CommonName: "root", Organization: []string{"Acme"}}
)

// logins are the identities that certificates and logins by SASL prove.
func logins(a *secured) []identity {
	alice, bob := id("x509", "CN=alice,O=Acme"), id("sasl", "bob")
	return []identity{
		{name: "x509: the name", grant: alice, who: a.certificate(aliceSubject)},
		{name: "x509: another name", grant: alice, who: a.certificate(eveSubject)},
		{name: "x509: nobody", grant: alice, who: a.certificate(nil)},
		{name: "x509: in plain text", grant: alice, who: nobody},
		{name: "x509: super", grant: alice, who: a.certificate(rootSubject)},
		{name: "auth: the owner's certificate", grant: id("auth", ""), owner: a.certificate(aliceSubject),
			who: a.certificate(aliceSubject)},
		{name: "auth: another certificate", grant: id("auth", ""), owner: a.certificate(aliceSubject),
			who: a.certificate(eveSubject)},
		{name: "auth: one of certificate and login", grant: id("auth", ""),
			owner: login(a.certificate(aliceSubject), "bob"), who: login(nobody, "bob")},
		{name: "sasl: the user", grant: bob, who: login(nobody, "bob")},
		{name: "sasl: the user, with TLS", grant: bob, who: login(a.certificate(nil), "bob")},
		{name: "sasl: another user", grant: bob, who: login(nobody, "eve")},
		{name: "sasl: the name in a certificate", grant: bob, who: a.certificate(&pkix.Name{CommonName: "bob"})},
		{name: "sasl: nobody", grant: bob, who: nobody},
		{name: "sasl: super", grant: bob, who: login(nobody, "root")},
		{name: "auth: the owner's login", grant: id("auth", ""), owner: login(nobody, "bob"),
			who: login(nobody, "bob")},
		{name: "auth: another login", grant: id("auth", ""), owner: login(nobody, "bob"), who: login(nobody, "eve")},
	}
}

// TestMatrixLogins runs the table for those who show a certificate or log in.
func TestMatrixLogins(t *testing.T) {
	target.Require(t, target.ToolsOf(target.Selected(t))...)
	a := &secured{ca: authority.New(t, "authority")}
	jaas := target.WriteFile(t, "jaas.conf", saslUsers)
	var s *target.Server
	s, a.addr = target.StartSecure(t, target.Options{Config: map[string]string{
		"forceSync": "no", "ssl.keyStore.location": a.ca.Named("server").PEM("server.pem"),
		"ssl.clientAuth": "want", "ssl.trustStore.location": a.ca.Trust(),
		"X509AuthenticationProvider.superUser": "CN=root,O=Acme",
		"authProvider.1":                       "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
	}, JVMFlags: []string{"-Djava.security.auth.login.config=" + jaas, "-Dzookeeper.superUser=root"}})
	target.Golden(t, "logins", matrix(t, s, logins(a)), *update)
}

// nonce is in a challenge.
var nonce = regexp.MustCompile(`nonce="([^"]*)"`)

// login connects as another proof does, and logs in by DIGEST-MD5 (RFC 2831), with the password of all users.
func login(connect proof, user string) proof {
	return func(t *testing.T, addr string) *client.Conn {
		t.Helper()
		c := connect(t, addr)
		challenge := token(t, c, []byte{})
		given := nonce.FindSubmatch(challenge)
		if given == nil {
			t.Fatalf("the challenge is %q", challenge)
		}
		const realm, uri, own = "zk-sasl-md5", "zookeeper/zk-sasl-md5", "c0ffee"
		sum := func(s string) [md5.Size]byte { return md5.Sum([]byte(s)) } //nolint:gosec // see the import
		hash := func(s string) string { return fmt.Sprintf("%x", sum(s)) }
		secret := sum(user + ":" + realm + ":pw")
		response := hash(hash(fmt.Sprintf("%s:%s:%s", secret[:], given[1], own)) +
			fmt.Sprintf(":%s:00000001:%s:auth:", given[1], own) + hash("AUTHENTICATE:"+uri))
		token(t, c, fmt.Appendf(nil, `charset=utf-8,username="%s",realm="%s",nonce="%s",nc=00000001,cnonce="%s",`+
			`digest-uri="%s",maxbuf=65536,response=%s,qop=auth`, user, realm, given[1], own, uri, response))
		return c
	}
}

// token sends one token of a login, which goes on. The answer is valid until the next one.
func token(t *testing.T, c *client.Conn, sent []byte) (answer []byte) {
	t.Helper()
	header, body, err := c.Do(jute.OpSASL, (&jute.SASLToken{Token: sent}).Append)
	if err != nil || header.Err != jute.OK {
		t.Fatalf("login: %v, %v", header.Err, err)
	}
	var got jute.SASLToken
	d := jute.NewDecoder(body)
	got.Decode(&d)
	return got.Token
}
