package sasl

import (
	"bytes"
	"crypto/md5" //nolint:gosec // the mechanism is made of it
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"zkd/jute"
)

// users of the tests.
var users = map[string]string{
	"bob": "bobsecret", "super": "adminsecret", "jürgen": "pässwörd", "Юрий": "пароль", "nul": "", "a@b@c": "x",
	"bob@EXAMPLE.COM": "y",
}

// zeros is a source of nonces.
type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// nonceOfZeros is the nonce that zeros give.
var nonceOfZeros = strings.Repeat("A", 40)

// newServer is a server of DIGEST-MD5.
func newServer(t testing.TB, set func(*Options, *DigestOptions, *NameOptions)) *Server {
	t.Helper()
	d := DigestOptions{Users: users, Random: zeros{}}
	var o Options
	var n NameOptions
	if set != nil {
		set(&o, &d, &n)
	}
	names, err := NewNames(n)
	if err != nil {
		t.Fatal(err)
	}
	o.Mechanism, o.Names = NewDigestMD5(d), names
	return New(o)
}

// challenged is a dialogue whose challenge was sent.
func challenged(t testing.TB, s *Server) *Dialogue {
	t.Helper()
	d := s.Begin()
	answer, ids, err := d.Respond(nil)
	want := `realm="zk-sasl-md5",nonce="` + nonceOfZeros + `",charset=utf-8,algorithm=md5-sess`
	if string(answer) != want || len(ids) > 0 || err != nil {
		t.Fatalf("the challenge is %q, %v, %v", answer, ids, err)
	}
	return d
}

// response is what a client answers, and rspauth what it expects: the client's half of RFC 2831, written anew.
func response(user, password string, change func(map[string]string)) (text, rspauth string) {
	d := map[string]string{
		"charset": "utf-8", "username": `"` + user + `"`, "realm": `"zk-sasl-md5"`, "nonce": `"` + nonceOfZeros + `"`,
		"nc": "00000001", "cnonce": `"c0ffee"`, "digest-uri": `"zookeeper/zk-sasl-md5"`,
		"maxbuf": "65536", "qop": "auth",
	}
	if change != nil {
		change(d)
	}
	value := func(key string) string { return strings.Trim(d[key], `"`) }
	a1 := digestSecret(value("username"), value("realm"), password)
	session := string(a1[:]) + ":" + value("nonce") + ":" + value("cnonce")
	if authzid, ok := d["authzid"]; ok {
		session += ":" + strings.Trim(authzid, `"`)
	}
	hash := func(method string) string {
		return hexMD5([]byte(hexMD5([]byte(session)) + ":" + value("nonce") + ":00000001:" + value("cnonce") +
			":auth:" + hexMD5([]byte(method+":"+value("digest-uri")))))
	}
	if _, ok := d["response"]; !ok {
		d["response"] = hash("AUTHENTICATE")
	}
	var parts []string
	for _, key := range []string{"charset", "username", "realm", "nonce", "nc", "cnonce", "digest-uri", "maxbuf",
		"response", "qop", "authzid", "nonce-count", "cipher"} {
		if v, ok := d[key]; ok && v != "-" {
			parts = append(parts, key+"="+v)
		}
	}
	return strings.Join(parts, ","), "rspauth=" + hash("")
}

// TestExample is the example of RFC 2831, section 4, with its realm and service.
func TestExample(t *testing.T) {
	const nonce = "OA6MG9tEQGm2hh"
	secret := [16]byte{}
	copy(secret[:], md5Of("chris:elwood.innosoft.com:secret"))
	d := directives{"cnonce": []byte("OA6MHXh6VqTrRk"), "digest-uri": []byte("imap/elwood.innosoft.com")}
	if got := digest(secret, nonce, d, digestClient); got != "d388dad90d4bbd760a152321f2143af7" {
		t.Errorf("the response is %s", got)
	}
	if got := digest(secret, nonce, d, digestServer); got != "ea40f60335c427b5527b84dbabcdfffd" {
		t.Errorf("rspauth is %s", got)
	}
}

