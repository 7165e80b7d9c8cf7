package migration_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/target"
)

// run runs a command of zkd and returns what it has printed.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return target.Client{
		Argv: append([]string{target.ZkdBinary(t)}, args...), Within: 2 * time.Minute,
	}.Run(t)
}

// imported is what zkd import --output json says.
type imported struct {
	Snapshot     string   `json:"snapshot"`
	Zxid         string   `json:"zxid"`
	Transactions int64    `json:"transactions"`
	Znodes       int64    `json:"znodes"`
	Ephemerals   int64    `json:"ephemerals"`
	Sessions     int      `json:"sessions"`
	Containers   int64    `json:"containers"`
	TTLs         int64    `json:"ttl_znodes"`
	Quotas       int      `json:"quotas"`
	Verified     bool     `json:"digest_verified"`
	Notices      []string `json:"notices"`
}

// importInto runs zkd import.
func importInto(t *testing.T, args ...string) imported {
	t.Helper()
	out, err := run(t, append([]string{"import", "--output", "json"}, args...)...)
	if err != nil {
		t.Fatalf("zkd import: %v", err)
	}
	var found imported
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		t.Fatalf("zkd import printed %q: %v", out, err)
	}
	return found
}

// zxidOf returns the zxid in the name of a snapshot or log.
func zxidOf(path string) int64 {
	n, _ := strconv.ParseInt(strings.Split(filepath.Base(path), ".")[1], 16, 64) // every such file has one
	return n
}

// tear writes the beginning of a record behind the last one of the newest log, as a crash leaves it.
func tear(t *testing.T, dataDir string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dataDir, "version-2", "log.*"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("no logs in %s: %v", dataDir, err)
	}
	slices.SortFunc(logs, func(a, b string) int { return int(zxidOf(a) - zxidOf(b)) })
	file := logs[len(logs)-1]
	content, err := os.ReadFile(file)
	must(t, err)
	end := len(content)
	for end > 0 && content[end-1] == 0 {
		end--
	}
	torn := append(content[:end:end], 0, 0, 0, 0, 0x12, 0x34, 0x56, 0x78, 0, 0, 0, 99, 1, 2, 3, 4)
	must(t, os.WriteFile(file, append(torn, make([]byte, 4096)...), 0o600))
}

// TestMoveIn moves a server of each version over to zkd, with its clients, and back.
func TestMoveIn(t *testing.T) {
	for _, c := range []struct {
		name, version string
		digest        bool  // the version writes one
		containers    int64 // 0 if the version has neither them nor TTLs
		flags         []string
	}{
		{"3.9", target.ServerVersion, true, 1, []string{"-Dzookeeper.snapshot.compression.method=gz"}},
		{"3.8", target.ServerVersion38, true, 1, []string{"-Dzookeeper.snapshot.compression.method=snappy"}},
		{"3.5", serverVersion35, false, 1, nil},
		{"3.4", serverVersion34, false, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // it mostly waits for servers to start
			server := old(t, c.version, c.flags...)
			conn := connect(t, 40*time.Second, server.Addr)
			load(t, server.Addr, 2000, 1)
			fill(t, conn, c.containers > 0)
			session := conn.SessionID()
			before := walk(t, server.Addr)
			server.Kill9()
			var recovered []string
			if !c.digest { // nor do its logs say which znodes end with a session: both came with 3.6
				recovered = recoverCopy(t, server)
			}
			if c.version == serverVersion34 {
				before, recovered = withConfig(t, before), withConfig(t, recovered)
			}
			tear(t, filepath.Join(server.Dir, "data"))

			found := importInto(t, server.ConfigPath())
			if found.Verified != c.digest || found.Znodes != int64(len(before)) || found.Containers != c.containers ||
				found.TTLs != 2*c.containers || found.Quotas != 1 || found.Transactions == 0 || found.Snapshot == "" {
				t.Errorf("zkd import found %+v; there are %d znodes", found, len(before))
			}
			if !strings.Contains(strings.Join(found.Notices, "\n"), "torn") {
				t.Errorf("no notice of the torn write in %q", found.Notices)
			}
			server.Kind = target.Zkd
			server.Restart()
			keepsSession(t, conn, session)
			moved := walk(t, server.Addr)
			sameWalk(t, "import", orRecovered(before, recovered, moved), moved)
			useAll(t, conn)
			after := walk(t, server.Addr)
			server.Stop()
			back(t, server, after)
			keepsSession(t, conn, session)
		})
	}
}

