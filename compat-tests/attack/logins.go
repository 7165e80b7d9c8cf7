package attack

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"zkd/compat-tests/kdc"
	"zkd/compat-tests/target"
	"zkd/jute"
	"zkd/jute/client"
)

// Settings of the attacks by logins.
const (
	loginsFull    = 20
	tokenMost     = 60_000
	tokensAtOnce  = 50
	saslKey       = "authProvider.1"
	saslClass     = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
	jaasDigest    = "Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_bob=\"b\"; };\n"
	jaasFlag      = "-Djava.security.auth.login.config="
	kerberosFlag  = "-Djava.security.krb5.conf="
	sessionsAgain = time.Second // a session of the flood lasts at most
)

// digestLogins floods the server with the tokens of logins by DIGEST-MD5 that mean nothing.
var digestLogins = Attack{
	Name: "logins by DIGEST-MD5 that mean nothing",
	Config: func(tb testing.TB) (map[string]string, []string) {
		return map[string]string{saslKey: saslClass}, []string{jaasFlag + target.WriteFile(tb, "jaas.conf", jaasDigest)}
	},
	Run: func(f *Field) error { return f.logins(digestToken) },
}

// kerberosLogins does the same with tokens of Kerberos.
var kerberosLogins = Attack{
	Name: "logins by Kerberos that mean nothing",
	Config: func(tb testing.TB) (map[string]string, []string) {
		target.Require(tb, kdc.Tool)
		k := kdc.Start(tb)
		logins := target.WriteFile(tb, "jaas.conf", k.Logins(map[string]string{"Server": kdc.Server}))
		return map[string]string{saslKey: saslClass}, []string{jaasFlag + logins, kerberosFlag + k.Config}
	},
	Run: func(f *Field) error { return f.logins(kerberosToken) },
}

// logins sends tokens until the time is over, on a new connection whenever one is closed.
func (f *Field) logins(token func(r *rand.Rand) []byte) error {
	return f.Each(f.N(loginsFull, 4), func(i int) error {
		r := rand.New(rand.NewPCG(uint64(i), 1)) //nolint:gosec // it is to come again
		for !f.Over() {
			c, err := f.Dial()
			if err != nil {
				return err
			}
			for until := time.Now().Add(sessionsAgain); err == nil && !f.Over() && time.Now().Before(until); {
				err = sendTokens(c, r, token)
			}
			c.Cut()
		}
		return nil
	})
}

// sendTokens sends some tokens and takes the answers.
func sendTokens(c *client.Conn, r *rand.Rand, token func(r *rand.Rand) []byte) error {
	if err := c.SetDeadline(callWithin); err != nil {
		return err
	}
	for range tokensAtOnce {
		t := token(r)
		record := func(b []byte) []byte { return jute.AppendBuffer(b, t) }
		if _, _, err := c.Do(jute.OpSASL, record); err != nil {
			return err
		}
	}
	return nil
}

// digestToken is a response to a challenge of DIGEST-MD5, of sorts.
func digestToken(r *rand.Rand) []byte {
	b := []byte(`charset=utf-8,username="bob",realm="zk-sasl-md5",nonce="`)
	for range r.IntN(tokenMost) {
		b = append(b, byte(r.Uint32()))
	}
	return append(b, `",nc=00000001,cnonce="x",digest-uri="zookeeper/zk-sasl-md5",response=0,qop=auth`...)
}

// kerberosToken is a token of GSSAPI that begins as an AP-REQ does (RFC 4121, section 4.1) and goes on with elements of
// ASN.1 whose lengths are anything.
func kerberosToken(r *rand.Rand) []byte {
	var body []byte
	for len(body) < r.IntN(tokenMost)+2 {
		tag := []byte{0x30, 0x60, 0x61, 0x6e, 0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0x02, 0x03, 0x04, 0x1b}[r.IntN(13)]
		body = append(body, tag, 0x84)
		body = binary.BigEndian.AppendUint32(body, r.Uint32()>>r.IntN(32))
		for range r.IntN(40) {
			body = append(body, byte(r.Uint32()))
		}
	}
	inner := append([]byte{0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02, 0x01, 0x00}, body...)
	b := binary.BigEndian.AppendUint32([]byte{0x60, 0x84}, uint32(len(inner)))
	return append(b, inner...)
}