// TestCapture is a dialogue that was recorded from 3.9.5.
func TestCapture(t *testing.T) {
	mechanism, _ := NewDigestMD5(DigestOptions{Users: users}).(*digestMD5)
	e := &digestExchange{mechanism: mechanism, nonce: "NB1pBe+ZmWXQ7/hXZ5wCl+lTqhXcc5hoD9OrYPw0"}
	answer, name, err := e.Respond([]byte(`charset=utf-8,username="bob",realm="zk-sasl-md5",` +
		`nonce="NB1pBe+ZmWXQ7/hXZ5wCl+lTqhXcc5hoD9OrYPw0",nc=00000001,cnonce="c0ffee",` +
		`digest-uri="zookeeper/zk-sasl-md5",maxbuf=65536,response=6e5ed6a99a084c048294b90e36d95282,qop=auth`))
	if err != nil || name != "bob" || string(answer) != "rspauth=b015056912216abbda2877cc86bd1d66" {
		t.Errorf("answer %q, name %q, %v", answer, name, err)
	}
}

func TestDigestMD5(t *testing.T) {
	for _, c := range []struct{ user, password string }{
		{"bob", "bobsecret"}, {"super", "adminsecret"}, {"jürgen", "pässwörd"}, {"Юрий", "пароль"}, {"nul", ""},
	} {
		d := challenged(t, newServer(t, nil))
		text, want := response(c.user, c.password, nil)
		answer, ids, err := d.Respond([]byte(text))
		if err != nil || string(answer) != want {
			t.Errorf("%s: %q, %v, want %q", c.user, answer, err, want)
		}
		if diff := cmp.Diff([]jute.ID{{Scheme: "sasl", ID: c.user}}, ids); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.user, diff)
		}
		if _, ids, err := d.Respond([]byte(text)); len(ids) > 0 || !errors.Is(err, errOver) {
			t.Errorf("%s: the same again: %v, %v", c.user, ids, err)
		}
	}
}

// TestResponses: what else is taken, and what is refused and why.
func TestResponses(t *testing.T) {
	set := func(pairs ...string) func(map[string]string) {
		return func(d map[string]string) {
			for i := 0; i < len(pairs); i += 2 {
				d[pairs[i]] = pairs[i+1]
			}
		}
	}
	for _, c := range []struct {
		name   string
		change func(map[string]string)
		want   error
	}{
		{"as it should be", nil, nil},
		{"no charset", set("charset", "-"), nil},
		{"another charset", set("charset", "latin1"), errCharset},
		{"charset in capitals", set("charset", "UTF-8"), errCharset},
		{"no maxbuf", set("maxbuf", "-"), nil},
		{"odd maxbuf", set("maxbuf", "big"), ErrBroken},
		{"empty maxbuf", set("maxbuf", `""`), ErrBroken},
		{"no user", set("username", "-"), errNoUser},
		{"unknown user", set("username", `"nobody"`), errUnknownUser},
		{"empty user", set("username", `""`), ErrBroken},
		{"a key alone at the end", set("cipher", "x,authzid-"), nil},
		{"wrong capitals", set("username", `"Bob"`), errUnknownUser},
		{"another realm", set("realm", `"other"`), errRealm},
		{"no realm", set("realm", "-"), errRealm},
		{"another nonce", set("nonce", `"other"`), errNonce},
		{"no nonce", set("nonce", "-"), errNonce},
		{"no cnonce", set("cnonce", "-"), errNoCnonce},
		{"another nc, which nobody looks at", set("nc", "00000002"), nil},
		{"no nc", set("nc", "-"), nil},
		{"nonce-count", set("nonce-count", "00000001"), nil},
		{"another nonce-count", set("nonce-count", "00000002"), errCount},
		{"odd nonce-count", set("nonce-count", "one"), ErrBroken},
		{"no qop", set("qop", "-"), nil},
		{"downgrade: integrity was not offered", set("qop", "auth-int"), errQOP},
		{"downgrade: privacy was not offered", set("qop", "auth-conf", "cipher", "rc4-40"), errQOP},
		{"odd qop", set("qop", "none"), errQOP},
		{"another service", set("digest-uri", `"ldap/zk-sasl-md5"`), errURI},
		{"quorum's server", set("digest-uri", `"zookeeper/zk-quorum-sasl-md5"`), errURI},
		{"no digest-uri", set("digest-uri", "-"), errURI},
		{"digest-uri in capitals", set("digest-uri", `"ZooKeeper/ZK-SASL-MD5"`), nil},
		{"no response", set("response", "-"), errNoResponse},
		{"empty response", set("response", `""`), errPassword},
		{"response in capitals", set("response", strings.Repeat("A", 32)), errPassword},
		{"a cipher that counts for nothing", set("cipher", "3des"), nil},
		{"an authorization id, which gives nothing", set("authzid", `"super"`), nil},
	} {
		text, rspauth := response("bob", "bobsecret", c.change)
		answer, ids, err := challenged(t, newServer(t, nil)).Respond([]byte(text))
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if err == nil {
			want := []jute.ID{{Scheme: "sasl", ID: "bob"}}
			if diff := cmp.Diff(want, ids); diff != "" || string(answer) != rspauth {
				t.Errorf("%s: answer %q, identities (-want +got):\n%s", c.name, answer, diff)
			}
		} else if answer != nil || ids != nil {
			t.Errorf("%s: a refused client got %q and %v", c.name, answer, ids)
		}
	}
	text, _ := response("bob", "wrong", nil)
	if _, _, err := challenged(t, newServer(t, nil)).Respond([]byte(text)); !errors.Is(err, errPassword) {
		t.Errorf("a wrong password: %v", err)
	}
}

