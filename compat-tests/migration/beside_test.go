package migration_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/target"
)

// TestImportBesideZooKeeper: an import is refused while the server runs, and leaves nothing; data that was imported
// from a server that was started again and has written is not served, until something was written to it here.
func TestImportBesideZooKeeper(t *testing.T) {
	t.Parallel() // it mostly waits for servers to start
	server := old(t, target.ServerVersion)
	conn := connect(t, 40*time.Second, server.Addr)
	fill(t, conn, true)
	data := filepath.Join(server.Dir, "data")
	for _, command := range [][]string{{"import"}, {"serve", "--set", "zkd.importOnStart=true"}} {
		out, err := allSaid(t, append(command, server.ConfigPath())...)
		if err == nil || !strings.Contains(out, server.Port()) || !strings.Contains(out, "listen") {
			t.Errorf("zkd %s beside a server that runs: %v\n%s", command[0], err, out)
		}
	}
	if left, err := filepath.Glob(filepath.Join(data, "[Zrs]*")); err != nil || len(left) > 0 {
		t.Errorf("%q is left, %v", left, err)
	}

	server.Stop()
	aside := filepath.Join(server.Dir, "aside")
	importInto(t, server.ConfigPath())
	importInto(t, "--from", data, "--data-dir", aside)
	server.Restart()
	keepsSession(t, conn, conn.SessionID())
	_, err := conn.Create("/later", nil, 0, zk.WorldACL(zk.PermAll))
	must(t, err)
	server.Stop()
	for _, args := range [][]string{{server.ConfigPath()}, {"--data-dir", aside, "--set", "clientPort=0"}} {
		for _, command := range []string{"check", "serve"} {
			out, err := allSaid(t, append([]string{command}, args...)...)
			if err == nil || !strings.Contains(out, "the imported data is behind") {
				t.Fatalf("zkd %s %v: %v\n%s", command, args, err, out)
			}
		}
	}

	must(t, os.RemoveAll(filepath.Join(data, "state")))
	must(t, os.RemoveAll(filepath.Join(data, "raftlog")))
	importInto(t, server.ConfigPath())
	server.Kind = target.Zkd
	server.Restart()
	keepsSession(t, conn, conn.SessionID())
	if there, _, err := conn.Exists("/later"); err != nil || !there {
		t.Errorf("what was written last is there: %v, %v", there, err)
	}
	_, err = conn.Create("/here", nil, 0, zk.WorldACL(zk.PermAll))
	must(t, err)
	server.Stop()
	server.Restart() // version-2 is as it was
	keepsSession(t, conn, conn.SessionID())
}
