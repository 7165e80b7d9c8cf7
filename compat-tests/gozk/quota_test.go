package gozk_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/target"
)

// TestQuotaOfManyZnodes makes a quota on a path with more znodes below it than are counted at once, without and with
// writes going on: the stats come to the right count.
func TestQuotaOfManyZnodes(t *testing.T) {
	const znodes, each = 5000, 500
	conn := connect(t, target.Start(t, target.Options{}).Addr, within)
	create(t, conn, "/q", 0)
	for i := 0; i < znodes; i += each {
		var ops []any
		for k := range each {
			ops = append(ops, &zk.CreateRequest{Path: fmt.Sprintf("/q/%05d", i+k), Data: []byte("xy"), Acl: open})
		}
		if _, err := conn.Multi(ops...); err != nil {
			t.Fatal(err)
		}
	}
	const quota, stats = "/zookeeper/quota/q", "/zookeeper/quota/q/zookeeper_stats"
	create(t, conn, quota, 0)
	if _, err := conn.Create(quota+"/zookeeper_limits", []byte("count=100000,bytes=-1"), 0, open); err != nil {
		t.Fatal(err)
	}
	create(t, conn, stats, 0)
	// Nobody writes now: the server counts by itself.
	awaitText(t, conn, stats, fmt.Sprintf("count=%d,bytes=%d", 1+znodes, 1+2*znodes))

	if err := conn.Delete(stats, -1); err != nil {
		t.Fatal(err)
	}
	create(t, conn, stats, 0)
	for i := range 40 { // before and behind what is counted meanwhile
		create(t, conn, fmt.Sprintf("/q/%05d-", 97*i), 0)
		if err := conn.Delete(fmt.Sprintf("/q/%05d", znodes-1-113*i), -1); err != nil {
			t.Fatal(err)
		}
		create(t, conn, fmt.Sprintf("/q/%05d/x", 61*i), 0)
	}
	awaitText(t, conn, stats, fmt.Sprintf("count=%d,bytes=%d", 1+znodes+40, 1+2*znodes))
}

// awaitText waits until the data at path is text.
func awaitText(t *testing.T, conn *zk.Conn, path, text string) {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		data, _, err := conn.Get(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(data) == text {
			return
		}
		select {
		case <-again.C:
		case <-deadline.C:
			t.Fatalf("%s has %q, want %q", path, data, text)
		}
	}
}
