package migration_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/target"
)

// What TestMany asks of the import of a million znodes: that rate at least, and no more memory. With fewer znodes the
// rate is not looked at.
const (
	manyZnodes       = 1_000_000
	manyWithin       = time.Minute
	manyRSSBytesMax  = 256 << 20
	manyBatch        = 100
	manyClients      = 8
	manyPerDirectory = 1000
)

// TestMany imports as many znodes as ZKD_MIGRATION_ZNODES says (20000), of 100 bytes, that a real server holds.
func TestMany(t *testing.T) {
	count := 20_000
	if text := os.Getenv("ZKD_MIGRATION_ZNODES"); text != "" {
		n, err := strconv.Atoi(text)
		must(t, err)
		count = n
	}
	if count < manyZnodes {
		t.Parallel()
	}
	server := target.Start(t, target.Options{
		Kind: target.Zookeeper, JVMFlags: []string{"-Xmx3g", "-Dzookeeper.snapCount=200000"},
	})
	many(t, server.Addr, count)
	server.Stop()

	cmd := exec.Command(target.ZkdBinary(t), "import", "--output", "json", server.ConfigPath())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	start := time.Now()
	must(t, cmd.Run())
	took := time.Since(start)
	usage, _ := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	rss := usage.Maxrss << 10
	var found imported
	must(t, json.Unmarshal(out.Bytes(), &found))
	t.Logf("%d znodes, %d transactions in %v, %d MiB at most", found.Znodes, found.Transactions, took, rss>>20)
	if !found.Verified || found.Znodes < int64(count) {
		t.Errorf("zkd import found %+v", found)
	}
	if rss > manyRSSBytesMax {
		t.Errorf("the import took %d MiB of memory, want %d at most", rss>>20, manyRSSBytesMax>>20)
	}
	if count >= manyZnodes && took > manyWithin*time.Duration(count)/manyZnodes {
		t.Errorf("the import took %v, want a million znodes a minute", took)
	}
	server.Kind = target.Zkd
	server.Restart()
	conn := asSuper(t, server.Addr)
	for _, n := range []int{0, count / 2, count - 1} {
		data, _, err := conn.Get(manyPath(n))
		if err != nil || len(data) != 100 {
			t.Errorf("%s: %d bytes, %v", manyPath(n), len(data), err)
		}
	}
}

// manyPath is the path of the nth znode.
func manyPath(n int) string { return fmt.Sprintf("/many/%d/znode-%07d", n/manyPerDirectory, n) }

// many makes the znodes.
func many(t *testing.T, addr string, count int) {
	t.Helper()
	open := zk.WorldACL(zk.PermAll)
	root := connect(t, 30*time.Second, addr)
	_, err := root.Create("/many", nil, 0, open)
	must(t, err)
	var running sync.WaitGroup
	for c := range manyClients {
		conn := connect(t, 30*time.Second, addr)
		running.Go(func() {
			for dir := c; dir*manyPerDirectory < count; dir += manyClients {
				ops := []any{&zk.CreateRequest{Path: fmt.Sprintf("/many/%d", dir), Acl: open}}
				for n := dir * manyPerDirectory; n < min((dir+1)*manyPerDirectory, count); n++ {
					ops = append(ops, &zk.CreateRequest{Path: manyPath(n), Data: make([]byte, 100), Acl: open})
					if len(ops) < manyBatch && n+1 < min((dir+1)*manyPerDirectory, count) {
						continue
					}
					if _, err := conn.Multi(ops...); err != nil {
						t.Errorf("fill: %v", err)
						return
					}
					ops = ops[:0]
				}
			}
		})
	}
	running.Wait()
}
