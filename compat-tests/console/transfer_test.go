package console_test

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/go-zookeeper/zk"
)

// TestASubtreeIsSearched by names, values, sizes and owners, page by page; names of strangers are names.
func TestASubtreeIsSearched(t *testing.T) {
	s := serve(t, nil)
	s.create(t, "/top", nil)
	s.create(t, "/top/app", []byte("timeout=30"))
	s.create(t, `/top/<script>alert(1)<`, []byte("timeout=60"))
	s.create(t, "/top/many", nil)
	s.many(t, "/top/many", 250)
	if _, err := s.Create("/top/mine", []byte("longer than the others"), zk.FlagEphemeral, everybody); err != nil {
		t.Fatal(err)
	}
	b := open(t, s.base)
	b.tree("/top")
	b.submit(`a[href*="/search"]`)
	b.fill("input[name=value]", `^timeout=\d+$`)
	b.submit("main button.primary")
	b.see("#looked", "2 found among 255 znodes")
	b.see("table", "/top/<script>alert(1)<")
	b.shot("search", wide, dark, narrow)
	b.visit("search?path=/top&name=&size=15")
	b.see("#looked", "1 found")
	b.see("table", "/top/mine")
	b.visit("search?path=/top&name=NAME-")
	b.see("#looked", "100 found")
	b.submit("a[rel=next]")
	b.see("table", "name-0000100")
	b.submit("a[rel=next]")
	b.see("#looked", "50 found")
	b.see("table", "name-0000249")
	b.visit("search?path=/top&name=&value=" + url.QueryEscape("("))
	b.see("[role=alert]", "no regular expression")
}

// TestASubtreeIsTakenElsewhere: exported, and imported at another path, with all bytes and ACLs.
func TestASubtreeIsTakenElsewhere(t *testing.T) {
	s := serve(t, nil)
	s.create(t, "/from", []byte("text ü\n"))
	s.create(t, "/from/bin", []byte{0, 0xff, 0xfe})
	acl := []zk.ACL{{Perms: zk.PermRead, Scheme: "world", ID: "anyone"}}
	if _, err := s.Create("/from/acl", nil, 0, acl); err != nil {
		t.Fatal(err)
	}
	b := superuser(t, s)
	b.tree("/from")
	b.value(`fetch(document.querySelector("a[href*='/export']").href).then(r => r.text()).then(
		t => window.got = t), 0`, nil)
	b.waitFor("window.got")
	var export string
	b.value("window.got", &export)
	if n := strings.Count(export, "\n"); n != 4 || !strings.HasPrefix(export, `{"zkdExport":1,"root":"/from"}`) {
		t.Fatalf("%d lines: %s", n, export)
	}
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "export.jsonl")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	take := func(name string) {
		b.visit("tree/import?path=/to")
		b.run(chromedp.SetUploadFiles("#file", []string{name}, chromedp.ByQuery))
	}
	take(file(export[:len(export)-20]))
	b.shot("import", wide, narrow)
	b.expect("400")
	b.submit("main button.primary")
	b.see("main", "breaks off")
	if ok, _, err := s.Exists("/to"); ok || err != nil {
		t.Errorf("half an export has made something, or %v", err)
	}
	take(file(export))
	b.submit("main button.primary")
	b.see("main", "3 znodes were made")
	for path, want := range map[string]string{"/to": "text ü\n", "/to/bin": "\x00\xff\xfe"} {
		if got := s.data(t, path); got != want {
			t.Errorf("%s: %q", path, got)
		}
	}
	if got, _, err := s.GetACL("/to/acl"); err != nil || len(got) != 1 || got[0] != acl[0] {
		t.Errorf("%v, %v", got, err)
	}
	take(file(export))
	b.submit("main button.primary")
	b.see("main", "There is a znode of that name already")
	if _, err := s.Set("/to", []byte("other"), -1); err != nil {
		t.Fatal(err)
	}
	take(file(export))
	b.click("input[name=overwrite][value=true]")
	b.submit("main button.primary")
	b.see("main", "3 znodes were made")
	if got := s.data(t, "/to"); got != "text ü\n" {
		t.Errorf("overwritten with %q", got)
	}
}
