package gozk_test

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"

	"zkd/compat-tests/target"
)

// within bounds every wait of these tests.
const within = time.Minute

var open = zk.WorldACL(zk.PermAll)

// quiet drops what the client logs.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

func connect(t *testing.T, addr string, timeout time.Duration) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect([]string{addr}, timeout, zk.WithLogger(quiet{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	awaitState(t, events, zk.StateHasSession)
	return conn
}

func awaitState(t *testing.T, events <-chan zk.Event, state zk.State) {
	t.Helper()
	timer := time.NewTimer(within)
	defer timer.Stop()
	for {
		select {
		case event := <-events:
			if event.State == state {
				return
			}
		case <-timer.C:
			t.Fatalf("never in state %v", state)
		}
	}
}

func awaitEvent(t *testing.T, events <-chan zk.Event, want zk.EventType, path string) {
	t.Helper()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case event := <-events:
		if event.Type != want || event.Path != path {
			t.Fatalf("event %v %s, want %v %s", event.Type, event.Path, want, path)
		}
	case <-timer.C:
		t.Fatalf("no event, want %v %s", want, path)
	}
}

// createTTL uses the flags of a TTL node as the protocol numbers them, 5, which the client's FlagTTL alone is not.
func createTTL(conn *zk.Conn, millis int64) error {
	_, err := conn.CreateTTL("/t", nil, zk.FlagTTL|zk.FlagEphemeral, open, time.Duration(millis)*time.Millisecond)
	return err
}

func create(t *testing.T, conn *zk.Conn, path string, flags int32) string {
	t.Helper()
	created, err := conn.Create(path, []byte("x"), flags, open)
	if err != nil {
		t.Fatalf("create %s: %v", path, err)
	}
	return created
}

// TestErrors checks which error each mistake is answered with.
func TestErrors(t *testing.T) {
	conn := connect(t, target.Start(t, target.Options{}).Addr, within)
	create(t, conn, "/a", 0)
	create(t, conn, "/a/b", 0)
	create(t, conn, "/e", zk.FlagEphemeral)
	create1 := func(path string, acl []zk.ACL) func() error {
		return func() error {
			_, err := conn.Create(path, nil, 0, acl)
			return err
		}
	}
	for _, test := range []struct {
		name string
		call func() error
		want error
	}{
		{"create again", create1("/a", open), zk.ErrNodeExists},
		{"create without parent", create1("/no/x", open), zk.ErrNoNode},
		{"create under ephemeral", create1("/e/x", open), zk.ErrNoChildrenForEphemerals},
		{"create without acl", create1("/x", nil), zk.ErrInvalidACL},
		{"create with auth of nobody", create1("/x", zk.AuthACL(zk.PermAll)), zk.ErrInvalidACL},
		{"get missing", func() error { _, _, err := conn.Get("/no"); return err }, zk.ErrNoNode},
		{"children of missing", func() error { _, _, err := conn.Children("/no"); return err }, zk.ErrNoNode},
		{"acl of missing", func() error { _, _, err := conn.GetACL("/no"); return err }, zk.ErrNoNode},
		{"set missing", func() error { _, err := conn.Set("/no", nil, -1); return err }, zk.ErrNoNode},
		{"set wrong version", func() error { _, err := conn.Set("/a", nil, 7); return err }, zk.ErrBadVersion},
		{"set acl wrong version", func() error { _, err := conn.SetACL("/a", open, 7); return err }, zk.ErrBadVersion},
		{"delete not empty", func() error { return conn.Delete("/a", -1) }, zk.ErrNotEmpty},
		{"delete wrong version", func() error { return conn.Delete("/a/b", 7) }, zk.ErrBadVersion},
		{"delete missing", func() error { return conn.Delete("/no", -1) }, zk.ErrNoNode},
		{"delete root", func() error { return conn.Delete("/", -1) }, zk.ErrBadArguments},
		{"ttl too long", func() error { return createTTL(conn, 1<<40) }, zk.ErrBadArguments},
		{"ttl of nothing", func() error { return createTTL(conn, 0) }, zk.ErrBadArguments},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := test.call(); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

// TestMulti checks the results of every operation of a transaction, done and rolled back.
func TestMulti(t *testing.T) {
	conn := connect(t, target.Start(t, target.Options{}).Addr, within)
	results, err := conn.Multi(
		&zk.CreateRequest{Path: "/m", Data: []byte("1"), Acl: open},
		&zk.CreateRequest{Path: "/m/s-", Acl: open, Flags: zk.FlagSequence},
		&zk.SetDataRequest{Path: "/m", Data: []byte("22"), Version: 0},
		&zk.CheckVersionRequest{Path: "/m", Version: 1},
		&zk.DeleteRequest{Path: "/m/s-0000000000", Version: 0},
	)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 5 || results[1].String != "/m/s-0000000000" || results[2].Stat.DataLength != 2 {
		t.Errorf("results %+v", results)
	}
	results, err = conn.Multi(
		&zk.CreateRequest{Path: "/m/x", Acl: open},
		&zk.CheckVersionRequest{Path: "/m", Version: 9},
		&zk.CreateRequest{Path: "/m/y", Acl: open},
	)
	if !errors.Is(err, zk.ErrBadVersion) || len(results) != 3 || !errors.Is(results[1].Error, zk.ErrBadVersion) {
		t.Errorf("results %+v, %v of a transaction that fails", results, err)
	}
	if children, _, err := conn.Children("/m"); err != nil || len(children) != 0 {
		t.Errorf("a failed transaction left %v, %v", children, err)
	}
}

// TestWatchesOverCut has the client miss changes while it is away; it sets its watches again with xids like any
// request's.
func TestWatchesOverCut(t *testing.T) {
	server := target.Start(t, target.Options{})
	proxy := target.StartProxy(t, server.Addr)
	other, conn := connect(t, server.Addr, within), connect(t, proxy.Addr, within)
	create(t, other, "/w", 0)
	_, _, data, err := conn.GetW("/w")
	if err != nil {
		t.Fatal(err)
	}
	_, _, children, err := conn.ChildrenW("/w")
	if err != nil {
		t.Fatal(err)
	}
	_, _, missing, err := conn.ExistsW("/later")
	if err != nil {
		t.Fatal(err)
	}
	session := conn.SessionID()
	proxy.Cut()
	if _, err := other.Multi(
		&zk.SetDataRequest{Path: "/w", Version: -1},
		&zk.CreateRequest{Path: "/w/c", Acl: open},
		&zk.CreateRequest{Path: "/later", Acl: open},
	); err != nil {
		t.Fatal(err)
	}
	awaitEvent(t, data, zk.EventNodeDataChanged, "/w")
	awaitEvent(t, children, zk.EventNodeChildrenChanged, "/w")
	awaitEvent(t, missing, zk.EventNodeCreated, "/later")
	if conn.SessionID() != session {
		t.Errorf("session %#x became %#x", session, conn.SessionID())
	}
}

// TestExpiry lets a session end by silence: not before its time-out, and with its ephemerals.
func TestExpiry(t *testing.T) {
	const timeout = 6 * time.Second // long enough for a slow machine to do what comes before the silence
	server := target.Start(t, target.Options{Config: map[string]string{"tickTime": "500"}})
	other := connect(t, server.Addr, within)
	proxy := target.StartProxy(t, server.Addr)
	conn := connect(t, proxy.Addr, timeout)
	create(t, conn, "/gone", zk.FlagEphemeral)
	_, _, gone, err := other.ExistsW("/gone")
	if err != nil {
		t.Fatal(err)
	}
	silent := time.Now()
	proxy.Close()
	awaitEvent(t, gone, zk.EventNodeDeleted, "/gone")
	// What the client sent last may be as old as its ping interval, half its receive time-out of two thirds.
	if took := time.Since(silent); took < timeout-timeout/3 {
		t.Errorf("the session expired after %v of silence, granted were %v", took, timeout)
	}
}

// TestKill9 kills the server under load: what was acknowledged is there after the restart, and the session goes on.
func TestKill9(t *testing.T) {
	server := target.Start(t, target.Options{})
	conn := connect(t, server.Addr, within)
	create(t, conn, "/k", 0)
	create(t, conn, "/k/ephemeral", zk.FlagEphemeral)
	var acknowledged []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			name := fmt.Sprintf("/k/%05d", i)
			if _, err := conn.Create(name, nil, 0, open); err != nil {
				return // the server is gone
			}
			acknowledged = append(acknowledged, path.Base(name))
		}
	}()
	watcher := connect(t, server.Addr, within)
	const enough = "/k/00200"
	exists, _, created, err := watcher.ExistsW(enough)
	if err != nil {
		t.Fatal(err)
	}
	if !exists {
		awaitEvent(t, created, zk.EventNodeCreated, enough)
	}
	session := conn.SessionID()
	server.Kill9()
	<-done
	server.Restart()
	fresh := connect(t, server.Addr, within)
	children, _, err := fresh.Children("/k")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(children)
	children = slices.DeleteFunc(children, func(name string) bool { return name == "ephemeral" })
	if len(children) < len(acknowledged) || len(children) > len(acknowledged)+1 {
		t.Fatalf("%d nodes after the restart, %d were acknowledged and one more may have been under way",
			len(children), len(acknowledged))
	}
	if diff := cmp.Diff(acknowledged, children[:len(acknowledged)]); diff != "" {
		t.Errorf("acknowledged nodes are missing (-acknowledged +there):\n%s", diff)
	}
	_, stat, err := conn.Get("/k/ephemeral")
	for until := time.Now().Add(within); isLost(err) && time.Now().Before(until); { // it waits between its attempts
		_, stat, err = conn.Get("/k/ephemeral")
	}
	if err != nil || stat.EphemeralOwner != session || conn.SessionID() != session {
		t.Errorf("ephemeral of session %#x after the restart: %+v, %v; the client's session is %#x",
			session, stat, err, conn.SessionID())
	}
}

// isLost tells that the client had no connection.
func isLost(err error) bool {
	return errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrNoServer)
}

// TestFourLetterWords uses the client's reader of ruok; those of srvr and cons cannot read what ZooKeeper has
// answered since 3.5.6.
func TestFourLetterWords(t *testing.T) {
	server := target.Start(t, target.Options{})
	conn := connect(t, server.Addr, within)
	if ok := zk.FLWRuok([]string{server.Addr}, within); !slices.Equal(ok, []bool{true}) {
		t.Errorf("ruok: %v", ok)
	}
	cons, err := server.FourLetterWord("cons")
	if err != nil || !strings.Contains(cons, fmt.Sprintf("sid=%#x,", conn.SessionID())) {
		t.Errorf("cons lacks session %#x: %q, %v", conn.SessionID(), cons, err)
	}
	answer, err := server.FourLetterWord("srvr")
	if err != nil || !strings.Contains(answer, "Mode: standalone\n") {
		t.Errorf("srvr: %q, %v", answer, err)
	}
}
