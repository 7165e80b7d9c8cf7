package instance

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/target"
)

// certified is a browser that has a certificate.
type certified struct {
	t      *testing.T
	base   string
	client *http.Client
	token  string
}

// get returns the status and the text of a page.
func (v *certified) get(path string) (int, string) {
	v.t.Helper()
	answer, err := v.client.Get(v.base + path)
	return v.took(answer, err)
}

// post sends a form.
func (v *certified) post(path string, form url.Values) (int, string) {
	v.t.Helper()
	answer, err := v.client.PostForm(v.base+path, form)
	return v.took(answer, err)
}

func (v *certified) took(answer *http.Response, err error) (int, string) {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close() // it was read to its end
	if err != nil {
		v.t.Fatal(err)
	}
	if match := tokenField.FindSubmatch(text); match != nil {
		v.token = string(match[1])
	}
	return answer.StatusCode, string(text)
}

// TestACertificateIsACredential: who has shown one, and says so, is whom it names, as a client with it would be; the
// cookie of his visit is nobody's without it.
func TestACertificateIsACredential(t *testing.T) {
	keyStore, _ := target.SelfSigned(t, "server")
	var trusted []byte
	pairs, roots := map[string]tls.Certificate{}, x509.NewCertPool()
	for _, name := range []string{"alice", "bob", "root"} {
		key, trust := target.SelfSigned(t, name)
		text, err := os.ReadFile(trust)
		if err != nil {
			t.Fatal(err)
		}
		trusted = append(trusted, text...)
		pairs[name], _ = target.LoadSelfSigned(t, key, trust)
	}
	text, err := os.ReadFile(keyStore)
	if err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatalf("the server's certificate: %v", err)
	}
	trustStore := filepath.Join(t.TempDir(), "trust.pem")
	if err := os.WriteFile(trustStore, trusted, 0o600); err != nil {
		t.Fatal(err)
	}
	port := target.FreePort(t)
	i, _ := startAs(t, fmt.Sprintf("dataDir=%s\nclientPort=0\nclientPortAddress=127.0.0.1\nadmin.serverPort=%d\n"+
		"zkd.diskReserve=0\nadmin.portUnification=true\nadmin.needClientAuth=true\nssl.quorum.keyStore.location=%s\n"+
		"ssl.quorum.trustStore.location=%s\nX509AuthenticationProvider.superUser=CN=root\n"+
		"authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider\n",
		t.TempDir(), port, keyStore, trustStore), realWorld())
	soon(t, "the server serves", func() bool { return i.server.Info().Serving })
	c := connect(t, i.ClientAddr().String())
	acl := []zk.ACL{{Perms: zk.PermAll, Scheme: "x509", ID: "CN=alice"}}
	if _, err := c.Create("/alices", []byte("treasure"), 0, acl); err != nil {
		t.Fatal(err)
	}
	browser := func(name string) *certified {
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13,
			Certificates: []tls.Certificate{pairs[name]}}}
		t.Cleanup(transport.CloseIdleConnections)
		return &certified{t: t, base: fmt.Sprintf("https://127.0.0.1:%d/console/ensemble/", port),
			client: &http.Client{Jar: jar, Transport: transport}}
	}
	sign := url.Values{"scheme": {"x509"}, "user": {"CN=alice"}} // what is filled in is nobody's
	alice, bob, root := browser("alice"), browser("bob"), browser("root")
	if _, text := alice.get("signin"); !strings.Contains(text, "CN=alice") {
		t.Errorf("it is not offered: %s", text)
	}
	if _, text := alice.get("tree?path=/alices"); strings.Contains(text, "treasure") {
		t.Error("the certificate counts before she has said so")
	}
	for _, v := range []*certified{alice, bob, root} {
		if code, text := v.post("signin", sign); code != http.StatusOK || !strings.Contains(text, "x509:CN=") {
			t.Fatalf("%d %s", code, text)
		}
	}
	if _, text := alice.get("tree?path=/alices"); !strings.Contains(text, "treasure") {
		t.Errorf("alice does not see it: %s", text)
	}
	if _, text := bob.get("tree?path=/alices"); strings.Contains(text, "treasure") ||
		!strings.Contains(text, "The ACL does not allow") {
		t.Error("bob sees it")
	}
	if _, text := root.get("tree?path=/alices"); !strings.Contains(text, "treasure") {
		t.Error("the superuser does not see it")
	}
	if _, text := root.get("members"); !strings.Contains(text, "Restore a backup") {
		t.Error("the superuser cannot restore")
	}
	if code, text := root.get("backup"); code != http.StatusOK || !strings.HasPrefix(text, "ZKD backup\n") {
		t.Errorf("the superuser gets no backup: %d %.100s", code, text)
	}
	if _, text := alice.get("backup"); !strings.Contains(text, "it is for the superuser") {
		t.Errorf("alice gets a backup: %.100s", text)
	}
	code, text2 := alice.post("tree/edit", url.Values{"token": {alice.token}, "path": {"/alices"}, "version": {"0"},
		"value": {"silver"}})
	if code != http.StatusOK || !strings.Contains(text2, "Saved: /alices") {
		t.Errorf("alice changes it: %d %s", code, text2)
	}
	if code, _ := alice.post("tree/edit", url.Values{"path": {"/alices"}, "version": {"1"}, "value": {"x"}}); code !=
		http.StatusForbidden {
		t.Errorf("without the token: %d", code)
	}
	if _, text := alice.get("tree?path=/alices"); !strings.Contains(text, "silver") {
		t.Error("it is not changed")
	}
	// Her cookie with the certificate of another one, without any, and over a proxy is nobody's.
	bob.client.Jar = alice.client.Jar
	if _, text := bob.get("tree?path=/alices"); strings.Contains(text, "silver") {
		t.Error("a stolen cookie is enough")
	}
	plain := &certified{t: t, base: fmt.Sprintf("http://127.0.0.1:%d/console/ensemble/", port),
		client: &http.Client{}}
	if code, _ := plain.post("signin", sign); code != http.StatusForbidden {
		t.Errorf("without a certificate: %d", code)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, alice.base+"tree?path=/alices", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Forwarded-For", "192.0.2.1")
	answer, err := alice.client.Do(r)
	if _, text := alice.took(answer, err); strings.Contains(text, "silver") {
		t.Error("the certificate of a proxy is that of whom it serves")
	}
}
