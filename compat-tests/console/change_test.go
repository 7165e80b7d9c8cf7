package console_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/target"
)

// superuser opens a browser in which the superuser has signed in.
func superuser(t *testing.T, s *served) *browser {
	t.Helper()
	b := open(t, s.base)
	b.signIn("digest", target.SuperUser, target.SuperPassword)
	b.see(".who", "super")
	return b
}

// data is what a client of others reads.
func (s *served) data(t *testing.T, path string) string {
	t.Helper()
	data, _, err := s.Get(path)
	if err != nil {
		t.Fatalf("read %s: %v", path, err)
	}
	return string(data)
}

func TestZnodesAreMadeChangedAndDeleted(t *testing.T) {
	s := serve(t, nil)
	s.create(t, "/app", []byte("first\nsecond\n"))
	b := superuser(t, s)

	b.tree("/app")
	b.submit(`a[href*="/tree/create"]`)
	b.fill("#name", "made here")
	b.fill("#value", "\nvalue & <more>\n")
	b.shot("create", wide, dark, narrow)
	b.submit("main button.primary")
	b.see("main", "Created: /app/made here")
	if got := s.data(t, "/app/made here"); got != "\nvalue & <more>\n" {
		t.Errorf("created with %q", got)
	}

	b.tree("/app")
	b.submit(`a[href*="/tree/edit"]`)
	b.fill("#value", "first\nchanged ü\n")
	b.shot("edit", wide)
	b.submit("main button.primary")
	b.see("main", "Saved: /app")
	if got := s.data(t, "/app"); got != "first\nchanged ü\n" {
		t.Errorf("saved %q", got)
	}
	// What is not touched comes back as it was.
	for path, value := range map[string]string{"/crlf": "a\r\nb\r\n", "/lead": "\n\n x \n", "/tabs": "\ta\t"} {
		s.create(t, path, []byte(value))
		b.visit("tree/edit?path=" + path)
		b.submit("main button.primary")
		b.see("main", "Saved")
		if got := s.data(t, path); got != value {
			t.Errorf("%s: %q became %q", path, value, got)
		}
	}

	b.visit("tree/create?path=/app")
	b.fill("#name", "short")
	b.click(`input[value=ttl]`)
	b.submit("main button.primary")
	b.see("[role=alert]", "time to live")
	b.expect("409")
	b.fill("#ttl", "3600")
	b.submit("main button.primary")
	b.see("main", "Created: /app/short")
	b.visit("tree/create?path=/app")
	b.fill("#name", "made here")
	b.submit("main button.primary")
	b.see("[role=alert]", "of that name already")

	b.visit("tree/delete?path=/app/short")
	b.submit("main button.primary")
	b.see("main", "Deleted: /app/short")
	if ok, _, err := s.Exists("/app/short"); ok || err != nil {
		t.Errorf("it is there, or %v", err)
	}
}

// TestTwoWhoEditAtOnce: the second one is shown what the first one has written, and overwrites it only on purpose.
func TestTwoWhoEditAtOnce(t *testing.T) {
	s := serve(t, nil)
	s.create(t, "/shared", []byte("as it was"))
	one, two := superuser(t, s), superuser(t, s)
	one.visit("tree/edit?path=/shared")
	two.visit("tree/edit?path=/shared")
	one.fill("#value", "of the first")
	one.submit("main button.primary")
	one.see("main", "Saved")
	two.expect("409")
	two.fill("#value", "of the second")
	two.submit("main button.primary")
	two.see("[role=alert]", "Somebody else has changed it")
	two.see("#theirs", "of the first")
	two.shot("conflict", wide, dark)
	if got := s.data(t, "/shared"); got != "of the first" {
		t.Errorf("without a question it is %q", got)
	}
	two.submit("main button.primary")
	two.see("main", "Saved")
	if got := s.data(t, "/shared"); got != "of the second" {
		t.Errorf("it is %q", got)
	}
}

func TestACLsAreChanged(t *testing.T) {
	s := serve(t, nil)
	s.create(t, "/guarded", []byte("x"))
	b := superuser(t, s)
	b.visit("tree/acl?path=/guarded")
	b.shot("acl", wide, narrow)
	// Everybody reads, alice does everything.
	for _, letter := range []string{"c", "d", "w", "a"} {
		b.click(`input[name=perms0][value=` + letter + `]`)
	}
	b.fill(`tr:nth-child(2) select`, "password")
	b.fill(`tr:nth-child(2) input[name=id]`, "alice:secret")
	for _, letter := range []string{"c", "d", "r", "w", "a"} {
		b.click(`input[name=perms1][value=` + letter + `]`)
	}
	b.submit("main button.primary")
	b.see("main", "The ACL is changed")
	owner := connect(t, s.Addr)
	if err := owner.AddAuth("digest", []byte("alice:secret")); err != nil {
		t.Fatal(err)
	}
	acl, _, err := owner.GetACL("/guarded") // others are not shown the hash
	if err != nil || len(acl) != 2 || acl[0] != (zk.ACL{Perms: zk.PermRead, Scheme: "world", ID: "anyone"}) ||
		acl[1] != zk.DigestACL(zk.PermAll, "alice", "secret")[0] {
		t.Errorf("%v %v", acl, err)
	}
	if _, err := s.Set("/guarded", nil, -1); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("everybody writes: %v", err)
	}
	if got := b.text("main"); strings.Contains(got, "secret") {
		t.Errorf("the password is shown: %s", got)
	}
	b.see(".stack", "alice:")
}

