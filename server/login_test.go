package server

import (
	"crypto/md5" //nolint:gosec // the mechanism is made of it
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"zkd/jute"
	"zkd/server/auth"
	"zkd/server/auth/sasl"
	"zkd/server/stats/catalog"
	"zkd/storage/entry"
)

// saslRig is a server with the users bob, root, who is super, and one of a malformed name.
func saslRig(t *testing.T, s sasl.Options, enforced ...string) *rig {
	return newRig(t, func(o *Options) {
		registry, err := auth.New(auth.Options{
			Extra: []auth.Provider{auth.NewSASL(), auth.NewEnsemble("one, two")}, EnforcedSchemes: enforced,
		})
		if err != nil {
			t.Fatal(err)
		}
		if s.Names, err = sasl.NewNames(sasl.NameOptions{}); err != nil {
			t.Fatal(err)
		}
		users := map[string]string{"bob": "bobsecret", "root": "rootsecret", "a@b@c": "x"}
		s.Mechanism = sasl.NewDigestMD5(sasl.DigestOptions{Users: users, Random: o.Random})
		s.SuperUsers = []string{"root"}
		o.Registry, o.SASL, o.Flags = registry, sasl.New(s), o.Flags|entry.FlagSASL
	})
}

// step sends a token, and takes the reply and its token.
func (c *client) step(token []byte) (reply, []byte) {
	c.t.Helper()
	r := c.call(jute.OpSASL, &jute.SASLToken{Token: token})
	var answer jute.SASLToken
	r.decodeBody(c.t, &answer)
	if r.Zxid != 0 {
		c.t.Errorf("the reply to a token has zxid %#x", r.Zxid)
	}
	return r, answer.Token
}

// login goes through DIGEST-MD5 and returns the last reply and its token.
func (c *client) login(user, password string) (reply, []byte) {
	c.t.Helper()
	_, challenge := c.step([]byte{})
	_, rest, _ := strings.Cut(string(challenge), `nonce="`)
	nonce, _, _ := strings.Cut(rest, `"`)
	const uri = "zookeeper/zk-sasl-md5"
	secret := md5.Sum([]byte(user + ":zk-sasl-md5:" + password)) //nolint:gosec // see the import
	hash := func(s string) string {
		sum := md5.Sum([]byte(s)) //nolint:gosec // see the import
		return fmt.Sprintf("%x", sum)
	}
	session, method := hash(string(secret[:])+":"+nonce+":cn"), hash("AUTHENTICATE:"+uri)
	proof := hash(session + ":" + nonce + ":00000001:cn:auth:" + method)
	return c.step([]byte(`username="` + user + `",realm="zk-sasl-md5",nonce="` + nonce +
		`",nc=00000001,cnonce="cn",digest-uri="` + uri + `",response=` + proof + `,qop=auth,charset=utf-8`))
}

// whoAmI asks for the identities, but for that of the address.
func (c *client) whoAmI() []jute.ClientInfo {
	c.t.Helper()
	r := c.must(jute.OpWhoAmI, nil, jute.OK)
	var who jute.WhoAmIResponse
	r.decodeBody(c.t, &who)
	var infos []jute.ClientInfo
	for _, info := range who.ClientInfo {
		if info.AuthScheme != auth.SchemeIP {
			infos = append(infos, info)
		}
	}
	return infos
}

func TestSASL(t *testing.T) {
	r := saslRig(t, sasl.Options{})
	for user, want := range map[string][]jute.ClientInfo{
		"bob":  {{AuthScheme: "sasl", User: "bob"}},
		"root": {{AuthScheme: "sasl", User: "root"}, {AuthScheme: "super"}},
	} {
		c := r.connect(t)
		got, token := c.login(user, user+"secret")
		if got.Err != jute.OK || !strings.HasPrefix(string(token), "rspauth=") {
			t.Errorf("%s: %v, %q", user, got.Err, token)
		}
		if diff := cmp.Diff(want, c.whoAmI()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", user, diff)
		}
	}
}

