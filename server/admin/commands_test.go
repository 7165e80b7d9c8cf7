package admin

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"zkd/server/fourletter"
	"zkd/server/stats/catalog"
)

// TestNamesOfNothing: what cannot be the name of a command is not found, and makes no text of an answer.
func TestNamesOfNothing(t *testing.T) {
	s := New(options(t, standalone()))
	for _, path := range []string{"/commands/%00", "/commands/ru%0Aok", "/commands/%7f"} {
		status, body := ask(t, s, http.MethodGet, path)
		if status != http.StatusNotFound || strings.Contains(body, "{") {
			t.Errorf("%s: %d %q", path, status, body)
		}
	}
}

// TestGolden compares answers with those of 3.9.5, to the byte.
func TestGolden(t *testing.T) {
	alone := New(options(t, standalone()))
	info, members := leading()
	o := options(t, info)
	o.Members = func() *Members { return members }
	leader := New(o)
	for _, tc := range []struct {
		server *Server
		path   string
		file   string
	}{
		{alone, "/commands", "commands.html"},
		{alone, "/commands/", "commands.html"},
		{alone, "/commands/stat", "stats.json"},
		{alone, "/commands/cons", "connections.json"},
		{alone, "/commands/config", "configuration.json"},
		{alone, "/commands/dump", "dump.json"},
		{alone, "/commands/wchc", "watches.json"},
		{alone, "/commands/wchp", "watches_by_path.json"},
		{alone, "/commands/wchs", "watch_summary.json"},
		{leader, "/commands/lead", "leader.json"},
		{leader, "/commands/obsr", "observers.json"},
		{leader, "/commands/voting_view", "voting_view.json"},
		{leader, "/commands/zabstate", "zabstate.json"},
	} {
		status, body := ask(t, tc.server, http.MethodGet, tc.path)
		if diff := cmp.Diff(golden(t, tc.file), body); status != http.StatusOK || diff != "" {
			t.Errorf("%s: %d (-want +got):\n%s", tc.path, status, diff)
		}
	}
}

