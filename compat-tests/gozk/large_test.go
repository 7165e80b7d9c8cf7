package gozk_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"

	"zkd/compat-tests/target"
)

// TestALargeListBesideWrites lists a znode of 300,000 children with a watch while another client writes: the list is of
// one moment, the watch that it sets sees the next change, once, and the other client is answered meanwhile.
func TestALargeListBesideWrites(t *testing.T) {
	const children = 300_000
	addr := target.Start(t, target.Options{}).Addr
	lister, writer := connect(t, addr, within), connect(t, addr, within)
	create(t, writer, "/big", 0)
	create(t, writer, "/w", 0)
	for at := 0; at < children; at += 1000 {
		var ops []any
		for i := range 1000 {
			ops = append(ops, &zk.CreateRequest{Path: fmt.Sprintf("/big/child-%07d", at+i), Acl: open})
		}
		if _, err := writer.Multi(ops...); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 3 {
		listed := make(chan struct{})
		var writing sync.WaitGroup
		writing.Go(func() {
			for n := 0; ; n++ {
				if _, err := writer.Set("/w", []byte("x"), -1); err != nil {
					t.Error(err)
				}
				select {
				case <-listed:
					return
				default:
				}
			}
		})
		names, stat, events, err := lister.ChildrenW("/big")
		close(listed)
		writing.Wait()
		if err != nil || len(names) != children+round || int(stat.NumChildren) != len(names) {
			t.Fatalf("%d children, want %d, and %d in the Stat (%v)", len(names), children+round, stat.NumChildren, err)
		}
		select {
		case event := <-events:
			t.Fatalf("event %+v before any change", event)
		default:
		}
		create(t, writer, fmt.Sprintf("/big/more-%d", round), 0)
		awaitEvent(t, events, zk.EventNodeChildrenChanged, "/big")
	}
}
