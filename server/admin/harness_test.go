package admin

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/server/auth"
	"zkd/server/fourletter"
	"zkd/server/stats"
	"zkd/server/stats/catalog"
	"zkd/server/watch"
	"zkd/storage/acl"
	"zkd/storage/ensemble"
)

const (
	version = "3.9.5-293c895a8d966a3ecb92872be4a1daf87d725da2, built on 2026-02-11 20:18 UTC"
	client  = jute.SessionID(72059883293310976)
)

// golden is what 3.9.5 answered.
func golden(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// options are those of a server that stands alone and shows what info has.
func options(t *testing.T, info *fourletter.Info) Options {
	t.Helper()
	registry, err := auth.New(auth.Options{SuperDigest: "super:xQJmxLMiHGwaqBvst5y6rkB6HQs="}) // admin's password
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Clock: clock.Real(), Logger: slog.New(slog.DiscardHandler), Info: func() *fourletter.Info { return info },
		Commands: fourletter.New(fourletter.Options{Whitelist: "*", Version: version}),
		Metrics:  func(v *catalog.Values) { v.Set("znode_count", 5) },
		Registry: registry, Anywhere: true, IdleTimeout: time.Minute,
	}
}

// ask returns the status and the body of an answer.
func ask(t *testing.T, h http.Handler, method, path string, header ...string) (status int, body string) {
	t.Helper()
	w := respond(h, method, path, "", header...)
	return w.Code, w.Body.String()
}

// respond has h answer.
func respond(h http.Handler, method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.RemoteAddr = "192.0.2.7:1234"
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// standalone shows what the recorded server did.
func standalone() *fourletter.Info {
	table := watch.New()
	holder := &watch.Holder{}
	holder.Init(nobody{}, client)
	table.AddData(holder, "/a")
	return &fourletter.Info{
		Serving: true, Mode: modeStandalone, Zxid: 3, Nodes: 7, AliveConnections: 1,
		Latency:     stats.Snapshot{Count: 6, Sum: 57, Min: 1, Max: 35, Avg: 9.5},
		PacketsSent: 6, PacketsReceived: 6, Uptime: 120168 * time.Millisecond,
		Replies: fourletter.ProposalSizes{Last: 16, Min: 16, Max: 84},
		Conf: func() fourletter.Configuration {
			return fourletter.Configuration{ClientPort: 31180, DataDir: "/data/version-2",
				DataLogDir: "/data/version-2", TickTime: 2 * time.Second, MaxClientCnxns: 60,
				MinSessionTimeout: 4 * time.Second, MaxSessionTimeout: 40 * time.Second, ClientPortListenBacklog: -1}
		},
		Dirs: func() fourletter.DirSizes { return fourletter.DirSizes{DataBytes: 67109358, LogBytes: 67109358} },
		Connections: func(yield func(fourletter.Connection) bool) {
			yield(fourletter.Connection{
				Remote: netip.MustParseAddrPort("127.0.0.1:59630"), Reads: true, Received: 6, Sent: 6, Session: client,
				LastOp: "GETD", Established: 1795270187463, Timeout: 30 * time.Second, LastXid: 5, LastZxid: 3,
				LastResponseAt: 35043939, LastLatency: 1, Latency: stats.Snapshot{Count: 6, Sum: 57, Max: 35},
			})
		},
		Sessions: func() []fourletter.SessionBucket {
			return []fourletter.SessionBucket{{At: time.UnixMilli(35074000), Sessions: []jute.SessionID{client}}}
		},
		Ephemerals: func(yield func(jute.SessionID, []string) bool) { yield(client, []string{"/e"}) },
		Digests:    func(func(jute.Zxid, uint64) bool) {},
		Watches:    table, ResetConnections: func() {}, ResetServer: func() {},
	}
}

// nobody watches.
type nobody struct{}

func (nobody) Proven() *acl.Proven             { return nil }
func (nobody) WatchFired(*watch.Event, []byte) {}

// leading is member 3 of three, which leads, with an observer.
func leading() (*fourletter.Info, *Members) {
	info := standalone()
	info.Mode, info.Zxid = modeLeader, 1<<32
	line := func(id uint64, n uint16, observer bool) ensemble.Server {
		return ensemble.Server{ID: id, Observer: observer,
			Addresses: []ensemble.Address{{Host: "127.0.0.1", Port: 31190 + n, ElectionPort: 31200 + n}}}
	}
	return info, &Members{
		ID: 3, Leader: 3, ClientAddr: "0.0.0.0:31183",
		Servers: []ensemble.Server{line(1, 1, false), line(3, 3, false), line(4, 4, true)},
		Observers: []Observer{{ID: 4, Remote: "127.0.0.1:35952", Since: time.UnixMilli(1795270079404), FramesSent: 56,
			FramesReceived: 55}},
	}
}
