package fourletter

import (
	"encoding/binary"
	"errors"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"zkd/jute"
	"zkd/server/stats"
	"zkd/server/stats/catalog"
)

func TestWhitelist(t *testing.T) {
	cases := []struct {
		text     string
		readOnly bool
		enabled  []Command
		unknown  []string
	}{
		{"", false, []Command{Srvr}, nil},
		{"srvr", true, []Command{Srvr, Isro}, nil},
		{"ruok, stat,nope", false, []Command{Srvr, Ruok, Stat}, []string{"nope"}},
		{" , mntr ,", false, []Command{Srvr, Mntr}, nil},
		{"conf, * ", false, commands, nil},
		{"RUOK", false, []Command{Srvr}, []string{"RUOK"}},
		{"telnet close", false, []Command{Srvr, TelnetClose}, nil},
	}
	for _, tc := range cases {
		c := New(Options{Whitelist: tc.text, ReadOnlyMode: tc.readOnly})
		for _, w := range commands {
			if got, want := c.Enabled(w), slices.Contains(tc.enabled, w); got != want {
				t.Errorf("whitelist %q: %s enabled is %v, want %v", tc.text, w, got, want)
			}
		}
		if diff := cmp.Diff(tc.unknown, c.Unknown()); diff != "" {
			t.Errorf("whitelist %q: unknown (-want +got):\n%s", tc.text, diff)
		}
	}
}

// TestRefused: the texts of commands that are off, telnet's too, and that nothing of the server is asked for them.
func TestRefused(t *testing.T) {
	c := New(Options{})
	for _, w := range commands {
		want := w.String() + " is not executed because it is not in the whitelist.\n"
		if w == Srvr {
			continue
		}
		if got := answer(t, c, w, make([]byte, 8), nil); got != want {
			t.Errorf("%s: %q, want %q", w, got, want)
		}
	}
}

// TestNotServing has the answers of a member without a quorum, as recorded from one.
func TestNotServing(t *testing.T) {
	other := map[Command]string{
		Ruok: "imok", Isro: "null", Gtmk: "306", Stmk: "306", TelnetClose: "",
		Envi: "Environment:\nzookeeper.version=v\n",
		Hash: "This ZooKeeper instance is not currently serving requests",
	}
	c := New(Options{Whitelist: "*", Version: "v"})
	for _, w := range commands {
		want, ok := other[w]
		if !ok {
			want = "This ZooKeeper instance is not currently serving requests\n"
		}
		if got := answer(t, c, w, binary.BigEndian.AppendUint64(nil, 306), &Info{}); got != want {
			t.Errorf("%s: %q, want %q", w, got, want)
		}
	}
}

// TestNotServingSaysWhomItMisses: in a second line, where a command has lines.
func TestNotServingSaysWhomItMisses(t *testing.T) {
	const first = "This ZooKeeper instance is not currently serving requests"
	c := New(Options{Whitelist: "*"})
	info := &Info{MissingVoters: "missing: server 2"}
	for w, want := range map[Command]string{
		Srvr: first + "\nmissing: server 2\n", Mntr: first + "\nmissing: server 2\n", Hash: first, Ruok: "imok",
	} {
		if got := answer(t, c, w, nil, info); got != want {
			t.Errorf("%s: %q, want %q", w, got, want)
		}
	}
}

// TestSmallCommands has those whose answers fit in a line, of a server with nothing to show.
func TestSmallCommands(t *testing.T) {
	resets := ""
	empty := &Info{
		Serving: true, ResetConnections: func() { resets += "c" }, ResetServer: func() { resets += "s" },
	}
	cases := []struct {
		word Command
		info *Info
		want string
	}{
		{Ruok, empty, "imok"},
		{Isro, empty, "rw"},
		{Isro, &Info{Serving: true, ReadOnly: true}, "ro"},
		{Crst, empty, "Connection stats reset.\n"},
		{Srst, empty, "Server stats reset.\n"},
		{Dirs, empty, "datadir_size: 0\nlogdir_size: 0\n"},
		{Cons, empty, "\n"},
		{Wchc, empty, "\n"},
		{Wchp, empty, "\n"},
		{Hash, empty, ""},
		{TelnetClose, empty, ""},
		{Dump, empty, "SessionTracker dump:\nSession Sets (0)/(0):\nephemeral nodes dump:\n" +
			"Sessions with Ephemerals (0):\n" +
			"Connections dump:\nConnections Sets (0)/(0):\n"},
	}
	c := New(Options{Whitelist: "*"})
	for _, tc := range cases {
		if got := answer(t, c, tc.word, nil, tc.info); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.word, got, tc.want)
		}
	}
	if resets != "cs" {
		t.Errorf("reset %q, want cs", resets)
	}
}

