package fourletter

import (
	"bytes"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"zkd/jute"
	"zkd/server/stats"
	"zkd/server/stats/catalog"
	"zkd/server/watch"
	"zkd/storage/acl"
)

// The files of testdata were recorded from one standalone ZooKeeper 3.9.5 with three sessions, ephemerals and watches;
// only paths of the machine were replaced. recorded describes that server. Those with a role in their names are from an
// ensemble of three participants and an observer, without the sets that have a key for each learner or namespace.
const (
	recordedVersion = "3.9.5-293c895a8d966a3ecb92872be4a1daf87d725da2, built on 2026-02-11 20:18 UTC"
	sessionA        = jute.SessionID(0x10000429b8b0000)
	sessionB        = jute.SessionID(0x10000429b8b0001)
	sessionC        = jute.SessionID(0x10000429b8b0002)
)

func local(port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)
}

func at(clock string) time.Time {
	t, err := time.Parse("2006-01-02 15:04:05 MST", "2026-11-21 "+clock+" UTC")
	if err != nil {
		panic(err)
	}
	return t
}

// sink is a connection that hears nothing.
type sink struct{ watch.Holder }

func (*sink) Proven() *acl.Proven             { return nil }
func (*sink) WatchFired(*watch.Event, []byte) {}

// recordedWatches has the watches of the recorded server.
func recordedWatches() *watch.Table {
	table := watch.New()
	var a, b, c sink
	a.Init(&a, sessionA)
	b.Init(&b, sessionB)
	c.Init(&c, sessionC)
	table.AddData(&c.Holder, "/p")
	table.AddData(&b.Holder, "/p")
	table.Fire(&watch.Event{Type: jute.EventNodeDataChanged, Path: "/p"})
	table.AddData(&a.Holder, "/missing")
	table.AddData(&a.Holder, "/p")
	table.AddChild(&b.Holder, "/p")
	table.AddWatch(&b.Holder, "/per", jute.WatchPersistent)
	table.AddWatch(&b.Holder, "/rec", jute.WatchPersistentRecursive)
	return table
}

// recordedConnections are those of the three sessions, A, C and B.
func recordedConnections() []Connection {
	return []Connection{
		{
			Remote: local(56104), Reads: true, Received: 7, Sent: 8, Session: sessionA,
			LastOp: OpName(jute.OpExists), Established: 1795239509475,
			Timeout: 4 * time.Second, LastXid: 6, LastZxid: 0x94, LastResponseAt: 4366179,
			Latency: stats.Snapshot{Count: 7, Sum: 45, Max: 28},
		},
		{
			Remote: local(56118), Reads: true, Received: 3, Sent: 4, Session: sessionC,
			LastOp: OpName(jute.OpSetData), Established: 1795239509573,
			Timeout: 20 * time.Second, LastXid: 2, LastZxid: 8, LastResponseAt: 4365914,
			LastLatency: 2, Latency: stats.Snapshot{Count: 3, Sum: 2, Max: 2},
		},
		{
			Remote: local(56108), Reads: true, Received: 146, Sent: 147, Session: sessionB,
			LastOp: OpName(jute.OpSetData), Established: 1795239509511,
			Timeout: 30 * time.Second, LastXid: 0x91, LastZxid: 0x94, LastResponseAt: 4366179,
			LastLatency: 1, Latency: stats.Snapshot{Count: 146, Sum: 150, Max: 6},
		},
	}
}

