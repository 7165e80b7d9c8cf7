package gozk_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/target"
)

// alone lets a single server be an ensemble, which can grow.
var alone = map[string]string{"standaloneEnabled": "false"}

// value reads what is at a path of one server, in a session of its own.
func value(t *testing.T, s *ensemble.Server, path string) string {
	t.Helper()
	conn := connect(t, s.Addr, within)
	defer conn.Close()
	if _, err := conn.Sync(path); err != nil {
		t.Fatal(err)
	}
	data, _, err := conn.Get(path)
	if err != nil {
		t.Fatalf("server %d: get %s: %v", s.ID, path, err)
	}
	return string(data)
}

// must is a change that goes well.
func (r *reconfigured) must(joining, leaving []string) {
	r.t.Helper()
	if _, err := r.conn.IncrementalReconfig(joining, leaving, -1); err != nil {
		r.t.Fatalf("join %q, leave %q: %v", joining, leaving, err)
	}
}

// TestGrowAndShrink makes three servers of one, two at once, and one of three, another one; what was written stays.
func TestGrowAndShrink(t *testing.T) {
	r := startReconfigured(t, 1, 2, alone)
	one, two, three := r.Servers[0], r.Servers[1], r.Servers[2]
	r.use(one, true)
	create(t, r.conn, "/kept", 0)
	if _, err := r.conn.IncrementalReconfig(r.Lines("participant", two, three), nil, -1); err == nil {
		t.Error("two servers that are down were made the quorum")
	}
	two.Launch()
	three.Launch()
	if why := ensemble.Await(within, func() (bool, string) {
		_, err := r.conn.IncrementalReconfig(r.Lines("participant", two, three), nil, -1)
		return err == nil, fmt.Sprintf("two new servers that run are refused: %v", err)
	}); why != "" {
		t.Fatal(why)
	}
	r.AwaitServing(r.Servers...)
	r.AwaitMode(two, "follower")
	r.AwaitMode(three, "follower")
	for _, s := range r.Servers {
		if got := value(t, s, "/kept"); got != "x" {
			t.Errorf("server %d has %q", s.ID, got)
		}
	}
	one.Kill9() // two of three go on
	r.AwaitServing(two, three)
	r.use(two, true)
	create(t, r.conn, "/later", 0)
	one.Launch()
	r.AwaitServing(r.Servers...)

	r.must(nil, []string{"1"})
	r.use(three, true)
	r.must(nil, []string{"2"})
	r.AwaitMode(three, "leader")
	for _, s := range []*ensemble.Server{one, two} {
		r.AwaitMode(s, "follower") // without a vote
	}
	create(t, r.conn, "/last", 0)
	one.Stop()
	two.Stop()
	three.Stop()
	three.Launch()
	r.AwaitMode(three, "leader")
	for _, path := range []string{"/kept", "/later", "/last"} {
		if got := value(t, three, path); got != "x" {
			t.Errorf("%s has %q", path, got)
		}
	}
	one.Launch() // on old data, and no member
	two.Wipe()
	two.Launch() // on none
	r.use(three, true)
	if why := ensemble.Await(within, func() (bool, string) {
		_, err := r.conn.IncrementalReconfig(r.Lines("participant", one, two), nil, -1)
		return err == nil, fmt.Sprintf("two servers that come back are refused: %v", err)
	}); why != "" {
		t.Fatal(why)
	}
	for _, s := range []*ensemble.Server{one, two} {
		r.AwaitMode(s, "follower")
		if got := value(t, s, "/last"); got != "x" {
			t.Errorf("server %d has %q", s.ID, got)
		}
	}
}

// TestStandaloneBecomesEnsemble gives a standalone server of zkd a server line, and then company.
func TestStandaloneBecomesEnsemble(t *testing.T) {
	if target.Selected(t) != target.Zkd {
		t.Skip("the real ZooKeeper has its data in other directories then")
	}
	r := startReconfigured(t, 0, 2, alone)
	one, two := r.Servers[0], r.Servers[1]
	ensembleConfig := read(t, filepath.Join(one.Dir, "zoo.cfg"))
	lone := strings.ReplaceAll(ensembleConfig, "standaloneEnabled=false\n", "") + "clientPort=" + one.Port() +
		"\nclientPortAddress=127.0.0.1\n"
	write(t, filepath.Join(one.Dir, "zoo.cfg"), lone[:strings.Index(lone, "dynamicConfigFile")]+
		lone[strings.Index(lone, "clientPort="):], 0o600)
	one.Launch()
	r.AwaitMode(one, "standalone")
	conn := connect(t, one.Addr, within)
	if _, err := conn.Create("/old", []byte("x"), 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	one.Stop()

	write(t, filepath.Join(one.Dir, "zoo.cfg"), ensembleConfig, 0o600)
	r.Configure(one, r.Lines("participant", one, two)...)
	refuses(t, one, "stood alone")
	write(t, filepath.Join(one.DataDir(), "myid"), "2\n", 0o600)
	r.Configure(one, strings.Replace(r.Lines("participant", one)[0], "server.1", "server.2", 1))
	refuses(t, one, "the data is of server 1, and this is server 2")
	write(t, filepath.Join(one.DataDir(), "myid"), "1\n", 0o600)
	r.Configure(one, r.Lines("participant", one)...)
	one.Launch()
	r.AwaitMode(one, "leader")
	r.Configure(two, r.Lines("participant", one, two)...)
	two.Launch()
	r.use(one, true)
	if why := ensemble.Await(within, func() (bool, string) {
		_, err := r.conn.IncrementalReconfig(r.Lines("participant", two), nil, -1)
		return err == nil, fmt.Sprintf("a new server that runs is refused: %v", err)
	}); why != "" {
		t.Fatal(why)
	}
	r.AwaitMode(two, "follower")
	if got := value(t, two, "/old"); got != "x" {
		t.Errorf("server 2 has %q", got)
	}
}

// refuses starts a server that is to end at once, with a word in its log.
func refuses(t *testing.T, s *ensemble.Server, word string) {
	t.Helper()
	s.Launch()
	if why := ensemble.Await(within, func() (bool, string) {
		return !s.Running(), "it runs"
	}); why != "" {
		t.Fatalf("server %d should refuse: %s", s.ID, why)
	}
	if log := s.LogTail(5); !strings.Contains(log, word) {
		t.Errorf("server %d says nothing of %q:\n%s", s.ID, word, log)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path) //nolint:gosec // a file that the harness has made
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
