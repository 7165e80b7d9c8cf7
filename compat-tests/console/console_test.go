package console_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/golang/snappy"

	"zkd/compat-tests/target"
)

// served is a server with a console, and a client of it.
type served struct {
	*target.Server
	base string // of the console's pages
	*zk.Conn
}

// serve starts a server alone.
func serve(t *testing.T, config map[string]string) *served {
	t.Helper()
	target.Require(t, target.Chromium)
	port := target.FreePort(t)
	all := map[string]string{"admin.enableServer": "true", "admin.serverPort": strconv.Itoa(port),
		"4lw.commands.whitelist": "srvr", "zkd.diskReserve": "0"}
	maps.Copy(all, config)
	s := target.Start(t, target.Options{Config: all})
	return &served{s, fmt.Sprintf("http://127.0.0.1:%d/console/ensemble/", port), connect(t, s.Addr)}
}

// quiet drops what the client logs.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// connect returns a client that has a session.
func connect(t *testing.T, addr string) *zk.Conn {
	t.Helper()
	c, events, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogger(quiet{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return c
			}
		case <-deadline.C:
			t.Fatal("no session")
		}
	}
}

var everybody = zk.WorldACL(zk.PermAll)

// create creates a znode.
func (s *served) create(t *testing.T, path string, data []byte) {
	t.Helper()
	if _, err := s.Create(path, data, 0, everybody); err != nil {
		t.Fatalf("create %q: %v", path, err)
	}
}

// many creates children name-0000000000 and on, by multis.
func (s *served) many(t *testing.T, parent string, n int) {
	t.Helper()
	const batch = 1000
	for first := 0; first < n; first += batch {
		var ops []any
		for i := first; i < min(first+batch, n); i++ {
			ops = append(ops, &zk.CreateRequest{Path: fmt.Sprintf("%s/name-%07d", parent, i), Acl: everybody})
		}
		if _, err := s.Multi(ops...); err != nil {
			t.Fatal(err)
		}
	}
}

const script = `</pre><script>alert(1)</script><img src=x onerror=alert(2)>"'&`

// gzipped packs.
func gzipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestWhatIsThereIsShown(t *testing.T) {
	s := serve(t, nil)
	s.create(t, "/app", []byte(`{"name":"orders","replicas":3,"features":["fast","safe"]}`))
	s.create(t, "/app/members", nil)
	s.create(t, "/app/config", []byte("timeout=30\nretries=5\n"))
	s.create(t, "/packed", gzipped(t, "it was packed by gzip"))
	s.create(t, "/snappy", snappy.Encode(nil, []byte(strings.Repeat("packed by snappy ", 30))))
	s.create(t, "/java", []byte("\xac\xed\x00\x05sr\x00\x13java.util.ArrayListx\x81"))
	s.create(t, "/binary", []byte{0, 1, 2, 0xfe, 0xff})
	s.create(t, "/large", bytes.Repeat([]byte("0123456789abcdef"), 20000))
	b := open(t, s.base)

	b.visit("")
	b.see("#live", "standalone")
	b.calm()
	b.see(".charts", "Writes")
	b.see(".charts .chart:nth-child(1) .value", "0") // a second sample has come by itself
	b.shot("overview", wide, dark, narrow)

	b.tree("/app")
	b.see("pre.value", `"replicas": 3`)
	b.see(".kinds", "JSON")
	b.see(".list", "members")
	b.shot("tree", wide, dark, narrow)
	b.tree("/packed")
	b.see("pre.value", "it was packed by gzip")
	b.tree("/snappy")
	b.see("pre.value", "packed by snappy")
	b.tree("/java")
	b.see(".stack", "java.util.ArrayList")
	b.tree("/binary")
	b.see("pre.value", "00 01 02 fe ff")
	b.tree("/large")
	b.see(".stack", "Cut: only the beginning is shown")
	var length int
	b.value(`fetch(document.querySelector("a[href*='/value']").href).then(r => r.arrayBuffer()).then(
		b => window.got = b.byteLength), 0`, nil)
	b.waitFor("window.got === 320000")
	b.value("window.got", &length)
	b.tree("/nowhere")
	b.see(".card", "There is no such znode")
	b.expect("404")
	b.visit("sessions")
	b.see("table", "127.0.0.1")
	b.shot("sessions", wide, dark, narrow)
}

