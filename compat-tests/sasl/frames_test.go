package sasl_test

import (
	"crypto/md5" //nolint:gosec // the mechanism is made of it
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"zkd/compat-tests/target"
	"zkd/jute"
	"zkd/jute/client"
)

// frames is a client whose answers are written down.
type frames struct {
	*client.Conn
	t   *testing.T
	out *strings.Builder
}

// dial opens a session.
func dial(t *testing.T, addr string, out *strings.Builder) *frames {
	t.Helper()
	c, err := client.Dial(t.Context(), client.Options{Addr: addr, Now: time.Now, Dial: new(net.Dialer).DialContext})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Cut)
	return &frames{Conn: c, t: t, out: out}
}

// call sends a request and returns what the transcript shows of the reply, and its body, valid until the next.
func (f *frames) call(op jute.Op, record func([]byte) []byte) (shown string, body []byte) {
	f.t.Helper()
	header, body, err := f.Do(op, record)
	if errors.Is(err, client.ErrOutOfOrder) || errors.Is(err, os.ErrDeadlineExceeded) {
		f.t.Fatal(err)
	}
	if err != nil {
		return "closed", nil
	}
	return fmt.Sprintf("err %d", header.Err), body
}

// nonce is in a challenge, proof in what ends a dialogue.
var (
	nonce = regexp.MustCompile(`nonce="([^"]*)"`)
	proof = regexp.MustCompile(`rspauth=[0-9a-f]{32}`)
)

// step sends a token and writes the answer down.
func (f *frames) step(token []byte) (answer []byte) {
	shown, body := f.call(jute.OpSASL, (&jute.SASLToken{Token: token}).Append)
	if shown == "closed" {
		fmt.Fprintf(f.out, " %s;", shown)
		return nil
	}
	var t jute.SASLToken
	d := jute.NewDecoder(body)
	t.Decode(&d)
	text := "null"
	if t.Token != nil {
		text = nonce.ReplaceAllString(proof.ReplaceAllString(string(t.Token), "rspauth=PROOF"), `nonce="NONCE"`)
	}
	fmt.Fprintf(f.out, " %s %s;", shown, text)
	return t.Token
}

// after writes down what a request gets, and who the client is.
func (f *frames) after() {
	shown, body := f.call(jute.OpWhoAmI, nil)
	fmt.Fprintf(f.out, " whoAmI %s", shown)
	var who jute.WhoAmIResponse
	d := jute.NewDecoder(body)
	if who.Decode(&d); d.Err() == nil {
		for _, info := range who.ClientInfo {
			fmt.Fprintf(f.out, " %s:%s", info.AuthScheme, info.User)
		}
	}
	f.out.WriteByte('\n')
}

// respond makes the client's response to a challenge. change replaces directives, "-" leaves one out.
func respond(challenge []byte, user, password string, change map[string]string) []byte {
	var given string
	if m := nonce.FindSubmatch(challenge); m != nil {
		given = string(m[1])
	}
	d := map[string]string{
		"charset": "utf-8", "username": `"` + user + `"`, "realm": `"zk-sasl-md5"`, "nonce": `"` + given + `"`,
		"nc": "00000001", "cnonce": `"c0ffee"`, "digest-uri": `"zookeeper/zk-sasl-md5"`,
		"maxbuf": "65536", "qop": "auth",
	}
	for key, value := range change { // any order: the keys differ
		d[key] = value
	}
	value := func(key string) string { return strings.Trim(d[key], `"`) }
	sum := func(s string) [md5.Size]byte { return md5.Sum([]byte(s)) } //nolint:gosec // see the import
	hash := func(s string) string { return fmt.Sprintf("%x", sum(s)) }
	secret := sum(value("username") + ":" + value("realm") + ":" + password)
	session := string(secret[:]) + ":" + value("nonce") + ":" + value("cnonce")
	if _, ok := d["authzid"]; ok {
		session += ":" + value("authzid")
	}
	if _, ok := d["response"]; !ok {
		d["response"] = hash(hash(session) + ":" + value("nonce") + ":00000001:" + value("cnonce") + ":auth:" +
			hash("AUTHENTICATE:"+value("digest-uri")))
	}
	var parts []string
	for _, key := range []string{"charset", "username", "realm", "nonce", "nc", "nonce-count", "cnonce", "digest-uri",
		"maxbuf", "response", "qop", "cipher", "authzid", "twice", "last"} {
		switch v, ok := d[key]; {
		case !ok || v == "-":
		case key == "twice", key == "last":
			parts = append(parts, v)
		default:
			parts = append(parts, key+"="+v)
		}
	}
	return []byte(strings.Join(parts, ","))
}