// TestATreeIsDeleted counts first, asks for the path, and can be stopped.
func TestATreeIsDeleted(t *testing.T) {
	s := serve(t, nil)
	s.create(t, "/big", nil)
	s.create(t, "/big/deep", nil)
	s.create(t, "/big/deep/deeper", nil)
	s.many(t, "/big/deep/deeper", 1500)
	b := superuser(t, s)
	b.visit("tree/delete?path=/big")
	b.see("#count", "1\u202f502 znodes")
	b.shot("delete", wide)
	b.fill("#typed", "/other")
	b.expect("400")
	b.submit("main button.primary")
	b.see("main", "Type the whole path")
	b.visit("tree/delete?path=/big")
	b.fill("#typed", "/big")
	b.submit("main button.primary")
	b.see("main", "1\u202f503 znodes were deleted")
	if ok, _, err := s.Exists("/big"); ok || err != nil {
		t.Errorf("it is there, or %v", err)
	}
}

// TestWithoutARightNothingChanges: who has not signed in, or is read-only, has no buttons and no pages for it.
func TestWithoutARightNothingChanges(t *testing.T) {
	s := serve(t, nil)
	s.create(t, "/app", []byte("x"))
	b := open(t, s.base)
	b.tree("/app")
	b.see("main", "Download")
	if got := b.text("main"); strings.Contains(got, "Edit") || strings.Contains(got, "New znode") {
		t.Errorf("without a credential: %s", got)
	}
	b.visit("tree/edit?path=/app")
	b.see("main", "Sign in")
	b = superuser(t, s)
	b.submit(".chip.on")
	b.tree("/app")
	if got := b.text("main"); strings.Contains(got, "Edit") {
		t.Errorf("read-only: %s", got)
	}
	b.expect("403")
	b.visit("tree/edit?path=/app")
	b.see("main", "read-only")
}

// TestASessionThatEndsComesBack: a page that stands open goes on after the server was started again.
func TestASessionThatEndsComesBack(t *testing.T) {
	s := serve(t, nil)
	s.create(t, "/app", []byte("before"))
	b := open(t, s.base)
	b.expect("ERR_")
	b.tree("/app")
	b.see("pre.value", "before")
	s.Kill9()
	b.see("#beat", "does not answer")
	b.shot("gone", wide)
	s.Restart()
	if _, err := connect(t, s.Addr).Set("/app", []byte("after"), -1); err != nil {
		t.Fatal(err)
	}
	b.see("pre.value", "after")
}

func TestQuotasAreSetAndShown(t *testing.T) {
	s := serve(t, nil)
	s.create(t, "/limited", nil)
	s.many(t, "/limited", 8)
	b := superuser(t, s)
	b.visit("quotas?path=/limited")
	b.see("main", "There are no quotas")
	b.fill("input[name=counthard]", "10")
	b.fill("input[name=bytes]", "1000")
	b.submit("main button.primary")
	b.see("main", "9 of 10")
	b.see("main", "near")
	b.shot("quotas", wide, dark, narrow)
	s.create(t, "/limited/last", nil)
	if _, err := s.Create("/limited/more", nil, 0, everybody); err == nil {
		t.Error("the quota counts for nothing")
	}
	b.visit("quotas")
	b.see("main", "full")
	b.agree()
	b.submit(`form[action$="/quotas/remove"] button`)
	b.see("main", "There are no quotas")
	s.create(t, "/limited/more", nil)
}

func TestASessionIsEnded(t *testing.T) {
	s := serve(t, nil)
	other := connect(t, s.Addr)
	if _, err := other.Create("/mine", nil, zk.FlagEphemeral, everybody); err != nil {
		t.Fatal(err)
	}
	b := superuser(t, s)
	b.visit("sessions?filter=" + fmt.Sprintf("0x%x", uint64(other.SessionID())))
	b.see("details summary", "1")
	b.agree()
	b.submit(`form[action$="/sessions/end"] button`)
	b.see("main", "has ended")
	if ok, _, err := s.Exists("/mine"); ok || err != nil {
		t.Errorf("its ephemeral is there, or %v", err)
	}
}