// recoverCopy returns the walk over what ZooKeeper itself makes of the data of a server that was killed, and leaves
// that as it is. If the snapshot was written while a client created a znode, the ACL of that may be missing, and who
// reads it gets a MarshallingError (ZOOKEEPER-3306).
func recoverCopy(t *testing.T, server *target.Server) []string {
	t.Helper()
	data, kept := filepath.Join(server.Dir, "data"), filepath.Join(t.TempDir(), "data")
	must(t, os.CopyFS(kept, os.DirFS(data)))
	server.Restart()
	lines := walkOver(t, server.Addr, "unknown error: -5")
	server.Kill9()
	must(t, os.RemoveAll(data))
	must(t, os.CopyFS(data, os.DirFS(kept)))
	return lines
}

// orRecovered returns live, with the lines of recovered where got has those. A snapshot that is written while a session
// ends may hold a znode of before that and no longer its ephemeral child, and a log of before 3.6 does not say which
// znodes end with a session: so what reads them does not know that the parent has changed, ZooKeeper neither.
func orRecovered(live, recovered, got []string) []string {
	if len(recovered) != len(live) || len(got) != len(live) {
		return live
	}
	want := slices.Clone(live)
	for i, line := range recovered {
		if got[i] == line {
			want[i] = line
		}
	}
	return want
}

// withConfig returns the walk over a server of 3.4, which has no /zookeeper/config, as zkd shows its data: the znode is
// one child more of /zookeeper, and was never created. A server of 3.9 adds it to such data in an ensemble alone.
func withConfig(t *testing.T, lines []string) []string {
	t.Helper()
	const parent, without, with = `"/zookeeper" 0 0 0 0 0 0 `, "-1 0 0 0 1 ", "-2 0 0 0 2 "
	n := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, parent+without) })
	if n < 0 {
		t.Fatalf("no znode begins with %s%s", parent, without)
	}
	lines = slices.Clone(lines)
	lines[n] = strings.Replace(lines[n], without, with, 1)
	return slices.Insert(lines, n+1, `"/zookeeper/config" 0 0 0 0 0 0 0 -1 0 0 0 1:world:anyone 00000000`)
}

// keepsSession returns once the client is connected again, which must be with its session.
func keepsSession(t *testing.T, conn *zk.Conn, session int64) {
	t.Helper()
	deadline := time.NewTimer(waitWithin)
	defer deadline.Stop()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		_, _, err := conn.Exists("/")
		if err == nil {
			break
		}
		select {
		case <-poll.C:
		case <-deadline.C:
			t.Fatalf("the client does not come back: %v", err)
		}
	}
	if conn.SessionID() != session {
		t.Fatalf("the client has session %#x, before %#x", uint64(conn.SessionID()), uint64(session))
	}
}

// The last of the line before digests, and the last of the one before containers and TTLs.
const (
	serverVersion35 = "3.5.10"
	serverVersion34 = "3.4.14"
)

// useAll writes to what was imported: a quota counts on, sequences go on, an ephemeral is the session's.
func useAll(t *testing.T, conn *zk.Conn) {
	t.Helper()
	open := zk.WorldACL(zk.PermAll)
	name, err := conn.Create("/app/seq-", nil, zk.FlagSequence, open)
	must(t, err)
	if !strings.HasPrefix(name, "/app/seq-00000000") {
		t.Errorf("the sequence goes on with %s", name)
	}
	must(t, conn.Delete("/app/live/e", 0))
	_, err = conn.Create("/app/live/e2", nil, zk.FlagEphemeral, open)
	must(t, err)
	_, err = conn.Set("/app/auth", []byte("written"), -1)
	must(t, err)
}

// back exports what a server that was stopped holds, starts the real one on it, and compares. The server's zoo.cfg
// points to the export afterwards.
func back(t *testing.T, server *target.Server, want []string) {
	t.Helper()
	to := filepath.Join(server.Dir, "back")
	if out, err := run(t, "export", server.ConfigPath(), "--to", to); err != nil {
		t.Fatalf("zkd export: %v\n%s", err, out)
	}
	startOn(t, server, to)
	sameWalk(t, "export", want, walk(t, server.Addr))
	if n := digestMismatches(t, server); n != "0" {
		t.Errorf("ZooKeeper has found %q digests that do not fit", n)
	}
}

// startOn starts the real server, with the zoo.cfg of one that was stopped, on another directory.
func startOn(t *testing.T, server *target.Server, dir string) {
	t.Helper()
	config, err := os.ReadFile(server.ConfigPath())
	must(t, err)
	text := strings.Replace(string(config), "dataDir="+filepath.Join(server.Dir, "data"), "dataDir="+dir, 1)
	must(t, os.WriteFile(server.ConfigPath(), []byte(text), 0o600))
	server.Kind, server.Version = target.Zookeeper, target.ServerVersion
	server.Restart()
}