// TestSASLACL: what a SASL user owns nobody else reads, but for the superuser.
func TestSASLACL(t *testing.T) {
	r := saslRig(t, sasl.Options{AnyUser: "everybody"})
	bob, root, nobody := r.connect(t), r.connect(t), r.connect(t)
	bob.login("bob", "bobsecret")
	root.login("root", "rootsecret")
	for path, id := range map[string]jute.ID{
		"/bob": {Scheme: "auth"}, "/root": {Scheme: "sasl", ID: "root"}, "/any": {Scheme: "sasl", ID: "everybody"},
	} {
		list := []jute.ACL{{Perms: jute.PermAll, ID: id}}
		bob.must(jute.OpCreate, &jute.CreateRequest{Path: path, ACL: list}, jute.OK)
	}
	for path, want := range map[string]jute.Code{"/bob": jute.OK, "/root": jute.NoAuth, "/any": jute.OK} {
		bob.must(jute.OpGetData, look(path), want)
		bob.must(jute.OpSetData, &jute.SetDataRequest{Path: path, Version: -1}, want)
		root.must(jute.OpGetData, look(path), jute.OK)
		nobody.must(jute.OpGetData, look(path), jute.NoAuth)
		nobody.must(jute.OpSetData, &jute.SetDataRequest{Path: path, Version: -1}, jute.NoAuth)
	}
	var list jute.GetACLResponse
	got := root.must(jute.OpGetACL, &jute.PathRequest{Path: "/bob"}, jute.OK)
	got.decodeBody(t, &list)
	want := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "sasl", ID: "bob"}}}
	if diff := cmp.Diff(want, list.ACL); diff != "" {
		t.Errorf("the caller's ACL (-want +got):\n%s", diff)
	}
}

// TestSASLFailures: what each failure costs (measured on 3.9.5).
func TestSASLFailures(t *testing.T) {
	for _, c := range []struct {
		name     string
		options  sasl.Options
		enforced []string
		code     jute.Code
		stays    bool
	}{
		{"usually", sasl.Options{}, nil, jute.AuthFailed, false},
		{"enforced", sasl.Options{}, []string{"sasl", "digest"}, jute.SessionClosedAuth, false},
		{"another scheme is enforced", sasl.Options{}, []string{"digest"}, jute.AuthFailed, false},
		{"allowed", sasl.Options{AllowFailed: true}, nil, jute.OK, true},
		{"allowed and enforced", sasl.Options{AllowFailed: true}, []string{"sasl"}, jute.SessionClosedAuth, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := saslRig(t, c.options, c.enforced...)
			cl := r.connect(t)
			got, token := cl.login("bob", "wrong")
			if got.Err != c.code || token != nil {
				t.Errorf("a wrong password: %v, %q", got.Err, token)
			}
			if c.stays {
				if got, token := cl.step([]byte("again")); got.Err != jute.OK || token != nil || cl.whoAmI() != nil {
					t.Errorf("after a failure: %v, %q", got.Err, token)
				}
			} else {
				cl.wantClosed()
			}
			for _, body := range []raw{{255, 255, 255, 255}, {0, 0}, {128, 0, 0, 0}} { // null, cut, negative
				cl := r.connect(t)
				cl.send(jute.OpSASL, body)
				cl.wantClosed()
			}
			cl = r.connect(t)
			cl.step([]byte{})
			cl.send(jute.OpSASL, &jute.SASLToken{Token: []byte("maxbuf=x")})
			cl.wantClosed()
		})
	}
}

