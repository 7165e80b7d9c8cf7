package instance

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/target"
)

// consoleVisitor is a browser of its own: an address, a name of the server, and the cookies that it was given.
type consoleVisitor struct {
	t            *testing.T
	to           http.Handler
	remote, host string
	header       http.Header
	cookies      map[string]string
	token        string // of the last page
}

// startConsole starts a server with a console.
func startConsole(t *testing.T, more string) *Instance {
	t.Helper()
	i, _ := startAs(t, fmt.Sprintf("dataDir=%s\nclientPort=0\nclientPortAddress=127.0.0.1\nadmin.serverPort=0\n"+
		"zkd.diskReserve=0\nDigestAuthenticationProvider.superDigest=%s\n%s\n", t.TempDir(),
		target.DigestOf("super", "right"), more), realWorld())
	soon(t, "the server serves", func() bool { return i.server.Info().Serving })
	return i
}

// fromHere is a visitor on this machine, fromElsewhere one on another.
func fromHere(t *testing.T, i *Instance) *consoleVisitor {
	return &consoleVisitor{t: t, to: i.admin, remote: "127.0.0.1:5000", host: "localhost:8080", header: http.Header{},
		cookies: map[string]string{}}
}

func fromElsewhere(t *testing.T, i *Instance) *consoleVisitor {
	v := fromHere(t, i)
	v.remote, v.host = "192.0.2.7:5000", "zk1.example.org:8080"
	return v
}

var tokenField = regexp.MustCompile(`name="token" value="([^"]+)"`)

// do asks for a page of the console.
func (v *consoleVisitor) do(method, path string, form url.Values) *httptest.ResponseRecorder {
	v.t.Helper()
	body := ""
	if form != nil {
		body = form.Encode()
	}
	r := httptest.NewRequestWithContext(v.t.Context(), method, "/console/ensemble/"+path, strings.NewReader(body))
	r.RemoteAddr, r.Host = v.remote, v.host
	for name := range v.header { // any order
		r.Header.Set(name, v.header.Get(name))
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, value := range v.cookies { // any order
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	w := httptest.NewRecorder()
	v.to.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if c.MaxAge < 0 {
			delete(v.cookies, c.Name)
			continue
		}
		if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/console/" {
			v.t.Errorf("the cookie is %v", c)
		}
		v.cookies[c.Name] = c.Value
	}
	if match := tokenField.FindStringSubmatch(w.Body.String()); match != nil {
		v.token = match[1]
	}
	if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "script-src 'self';") ||
		strings.Contains(policy, "unsafe") {
		v.t.Errorf("%s: the policy is %q", path, policy)
	}
	return w
}

// get returns the status and the text of a page.
func (v *consoleVisitor) get(path string) (status int, text string) {
	v.t.Helper()
	w := v.do(http.MethodGet, path, nil)
	return w.Code, w.Body.String()
}

// signIn signs in, and reports the status.
func (v *consoleVisitor) signIn(scheme, user, password string) int {
	v.t.Helper()
	code := v.do(http.MethodPost, "signin", url.Values{"scheme": {scheme}, "user": {user}, "password": {password}}).Code
	if code == http.StatusSeeOther {
		v.get("")
	}
	return code
}

