package audit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"zkd/compat-tests/leak"
	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/server/audit"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

// noon is when everything happens.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 7e6, time.Local)

// full is an event with all fields.
func full() audit.Event {
	return audit.Event{Session: 0x1f, User: "bob,127.0.0.1", IP: "127.0.0.1", Operation: audit.OpSetACL,
		Znode: audit.Of("/a"), ZnodeType: "persistent", ACL: audit.Of("world:anyone:r"), Result: audit.Failure}
}

// written is what a format makes of events.
func written(t *testing.T, f audit.Format, events ...audit.Event) string {
	t.Helper()
	var text bytes.Buffer
	log := audit.Open(audit.ToWriter(&text, f), clock.NewManual(noon), slog.New(slog.DiscardHandler))
	for _, e := range events {
		log.Write(e)
	}
	log.Close()
	return text.String()
}

func TestLinesOfZooKeeper(t *testing.T) {
	got := written(t, audit.FormatZooKeeper, full(),
		audit.Event{User: "root", Operation: audit.OpServerStart, Result: audit.Success},
		audit.Event{Session: -1, Operation: audit.OpCreate, Znode: audit.Of(""), Result: audit.Success})
	want := "2026-11-21 12:00:00,007 ERROR o.a.z.a.Slf4jAuditLogger: session=0x1f\t" +
		"user=bob,127.0.0.1\t" +
		"ip=127.0.0.1\toperation=setAcl\tznode=/a\tznode_type=persistent\tacl=world:anyone:r\tresult=failure\n" +
		"2026-11-21 12:00:00,007 INFO o.a.z.a.Slf4jAuditLogger: user=root\toperation=serverStart\tresult=success\n" +
		"2026-11-21 12:00:00,007 INFO o.a.z.a.Slf4jAuditLogger: session=0xffffffffffffffff\toperation=create\t" +
		"znode=\tresult=success\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestLinesOfSlog(t *testing.T) {
	got := written(t, audit.FormatText, full())
	if want := `level=ERROR msg=audit session=0x1f user=bob,127.0.0.1 ip=127.0.0.1 operation=setAcl znode=/a ` +
		"znode_type=persistent acl=world:anyone:r result=failure\n"; !strings.HasSuffix(got, want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	var fields map[string]string
	if err := json.Unmarshal([]byte(written(t, audit.FormatJSON, full())), &fields); err != nil {
		t.Fatal(err)
	}
	if fields["operation"] != "setAcl" || fields["znode"] != "/a" || fields["session"] != "0x1f" {
		t.Errorf("JSON has %v", fields)
	}
}

// TestNobodyMakesUpLines: what a client puts into a path or a name ends neither the line nor the field.
func TestNobodyMakesUpLines(t *testing.T) {
	evil := full()
	evil.Znode = audit.Of("/a\tresult=success\n2026 INFO x: user=root\r\x00\x7f\u0085\u2028\xff ä\"")
	evil.User = "a\nb\tc"
	for _, f := range []audit.Format{audit.FormatZooKeeper, audit.FormatText, audit.FormatJSON} {
		got := written(t, f, evil)
		if strings.Count(got, "\n") != 1 || strings.ContainsAny(got, "\r\x00\u2028") {
			t.Errorf("%s: %q", f, got)
		}
		if f == audit.FormatZooKeeper && (strings.Count(got, "\t") != 7 || !strings.Contains(got,
			`znode=/a\tresult=success\n2026 INFO x: user=root\r\x00\x7f\u0085\u2028\xff ä"`)) {
			t.Errorf("%s: %q", f, got)
		}
	}
}

func TestDigestsAreHidden(t *testing.T) {
	list := []jute.ACL{
		{Perms: jute.PermAll, ID: jute.ID{Scheme: "digest", ID: "bob:c2VjcmV0"}},
		{Perms: jute.PermRead, ID: jute.ID{Scheme: "world", ID: "anyone"}},
	}
	if got := audit.ACLText(list); got != "digest:bob:x:cdrwaworld:anyone:r" {
		t.Errorf("got %q", got)
	}
}

// gate is a sink that waits to be opened.
type gate struct {
	open    chan struct{}
	mu      sync.Mutex
	written int
}

// Write counts.
func (g *gate) Write(*audit.Event) {
	<-g.open
	g.mu.Lock()
	g.written++
	g.mu.Unlock()
}

// Flush has nothing to do.
func (g *gate) Flush() error { return nil }

// TestASlowSinkHoldsRequestsUp: Write never blocks, Await does, and nothing is lost.
func TestASlowSinkHoldsRequestsUp(t *testing.T) {
	for name, event := range map[string]audit.Event{ // order: each has its own log
		"many lines": {Operation: audit.OpDelete},
		"long lines": {Operation: audit.OpDelete, Znode: audit.Of(strings.Repeat("x", 1<<20))},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testASlowSink(t, event) })
		})
	}
}