// TestSmallAnswers has what fits in a line, as 3.9.5 answers it.
func TestSmallAnswers(t *testing.T) {
	down := New(options(t, &fourletter.Info{}))
	readOnly := standalone()
	readOnly.ReadOnly, readOnly.Mode = true, "read-only"
	o := options(t, readOnly)
	o.Members = func() *Members { return &Members{ID: 1} }
	o.CommandURL = "/admin/"
	cut := New(o)
	o = options(t, standalone())
	o.InitialConfiguration = func() string { return "a=\"\\b\u0001\té\n" }
	o.Properties = func() map[string]string { return map[string]string{"z": "1", "a": "2"} }
	alone := New(o)
	const notServing = "This ZooKeeper instance is not currently serving requests"
	for _, tc := range []struct {
		server *Server
		path   string
		want   string // in one line
	}{
		{alone, "/commands/ruok", `{"command" : "ruok","error" : null}`},
		{alone, "/commands/nope/x", `{"command" : "nope/x","error" : "Unknown command: nope/x"}`},
		{alone, "/commands/crst", `{"command" : "connection_stat_reset","error" : null}`},
		{alone, "/commands/srst", `{"command" : "stat_reset","error" : null}`},
		{alone, "/commands/orst", `{"command" : "observer_connection_stat_reset","error" : null}`},
		{alone, "/commands/isro", `{"read_only" : false,"command" : "is_read_only","error" : null}`},
		{alone, "/commands/lead", `{"error" : "server is not initialized","command" : "leader"}`},
		{alone, "/commands/obsr", `{"synced_observers" : 0,"observers" : [ ],"command" : "observers","error" : null}`},
		{alone, "/commands/voting_view", `{"current_config" : { },"command" : "voting_view","error" : null}`},
		{alone, "/commands/zabstate", `{"voting" : false,"zabstate" : "","command" : "zabstate","error" : null}`},
		{alone, "/commands/hash", `{"digests" : [ ],"command" : "hash","error" : null}`},
		{alone, "/commands/dirs",
			`{"datadir_size" : 67109358,"logdir_size" : 67109358,"command" : "dirs","error" : null}`},
		{alone, "/commands/gtmk", `{"tracemask" : 306,"command" : "get_trace_mask","error" : null}`},
		{alone, "/commands/stmk",
			`{"error" : "setTraceMask requires long traceMask argument","command" : "set_trace_mask"}`},
		{alone, "/commands/stmk?traceMask=x",
			`{"error" : "setTraceMask requires long traceMask argument, got x","command" : "set_trace_mask"}`},
		{alone, "/commands/stmk?traceMask=307", `{"tracemask" : 307,"command" : "set_trace_mask","error" : null}`},
		{alone, "/commands/gtmk", `{"tracemask" : 307,"command" : "get_trace_mask","error" : null}`},
		{alone, "/commands/lsnp",
			`{"zxid" : "ffffffffffffffff","timestamp" : -1,"command" : "last_snapshot","error" : null}`},
		{alone, "/commands/icfg", `{"initial_configuration" : "a=\"\\b\u0001\té\n",` +
			`"command" : "initial_configuration","error" : null}`},
		{alone, "/commands/sysp", `{"a" : "2","z" : "1","command" : "system_properties","error" : null}`},
		{cut, "/admin/isro", `{"read_only" : true,"command" : "is_read_only","error" : null}`},
		{cut, "/admin/lead", `{"error" : "server is not initialized","command" : "leader"}`},
		{cut, "/admin/zabstate", `{"voting" : false,"zabstate" : "","command" : "zabstate","error" : null}`},
		{down, "/commands/conf", `{"command" : "conf","error" : "` + notServing + `"}`},
		{down, "/commands/ruok", `{"command" : "ruok","error" : "` + notServing + `"}`},
		{down, "/commands/zabstate", `{"voting" : false,"zabstate" : "","command" : "zabstate","error" : null}`},
		{down, "/commands/env", `{"zookeeper.version" : "` + version + `","command" : "environment","error" : null}`},
	} {
		status, body := ask(t, tc.server, http.MethodGet, tc.path)
		if got := oneLine(body); status != http.StatusOK || got != tc.want {
			t.Errorf("%s: %d\n got %s\nwant %s", tc.path, status, got, tc.want)
		}
	}
}

// oneLine takes the lines of a JSON page together.
func oneLine(body string) string {
	var b strings.Builder
	for line := range strings.Lines(body) {
		b.WriteString(strings.TrimSpace(line))
	}
	return b.String()
}

// TestMonitor: the figures are those of mntr, and a server without a leader still tells them.
func TestMonitor(t *testing.T) {
	o := options(t, &fourletter.Info{})
	o.Metrics = func(v *catalog.Values) {
		v.Set("looking_count", 3)
		v.SetFloat("zkd_last_election_seconds", 0.25)
		v.SetKeyed("zkd_peer_lag_entries", "2", 9)
	}
	status, body := ask(t, New(o), http.MethodGet, "/commands/monitor")
	for _, want := range []string{
		"{\n  \"version\" : \"" + version + "\",\n  \"server_state\" : \"\",\n  \"ephemerals_count\" : 0,\n",
		"  \"avg_latency\" : 0.0,\n", "  \"looking_count\" : 3,\n", "  \"zkd_last_election_seconds\" : 0.25,\n",
		"  \"2_zkd_peer_lag_entries\" : 9,\n", "  \"p999_readlatency\" : 0,\n",
		"\n  \"command\" : \"monitor\",\n  \"error\" : null\n}",
	} {
		if status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%d, lacks %q:\n%.600s", status, want, body)
		}
	}
}

