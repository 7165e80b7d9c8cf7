package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/target"
	"zkd/jute"
	"zkd/quorum"
	"zkd/quorum/clock"
	"zkd/storage"
)

// scriptedNode answers the proposals of a restorer.
type scriptedNode struct {
	t        *testing.T
	asked    []jute.Op
	content  []byte
	refuse   jute.Op // is answered with a refusal
	drop     jute.Op // is dropped
	turnaway jute.Op // is not taken
}

var errNoLeader = errors.New("no leader")

// Propose implements proposer.
func (n *scriptedNode) Propose(p *storage.Proposal, w quorum.Waiter) error {
	var txn storage.RestoreTxn
	if err := txn.Decode(p.Body); err != nil {
		n.t.Error(err)
	}
	if p.Op == storage.OpRestoreChunk {
		if txn.Offset != int64(len(n.content)) || txn.Upload != 5 {
			n.t.Errorf("a piece of upload %d at %d", txn.Upload, txn.Offset)
		}
		n.content = append(n.content, txn.Data...)
	}
	if p.Op == storage.OpRestoreCommit && txn.Offset != int64(len(n.content)) {
		n.t.Errorf("ended at %d of %d", txn.Offset, len(n.content))
	}
	if len(n.asked) == 0 || n.asked[len(n.asked)-1] != p.Op {
		n.asked = append(n.asked, p.Op)
	}
	switch p.Op {
	case n.turnaway:
		return errNoLeader
	case n.refuse:
		w.Applied(&storage.Result{Op: p.Op, Code: jute.DataInconsistency, Refusal: "it smells"})
	case n.drop:
		w.Dropped(errNoLeader)
	default:
		w.Applied(&storage.Result{Op: p.Op, Zxid: 9})
	}
	return nil
}

// TestRestorer: all of what is sent goes on in order, and whatever goes wrong before the end gives it up.
func TestRestorer(t *testing.T) {
	const begin, chunk, commit, abort = storage.OpRestoreBegin, storage.OpRestoreChunk, storage.OpRestoreCommit,
		storage.OpRestoreAbort
	content := bytes.Repeat([]byte("0123456789"), 60_000) // three pieces
	for _, c := range []struct {
		name  string
		node  scriptedNode
		body  io.Reader
		asked []jute.Op
		want  string
		is    error
	}{
		{"well", scriptedNode{}, iotest.HalfReader(bytes.NewReader(content)), []jute.Op{begin, chunk, commit}, "", nil},
		{"of nothing", scriptedNode{}, strings.NewReader(""), []jute.Op{begin, commit}, "", nil},
		{"cut off", scriptedNode{}, io.MultiReader(bytes.NewReader(content), iotest.ErrReader(io.ErrUnexpectedEOF)),
			[]jute.Op{begin, chunk, abort}, "did not come to its end, after 600000 bytes", io.ErrUnexpectedEOF},
		{"refused", scriptedNode{refuse: commit}, bytes.NewReader(content), []jute.Op{begin, chunk, commit},
			"nothing has changed: it smells", errRefused},
		{"a piece is refused", scriptedNode{refuse: chunk}, bytes.NewReader(content), []jute.Op{begin, chunk, abort},
			"at byte 0", errRefused},
		{"no leader at first", scriptedNode{turnaway: begin}, bytes.NewReader(content), []jute.Op{begin}, "",
			errNoLeader},
		{"no leader then", scriptedNode{drop: chunk}, bytes.NewReader(content), []jute.Op{begin, chunk, abort}, "",
			errNoLeader},
		{"no leader any more", scriptedNode{refuse: chunk, turnaway: abort}, bytes.NewReader(content),
			[]jute.Op{begin, chunk, abort}, "give up", errNoLeader},
		{"unknown", scriptedNode{drop: commit}, bytes.NewReader(content), []jute.Op{begin, chunk, commit},
			"look whether the snapshot was restored", errNoLeader},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.node.t = t
			r := &restorer{node: &c.node, clock: clock.Real(), draw: func() uint64 { return 5 },
				busy: make(chan struct{}, 1)}
			zxid, err := r.Restore(t.Context(), c.body)
			if c.is == nil && (err != nil || zxid != 9) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%d, %v", zxid, err)
			}
			if err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if !slices.Equal(c.node.asked, c.asked) {
				t.Errorf("asked %v, want %v", c.node.asked, c.asked)
			}
			if c.name == "well" && !bytes.Equal(c.node.content, content) {
				t.Errorf("%d bytes came, others than were sent", len(c.node.content))
			}
			r.busy <- struct{}{}
			if _, err := r.Restore(t.Context(), c.body); !errors.Is(err, errRestoring) {
				t.Errorf("a second one at once: %v", err)
			}
		})
	}
}