func TestNothingOfAZnodeIsRun(t *testing.T) {
	s := serve(t, nil)
	s.create(t, "/x", []byte(script))
	s.create(t, "/json", []byte(`{"a":"`+"</pre><script>alert(3)</script>"+`"}`))
	names := []string{"<script>alert(4)<", `"onmouseover="alert(5)`, "a'b&amp;c", "percent%2f%00",
		"hash#query?a=b&c=d", " space ", "plus+plus", "back\\slash", "ünï-世界", "semi;colon", "{{.}}",
		"javascript:alert(6)", "..."}
	// What turns the direction, or has no width, in no znode's name must look like another one's.
	names = append(names, "abc\u202etxt.exe", "zero\u200bwidth")
	for _, name := range names {
		s.create(t, "/x/"+name, []byte("value of "+name))
	}
	b := open(t, s.base)
	b.tree("/x")
	b.see("pre.value", script)
	b.see(".list", "<script>alert(4)<")
	b.see(".list", `abc\u{202e}txt.exe`)
	b.shot("hostile", wide)
	for _, name := range names {
		b.tree("/x")
		// By the link, as a person goes.
		var found bool
		b.value(fmt.Sprintf(`(() => { for (const a of document.querySelectorAll("td a, th a"))
			if (new URL(a.href).searchParams.get("path") === %q) { a.id = "wanted"; return true } return false })()`,
			"/x/"+name), &found)
		if !found {
			t.Errorf("no link leads to %q", name)
			continue
		}
		b.submit("#wanted")
		b.see("pre.value", "value of ")
	}
	b.tree("/json")
	b.see("pre.value", "alert(3)")
	// Whatever gets into a page in spite of all does not run: the policy forbids it.
	b.expect("Content Security Policy")
	b.value(`document.body.insertAdjacentHTML("beforeend",
		"<img src='data:,x' onerror='alert(7)'><style>body{display:none}</style>"), 0`, nil)
	var display string
	b.value(`getComputedStyle(document.body).display`, &display)
	if display == "none" {
		t.Error("a style in the page counts")
	}
}

// everyDay is how many children TestManyChildren makes where nobody asks for more.
const everyDay = 100_000

// thousands writes a number as pages do, its thousands apart.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s\u202f%03d", thousands(n/1000), n%1000)
}

// manyChildren is how many children TestManyChildren makes: ZKD_CHILDREN, or everyDay.
func manyChildren(t *testing.T) int {
	t.Helper()
	text := os.Getenv("ZKD_CHILDREN")
	if text == "" {
		return everyDay
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < everyDay {
		t.Fatalf("ZKD_CHILDREN=%q: want a number from %d on", text, everyDay)
	}
	return n
}

func TestManyChildren(t *testing.T) {
	n := manyChildren(t)
	s := serve(t, nil)
	s.create(t, "/many", nil)
	s.many(t, "/many", n)
	b := open(t, s.base)
	b.tree("/many")
	b.see(".pager", "1–100 of "+thousands(n))
	var rows int
	b.value(`document.querySelectorAll(".list tbody tr").length`, &rows)
	if rows != 100 {
		t.Errorf("%d rows", rows)
	}
	b.submit(".pager a[rel=next]")
	b.see(".list", "name-0000100")
	last := fmt.Sprintf("name-%07d", n-1)
	b.fill("#filter", last)
	b.submit(".filter button")
	b.see(".list", last)
	b.see(".pager", "1–1 of 1")
	b.shot("many", wide)

	// They are deleted, until somebody thinks better of it.
	b.signIn("digest", target.SuperUser, target.SuperPassword)
	b.visit("tree/delete?path=/many")
	b.fill("#typed", "/many")
	b.submit("main button.primary")
	b.see("#live", "so far")
	if n > everyDay { // the list alone takes long, so stop once something was deleted
		b.waitFor(`/[1-9].* so far/.test(document.querySelector("#live").innerText)`)
	}
	b.submit(`form[action$="/job/stop"] button`)
	b.see("main", "It was stopped before its end")
	// A fast browser stops the smaller job before the first of its deletions.
	_, stat, err := s.Exists("/many")
	if err != nil || stat.NumChildren == 0 || n > everyDay && int(stat.NumChildren) == n {
		t.Errorf("%v, %v", stat, err)
	}
}

func TestAPageShowsWhatChanges(t *testing.T) {
	s := serve(t, nil)
	s.create(t, "/live", []byte("before"))
	b := open(t, s.base)
	b.tree("/live")
	b.see("pre.value", "before")
	if _, err := s.Set("/live", []byte("after"), -1); err != nil {
		t.Fatal(err)
	}
	b.see("pre.value", "after")
	s.create(t, "/live/child", nil)
	b.see(".list", "child")
	if err := s.Delete("/live/child", -1); err != nil {
		t.Fatal(err)
	}
	b.see(".list", "No children.")
}

// TestWhoSignsIn: a wrong password is said to be one, the right one is somebody, who may switch to read-only.
func TestWhoSignsIn(t *testing.T) {
	s := serve(t, nil)
	b := open(t, s.base)
	b.expect("403")
	b.signIn("digest", target.SuperUser, "wrong")
	b.see("[role=alert]", "password of the superuser is wrong")
	b.shot("signin", wide, narrow)
	b.signIn("digest", target.SuperUser, target.SuperPassword)
	b.see(".who", "super")
	b.submit(".chip.on")
	b.see(".who", "read-only")
	b.submit(".who form[action$=signout] button")
	b.see("main", "Sign in")
	if got := b.text(".who"); strings.Contains(got, "super") {
		t.Errorf("after signing out: %q", got)
	}
}
