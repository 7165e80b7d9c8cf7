package survey

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"zkd/quorum/clock"
)

// recorded is what 3.9.5 has said.
func recorded(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("../../fourletter/testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestWordsAreRead(t *testing.T) {
	f := parseMntr(recorded(t, "mntr-leader.txt"))
	if f["server_state"] != "leader" || !strings.HasPrefix(f["version"], "3.9.5-") {
		t.Errorf("%q, %q", f["server_state"], f["version"])
	}
	if n, ok := f.Int("znode_count"); !ok || n < 5 {
		t.Errorf("%d %v", n, ok)
	}
	s := parseSrvr(recorded(t, "srvr.txt"))
	if s["server_state"] != "standalone" || s["num_alive_connections"] == "" || s[zxidFigure] == "" ||
		s["max_latency"] == "" {
		t.Errorf("%v", s)
	}
	var found []Connection
	for line := range strings.Lines(recorded(t, "cons.txt")) {
		if c, ok := parseCons(strings.TrimSpace(line)); ok {
			found = append(found, c)
		}
	}
	if len(found) < 2 || found[0].Remote == "" {
		t.Fatalf("%+v", found)
	}
	sessions := 0
	for _, c := range found {
		if c.Session != 0 {
			sessions++
			if c.LastOp == "" || c.Timeout == 0 || c.Since.IsZero() {
				t.Errorf("%+v", c)
			}
		}
	}
	if sessions == 0 {
		t.Error("no session was read")
	}
	if w := parseWchp(recorded(t, "wchp.txt")); len(w) == 0 {
		t.Errorf("%v", w)
	}
}

// manual is a clock that a test sets.
func manual(now time.Time) *clock.Manual { return clock.NewManual(now) }

func TestRatesAreOfTheTimeBetween(t *testing.T) {
	c := manual(time.UnixMilli(1_000_000))
	f := Figures{"server_state": "leader", "cnt_readlatency": "10", "cnt_updatelatency": "5", "sum_readlatency": "0",
		"sum_updatelatency": "0", "2_zkd_peer_lag_entries": "7", "num_alive_connections": "3"}
	asked := 0
	s := New(Options{Clock: c, Asker: &Asker{}, Places: func() []Place {
		return []Place{
			{ID: "1", Figures: func() (Figures, error) { asked++; return f, nil }},
			{ID: "2", Role: "observer", Figures: func() (Figures, error) {
				return Figures{"server_state": "observer"}, nil
			}},
			{ID: "3", Figures: func() (Figures, error) { return nil, errNotServing }},
		}
	}})
	first := s.Latest(t.Context())
	if first.Known || first.Clients != 3 {
		t.Errorf("%+v", first.Point)
	}
	s.Latest(t.Context())
	if asked != 1 {
		t.Errorf("asked %d times within a moment", asked)
	}
	f = Figures{"server_state": "leader", "cnt_readlatency": "30", "cnt_updatelatency": "15", "sum_readlatency": "20",
		"sum_updatelatency": "40"}
	c.Advance(2 * time.Second)
	second := s.Latest(t.Context())
	if !second.Known || second.Reads != 10 || second.Writes != 5 || second.Latency != 2 {
		t.Errorf("%+v", second.Point)
	}
	if m := first.Members[1]; !m.HasLag || m.Lag != 7 {
		t.Errorf("%+v", m)
	}
	if n := len(s.History()); n != 2 {
		t.Errorf("%d samples", n)
	}
}

func TestFindingsSayWhatToDo(t *testing.T) {
	one := func(role string, f Figures) Member {
		m := Member{Place: Place{ID: "1", Addr: "a:1"}, Role: role, Figures: f}
		return m
	}
	away := func(err error) Member { return Member{Place: Place{ID: "2", Addr: "b:1"}, Err: err} }
	for name, c := range map[string]struct {
		members []Member
		level   Level
		says    string
	}{
		"all is well": {[]Member{one("standalone", nil)}, "", ""},
		"a server away": {[]Member{one("leader", nil), one("follower", nil), away(errors.New("no answer"))}, Bad,
			"no answer"},
		"no majority": {[]Member{one("", nil), away(errNoAnswer), away(errNoAnswer)}, Bad, "1 of 3 voters"},
		"no more margin": {[]Member{one("leader", nil), one("follower", nil), away(errNoAnswer)}, Warn,
			"One more voter"},
		"disk hangs": {[]Member{one("leader", Figures{"state_zkd_disk_hang_seconds": "4"})}, Bad, "4 s"},
		"disk full": {[]Member{one("standalone", Figures{"raftlog_zkd_disk_bytes": "100",
			"raftlog_zkd_disk_free_bytes": "5"})}, Warn, "5 %"},
		"files": {[]Member{one("standalone", Figures{"open_file_descriptor_count": "95",
			"max_file_descriptor_count": "100"})}, Bad, "95 of 100"},
		"clocks": {[]Member{one("leader", Figures{"2_zkd_clock_skew_seconds": "-3"})}, Warn, "-3.0 s"},
		"little": {[]Member{{Place: Place{Addr: "a:1"}, Role: "standalone", Limited: true}}, Note, "whitelist"},
	} {
		s := &Sample{Members: c.members}
		found := s.Findings()
		if c.level == "" {
			if len(found) > 0 {
				t.Errorf("%s: %v", name, found)
			}
			continue
		}
		ok := false
		for i, f := range found {
			ok = ok || f.Level == c.level && strings.Contains(f.What+f.Do, c.says) && f.Do != ""
			if i > 0 && rank(f.Level) < rank(found[i-1].Level) {
				t.Errorf("%s: %v: the worst is not first", name, found)
			}
		}
		if !ok {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// answering serves a four-letter port that answers by the word.
func answering(t *testing.T, answers map[string]string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			var b [4]byte
			if _, err := c.Read(b[:]); err == nil {
				_, _ = c.Write([]byte(answers[string(b[:])]))
			}
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

func TestWhoMayNotBeAskedIsAskedElsewhere(t *testing.T) {
	const refused = "mntr is not executed because it is not in the whitelist.\n"
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/commands/monitor" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(`{"server_state":"leader","znode_count":5,"avg_latency":0.5,"error":null}`))
	}))
	defer admin.Close()
	u, err := url.Parse(admin.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	addr := answering(t, map[string]string{"mntr": refused, "srvr": recorded(t, "srvr.txt")})
	dial := new(net.Dialer).DialContext
	f, limited, err := (&Asker{Dial: dial, AdminPort: port, AdminURL: "/commands"}).Figures(t.Context(), addr)
	if err != nil || limited || f["server_state"] != "leader" || f["znode_count"] != "5" {
		t.Errorf("%v %v %v", f, limited, err)
	}
	f, limited, err = (&Asker{Dial: dial}).Figures(t.Context(), addr)
	if err != nil || !limited || f["server_state"] != "standalone" {
		t.Errorf("%v %v %v", f, limited, err)
	}
	addr = answering(t, map[string]string{"mntr": "This ZooKeeper instance is not currently serving requests\n"})
	if _, _, err := (&Asker{Dial: dial}).Figures(t.Context(), addr); !errors.Is(err, errNotServing) {
		t.Error(err)
	}
	silent := answering(t, nil)
	if _, _, err := (&Asker{Dial: dial}).Figures(context.Background(), silent); !errors.Is(err, errNoAnswer) {
		t.Error(err)
	}
}
