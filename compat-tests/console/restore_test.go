package console_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/target"
)

// backupOf downloads a backup from the admin server of a console, as zkd backup does.
func backupOf(t *testing.T, base string) []byte {
	t.Helper()
	admin, _, _ := strings.Cut(base, "/console/")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, admin+"/zkd/backup", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "digest "+target.SuperUser+":"+target.SuperPassword)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v %s", answer.Status, err, content)
	}
	return content
}

// choose fills a file into the form for backups.
func (b *browser) choose(content []byte) {
	b.t.Helper()
	name := filepath.Join(b.t.TempDir(), "zkd.backup")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.visit("members")
	b.run(chromedp.SetUploadFiles("#file", []string{name}, chromedp.ByQuery))
	b.submit(`form[action$="/restore/upload"] button`)
}

// restore uploads a backup and confirms it twice.
func (b *browser) restore(content []byte) {
	b.t.Helper()
	b.choose(content)
	b.see("main", "whole and undamaged")
	b.fill("#typed", strings.Split(b.base, "/")[2])
	b.submit(`form[action$="/restore/confirm"] button`)
	b.see("[role=alert]", "Nothing brings back what is replaced")
	b.submit(`form[action$="/restore/run"] button`)
	b.see("main", "The state is that of the backup")
}

// comesBack waits until a client of others, which is cut off on the way, reads a value and does not find a later znode.
func comesBack(t *testing.T, c *zk.Conn, path, want, later string) {
	t.Helper()
	for tries := 0; ; tries++ {
		data, _, err := c.Get(path)
		there, _, laterErr := c.Exists(later)
		switch err = errors.Join(err, laterErr); {
		case err == nil && string(data) == want && !there:
			return
		case tries == 100 || err == nil:
			t.Fatalf("%s is %q, %s is there: %v; %v", path, data, later, there, err)
		}
	}
}

// TestABackupIsRestored in the browser: what is damaged is refused, and what is whole comes back, to clients too.
func TestABackupIsRestored(t *testing.T) {
	s := serve(t, nil)
	s.create(t, "/kept", []byte("as it was"))
	whole := backupOf(t, s.base)
	s.create(t, "/later", nil)
	if _, err := s.Set("/kept", []byte("changed"), -1); err != nil {
		t.Fatal(err)
	}
	b := superuser(t, s)
	b.expect("400")
	b.choose(whole[:len(whole)-20])
	b.see("main", "cut off")
	b.see("main", "nothing has changed")
	if got := s.data(t, "/kept"); got != "changed" {
		t.Errorf("half a backup has made %q", got)
	}
	_, _, fired, err := s.GetW("/kept")
	if err != nil {
		t.Fatal(err)
	}
	b.choose(whole)
	b.see("main", "whole and undamaged")
	b.shot("restore", wide, dark, narrow)
	b.expect("409")
	b.fill("#typed", "elsewhere:1")
	b.submit(`form[action$="/restore/confirm"] button`)
	b.see("[role=alert]", "not where this server is")
	b.submit(`form[action$="/restore/drop"] button`)
	b.see("main", "Nothing has changed")
	b.restore(whole)
	b.shot("restored", wide)
	<-fired
	comesBack(t, s.Conn, "/kept", "as it was", "/later")
	b.tree("/kept")
	b.see("pre.value", "as it was")
}

// TestAnEnsembleGoesBack: all servers have the state of the backup, whichever was asked.
func TestAnEnsembleGoesBack(t *testing.T) {
	target.Require(t, target.Chromium)
	e, ports := threeServers(t)
	follower := e.Followers()[0]
	c := connect(t, follower.Addr)
	if _, err := c.Create("/kept", []byte("as it was"), 0, everybody); err != nil {
		t.Fatal(err)
	}
	base := consoleOf(follower, ports)
	whole := backupOf(t, base)
	if _, err := c.Create("/later", nil, 0, everybody); err != nil {
		t.Fatal(err)
	}
	b := open(t, base)
	b.signIn("digest", target.SuperUser, target.SuperPassword)
	b.choose(whole)
	b.see("main", "It is of this ensemble")
	b.see("main", "What was written since then is lost: up to ")
	b.submit(`form[action$="/restore/drop"] button`)
	b.restore(whole)
	for _, s := range e.Servers {
		member := connect(t, s.Addr)
		if _, err := member.Sync("/kept"); err != nil {
			t.Fatal(err)
		}
		comesBack(t, member, "/kept", "as it was", "/later")
	}
}
