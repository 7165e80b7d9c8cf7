package migration_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/target"
)

// must ends the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fill makes one of each kind of thing that a server keeps, on behalf of conn, whose session then owns ephemerals.
// extended says that the server has TTL znodes, and addresses with a mask in ACLs, as those from 3.5 on have.
func fill(t *testing.T, conn *zk.Conn, extended bool) {
	t.Helper()
	open := zk.WorldACL(zk.PermAll)
	create := func(path string, data []byte, flags int32, acl []zk.ACL) {
		t.Helper()
		if _, err := conn.Create(path, data, flags, acl); err != nil {
			t.Fatalf("create %s: %v", path, err)
		}
	}
	must(t, conn.AddAuth("digest", []byte("bob:secret")))
	create("/app", []byte("application"), 0, open)
	create("/app/empty", nil, 0, open)
	create("/app/large", make([]byte, 20<<10), 0, open)
	create("/app/ünïcode-名前", []byte("名前"), 0, open)
	create("/app/auth", []byte("1"), 0, zk.AuthACL(zk.PermAll))
	create("/app/digest", []byte("2"), 0, zk.DigestACL(zk.PermRead|zk.PermAdmin, "eve", "pw"))
	address := "10.0.0.0"
	if extended {
		address += "/8"
	}
	create("/app/ip", nil, 0, []zk.ACL{
		{Perms: zk.PermRead, Scheme: "ip", ID: address}, {Perms: zk.PermAll, Scheme: "world", ID: "anyone"},
	})
	for i := range 5 {
		name, err := conn.Create("/app/seq-", nil, zk.FlagSequence, open)
		must(t, err)
		if i == 3 {
			must(t, conn.Delete(name, -1))
		}
	}
	for i := range 3 {
		_, err := conn.Set("/app/empty", fmt.Appendf(nil, "v%d", i), -1)
		must(t, err)
	}
	_, err := conn.SetACL("/app/auth", zk.DigestACL(zk.PermAll, "bob", "secret"), 0)
	must(t, err)
	create("/app/live", nil, 0, open)
	create("/app/live/e", []byte("alive"), zk.FlagEphemeral, open)
	_, err = conn.Create("/app/live/es-", nil, zk.FlagEphemeral|zk.FlagSequence, open)
	must(t, err)
	fillQuota(t, conn)
	if extended {
		_, err = conn.CreateContainer("/app/container", []byte("c"), zk.FlagContainer, open)
		must(t, err)
		create("/app/container/child", nil, 0, open)
		_, err = conn.CreateTTL("/app/ttl", []byte("t"), zk.FlagTTL, open, time.Hour)
		must(t, err)
		_, err = conn.CreateTTL("/app/ttl-seq-", nil, zk.FlagPersistentSequentialWithTTL, open, 2*time.Hour)
		must(t, err)
	}
	_, err = conn.Multi(&zk.CreateRequest{Path: "/app/multi", Acl: open},
		&zk.CreateRequest{Path: "/app/multi/a", Data: []byte("a"), Acl: open},
		&zk.SetDataRequest{Path: "/app/multi", Data: []byte("m"), Version: 0},
		&zk.DeleteRequest{Path: "/app/multi/a", Version: 0})
	must(t, err)
	_, err = conn.Multi(&zk.CreateRequest{Path: "/app/no", Acl: open},
		&zk.CheckVersionRequest{Path: "/app", Version: 7})
	if !errors.Is(err, zk.ErrBadVersion) {
		t.Fatalf("a multi that fails: %v", err)
	}
}

// fillQuota makes a quota for /app, and lets it count.
func fillQuota(t *testing.T, conn *zk.Conn) {
	t.Helper()
	open := zk.WorldACL(zk.PermAll)
	for _, n := range []struct{ path, data string }{
		{"/zookeeper/quota/app", ""},
		{"/zookeeper/quota/app/zookeeper_limits", "count=1000000,bytes=-1"},
		{"/zookeeper/quota/app/zookeeper_stats", "count=-1,bytes=-1"},
	} {
		_, err := conn.Create(n.path, []byte(n.data), 0, open)
		must(t, err)
	}
	_, err := conn.Create("/app/counted", []byte("12345"), 0, open)
	must(t, err)
}

// load writes at random from several clients below /load, so that the server's snapshots are taken while znodes come
// and go. Sessions end meanwhile with ephemerals of theirs.
func load(t *testing.T, addr string, writes int, seed uint64) {
	t.Helper()
	const clients = 4
	root := asSuper(t, addr)
	_, err := root.Create("/load", nil, 0, zk.WorldACL(zk.PermAll))
	must(t, err)
	var running sync.WaitGroup
	for c := range clients {
		conn := connect(t, 30*time.Second, addr)
		running.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(c)))
			for range writes / clients {
				if err := scribble(conn, r); err != nil {
					t.Errorf("load: %v", err)
					return
				}
			}
			if c%2 == 0 {
				conn.Close()
			}
		})
	}
	running.Wait()
}

// scribble does one random write. That it finds a znode or not is left to chance.
func scribble(conn *zk.Conn, r *rand.Rand) error {
	dir := fmt.Sprintf("/load/%d", r.IntN(20))
	path := fmt.Sprintf("%s/%d", dir, r.IntN(30))
	acl := zk.WorldACL(zk.PermAll)
	if r.IntN(10) == 0 {
		acl = zk.DigestACL(zk.PermAll, fmt.Sprintf("user%d", r.IntN(40)), "pw")
	}
	var err error
	switch r.IntN(9) {
	case 0:
		_, err = conn.Create(dir, nil, 0, zk.WorldACL(zk.PermAll))
	case 1, 2, 3:
		_, err = conn.Create(path, make([]byte, r.IntN(300)), 0, acl)
	case 4:
		_, err = conn.Create(path, nil, zk.FlagEphemeral, acl)
	case 5:
		_, err = conn.Set(path, make([]byte, r.IntN(300)), -1)
	case 6:
		err = conn.Delete(path, -1)
	case 7:
		err = conn.Delete(dir, -1)
	case 8:
		_, err = conn.Create(dir+"/s-", nil, zk.FlagSequence, acl)
	}
	for _, expected := range []error{zk.ErrNoNode, zk.ErrNodeExists, zk.ErrNotEmpty, zk.ErrNoAuth,
		zk.ErrNoChildrenForEphemerals} {
		if errors.Is(err, expected) {
			return nil
		}
	}
	return err
}

// old starts a server of Apache ZooKeeper that takes snapshots often and keeps its logs small.
func old(t *testing.T, version string, flags ...string) *target.Server {
	t.Helper()
	flags = append(flags, "-Dzookeeper.snapCount=400", "-Dzookeeper.preAllocSize=64",
		"-Dznode.container.checkIntervalMs=3600000")
	return target.Start(t, target.Options{
		Kind: target.Zookeeper, Version: version, JVMFlags: flags,
		Config: map[string]string{"maxSessionTimeout": "120000"}, // for machines on which a move takes long
	})
}
