package instance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/target"
	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/server/instance/snapshots"
)

// member is a server of an ensemble in this process.
type member struct {
	*Instance
	cfg, addr string
	peerAddr  string // for the other servers
	stop      func()
}

// startMembers starts an ensemble of three, with these keys besides.
func startMembers(t *testing.T, keys ...string) (servers [3]*member) {
	t.Helper()
	ports := target.FreePorts(t, 9)
	var lines strings.Builder
	for n := range servers {
		fmt.Fprintf(&lines, "server.%d=127.0.0.1:%d:%d;127.0.0.1:%d\n", n+1, ports[3*n], ports[3*n+1], ports[3*n+2])
	}
	for n := range servers {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "myid"), []byte(strconv.Itoa(n+1)), 0o600); err != nil {
			t.Fatal(err)
		}
		m := &member{addr: fmt.Sprintf("127.0.0.1:%d", ports[3*n+2]),
			peerAddr: fmt.Sprintf("127.0.0.1:%d", ports[3*n])}
		m.cfg = fmt.Sprintf("tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir=%s\n%s%s", dir, &lines,
			strings.Join(keys, "\n"))
		m.Instance, m.stop = start(t, m.cfg, realWorld())
		servers[n] = m
	}
	return servers
}

// snapshot takes one of a server's state.
func (m *member) snapshot(t *testing.T) []byte {
	t.Helper()
	source, err := snapshots.New(&m.config.Storage, vfs.Default, m.machine, filepath.Join(t.TempDir(), "scratch"))
	if err != nil {
		t.Fatal(err)
	}
	taken, err := source.Take(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(taken.Body)
	if err := errors.Join(err, taken.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return content
}

// done asks until it is done: on a machine so slow that an election comes between, a connection may be lost.
func done(t *testing.T, what string, ask func() error) {
	t.Helper()
	soon(t, what, func() bool {
		err := ask()
		return err == nil || errors.Is(err, zk.ErrNodeExists)
	})
}

// create makes a znode.
func create(t *testing.T, c *zk.Conn, path, data string, flags int32) {
	t.Helper()
	done(t, "create "+path, func() error {
		_, err := c.Create(path, []byte(data), flags, zk.WorldACL(zk.PermAll))
		return err
	})
}

// TestRestoreOfAnEnsemble restores through one server while another one is down: all have the same state then, sessions
// of both sides live on and hear of it, others are gone with their ephemerals, and writes go on.
func TestRestoreOfAnEnsemble(t *testing.T) {
	servers := startMembers(t)
	lives := connect(t, servers[0].addr, servers[1].addr)
	create(t, lives, "/kept", "then", 0)
	create(t, lives, "/mine", "", zk.FlagEphemeral)
	soon(t, "the second server has it", func() bool {
		v := servers[1].machine.View()
		defer v.Close()
		_, ok := v.Exists("/mine")
		return ok
	})
	content := servers[1].snapshot(t)
	ends := connect(t, servers[0].addr, servers[1].addr)
	create(t, ends, "/theirs", "", zk.FlagEphemeral)
	done(t, "set /kept", func() error {
		_, err := lives.Set("/kept", []byte("now"), -1)
		return err
	})
	var heard <-chan zk.Event
	done(t, "watch /kept", func() (err error) {
		_, _, heard, err = lives.GetW("/kept")
		return err
	})
	session, ended := lives.SessionID(), ends.SessionID()
	servers[2].stop()

	r := snapshots.NewLoader(servers[1].node, clock.Real(), rand.Uint64)
	var zxid jute.Zxid
	done(t, "restore", func() (err error) {
		zxid, err = r.Restore(context.Background(), bytes.NewReader(content))
		return err
	})
	select {
	case e := <-heard:
		if e.Type != zk.EventNodeDataChanged {
			t.Errorf("the watch has fired with %+v", e)
		}
	case <-time.After(deadline):
		t.Error("the watch has not fired")
	}
	create(t, lives, "/more", "", 0)
	if lives.SessionID() != session {
		t.Errorf("session %#x is %#x now", session, lives.SessionID())
	}
	soon(t, "the other session is gone", func() bool {
		_, _, err := ends.Exists("/")
		return err == nil && ends.SessionID() != ended
	})
	servers[2].Instance, servers[2].stop = start(t, servers[2].cfg, realWorld())
	digests := map[uint64]int{}
	for n, s := range servers {
		c := connect(t, s.addr)
		done(t, "sync", func() error {
			_, err := c.Sync("/")
			return err
		})
		names, _, err := c.Children("/")
		slices.Sort(names)
		if err != nil || strings.Join(names, " ") != "kept mine more zookeeper" {
			t.Errorf("server %d has %q, %v", n+1, names, err)
		}
		if data, stat, err := c.Get("/kept"); err != nil || string(data) != "then" || stat.Version != 0 {
			t.Errorf("server %d has %q, %+v, %v", n+1, data, stat, err)
		}
		v := s.machine.View()
		digests[v.Digest()]++
		if v.LoadedZxid() != zxid || v.ClusterID() != servers[0].machine.ClusterID() {
			t.Errorf("server %d: restored at %d, want %d; cluster %x", n+1, v.LoadedZxid(), zxid, v.ClusterID())
		}
		v.Close()
	}
	if len(digests) != 1 {
		t.Errorf("the servers differ: %v", digests)
	}
}