// testASlowSink writes many events to a sink that is at the first one.
func testASlowSink(t *testing.T, event audit.Event) {
	g := &gate{open: make(chan struct{})}
	log := audit.Open(g, clock.Real(), slog.New(slog.DiscardHandler))
	const n = 40_000
	log.Write(event)
	synctest.Wait() // the sink has it, and takes no more
	log.Await()
	for range n - 1 {
		log.Write(event)
	}
	passed := make(chan struct{})
	go func() {
		log.Await()
		close(passed)
	}()
	synctest.Wait()
	select {
	case <-passed:
		t.Error("Await does not wait")
	default:
	}
	close(g.open)
	<-passed
	log.Close()
	log.Close()
	log.Write(event)
	log.Await()
	if g.written != n {
		t.Errorf("%d lines are written, want %d", g.written, n)
	}
}

// broken is a disk that may be full.
type broken struct{ err error }

// Write fails as long as there is an error.
func (b *broken) Write(p []byte) (int, error) { return len(p), b.err }

func TestLostLinesAreTold(t *testing.T) {
	for _, f := range []audit.Format{audit.FormatZooKeeper, audit.FormatText} {
		var text bytes.Buffer
		log := audit.Open(audit.ToWriter(&broken{errors.New("disk is full")}, f), clock.Real(),
			slog.New(slog.NewTextHandler(&text, nil)))
		log.Write(full())
		log.Close()
		if got := text.String(); !strings.Contains(got, "up to 1 lines of the audit log are lost: disk is full") {
			t.Errorf("%s: the server's log has %q", f, got)
		}
	}
	var text bytes.Buffer
	sink := audit.ToHandler(slog.NewTextHandler(&refusing{}, nil))
	log := audit.Open(sink, clock.Real(), slog.New(slog.NewTextHandler(&text, nil)))
	log.Write(full())
	log.Close()
	if got := text.String(); !strings.Contains(got, "1 lines of the audit log are lost") {
		t.Errorf("the server's log has %q", got)
	}
}

// refusing takes nothing.
type refusing struct{}

// Write fails.
func (*refusing) Write([]byte) (int, error) { return 0, errors.New("no") }

// sizes takes down how long what is written is, and how many lines it has; it fails as long as there is an error.
type sizes struct {
	longest, lines int
	err            error
}

// Write implements io.Writer.
func (s *sizes) Write(p []byte) (int, error) {
	s.longest, s.lines = max(s.longest, len(p)), s.lines+bytes.Count(p, []byte("\n"))
	return len(p), s.err
}

// TestManyLongLinesAreNotGathered: a multi of a client with many identities is a long line for each operation. They do
// not fill the memory before the first of them is written, and each that is lost is counted.
func TestManyLongLinesAreNotGathered(t *testing.T) {
	const n, long = 60, 64 << 10
	for _, f := range []audit.Format{audit.FormatZooKeeper, audit.FormatText, audit.FormatJSON} {
		var w sizes
		sink := audit.ToWriter(&w, f)
		event := audit.Event{User: strings.Repeat("u", long), Operation: audit.OpSetData, Result: audit.Success}
		for range n {
			sink.Write(&event)
		}
		if err := sink.Flush(); err != nil || w.lines != n || w.longest > 32*long {
			t.Errorf("%s: %d lines, up to %d bytes at once: %v", f, w.lines, w.longest, err)
		}
		w.err = errors.New("disk is full")
		for range n {
			sink.Write(&event)
		}
		if err := sink.Flush(); err == nil || !strings.Contains(err.Error(), "up to 60 lines") {
			t.Errorf("%s: %v, want that 60 lines are lost", f, err)
		}
		w.err = nil
		if err := sink.Flush(); err != nil {
			t.Errorf("%s: nothing to write: %v", f, err)
		}
	}
}

func TestFileIsOpenedAgain(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit.log")
	now := clock.NewManual(noon)
	f, err := audit.OpenFile(name, now)
	if err != nil {
		t.Fatal(err)
	}
	write := func(line string) {
		t.Helper()
		if _, err := fmt.Fprintln(f, line); err != nil {
			t.Error(err)
		}
	}
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	write("one")
	if err := os.Rename(name, name+".1"); err != nil {
		t.Fatal(err)
	}
	write("two")
	now.Advance(time.Second)
	write("three")
	now.Advance(time.Second)
	write("four")
	if got := read(name+".1") + read(name); got != "one\ntwo\nthree\nfour\n" || read(name) != "three\nfour\n" {
		t.Errorf("got %q", got)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: others may read it", info.Mode(), err)
	}
	if err := errors.Join(f.Close(), f.Close()); err != nil {
		t.Error(err)
	}
	if _, err := audit.OpenFile(filepath.Join(name, "x"), now); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("a file below a file: %v", err)
	}
}

func TestZnodeTypes(t *testing.T) {
	for mode := jute.CreateMode(-1); mode < 8; mode++ {
		if got := audit.ZnodeType(mode); (got != "") != mode.Known() {
			t.Errorf("mode %d is %q", mode, got)
		}
	}
}