func recorded() *Info {
	dirs := DirSizes{DataBytes: 67109358, LogBytes: 67109358}
	return &Info{
		Serving: true, Mode: "standalone",
		Latency:          stats.Snapshot{Count: 146, Sum: 190, Min: 0, Avg: 1.3013, Max: 28},
		PacketsReceived:  158,
		PacketsSent:      160,
		AliveConnections: 4,
		Zxid:             0x94,
		Nodes:            9,
		Conf: func() Configuration {
			return Configuration{
				ClientPort: 29351, SecureClientPort: -1, DirSizes: dirs, TickTime: 2 * time.Second, MaxClientCnxns: 60,
				DataDir: "/var/lib/zookeeper/version-2", DataLogDir: "/var/lib/zookeeper/version-2",
				MinSessionTimeout: 4 * time.Second, MaxSessionTimeout: 40 * time.Second, ClientPortListenBacklog: -1,
			}
		},
		Dirs: func() DirSizes { return dirs },
		Sessions: func() []SessionBucket {
			return []SessionBucket{
				{At: at("05:38:33")},
				{At: at("05:38:35"), Sessions: []jute.SessionID{sessionA}},
				{At: at("05:38:49"), Sessions: []jute.SessionID{sessionC}},
				{At: at("05:38:59")},
				{At: at("05:39:01"), Sessions: []jute.SessionID{sessionB}},
			}
		},
		Clients: func() []ConnectionBucket {
			return []ConnectionBucket{
				{At: at("05:38:33")},
				{At: at("05:38:43"), Connections: []Client{{local(56104), sessionA}, {local(56158), 0}}},
				{At: at("05:38:53"), Connections: []Client{{local(56118), sessionC}}},
				{At: at("05:39:03"), Connections: []Client{{local(56108), sessionB}}},
			}
		},
		Ephemerals: func(yield func(jute.SessionID, []string) bool) {
			_ = yield(sessionB, []string{"/p/e3"}) && yield(sessionA, []string{"/e1", "/e2"})
		},
		Watches: recordedWatches(),
		Digests: func(yield func(jute.Zxid, uint64) bool) { yield(0x80, 6219822466) },
	}
}

func golden(t *testing.T, w Command) string {
	t.Helper()
	return goldenFile(t, w.String())
}

func goldenFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func answer(t testing.TB, c *Commands, w Command, argument []byte, info *Info) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.Answer(&b, w, argument, info); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// sorted puts the lines of reports whose order is by chance into one: blocks that begin with an unindented line.
func sorted(text string) string {
	blocks := strings.Split(strings.ReplaceAll(text, "\n\t", "\x00\t"), "\n")
	for i, b := range blocks {
		head, rest, _ := strings.Cut(b, "\x00")
		lines := strings.Split(rest, "\x00")
		slices.Sort(lines)
		blocks[i] = head + "\n" + strings.Join(lines, "\n")
	}
	slices.Sort(blocks)
	return strings.Join(blocks, "\n")
}

func TestGolden(t *testing.T) {
	all := New(Options{Whitelist: "*", Version: recordedVersion})
	srvr := recorded()
	srvr.PacketsReceived, srvr.PacketsSent = 159, 161
	own := func(port uint16) Connection { return Connection{Remote: local(port), Received: 1} }
	stat, cons := recorded(), recorded()
	stat.Connections = slices.Values(slices.Insert(recordedConnections(), 2, own(56124)))
	cons.Connections = slices.Values(slices.Insert(recordedConnections(), 0, own(56144)))
	infos := map[Command]*Info{
		Srvr: srvr, Stat: stat, Cons: cons, Conf: recorded(), Dump: recorded(), Wchs: recorded(), Wchc: recorded(),
		Wchp: recorded(), Hash: recorded(), Dirs: recorded(),
	}
	for w, info := range infos {
		want, got := golden(t, w), answer(t, all, w, nil, info)
		if w == Wchc || w == Wchp {
			want, got = sorted(want), sorted(got)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", w, diff)
		}
	}
}