// TestRestoreCommand goes back to a snapshot on a server that is alone, by HTTP, and through a restart of it.
func TestRestoreCommand(t *testing.T) {
	dir := t.TempDir()
	s, url := startOperated(t, dir)
	c := connect(t, s.addr)
	if _, err := c.Create("/kept", []byte("then"), 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	_, _, snapshot := command(t, http.MethodGet, url+"/commands/snapshot")
	if _, err := c.Set("/kept", []byte("now"), -1); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create("/new", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	status, _, body := send(t, http.MethodPost, url+"/commands/restore", bytes.NewReader(snapshot[:len(snapshot)/2]))
	if status != http.StatusInternalServerError || !bytes.Contains(body, []byte("nothing has changed: damaged")) {
		t.Errorf("half of it: %d %s", status, body)
	}
	if data, _, err := c.Get("/kept"); err != nil || string(data) != "now" {
		t.Errorf("after a refusal: %q, %v", data, err)
	}
	status, _, body = send(t, http.MethodPost, url+"/commands/restore", bytes.NewReader(snapshot))
	if status != http.StatusOK || strings.Join(strings.Fields(string(body)), " ") !=
		`{ "last_zxid" : 5, "command" : "restore", "error" : null }` {
		t.Fatalf("%d %s", status, body)
	}
	check := func(addr string) {
		t.Helper()
		c := connect(t, addr)
		data, stat, err := c.Get("/kept")
		if err != nil || string(data) != "then" || stat.Mzxid != 2 || stat.Version != 0 {
			t.Errorf("/kept is %q, %+v, %v", data, stat, err)
		}
		if there, _, err := c.Exists("/new"); err != nil || there {
			t.Errorf("/new: %v, %v", there, err)
		}
		if _, err := c.Create("/more-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll)); err != nil {
			t.Error(err)
		}
	}
	check(s.addr)
	s.kill()
	s, _ = startOperated(t, dir)
	check(s.addr)
}

// member is a server of an ensemble in this process.
type member struct {
	*instance
	cfg, addr string
	stop      func()
}

// startMembers starts an ensemble of three.
func startMembers(t *testing.T) (servers [3]*member) {
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
		m := &member{addr: fmt.Sprintf("127.0.0.1:%d", ports[3*n+2])}
		m.cfg = fmt.Sprintf("tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir=%s\n%s", dir, &lines)
		m.instance, m.stop = runInstance(t, m.cfg)
		servers[n] = m
	}
	return servers
}

// snapshot takes one of a server's state.
func (m *member) snapshot(t *testing.T) []byte {
	t.Helper()
	source, err := newSnapshots(&m.config.Storage, m.machine, filepath.Join(t.TempDir(), "scratch"))
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

// soon waits until cond holds.
func soon(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline, again := time.NewTimer(scriptDeadline), time.NewTicker(5*time.Millisecond)
	defer deadline.Stop()
	defer again.Stop()
	for !cond() {
		select {
		case <-again.C:
		case <-deadline.C:
			t.Fatalf("not in time: %s", what)
		}
	}
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

	r, err := newRestorer(servers[1].node)
	if err != nil {
		t.Fatal(err)
	}
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
	case <-time.After(scriptDeadline):
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
	servers[2].instance, servers[2].stop = runInstance(t, servers[2].cfg)
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
		if v.RestoredZxid() != zxid || v.ClusterID() != servers[0].machine.ClusterID() {
			t.Errorf("server %d: restored at %d, want %d; cluster %x", n+1, v.RestoredZxid(), zxid, v.ClusterID())
		}
		v.Close()
	}
	if len(digests) != 1 {
		t.Errorf("the servers differ: %v", digests)
	}
}