// TestResets: each reset reaches what it is about, and the counts of observers begin anew.
func TestResets(t *testing.T) {
	info, members := leading()
	reset := ""
	info.ResetConnections = func() { reset += "c" }
	info.ResetServer = func() { reset += "s" }
	o := options(t, info)
	o.Members = func() *Members { return members }
	s := New(o)
	for _, path := range []string{"crst", "srst", "orst"} {
		if status, body := ask(t, s, http.MethodGet, "/commands/"+path); status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if reset != "cs" {
		t.Errorf("reset %q, want cs", reset)
	}
	members.Observers[0].FramesSent += 2
	_, body := ask(t, s, http.MethodGet, "/commands/obsr")
	if !strings.Contains(body, `"packets_received" : 0,`) || !strings.Contains(body, `"packets_sent" : 2,`) {
		t.Errorf("after the reset: %s", body)
	}
}

// TestMethods: what is not GET and not POST, or the wrong one of the two.
func TestMethods(t *testing.T) {
	s := New(options(t, standalone()))
	super := []string{"Authorization", "digest super:admin"}
	for _, tc := range []struct {
		method, path string
		want         int
	}{
		{"PUT", "/commands/ruok", http.StatusMethodNotAllowed}, {"DELETE", "/commands", http.StatusMethodNotAllowed},
		{"TRACE", "/commands/ruok", http.StatusForbidden}, {"TRACE", "/", http.StatusForbidden},
		{"OPTIONS", "/commands/ruok", http.StatusOK}, {"HEAD", "/commands/ruok", http.StatusOK},
		{"POST", "/commands", http.StatusOK}, {"POST", "/commands/ruok", http.StatusMethodNotAllowed},
		{"GET", "/commands/restore", http.StatusMethodNotAllowed}, {"GET", "/", http.StatusNotFound},
		{"GET", "/commandsx", http.StatusNotFound}, {"GET", "/metrics", http.StatusNotFound},
		{"GET", "/debug/pprof/", http.StatusNotFound}, {"POST", "/health/live", http.StatusMethodNotAllowed},
	} {
		if got, body := ask(t, s, tc.method, tc.path, super...); got != tc.want {
			t.Errorf("%s %s: %d, want %d: %s", tc.method, tc.path, got, tc.want, body)
		}
	}
	if allow := respond(s, "OPTIONS", "/commands/ruok", "").Header().Get("Allow"); !strings.Contains(allow, "POST") {
		t.Errorf("Allow: %q", allow)
	}
}

func TestHealth(t *testing.T) {
	info := &fourletter.Info{}
	o := options(t, info)
	o.Profiles = true
	s := New(o)
	for _, serving := range []bool{false, true} {
		want := http.StatusServiceUnavailable
		if serving {
			*info, want = *standalone(), http.StatusOK
		}
		if got, body := ask(t, s, http.MethodGet, "/health/ready"); got != want {
			t.Errorf("ready while serving is %v: %d %s", serving, got, body)
		}
		if got, body := ask(t, s, http.MethodGet, "/health/live"); got != http.StatusOK {
			t.Errorf("live while serving is %v: %d %s", serving, got, body)
		}
	}
	if got, _ := ask(t, s, http.MethodGet, "/debug/pprof/"); got != http.StatusOK {
		t.Errorf("profiles: %d", got)
	}
	s.opts.DiskHangs = func() bool { return true }
	if _, body := ask(t, s, http.MethodGet, "/health/ready"); !strings.Contains(body, `"disk" : "does not answer"`) {
		t.Errorf("ready while the disk hangs: %s", body)
	}
	*info = fourletter.Info{}
	if got, body := ask(t, s, http.MethodGet, "/health/ready"); got != http.StatusServiceUnavailable ||
		!strings.Contains(body, `"status" : "the disk does not answer"`) {
		t.Errorf("ready when clients are turned away: %d %s", got, body)
	}
}

// TestWhoHoldsMemory: a connection that holds much of it says so.
func TestWhoHoldsMemory(t *testing.T) {
	for _, held := range []int64{0, 1 << 20} {
		o := options(t, standalone())
		info := o.Info
		o.Info = func() *fourletter.Info {
			i := info()
			of := i.Connections
			i.Connections = func(yield func(fourletter.Connection) bool) {
				of(func(c fourletter.Connection) bool {
					c.HeldBytes = held
					return yield(c)
				})
			}
			return i
		}
		_, body := ask(t, New(o), "GET", "/commands/connections")
		if got := strings.Contains(body, `"held_memory_bytes" : 1048576`); got != (held > 0) {
			t.Errorf("with %d bytes: %s", held, body)
		}
	}
}