// TestTraceMask: the mask is kept, signed, and set only by all eight bytes.
func TestTraceMask(t *testing.T) {
	c := New(Options{Whitelist: "*"})
	mask := func(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }
	steps := []struct {
		word     Command
		argument []byte
		want     string
	}{
		{Gtmk, nil, "306"},
		{Stmk, mask(511), "511"},
		{Gtmk, nil, "511"},
		{Stmk, mask(-2), "-2"},
		{Stmk, mask(7)[:7], ""},
		{Gtmk, nil, "-2"},
	}
	for i, s := range steps {
		if got := answer(t, c, s.word, s.argument, &Info{}); got != s.want {
			t.Errorf("step %d, %s: %q, want %q", i, s.word, got, s.want)
		}
	}
}

// TestRoles has the lines that only some servers show.
func TestRoles(t *testing.T) {
	c := New(Options{Whitelist: "*", Version: "v"})
	leader := &Info{Serving: true, Mode: "leader", Proposals: &ProposalSizes{Last: 32, Min: -1, Max: 48}}
	want := "Mode: leader\nNode count: 0\nProposal sizes last/min/max: 32/-1/48\n"
	if got := answer(t, c, Srvr, nil, leader); !strings.HasSuffix(got, want) {
		t.Errorf("leader: %q", got)
	}
	readOnly := &Info{Serving: true, ReadOnly: true, Mode: "read-only"}
	want = "Zookeeper version: v\nREAD-ONLY mode; serving only read-only clients\nLatency min/avg/max: 0/0.0/0\n"
	if got := answer(t, c, Srvr, nil, readOnly); !strings.HasPrefix(got, want) {
		t.Errorf("read-only: %q", got)
	}
	leader.PeerState = "leading - broadcast"
	want = "zk_version\tv\nzk_server_state\tleader\nzk_peer_state\tleading - broadcast\nzk_ephemerals_count\t0\n"
	if got := answer(t, c, Mntr, nil, leader); !strings.HasPrefix(got, want) {
		t.Errorf("leader: %q", got[:200])
	}
	member := &Info{Serving: true, Conf: func() Configuration {
		return Configuration{ServerID: 3, Member: &MemberConf{
			InitLimit: 5, SyncLimit: 2, ElectionAlg: 3, ElectionPort: 3888, QuorumPort: 2888, Observer: true,
			Membership: "server.3=a:2888:3888:observer\nversion=0",
		}}
	}}
	want = "serverId=3\ninitLimit=5\nsyncLimit=2\nelectionAlg=3\nelectionPort=3888\nquorumPort=2888\npeerType=1\n" +
		"membership: \nserver.3=a:2888:3888:observer\nversion=0"
	if got := answer(t, c, Conf, nil, member); !strings.HasSuffix(got, want) {
		t.Errorf("member: %q", got)
	}
}

// TestConnectionForms has the parts of a connection's line that depend on it.
func TestConnectionForms(t *testing.T) {
	c := New(Options{Whitelist: "*"})
	six := netip.MustParseAddrPort("[2001:db8::1]:9")
	cases := []struct {
		cn   Connection
		want string
	}{
		{Connection{Remote: six, Reads: true, Writes: true, Outstanding: 3},
			" /[2001:db8:0:0:0:0:0:1]:9[5](queued=3,recved=0,sent=0)\n"},
		{Connection{Remote: netip.MustParseAddrPort("[::ffff:10.0.0.1]:9")},
			" /10.0.0.1:9[0](queued=0,recved=0,sent=0)\n"},
		{
			Connection{Remote: six, Session: -1, LastXid: -4, Timeout: time.Second},
			" /[2001:db8:0:0:0:0:0:1]:9[0](queued=0,recved=0,sent=0,sid=0xffffffffffffffff,lop=null,est=0," +
				"to=1000,lzxid=0x0,lresp=0,llat=0,minlat=0,avglat=0,maxlat=0)\n",
		},
	}
	for _, tc := range cases {
		info := &Info{Serving: true, Connections: slices.Values([]Connection{tc.cn})}
		if got := answer(t, c, Cons, nil, info); got != tc.want+"\n" {
			t.Errorf("got  %q\nwant %q", got, tc.want)
		}
	}
	if got := OpName(jute.OpAuth); got != "NA" {
		t.Errorf("auth is called %q", got)
	}
}