// TestDirectives: what the list of directives may look like.
func TestDirectives(t *testing.T) {
	for _, c := range []struct {
		text string
		want directives
	}{
		{"", directives{}},
		{" ,, \t,\r\n", directives{}},
		{"qop=auth", directives{"qop": []byte("auth")}},
		{`QOP = "au\t\"h" , realm= x`, directives{"qop": []byte(`aut"h`), "realm": []byte("x")}},
		{"qop=a realm=b", directives{"qop": []byte("a"), "realm": []byte("b")}},
		{`qop="",realm=,other=1,other=2`, directives{"qop": {}, "realm": {}}},
		{"other", directives{}},
		{"qop", directives{"qop": {}}},
		{"qop=a,qop=b", nil},
		{"=a", nil},
		{"qop ", nil},
		{"qop=", nil},
		{"qop=  ", nil},
		{"qop,realm=x", nil},
		{"qop realm=x", nil},
		{`qop="a`, nil},
		{`qop="a\`, nil},
		{`qop="a"b`, nil},
	} {
		got, err := parseDirectives([]byte(c.text))
		if (err != nil) != (c.want == nil) {
			t.Errorf("%q: %v", c.text, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.text, diff)
		}
	}
}

func TestFirstToken(t *testing.T) {
	d := newServer(t, nil).Begin()
	answer, _, err := d.Respond([]byte("an initial response"))
	if err != nil || !bytes.HasPrefix(answer, []byte("realm=")) {
		t.Errorf("an initial response: %q, %v", answer, err)
	}
	d = newServer(t, nil).Begin()
	if _, _, err := d.Respond(make([]byte, digestResponseMax+1)); err == nil {
		t.Error("a token of any length is taken")
	}
	if _, _, err := d.Respond(nil); !errors.Is(err, errOver) {
		t.Errorf("a dialogue goes on after it has failed: %v", err)
	}
}

// TestExtras: superPassword, superUser and letAnySaslUserDoX.
func TestExtras(t *testing.T) {
	s := newServer(t, func(o *Options, d *DigestOptions, _ *NameOptions) {
		o.SuperUsers, o.AnyUser, d.SuperPassword = []string{"root", "bob"}, "anybody", "other"
	})
	text, _ := response("super", "adminsecret", nil)
	if _, _, err := challenged(t, s).Respond([]byte(text)); !errors.Is(err, errPassword) {
		t.Errorf("super has the password of the table: %v", err)
	}
	for user, want := range map[string][]jute.ID{
		"super": {{Scheme: "sasl", ID: "super"}, {Scheme: "sasl-any", ID: "anybody"}},
		"bob":   {{Scheme: "sasl", ID: "bob"}, {Scheme: "super"}, {Scheme: "sasl-any", ID: "anybody"}},
	} {
		password := map[string]string{"super": "other", "bob": "bobsecret"}[user]
		text, _ := response(user, password, nil)
		_, ids, err := challenged(t, s).Respond([]byte(text))
		if diff := cmp.Diff(want, ids); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", user, err, diff)
		}
	}
	if users["super"] != "adminsecret" {
		t.Error("the table was changed")
	}
	lone := NewDigestMD5(DigestOptions{Users: map[string]string{"bob": "x"}, SuperPassword: "other", Random: zeros{}})
	if len(lone.(*digestMD5).users) != 1 {
		t.Error("superPassword alone makes a user")
	}
}

// TestAuthorizationID: a name that no rule applies to does not become what the client asks to be. (On 3.9.5 it does, a
// superuser included; measured, 2026-11.)
func TestAuthorizationID(t *testing.T) {
	s := newServer(t, func(o *Options, _ *DigestOptions, _ *NameOptions) { o.SuperUsers = []string{"root"} })
	text, _ := response("bob@EXAMPLE.COM", "y", func(d map[string]string) { d["authzid"] = `"root"` })
	_, ids, err := challenged(t, s).Respond([]byte(text))
	want := []jute.ID{{Scheme: "sasl", ID: "bob@EXAMPLE.COM"}}
	if diff := cmp.Diff(want, ids); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestNames has what SaslServerCallbackHandler of 3.9.5 makes of names (measured, 2026-11).
func TestNames(t *testing.T) {
	const realm = "EXAMPLE.COM"
	for _, c := range []struct {
		name    string
		options NameOptions
		want    string
	}{
		{"bob", NameOptions{}, "bob"},
		{"bob/host", NameOptions{}, "bob/host"},
		{"bob@EXAMPLE.COM", NameOptions{DefaultRealm: realm}, "bob@EXAMPLE.COM"},
		{"bob@OTHER", NameOptions{DefaultRealm: realm, RemoveRealm: true}, "bob@OTHER"},
		{"bob/h@OTHER", NameOptions{DefaultRealm: realm, RemoveRealm: true, RemoveHost: true}, "bob/h@OTHER"},
		{"bob/h@EXAMPLE.COM", NameOptions{DefaultRealm: realm}, "bob/h@EXAMPLE.COM"},
		{"bob/h@EXAMPLE.COM", NameOptions{DefaultRealm: realm, RemoveHost: true}, "bob@EXAMPLE.COM"},
		{"bob/h@EXAMPLE.COM", NameOptions{DefaultRealm: realm, RemoveRealm: true}, "bob/h"},
		{"bob/h@EXAMPLE.COM", NameOptions{DefaultRealm: realm, RemoveHost: true, RemoveRealm: true}, "bob"},
		{"bob@", NameOptions{}, "bob@"},
		{"@", NameOptions{}, "@"},
		{"bob@OTHER", NameOptions{AuthToLocal: "RULE:[1:$1] DEFAULT", RemoveRealm: true}, "bob"},
		{"bob/h@OTHER", NameOptions{AuthToLocal: "RULE:[1:$1]", RemoveRealm: true}, "bob/h@OTHER"},
		{"bob/h@OTHER", NameOptions{AuthToLocal: "RULE:[2:$2.$1]", RemoveRealm: true, RemoveHost: true}, "h.bob"},
		{"bob@OTHER", NameOptions{AuthToLocal: "RULE:[1:$1@$0](.*@OTHER)s/@.*//", RemoveRealm: true}, "bob"},
		{"bob@THIRD", NameOptions{AuthToLocal: "RULE:[1:$1@$0](.*@OTHER)s/@.*//", RemoveRealm: true}, "bob@THIRD"},
		{"bob@OTHER", NameOptions{AuthToLocal: "RULE:[1:$1@$0]", RemoveRealm: true}, "bob@OTHER"},
		{"abab@R", NameOptions{AuthToLocal: "RULE:[1:$1]s/a/x/", RemoveRealm: true}, "xbab"},
		{"abab@R", NameOptions{AuthToLocal: "RULE:[1:$1]s/a/x/g", RemoveRealm: true}, "xbxb"},
		{"abab@R", NameOptions{AuthToLocal: `RULE:[1:$1]s/(a)(b)/$2\$$1/g`, RemoveRealm: true}, "b$ab$a"},
		{"abc@R", NameOptions{AuthToLocal: "RULE:[1:$1]s/(b)/$10/", RemoveRealm: true}, "ab0c"},
		{"abc@R", NameOptions{AuthToLocal: "RULE:[1:$1](b)", RemoveRealm: true}, "abc@R"},
	} {
		n, err := NewNames(c.options)
		if err != nil {
			t.Errorf("%+v: %v", c.options, err)
			continue
		}
		if got, err := n.identity(c.name); err != nil || got != c.want {
			t.Errorf("%s with %+v: %q, %v, want %q", c.name, c.options, got, err, c.want)
		}
	}
	n, err := NewNames(NameOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a@b@c", "a/b/c@R", "a@R/x"} {
		if got, err := n.identity(name); !errors.Is(err, ErrBroken) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestWrongRules(t *testing.T) {
	for _, rules := range []string{
		"default", "RULE", "RULE:[:x]", "RULE:[1:$2]", "RULE:[1:$]", "RULE:[1:$1](()", "RULE:[1:$1]s/(/x/",
		"RULE:[1:$1]s/a/$1/", `RULE:[1:$1]s/a/\/`, "RULE:[1:$1]s/a/$/", "RULE:[1:$1](a(?=b))",
		"RULE:[9999999999999999999:x]",
		"DEFAULT x",
	} {
		if _, err := NewNames(NameOptions{AuthToLocal: rules}); err == nil {
			t.Errorf("%s is taken", rules)
		}
	}
}

// FuzzDigestResponse: no response makes the exchange panic or proves a name, unless it holds the right proof.
func FuzzDigestResponse(f *testing.F) {
	right, _ := response("bob", "bobsecret", nil)
	f.Add([]byte(right[:len(right)-1]))
	f.Add([]byte(`username="\"" , realm=zk-sasl-md5,,nonce = x`))
	f.Add([]byte(`a="\`))
	s := newServer(f, nil)
	f.Fuzz(func(t *testing.T, token []byte) {
		d := challenged(t, s)
		_, ids, err := d.Respond(token)
		if err == nil && !bytes.Contains(token, []byte("response")) {
			t.Fatalf("%q proves %v", token, ids)
		}
		if err != nil && strings.Contains(err.Error(), "bobsecret") {
			t.Fatalf("a password in an error: %v", err)
		}
	})
}

// FuzzRules: any rules are taken or refused, and applying them does not panic.
func FuzzRules(f *testing.F) {
	f.Add("RULE:[1:$1@$0](.*@OTHER)s/@.*// DEFAULT", "bob@OTHER")
	f.Add(`RULE:[2:$2]s/(a)/\$$1/g`, "a/b@C")
	f.Fuzz(func(t *testing.T, rules, name string) {
		n, err := NewNames(NameOptions{AuthToLocal: rules, DefaultRealm: "C"})
		if err != nil {
			return
		}
		first, err := n.identity(name)
		second, again := n.identity(name)
		if first != second || (err == nil) != (again == nil) {
			t.Fatalf("two identities: %q, %q", first, second)
		}
	})
}

// md5Of is the MD5 of a text.
func md5Of(s string) []byte {
	sum := md5.Sum([]byte(s)) //nolint:gosec // the mechanism is made of it
	return sum[:]
}
