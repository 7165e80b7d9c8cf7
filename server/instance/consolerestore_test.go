package instance

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
)

// send uploads a file by the form for backups, and returns the answer.
func (v *consoleVisitor) send(token string, content []byte) *httptest.ResponseRecorder {
	v.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	if err := form.WriteField("token", token); err != nil {
		v.t.Fatal(err)
	}
	file, err := form.CreateFormFile("file", "zkd.backup")
	if err != nil {
		v.t.Fatal(err)
	}
	_, _ = file.Write(content) // into memory
	if err := form.Close(); err != nil {
		v.t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(v.t.Context(), http.MethodPost, "/console/ensemble/restore/upload", &body)
	r.RemoteAddr, r.Host = v.remote, v.host
	r.Header.Set("Content-Type", form.FormDataContentType())
	for name, value := range v.header { // any order
		r.Header[name] = value
	}
	for name, value := range v.cookies { // any order
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	w := httptest.NewRecorder()
	v.to.ServeHTTP(w, r)
	return w
}

// uploadsLeft is whether a file of an upload is there.
func uploadsLeft(t *testing.T, i *Instance) bool {
	t.Helper()
	_, err := os.Stat(i.dir.StateDir() + uploadSuffix)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return err == nil
}

// write creates a znode.
func write(t *testing.T, c *zk.Conn, path, data string) {
	t.Helper()
	if _, err := c.Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
}

var uploadID = regexp.MustCompile(`^/console/ensemble/restore\?id=([A-Za-z0-9_-]+)$`)

// TestARestoreIsConfirmedTwice: a whole backup alone is taken, from the superuser alone, and nothing changes before he
// has confirmed it twice.
func TestARestoreIsConfirmedTwice(t *testing.T) {
	i := startConsole(t, "admin.rateLimiterIntervalInMS=0")
	c := connect(t, i.ClientAddr().String())
	write(t, c, "/kept", "as it was")
	v := fromElsewhere(t, i)
	v.signIn("digest", "super", "right")
	code, backup := v.get("backup")
	if code != http.StatusOK {
		t.Fatalf("a backup: %d", code)
	}
	write(t, c, "/later", "written afterwards")
	for name, w := range map[string]*httptest.ResponseRecorder{
		"cut off":          v.send(v.token, []byte(backup[:len(backup)-10])),
		"damaged":          v.send(v.token, []byte(strings.Replace(backup, "as it was", "as it wes", 1))),
		"something else":   v.send(v.token, []byte("hello")),
		"with more behind": v.send(v.token, []byte(backup+"x")),
		"nothing":          v.send(v.token, nil),
	} {
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "nothing has changed") ||
			uploadsLeft(t, i) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	if w := v.send("x", []byte(backup)); w.Code != http.StatusForbidden || uploadsLeft(t, i) {
		t.Errorf("without the token: %d", w.Code)
	}
	v.header = http.Header{"Origin": {"http://evil.example"}}
	if w := v.send(v.token, []byte(backup)); w.Code != http.StatusForbidden || uploadsLeft(t, i) {
		t.Errorf("from another site: %d", w.Code)
	}
	v.header = http.Header{}
	alice := fromHere(t, i)
	alice.signIn("digest", "alice", "x")
	if w := alice.send(alice.token, []byte(backup)); w.Code != http.StatusBadRequest || uploadsLeft(t, i) {
		t.Errorf("alice: %d", w.Code)
	}
	if _, text := alice.get("members"); strings.Contains(text, "Restore a backup") {
		t.Error("it is offered to alice")
	}

	w := v.send(v.token, []byte(backup))
	match := uploadID.FindStringSubmatch(w.Header().Get("Location"))
	if w.Code != http.StatusSeeOther || match == nil || !uploadsLeft(t, i) {
		t.Fatalf("%d %v", w.Code, w.Header())
	}
	id := match[1]
	for _, want := range []string{"5 znodes", "6 znodes", "whole and undamaged", "zk1.example.org:8080"} {
		if code, text := v.get("restore?id=" + id); code != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("the page says nothing of %q: %d %s", want, code, text)
		}
	}
	other := fromHere(t, i)
	other.signIn("digest", "super", "right")
	if code, text := other.get("restore?id=" + id); code != http.StatusBadRequest ||
		!strings.Contains(text, "not here any more") {
		t.Errorf("in another visit: %d", code)
	}
	if w := other.send(other.token, []byte(backup)); w.Code != http.StatusBadRequest ||
		!strings.Contains(w.Body.String(), "another backup is there") {
		t.Errorf("a second one: %d %s", w.Code, w.Body)
	}
	post := func(path string, more url.Values) *httptest.ResponseRecorder {
		form := url.Values{"token": {v.token}, "id": {id}}
		for key, values := range more { // any order
			form[key] = values
		}
		return v.do(http.MethodPost, path, form)
	}
	if w := post("restore/confirm", url.Values{"typed": {"zk2:8080"}}); w.Code != http.StatusConflict {
		t.Errorf("another place was typed: %d", w.Code)
	}
	for _, form := range []url.Values{{}, {"sure": {"true"}}, {"typed": {v.host}}} {
		if w := post("restore/run", form); w.Code != http.StatusBadRequest {
			t.Errorf("confirmed by %v: %d", form, w.Code)
		}
	}
	post("readonly", url.Values{"on": {"true"}})
	if w := post("restore/run", url.Values{"typed": {v.host}, "sure": {"true"}}); w.Code != http.StatusForbidden {
		t.Errorf("read-only: %d", w.Code)
	}
	if w := v.send(v.token, []byte(backup)); w.Code != http.StatusForbidden {
		t.Errorf("read-only, another one: %d", w.Code)
	}
	post("readonly", url.Values{"on": {"false"}})
	if ok, _, err := c.Exists("/later"); !ok || err != nil {
		t.Fatalf("something has changed: %v", err)
	}

	if w := post("restore/confirm", url.Values{"typed": {v.host}}); w.Code != http.StatusOK ||
		!strings.Contains(w.Body.String(), "Replace the state now") {
		t.Errorf("the first confirmation: %d", w.Code)
	}
	w = post("restore/run", url.Values{"typed": {v.host}, "sure": {"true"}})
	if w.Code != http.StatusSeeOther {
		t.Fatalf("the second confirmation: %d %s", w.Code, w.Body)
	}
	job := strings.TrimPrefix(w.Header().Get("Location"), "/console/ensemble/")
	soon(t, "it is restored", func() bool {
		_, text := v.get(job)
		return strings.Contains(text, "The state is that of the backup")
	})
	soon(t, "the upload is gone", func() bool { return !uploadsLeft(t, i) })
	done(t, "what came later is gone", func() error {
		ok, _, err := c.Exists("/later")
		if err == nil && ok {
			t.Fatal("it is there")
		}
		return err
	})
	if data, _, err := c.Get("/kept"); err != nil || string(data) != "as it was" {
		t.Errorf("%q %v", data, err)
	}
	if w := post("restore/run", url.Values{"typed": {v.host}, "sure": {"true"}}); w.Code != http.StatusBadRequest {
		t.Errorf("once more: %d", w.Code)
	}
}

// TestAnUploadIsGivenUp by its owner, when he signs out, and with the server.
func TestAnUploadIsGivenUp(t *testing.T) {
	leavesNone(t)
	i := startConsole(t, "")
	v := fromHere(t, i)
	v.signIn("digest", "super", "right")
	_, backup := v.get("backup")
	for _, path := range []string{"restore/drop", "signout"} {
		if w := v.send(v.token, []byte(backup)); w.Code != http.StatusSeeOther || !uploadsLeft(t, i) {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		v.do(http.MethodPost, path, url.Values{"token": {v.token}})
		if uploadsLeft(t, i) {
			t.Errorf("%s leaves it", path)
		}
	}
	v.signIn("digest", "super", "right")
	if w := v.send(v.token, []byte(backup)); w.Code != http.StatusSeeOther {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	i.console.Close()
	if uploadsLeft(t, i) {
		t.Error("the end of the console leaves it")
	}
}

func TestNothingIsRestoredWhereThatIsTurnedOff(t *testing.T) {
	i := startConsole(t, "admin.restore.enabled=false")
	v := fromHere(t, i)
	v.signIn("digest", "super", "right")
	_, backup := v.get("backup")
	if _, text := v.get("members"); strings.Contains(text, "Restore a backup") {
		t.Error("it is offered")
	}
	if w := v.send(v.token, []byte(backup)); w.Code != http.StatusBadRequest || uploadsLeft(t, i) {
		t.Errorf("%d", w.Code)
	}
}
