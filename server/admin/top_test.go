package admin

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/server/fourletter"
	"zkd/server/traffic"
)

// countedTraffic is what a recorder has counted in one second: two reads, a write and a notice.
func countedTraffic(t *testing.T) *traffic.Recorder {
	t.Helper()
	now := clock.NewManual(time.Unix(1_800_000_000, 0))
	r := traffic.New(traffic.Options{Clock: now})
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		r.Run(stop)
	}()
	t.Cleanup(func() {
		close(stop)
		<-done
	})
	now.AwaitEvents(1)
	var m traffic.Meter
	m.Init(r, owner{Session: client, Remote: netip.MustParseAddrPort("127.0.0.1:59630"), User: "digest:bob"})
	read := func(op jute.Op, path string, failed bool, took time.Duration, watches int) {
		a := traffic.Answer{Op: op, In: 40, Out: 200, Failed: failed, Took: took, Watches: watches}
		m.Note(m.Answered(&a), &a, path, &traffic.Phases{Turn: time.Microsecond, Answer: took - time.Microsecond})
	}
	read(jute.OpGetData, "/app/one", false, 30*time.Microsecond, 1)
	read(jute.OpExists, "/app/\"two\"\x1b[2J", true, 50*time.Microsecond, 0)
	m.Flush()
	m.Begun(100, func() string { return "/app/one" })
	a := traffic.Answer{Op: jute.OpSetData, In: 100, Out: 88, Took: 2 * time.Millisecond}
	mark, path := m.Written(&a, 15*time.Microsecond)
	m.Note(mark, &a, path, &traffic.Phases{Queue: 1000, Log: time.Millisecond, Replicate: 900 * time.Microsecond,
		Apply: 99 * time.Microsecond})
	r.Applied(jute.OpSetData, 15*time.Microsecond, func() string { return path })
	m.Noticed(1, 61)
	r.Noticed("/app/one", 1)
	now.Advance(time.Second)
	deadline := time.Now().Add(time.Minute)
	for r.Window(time.Second).Total.Requests != 3 {
		if time.Now().After(deadline) {
			t.Fatal("nothing was collected")
		}
	}
	return r
}

// owner is a connection.
type owner traffic.Client

func (o owner) Client() traffic.Client { return traffic.Client(o) }

// TestTop: the shape of top and slow_requests is for programs to read, and does not change.
func TestTop(t *testing.T) {
	o := options(t, standalone())
	r := countedTraffic(t)
	var asked time.Duration
	o.Traffic = func(span time.Duration) *traffic.Window {
		asked = span
		return r.Window(span)
	}
	s := New(o)
	for _, tc := range []struct {
		path string
		span time.Duration
		file string
	}{
		{"/commands/top", 10 * time.Second, "top.json"},
		{"/commands/top?seconds=1&rows=20", time.Second, "top.json"},
		{"/commands/top?seconds=60&rows=1", time.Minute, "top_one_row.json"},
		{"/commands/slow_requests", time.Minute, "slow_requests.json"},
	} {
		status, body := ask(t, s, http.MethodGet, tc.path)
		if diff := cmp.Diff(golden(t, tc.file), body); status != http.StatusOK || diff != "" || asked != tc.span {
			t.Errorf("%s: %d, %v (-want +got):\n%s", tc.path, status, asked, diff)
		}
		if !json.Valid([]byte(body)) {
			t.Errorf("%s is no JSON", tc.path)
		}
	}
}

// TestTopSaysWhatIsWrong with its arguments, or that nothing is counted.
func TestTopSaysWhatIsWrong(t *testing.T) {
	o := options(t, standalone())
	off := New(o)
	r := countedTraffic(t)
	o.Traffic = r.Window
	on := New(o)
	o = options(t, &fourletter.Info{})
	o.Traffic = r.Window
	down := New(o)
	for _, tc := range []struct {
		server *Server
		path   string
		want   string
	}{
		{off, "top", "Requests are not counted: zkd.traffic=false"},
		{off, "slow_requests", "Requests are not counted: zkd.traffic=false"},
		{on, "top?seconds=0", "seconds must be a whole number from 1 to 60"},
		{on, "top?seconds=61", "seconds must be a whole number from 1 to 60"},
		{on, "top?rows=many", "rows must be a whole number from 1 to 256"},
		{on, "slow_requests?seconds=-1", "seconds must be a whole number from 1 to 60"},
		{down, "top", ""}, // it shows what it has
	} {
		_, body := ask(t, tc.server, http.MethodGet, "/commands/"+tc.path)
		var answer struct {
			Error   string `json:"error"`
			Command string `json:"command"`
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.Error != tc.want ||
			!strings.HasPrefix(tc.path, answer.Command) {
			t.Errorf("%s: %v, %+v, want %q", tc.path, err, answer, tc.want)
		}
	}
}

// TestTopIsForOperators: it tells of clients and paths.
func TestTopIsForOperators(t *testing.T) {
	o := options(t, standalone())
	o.Anywhere, o.Traffic = false, countedTraffic(t).Window
	s := New(o)
	for _, name := range []string{"top", "slow_requests"} {
		if status, body := ask(t, s, http.MethodGet, "/commands/"+name); status != http.StatusForbidden ||
			strings.Contains(body, "/app") {
			t.Errorf("%s: %d %s", name, status, body)
		}
		if status, _ := ask(t, s, http.MethodGet, "/commands/"+name, "Authorization", "digest super:admin"); status !=
			http.StatusOK {
			t.Errorf("%s for the superuser: %d", name, status)
		}
	}
}