func TestWithoutACredentialOnlyThisMachineLooks(t *testing.T) {
	leavesNone(t)
	i := startConsole(t, "")
	here := fromHere(t, i)
	for _, page := range []struct{ path, want string }{
		{"", "standalone"}, {"tree", "zookeeper"}, {"tree?path=/zookeeper/config", "Kind"},
		{"sessions", "127.0.0.1"}, // of this visitor, who has one since he looks at the tree
	} {
		if code, text := here.get(page.path); code != http.StatusOK || !strings.Contains(text, page.want) {
			t.Errorf("%s: %d, without %q", page.path, code, page.want)
		}
	}
	for name, v := range map[string]*consoleVisitor{
		"from elsewhere":  fromElsewhere(t, i),
		"by another name": {t: t, to: i.admin, remote: "127.0.0.1:1", host: "evil.example:8080"},
		"behind a proxy": {t: t, to: i.admin, remote: "127.0.0.1:1", host: "localhost",
			header: http.Header{"X-Forwarded-For": {"127.0.0.1"}}},
		"with a made cookie": {t: t, to: i.admin, remote: "192.0.2.7:1", host: "h",
			cookies: map[string]string{"zkd_console": "AAAA"}},
	} {
		if v.cookies == nil {
			v.cookies = map[string]string{}
		}
		for _, path := range []string{"", "tree", "value?path=/", "sessions"} {
			if code, text := v.get(path); code != http.StatusSeeOther || strings.Contains(text, "standalone") {
				t.Errorf("%s, %q: %d", name, path, code)
			}
		}
		for _, path := range []string{"overview/live", "tree/live?path=/"} {
			if code, _ := v.get(path); code != http.StatusUnauthorized {
				t.Errorf("%s, %q: %d", name, path, code)
			}
		}
	}
}

func TestWhoSignsInHasProvenSomething(t *testing.T) {
	i := startConsole(t, "")
	next := 1
	for name, c := range map[string]struct {
		visitor                *consoleVisitor
		scheme, user, password string
		code                   int
	}{
		"the superuser":                  {fromElsewhere(t, i), "digest", "super", "right", http.StatusSeeOther},
		"a wrong password":               {fromHere(t, i), "digest", "super", "wrong", http.StatusForbidden},
		"a name of ACLs, here":           {fromHere(t, i), "digest", "alice", "x", http.StatusSeeOther},
		"a name of ACLs, from elsewhere": {fromElsewhere(t, i), "digest", "alice", "x", http.StatusForbidden},
		"SASL where there is none":       {fromHere(t, i), "sasl", "alice", "x", http.StatusForbidden},
		"nobody":                         {fromHere(t, i), "digest", "", "", http.StatusForbidden},
		"another scheme":                 {fromHere(t, i), "ip", "127.0.0.1", "x", http.StatusForbidden},
		"a colon":                        {fromHere(t, i), "digest", "super:right", "", http.StatusForbidden},
	} {
		if c.visitor.host == "localhost:8080" { // who fails often waits: others do not
			next++
			c.visitor.remote = fmt.Sprintf("127.0.0.%d:5000", next)
		}
		if code := c.visitor.signIn(c.scheme, c.user, c.password); code != c.code {
			t.Errorf("%s: %d", name, code)
		}
	}
	v := fromElsewhere(t, i)
	v.signIn("digest", "super", "right")
	v.get("tree") // opens a session
	code, text := v.get("sessions")
	if code != http.StatusOK || !strings.Contains(text, "192.0.2.7") {
		t.Errorf("the superuser from elsewhere: %d", code)
	}
	if v.do(http.MethodPost, "signout", url.Values{"token": {"x"}}).Code != http.StatusForbidden {
		t.Error("a form without the token counts")
	}
	if code := v.do(http.MethodPost, "signout", url.Values{"token": {v.token}}).Code; code != http.StatusSeeOther {
		t.Errorf("sign out: %d", code)
	}
	if code, _ := v.get(""); code != http.StatusSeeOther {
		t.Errorf("after signing out: %d", code)
	}
}

func TestWhoGuessesWaits(t *testing.T) {
	i := startConsole(t, "")
	v := fromElsewhere(t, i)
	for range 5 {
		if code := v.signIn("digest", "super", "wrong"); code != http.StatusForbidden {
			t.Errorf("%d", code)
		}
	}
	if code := v.signIn("digest", "super", "right"); code != http.StatusTooManyRequests {
		t.Errorf("the sixth: %d", code)
	}
	other := fromElsewhere(t, i)
	other.remote = "192.0.2.8:1"
	if code := other.signIn("digest", "super", "right"); code != http.StatusSeeOther {
		t.Errorf("from another address: %d", code)
	}
}