// TestSASLEnforced: nothing is answered before the dialogue is over, and all after it.
func TestSASLEnforced(t *testing.T) {
	r := saslRig(t, sasl.Options{}, "sasl")
	for name, talk := range map[string]func(*client){
		"at once": func(*client) {},
		"after digest": func(c *client) {
			c.must(jute.OpAuth, &jute.AuthPacket{Scheme: "digest", Auth: []byte("u:p")}, 0)
		},
		"half way":        func(c *client) { c.step([]byte{}) },
		"with an initial": func(c *client) { c.step([]byte("x")) },
	} {
		c := r.connect(t)
		talk(c)
		if got := c.call(jute.OpPing, nil); got.Err != jute.SessionClosedAuth {
			t.Errorf("%s: %v", name, got.Err)
		}
		c.wantClosed()
	}
	c := r.connect(t)
	c.login("bob", "bobsecret")
	c.must(jute.OpExists, look("/"), jute.OK)
}

// TestWithoutSASL: a server without users says that all is well, as 3.9.5 does, and the client is nobody.
func TestWithoutSASL(t *testing.T) {
	r := newRig(t, nil)
	c := r.connect(t)
	for range 2 {
		if got, token := c.step([]byte{}); got.Err != jute.OK || token != nil {
			t.Errorf("a token is answered %v, %q", got.Err, token)
		}
	}
	if who := c.whoAmI(); who != nil {
		t.Errorf("identities %v", who)
	}
}

func TestEnsembleScheme(t *testing.T) {
	r := saslRig(t, sasl.Options{})
	for _, name := range []string{"one", "two", ""} {
		c := r.connect(t)
		c.must(jute.OpAuth, &jute.AuthPacket{Scheme: "ensemble", Auth: []byte(name)}, jute.OK)
		if who := c.whoAmI(); who != nil {
			t.Errorf("identities %v", who)
		}
	}
	c := r.connect(t)
	c.send(jute.OpAuth, &jute.AuthPacket{Scheme: "ensemble", Auth: []byte("three")})
	c.wantClosed()
	v := catalog.New()
	r.server.SetMetrics(v)
	for name, want := range map[string]int64{ // any order
		"ensemble_auth_success": 2, "ensemble_auth_skip": 1, "ensemble_auth_fail": 1,
	} {
		if n, ok := v.Number(name); !ok || n.Whole != want {
			t.Errorf("%s is %d, want %d", name, n.Whole, want)
		}
	}
}

// prove adds an identity of the scheme digest.
func (c *client) prove(user string, want jute.Code) {
	c.t.Helper()
	c.must(jute.OpAuth, &jute.AuthPacket{Scheme: auth.SchemeDigest, Auth: []byte(user + ":p")}, want)
}

// TestIdentitiesAreBounded: who proves to be too many is refused, and the log says by what.
func TestIdentitiesAreBounded(t *testing.T) {
	log := &logged{}
	r := newRig(t, func(o *Options) {
		o.Limits.Identities = auth.Bounds{Identities: 3}
		o.Logger = slog.New(slog.NewJSONHandler(log, nil))
	})
	c, other := r.connect(t), r.connect(t)
	c.prove("one", jute.OK)
	c.prove("two", jute.OK)
	c.prove("two", jute.OK)
	if log.has("identity refused") {
		t.Error("refused before it was too many")
	}
	c.prove("three", jute.AuthFailed)
	c.wantClosed()
	eventually(t, "the refusal is in the log", func() bool { return log.has("identity refused") })
	other.prove("one", jute.OK)
	other.must(jute.OpCreate, makeNode("/a", "", jute.ModePersistent), jute.OK)
}

// TestTokensOfOneConnectionAreBounded has a client that may stay after a failure send tokens without end.
func TestTokensOfOneConnectionAreBounded(t *testing.T) {
	r := saslRig(t, sasl.Options{AllowFailed: true})
	c := r.connect(t)
	for range saslTokensMax {
		c.step([]byte("again"))
	}
	c.send(jute.OpSASL, &jute.SASLToken{Token: []byte("again")})
	c.wantClosed()
	if got, _ := r.connect(t).login("bob", "bobsecret"); got.Err != jute.OK {
		t.Errorf("another client: %v", got.Err)
	}
}
