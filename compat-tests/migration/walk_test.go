package migration_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"

	"zkd/bench/process"
	"zkd/compat-tests/target"
)

func TestMain(m *testing.M) { os.Exit(target.Main(m, "migration")) }

// waitWithin bounds each wait for a server or a client; a guess for a busy machine.
const waitWithin = 60 * time.Second

// quiet drops a client's log.
type quiet struct{}

// Printf implements zk.Logger.
func (quiet) Printf(string, ...any) {}

// connect returns a client that has its session.
func connect(t *testing.T, timeout time.Duration, addrs ...string) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect(addrs, timeout, zk.WithLogger(quiet{}), zk.WithDialer(dialServing))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	awaitSession(t, events)
	return conn
}

// dialServing connects to a server that serves already. One of ZooKeeper that has not read its data yet mostly closes a
// client's connection, but may also keep it without a word (its NIOServerCnxn.close fails half-way), and go-zookeeper
// waits for nearly seven of its session timeouts then.
func dialServing(network, addr string, within time.Duration) (net.Conn, error) {
	if process.Mode(context.Background(), addr, asksWithin) == "" {
		return nil, errStarting
	}
	return net.DialTimeout(network, addr, within)
}

// asksWithin bounds the question of whether a server serves, which may be kept without a word as well: two of them go
// into the shortest session timeout here.
const asksWithin = 10 * time.Second

var errStarting = errors.New("the server does not serve yet")

// awaitSession returns when the client has its session, after a reconnect too.
func awaitSession(t *testing.T, events <-chan zk.Event) {
	t.Helper()
	deadline := time.NewTimer(waitWithin)
	defer deadline.Stop()
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return
			}
			if e.State == zk.StateExpired {
				t.Fatal("the session has expired")
			}
		case <-deadline.C:
			t.Fatalf("no session within %v", waitWithin)
		}
	}
}

// asSuper returns a client that may read everything.
func asSuper(t *testing.T, addr string) *zk.Conn {
	t.Helper()
	conn := connect(t, 30*time.Second, addr)
	if err := conn.AddAuth("digest", []byte(target.SuperUser+":"+target.SuperPassword)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// walk returns a line for each znode: path, Stat, ACL and a sum of the data.
func walk(t *testing.T, addr string) []string {
	t.Helper()
	return walkOver(t, addr, "")
}

// walkOver is a walk that may come to a znode which nobody can read, with the error lost; empty: none may be.
func walkOver(t *testing.T, addr, lost string) []string {
	t.Helper()
	conn := asSuper(t, addr)
	defer conn.Close()
	if _, err := conn.Sync("/"); err != nil {
		t.Fatal(err)
	}
	var lines []string
	var visit func(p string)
	visit = func(p string) {
		data, stat, err := conn.Get(p)
		if err != nil && err.Error() == lost {
			t.Logf("get %q: %v", p, err)
			lines = append(lines, fmt.Sprintf("%q: %v", p, err))
			return
		}
		if err != nil {
			t.Fatalf("get %q: %v", p, err)
		}
		acl, _, err := conn.GetACL(p)
		if err != nil {
			t.Fatalf("getACL %q: %v", p, err)
		}
		lines = append(lines, line(p, data, stat, acl))
		children, _, err := conn.Children(p)
		if err != nil {
			t.Fatalf("getChildren %q: %v", p, err)
		}
		slices.Sort(children)
		for _, child := range children {
			visit(path.Join(p, child))
		}
	}
	visit("/")
	return lines
}

// line is a znode in a walk. storage's tests read walks that were kept, and write the same.
func line(p string, data []byte, s *zk.Stat, acl []zk.ACL) string {
	var list []string
	for _, a := range acl {
		list = append(list, fmt.Sprintf("%d:%s:%s", a.Perms, a.Scheme, a.ID))
	}
	return fmt.Sprintf("%q %x %x %x %d %d %d %d %d %x %d %d %s %08x", p, s.Czxid, s.Mzxid, s.Pzxid, s.Ctime, s.Mtime,
		s.Version, s.Cversion, s.Aversion, uint64(s.EphemeralOwner), s.DataLength, s.NumChildren,
		strings.Join(list, ","), crc32.ChecksumIEEE(data))
}

// sameWalk compares two walks.
func sameWalk(t *testing.T, what string, want, got []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		const shownMax = 6000
		t.Fatalf("%s: the walk differs (-before +after):\n%.*s", what, shownMax, diff)
	}
}

// digestMismatches returns how often the real server has found its own digest wrong.
func digestMismatches(t *testing.T, s *target.Server) string {
	t.Helper()
	answer, err := s.FourLetterWord("mntr")
	if err != nil {
		t.Fatal(err)
	}
	return field(answer, "zk_digest_mismatches_count")
}

// withoutConfig leaves out the line of /zookeeper/config.
func withoutConfig(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		return strings.HasPrefix(line, `"/zookeeper/config" `)
	})
}

// field returns a value of mntr.
func field(mntr, name string) string {
	_, rest, _ := strings.Cut(mntr, name+"\t")
	value, _, _ := strings.Cut(rest, "\n")
	return value
}