// TestMetricsOfOurs: every metric of ZooKeeper is there without being set, and ours come at the end of their kind.
func TestMetricsOfOurs(t *testing.T) {
	c := New(Options{Whitelist: "*", Version: "v"})
	info := &Info{Serving: true, Mode: "standalone"}
	lines := strings.Split(strings.TrimSuffix(answer(t, c, Mntr, nil, info), "\n"), "\n")
	want := 2
	for r := range catalog.All() {
		if r.Own || r.Label != "" || r.Part != catalog.Everywhere {
			continue
		}
		lines := map[catalog.Kind]int{catalog.Gauge: 1, catalog.Counter: 1, catalog.Summary: 5, catalog.Percentiles: 9}
		want += lines[r.Kind]
	}
	if len(lines) != want {
		t.Errorf("%d lines, want %d", len(lines), want)
	}
	for _, line := range lines[2:] {
		if _, value, _ := strings.Cut(line, "\t"); value != "0" && value != "0.0" {
			t.Errorf("unset: %s", line)
		}
	}
	info.Metrics = func(v *catalog.Values) {
		var h stats.Histogram
		h.Add(5)
		v.Set("zkd_term", 1)
		v.Set("zkd_elections_total", 2)
		v.SetFloat("zkd_last_election_seconds", 0.00025)
		v.SetLatency("zkd_fsync_seconds",
			catalog.Latency{Count: 2, Total: 3 * time.Millisecond, P99: 2 * time.Millisecond})
		v.SetHistogram("readlatency", &h)
		v.SetKeyed("zkd_peer_lag_entries", "7", 3)
		v.SetKeyed("quota_count_limit_per_namespace", "app", 7)
		v.SetKeyed("quota_exceeded_error_per_namespace", "app", 8)
	}
	got := answer(t, c, Mntr, nil, info)
	order := []string{
		"zk_non_mtls_local_conn_count\t0\nzk_zkd_term\t1\nzk_zkd_last_election_seconds\t0.00025\n" +
			"zk_app_quota_count_limit_per_namespace\t7\nzk_7_zkd_peer_lag_entries\t3\nzk_watch_bytes\t0\n",
		"zk_zkd_elections_total\t2\nzk_app_quota_exceeded_error_per_namespace\t8\nzk_avg_socket_closing_time\t0.0\n",
		"zk_p50_readlatency\t5\nzk_p95_readlatency\t5\nzk_p99_readlatency\t5\nzk_p999_readlatency\t5\n",
		"zk_cnt_zkd_fsync_seconds\t2\nzk_sum_zkd_fsync_seconds\t0.003\n",
		"zk_p99_zkd_fsync_seconds\t0.002\n",
	}
	for _, want := range order {
		i := strings.Index(got, want)
		if i < 0 {
			t.Fatalf("missing, or out of order: %q", want)
		}
		got = got[i:]
	}
}

func TestJavaDouble(t *testing.T) {
	cases := map[float64]string{
		0: "0.0", 1: "1.0", 6.6923: "6.6923", 9999999: "9999999.0", 1e7: "1.0E7", 12345678.25: "1.234567825E7",
		0.001:  "0.001",
		0.0005: "5.0E-4", -2.5: "-2.5", math.Inf(1): "Infinity", math.Inf(-1): "-Infinity",
	}
	for v, want := range cases {
		if got := javaDouble(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
	if got := javaDouble(math.NaN()); got != "NaN" {
		t.Errorf("NaN: %s", got)
	}
}

func TestFullVersion(t *testing.T) {
	built := time.Date(2026, 2, 11, 21, 18, 9, 0, time.FixedZone("", 3600))
	if got, want := FullVersion("293c895a8d966a3ecb92872be4a1daf87d725da2", built), recordedVersion; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// brokenPipe fails every write.
type brokenPipe struct{}

var errBroken = errors.New("broken pipe")

func (brokenPipe) Write([]byte) (int, error) { return 0, errBroken }

func TestWriteError(t *testing.T) {
	err := New(Options{Whitelist: "*"}).Answer(brokenPipe{}, Mntr, nil, recorded())
	if !errors.Is(err, errBroken) {
		t.Errorf("error %v, want the writer's", err)
	}
}

// FuzzParse: only the commands are taken for some, whatever four bytes come, and none of them could be a frame's length
// that is allowed.
func FuzzParse(f *testing.F) {
	for _, w := range commands {
		f.Add(binary.BigEndian.AppendUint32(nil, uint32(w)))
	}
	f.Add([]byte("nope"))
	f.Add([]byte{0, 0, 0, 44})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 4 {
			return
		}
		w, ok := Parse([4]byte(b))
		if known := slices.Contains(commands, w); ok != known {
			t.Fatalf("%q: %v, want %v", b[:4], ok, known)
		}
		if !ok {
			return
		}
		if length := int32(w); length >= 0 && length <= jute.DefaultMaxBufferBytes {
			t.Fatalf("%s could be a frame of %d bytes", w, length)
		}
		c := New(Options{Whitelist: w.String()})
		if !c.Enabled(w) || c.Unknown() != nil {
			t.Fatalf("%s cannot be put on the whitelist", w)
		}
		answer(t, c, w, b[4:], recorded())
	})
}

// FuzzWhitelist: any text is taken, and srvr stays on.
func FuzzWhitelist(f *testing.F) {
	f.Add("srvr, mntr,*")
	f.Fuzz(func(t *testing.T, text string) {
		if c := New(Options{Whitelist: text}); !c.Enabled(Srvr) {
			t.Fatalf("srvr is off with %q", text)
		}
	})
}