// TestGoldenDump has the sessions as the members of an ensemble show them, with local sessions enabled.
func TestGoldenDump(t *testing.T) {
	const id = jute.SessionID(0x100016874830000)
	c := New(Options{Whitelist: "*"})
	ephemerals := func(yield func(jute.SessionID, []string) bool) { yield(id, []string{"/e"}) }
	at37, at43 := at("10:59:37"), at("10:59:43")
	leader := &Info{Serving: true, PeerState: "leading - broadcast", Ephemerals: ephemerals,
		LocalSessions: func() []SessionBucket { return nil },
		Sessions:      func() []SessionBucket { return []SessionBucket{{at37, []jute.SessionID{id}}} },
		Clients: func() []ConnectionBucket {
			return []ConnectionBucket{{at43, []Client{{Remote: local(44510)}}}}
		}}
	follower := &Info{Serving: true, PeerState: "following - broadcast", Ephemerals: ephemerals,
		LocalSessions:  func() []SessionBucket { return []SessionBucket{{At: at37}} },
		GlobalSessions: func() []SessionTimeout { return []SessionTimeout{{id, 10 * time.Second}} },
		Clients: func() []ConnectionBucket {
			return []ConnectionBucket{{at43, []Client{{Remote: local(37266)}, {local(37230), id}}}}
		}}
	for file, info := range map[string]*Info{"dump-leader": leader, "dump-follower": follower} {
		if diff := cmp.Diff(goldenFile(t, file), answer(t, c, Dump, nil, info)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

// TestGoldenEnvi: the first two lines are ours, the rest is what the server gives.
func TestGoldenEnvi(t *testing.T) {
	want := golden(t, Envi)
	info := &Info{Environment: func() []Setting {
		var list []Setting
		for line := range strings.Lines(want) {
			if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok && key != "zookeeper.version" {
				list = append(list, Setting{key, value})
			}
		}
		return list
	}}
	c := New(Options{Whitelist: "envi", Version: recordedVersion})
	if diff := cmp.Diff(want, answer(t, c, Envi, nil, info)); diff != "" {
		t.Errorf("envi (-want +got):\n%s", diff)
	}
}

// TestGoldenMntr reads the recorded values back into Metrics, kind by kind, and expects the same text: every name, in
// the real server's order and format.
func TestGoldenMntr(t *testing.T) {
	for file, info := range map[string]*Info{
		"mntr":          {Mode: "standalone"},
		"mntr-leader":   {Mode: "leader", PeerState: "leading - broadcast"},
		"mntr-follower": {Mode: "follower", PeerState: "following - broadcast"},
		"mntr-observer": {Mode: "observer", PeerState: "observing - broadcast", ObserverMaster: 3},
	} {
		t.Run(file, func(t *testing.T) { goldenMntr(t, goldenFile(t, file), info) })
	}
}

// goldenMntr compares one of them.
func goldenMntr(t *testing.T, want string, info *Info) {
	t.Helper()
	values := map[string]string{}
	for line := range strings.Lines(want) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		values[strings.TrimPrefix(key, "zk_")] = value
	}
	whole := func(name string) int64 {
		v, err := strconv.ParseInt(values[name], 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return v
	}
	decimals := func(name string) float64 {
		v, err := strconv.ParseFloat(values[name], 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return v
	}
	snapshot := func(name string) stats.Snapshot {
		return stats.Snapshot{
			Count: whole("cnt_" + name), Sum: whole("sum_" + name), Min: whole("min_" + name),
			Max: whole("max_" + name),
			Avg: decimals("avg_" + name),
		}
	}
	fill := func(v *catalog.Values) {
		for r := range catalog.All() {
			if _, ok := values[r.Name]; ok && r.Float {
				v.SetFloat(r.Name, decimals(r.Name))
			} else if ok {
				v.Set(r.Name, whole(r.Name))
			}
			if _, ok := values["avg_"+r.Name]; !ok {
				continue
			}
			d := catalog.Distribution{Snapshot: snapshot(r.Name)}
			if r.Kind == catalog.Percentiles {
				d.Percentiles = stats.Percentiles{P50: whole("p50_" + r.Name), P95: whole("p95_" + r.Name),
					P99: whole("p99_" + r.Name), P999: whole("p999_" + r.Name)}
			}
			v.SetDistribution(r.Name, d)
		}
	}
	c := New(Options{Whitelist: "mntr", Version: recordedVersion})
	info.Serving, info.Metrics = true, fill
	got := answer(t, c, Mntr, nil, info)
	fixed := func(text string) string { // bytes by top-level path are not counted here
		var lines []string
		for line := range strings.Lines(text) {
			if !strings.Contains(line, "_per_namespace") && !strings.Contains(line, "_ack_latency\t") &&
				!strings.Contains(line, "_learner_handler_qp_") || strings.Contains(line, "_quorum_ack_latency") {
				lines = append(lines, line)
			}
		}
		return strings.Join(lines, "")
	}
	if diff := cmp.Diff(fixed(want), fixed(got)); diff != "" {
		t.Errorf("mntr (-want +got):\n%s", diff)
	}
}