// responses are the dialogues of the script: user, password and what is unusual.
var responses = []struct {
	user, password string
	change         map[string]string
}{
	{"bob", `bob "secret"`, nil},
	{"root", "rootsecret", nil},
	{"super", "adminsecret", nil},
	{"super", "other", nil},
	{"bob", "wrong", nil},
	{"nobody", "x", nil},
	{"Bob", `bob "secret"`, nil},
	{"", "x", nil},
	{"a@b@c", "x", nil},
	{"bob@EXAMPLE.COM", "y", nil},
	{"bob", `bob "secret"`, map[string]string{"authzid": `"super"`}},
	{"bob", `bob "secret"`, map[string]string{"charset": "-"}},
	{"bob", `bob "secret"`, map[string]string{"charset": "UTF-8"}},
	{"bob", `bob "secret"`, map[string]string{"username": "-"}},
	{"bob", `bob "secret"`, map[string]string{"realm": "-"}},
	{"bob", `bob "secret"`, map[string]string{"realm": `"other"`}},
	{"bob", `bob "secret"`, map[string]string{"nonce": `"other"`}},
	{"bob", `bob "secret"`, map[string]string{"cnonce": "-"}},
	{"bob", `bob "secret"`, map[string]string{"nc": "00000002"}},
	{"bob", `bob "secret"`, map[string]string{"nonce-count": "2"}},
	{"bob", `bob "secret"`, map[string]string{"nonce-count": "x"}},
	{"bob", `bob "secret"`, map[string]string{"maxbuf": "x"}},
	{"bob", `bob "secret"`, map[string]string{"maxbuf": "-"}},
	{"bob", `bob "secret"`, map[string]string{"qop": "-"}},
	{"bob", `bob "secret"`, map[string]string{"qop": "auth-int"}},
	{"bob", `bob "secret"`, map[string]string{"qop": "auth-conf", "cipher": "rc4-40"}},
	{"bob", `bob "secret"`, map[string]string{"digest-uri": `"zookeeper/zk-quorum-sasl-md5"`}},
	{"bob", `bob "secret"`, map[string]string{"digest-uri": `"ZooKeeper/zk-SASL-md5"`}},
	{"bob", `bob "secret"`, map[string]string{"digest-uri": "-"}},
	{"bob", `bob "secret"`, map[string]string{"response": "-"}},
	{"bob", `bob "secret"`, map[string]string{"response": `""`}},
	{"bob", `bob "secret"`, map[string]string{"twice": "qop=auth"}},
	{"bob", `bob "secret"`, map[string]string{"last": "other"}},
	{"bob", `bob "secret"`, map[string]string{"last": "other=\""}},
}