func TestOtherSitesChangeNothing(t *testing.T) {
	i := startConsole(t, "")
	v := fromHere(t, i)
	v.signIn("digest", "super", "right")
	for _, header := range []http.Header{
		{"Sec-Fetch-Site": {"cross-site"}}, {"Sec-Fetch-Site": {"same-site"}}, {"Origin": {"http://evil.example"}},
		{"Origin": {"null"}},
	} {
		v.header = header
		w := v.do(http.MethodPost, "readonly", url.Values{"token": {v.token}, "on": {"true"}})
		if w.Code != http.StatusForbidden {
			t.Errorf("%v: %d", header, w.Code)
		}
	}
	v.header = http.Header{"Origin": {"http://localhost:8080"}}
	w := v.do(http.MethodPost, "readonly", url.Values{"token": {v.token}, "on": {"true"},
		"to": {"//evil.example/console/"}})
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/console/ensemble/" {
		t.Errorf("its own page: %d to %q", w.Code, w.Header().Get("Location"))
	}
}

func TestTheConsoleObeysACLs(t *testing.T) {
	i := startConsole(t, "")
	c := connect(t, i.ClientAddr().String())
	if _, err := c.Create("/secret", []byte("treasure"), 0, zk.DigestACL(zk.PermAll, "alice", "x")); err != nil {
		t.Fatal(err)
	}
	near := []zk.ACL{{Perms: zk.PermRead, Scheme: "ip", ID: "192.0.2.0/24"}}
	if _, err := c.Create("/near", []byte("treasure"), 0, near); err != nil {
		t.Fatal(err)
	}
	v := fromHere(t, i)
	if code, text := v.get("tree?path=/secret"); code != http.StatusOK || strings.Contains(text, "treasure") ||
		!strings.Contains(text, "The ACL does not allow") {
		t.Errorf("nobody: %d", code)
	}
	if code, _ := v.get("value?path=/secret"); code != http.StatusForbidden {
		t.Errorf("nobody downloads: %d", code)
	}
	v.signIn("digest", "alice", "x")
	if _, text := v.get("tree?path=/secret"); !strings.Contains(text, "treasure") {
		t.Error("alice does not see it")
	}
	if _, text := v.get("tree?path=/near"); strings.Contains(text, "treasure") {
		t.Error("from here it is seen")
	}
	super := fromElsewhere(t, i) // whose address counts, as it does for clients
	super.signIn("digest", "super", "right")
	if _, text := super.get("tree?path=/near"); !strings.Contains(text, "treasure") {
		t.Error("the superuser does not see it")
	}
}

func TestWithoutAPlainPortNobodyLooksWithoutACredential(t *testing.T) {
	end, _, _ := pemStores(t)
	i, _ := startAs(t, fmt.Sprintf("dataDir=%s\nsecureClientPort=0\nsecureClientPortAddress=127.0.0.1\n"+
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\nadmin.serverPort=0\nzkd.diskReserve=0\n"+
		"ssl.keyStore.location=%s\nssl.trustStore.location=%s\nDigestAuthenticationProvider.superDigest=%s\n",
		t.TempDir(), end.KeyStore.Location, end.TrustStore.Location, target.DigestOf("super", "right")), realWorld())
	soon(t, "the server serves", func() bool { return i.server.Info().Serving })
	v := fromHere(t, i)
	if code, text := v.get("tree"); code != http.StatusForbidden || strings.Contains(text, "zookeeper</bdi>") {
		t.Errorf("nobody: %d", code)
	}
	if code := v.signIn("digest", "alice", "x"); code != http.StatusForbidden {
		t.Errorf("a name that is made up: %d", code)
	}
	if code := v.signIn("digest", "super", "right"); code != http.StatusSeeOther {
		t.Fatalf("the superuser: %d", code)
	}
	if code, text := v.get("tree"); code != http.StatusOK || !strings.Contains(text, "zookeeper</bdi>") {
		t.Errorf("the superuser: %d", code)
	}
}