// script holds every dialogue with one server.
func script(t *testing.T, addr string, out *strings.Builder) {
	t.Helper()
	for _, r := range responses {
		fmt.Fprintf(out, "%s %s %v:", r.user, r.password, r.change)
		c := dial(t, addr, out)
		if challenge := c.step([]byte{}); challenge != nil {
			c.step(respond(challenge, r.user, r.password, r.change))
		}
		c.after()
	}
	for _, tokens := range [][]string{
		{"an initial response"}, {strings.Repeat("x", 5000)}, {"", strings.Repeat("x", 5000)},
		{"", "garbage"}, {"", ""}, {"", "garbage", "", ""},
	} {
		fmt.Fprintf(out, "tokens %.30q:", tokens)
		c := dial(t, addr, out)
		for _, token := range tokens {
			c.step([]byte(token))
		}
		c.after()
	}
	fmt.Fprint(out, "again after success:")
	c := dial(t, addr, out)
	c.step(respond(c.step([]byte{}), "bob", `bob "secret"`, nil))
	c.step([]byte{})
	c.after()
	for _, body := range [][]byte{{255, 255, 255, 255}, {255, 255, 255, 254}, {0, 0}} { // null, negative, cut
		fmt.Fprintf(out, "body % x:", body)
		c := dial(t, addr, out)
		shown, _ := c.call(jute.OpSASL, func(b []byte) []byte { return append(b, body...) })
		fmt.Fprintf(out, " %s;", shown)
		c.after()
	}
	for _, p := range []jute.AuthPacket{
		{Scheme: "sasl", Auth: []byte("bob")}, {Scheme: "digest", Auth: []byte("u:p")}, {Scheme: "ensemble"},
		{Scheme: "ensemble", Auth: []byte("two")}, {Scheme: "ensemble", Auth: []byte("three")},
	} {
		fmt.Fprintf(out, "auth %s %q:", p.Scheme, p.Auth)
		c := dial(t, addr, out)
		shown, _ := c.call(jute.OpAuth, p.Append)
		fmt.Fprintf(out, " %s;", shown)
		c.after()
	}
}

// TestFrames holds the same dialogues with servers of several settings.
func TestFrames(t *testing.T) {
	target.Require(t, target.ToolsOf(target.Selected(t))...)
	const ensembleKey, ensemble = "authProvider.2", "org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider"
	for _, c := range []struct {
		name  string
		keys  map[string]string
		flags []string
	}{
		{"usual", map[string]string{ensembleKey: ensemble}, []string{
			jvmFlag("zookeeper.superUser", "root"), jvmFlag("zookeeper.ensembleAuthName", "one,two"),
			jvmFlag("zookeeper.SASLAuthenticationProvider.superPassword", "other"),
		}},
		{"failed may stay", nil, []string{
			jvmFlag("zookeeper.allowSaslFailedClients", "true"),
			jvmFlag("zookeeper.kerberos.removeRealmFromPrincipal", "true"),
			jvmFlag("zookeeper.security.auth_to_local", "RULE:[1:$1]s/b/x/g"),
		}},
		{"digest or sasl enforced", map[string]string{
			"enforce.auth.enabled": "true", "enforce.auth.schemes": "digest, sasl", "allowSaslFailedClients": "true",
		}, nil},
		{"digest enforced", map[string]string{"enforce.auth.enabled": "true", "enforce.auth.schemes": "digest"}, nil},
		{"no login of that name", nil, []string{jvmFlag("zookeeper.sasl.serverconfig", "Other")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			s := start(t, c.keys, c.flags...)
			script(t, s.Addr, &out)
			keepsSecrets(t, s)
			target.Golden(t, "frames-"+strings.ReplaceAll(c.name, " ", "-"), out.String(), *update)
		})
	}
}

// keepsSecrets checks that no password is in what the server shows or has logged.
func keepsSecrets(t *testing.T, s *target.Server) {
	t.Helper()
	text, err := os.ReadFile(s.LogPath())
	if err != nil {
		t.Fatal(err)
	}
	shown := string(text)
	for _, word := range []string{"conf", "envi", "cons", "dump", "mntr"} {
		answer, err := s.FourLetterWord(word)
		if err != nil {
			t.Fatal(err)
		}
		shown += answer
	}
	for _, secret := range []string{"adminsecret", "rootsecret", "secret\"", "superPassword"} {
		if strings.Contains(shown, secret) {
			t.Errorf("%s is in the log or in an answer", secret)
		}
	}
}
