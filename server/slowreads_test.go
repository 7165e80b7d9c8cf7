package server

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/server/limits"
)

// stuckReads is a file system in which the next read of a table by a client, once armed, waits until the test lets it
// go on. The store's own reads, as those of the statistics of a table that it has opened, come whenever they like.
type stuckReads struct {
	armed atomic.Bool
	stuck chan struct{} // closed when a read is
	free  chan struct{} // ends it
}

func (s *stuckReads) wrap(fs vfs.FS) vfs.FS {
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if s.armed.Load() && op.Kind == errorfs.OpFileReadAt && strings.HasPrefix(op.Path, "state") &&
			strings.HasSuffix(op.Path, ".sst") && isQuery() && s.armed.CompareAndSwap(true, false) {
			close(s.stuck)
			<-s.free
		}
		return nil
	}))
}

// isQuery reports whether it is called by the goroutine of a connection that answers a query.
func isQuery() bool {
	callers := make([]uintptr, 64)
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers)])
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if strings.HasPrefix(f.Function, "zkd/server.(*queries).") {
			return true
		}
	}
	return false
}

// bigChildren is how many children /big has.
const bigChildren = 3000

// child is the path of one of them.
func child(i int) string { return fmt.Sprintf("/big/child-%06d", i) }

// fillBig makes /big, its children and a znode beside.
func fillBig(c *client) {
	c.mustCreate("/w", "0", jute.ModePersistent)
	c.mustCreate("/big", "", jute.ModePersistent)
	var all []byte
	for i := range bigChildren {
		all = append(all, c.encode(jute.OpCreate, makeNode(child(i), strings.Repeat("x", 100), jute.ModePersistent))...)
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		c.write(all)
	}()
	c.wantReplies(bigChildren, jute.OK)
	<-sent
}

// coldRig is a server whose state is on disk and not in memory, and the reads of it that can be stopped.
func coldRig(t *testing.T, set func(*Options)) (*rig, *stuckReads) {
	t.Helper()
	first := newRig(t, nil)
	fillBig(first.connect(t))
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	if err := first.machine.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	first.stop()
	s := &stuckReads{stuck: make(chan struct{}), free: make(chan struct{})}
	r := startRig(t, rigOptions{mem: first.mem, wrap: s.wrap, set: set})
	r.broken = false
	return r, s
}

// names reads the list of a getChildren.
func names(t *testing.T, r *reply) []string {
	t.Helper()
	var resp jute.GetChildrenResponse
	r.decodeBody(t, &resp)
	return resp.Children
}

// TestASlowReadHoldsUpItsConnectionAlone lets a list of children wait for the disk: others write and read, and what
// happens meanwhile its client hears of after the reply, which is of the moment before.
func TestASlowReadHoldsUpItsConnectionAlone(t *testing.T) {
	r, s := coldRig(t, nil)
	slow, other := r.connect(t), r.connect(t)
	other.must(jute.OpExists, look("/big"), jute.OK)
	other.must(jute.OpExists, look("/big/none"), jute.NoNode)
	other.mustCreate("/beside", "", jute.ModePersistent) // the root is read, which the block that waits may have, too
	slow.must(jute.OpGetData, watching("/w"), jute.OK)
	s.armed.Store(true)
	both := slow.encode(jute.OpGetData, watching("/w"))
	slow.write(append(both, slow.encode(jute.OpGetChildren, watching("/big"))...))
	<-s.stuck
	if got := slow.receive(); got.Xid != slow.xid-1 {
		t.Errorf("reply %d, want that of the request before the slow one", got.Xid)
	}
	other.mustCreate("/big/new", "", jute.ModePersistent)
	other.must(jute.OpSetData, setTo("/w", "1"), jute.OK)
	for i := range 300 {
		other.must(jute.OpSetData, setTo("/w", "x"), jute.OK)
		other.must(jute.OpGetData, look("/w"), jute.OK)
		other.mustCreate(fmt.Sprintf("/beside%d", i), "", jute.ModePersistent)
	}
	close(s.free)
	got := slow.receive()
	if list := names(t, &got); got.Xid != slow.xid || len(list) != bigChildren || slices.Contains(list, "new") {
		t.Fatalf("reply %d of %d children first, want %d of %d", got.Xid, len(list), slow.xid, bigChildren)
	}
	moment := got.Zxid
	for _, want := range []event{{children, "/big"}, {changed, "/w"}} {
		if got := slow.receive(); got.Zxid <= moment {
			t.Errorf("an event of %d after the reply at %d", got.Zxid, moment)
		} else if got := got.event(t); got != want {
			t.Errorf("event %v, want %v", got, want)
		}
	}
	got = slow.must(jute.OpGetChildren, look("/big"), jute.OK)
	if list := names(t, &got); len(list) != bigChildren+1 {
		t.Errorf("%d children, want %d", len(list), bigChildren+1)
	}
}

// TestEventsBehindASlowReadAreBounded lets more events wait behind a slow read than a client may leave unread.
func TestEventsBehindASlowReadAreBounded(t *testing.T) {
	r, s := coldRig(t, func(o *Options) { o.MaxUnreadBytes = 8 << 10 })
	slow, other := r.connect(t), r.connect(t)
	other.must(jute.OpExists, look("/big"), jute.OK)
	slow.must(jute.OpAddWatch, &jute.AddWatchRequest{Path: "/w", Mode: jute.WatchPersistent}, jute.OK)
	s.armed.Store(true)
	slow.send(jute.OpGetChildren, look("/big"))
	<-s.stuck
	conn := r.connOf(slow)
	for range 400 {
		other.must(jute.OpSetData, setTo("/w", "x"), jute.OK)
	}
	if !conn.Out.Ended() {
		t.Error("a connection with more events than its bound is not cut off")
	}
	close(s.free)
	slow.wantClosed()
	other.must(jute.OpGetData, look("/w"), jute.OK)
}

// TestRepliesAndEventsAreInOneOrder has clients list, read and watch while others write: on each connection replies
// come in the order of the requests, replies and events in the order of zxids, and a change of what is watched is told
// once, between the reply that shows the old and the one that shows the new.
func TestRepliesAndEventsAreInOneOrder(t *testing.T) {
	r := newRig(t, nil)
	fillBig(r.connect(t))
	r.connect(t).mustCreate("/few", "", jute.ModePersistent)
	done := make(chan struct{})
	var writers, readers sync.WaitGroup
	for n := range 2 {
		c := r.connect(t)
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				for _, parent := range []string{"/big", "/few"} {
					path := fmt.Sprintf("%s/extra-%d-%d", parent, n, i%50)
					c.must(jute.OpCreate, makeNode(path, "", jute.ModePersistent), jute.OK)
					c.must(jute.OpDelete, gone(path), jute.OK)
				}
			}
		})
	}
	for range 3 {
		c := r.connect(t)
		readers.Go(func() { followOrder(t, c) })
	}
	readers.Wait()
	close(done)
	writers.Wait()
	if r.kept() == 0 {
		t.Error("no list came from memory")
	}
}

// followOrder is one of the clients that read in TestRepliesAndEventsAreInOneOrder.
func followOrder(t *testing.T, c *client) {
	ops := []string{"/big", "/few", "/w", "/few"}
	seen := map[string]jute.Version{}
	watched := map[string]bool{} // and no event has come since
	var last jute.Zxid
	for range 40 {
		first := c.xid + 1
		for _, path := range ops {
			c.send(jute.OpGetChildren2, watching(path))
		}
		for i := 0; i < len(ops); {
			got := c.receive()
			if got.Zxid < last || got.Xid == jute.XidNotification && got.Zxid == 0 {
				t.Errorf("zxid %d after %d", got.Zxid, last)
			}
			last = got.Zxid
			if got.Xid == jute.XidNotification {
				e := got.event(t)
				if !watched[e.path] {
					t.Errorf("an event of %s, which is not watched, or was told of", e.path)
				}
				watched[e.path] = false
				continue
			}
			if got.Xid != first+jute.Xid(i) || got.Err != jute.OK {
				t.Errorf("reply %d (%v), want %d", got.Xid, got.Err, first+jute.Xid(i))
				return
			}
			var resp jute.GetChildren2Response
			got.decodeBody(t, &resp)
			path := ops[i]
			if len(resp.Children) != int(resp.Stat.NumChildren) || resp.Stat.Pzxid > got.Zxid {
				t.Errorf("%s at %d: %d children, the Stat is %+v", path, got.Zxid, len(resp.Children), resp.Stat)
			}
			if watched[path] && seen[path] != resp.Stat.Cversion {
				t.Errorf("%s: a change was read before its event came", path)
			}
			seen[path], watched[path] = resp.Stat.Cversion, true
			i++
		}
	}
}

// TestSettingManyWatchesUnderWrites sets more watches than one moment has while their znodes change: each change is
// told once, as one that was missed or as one that was watched.
func TestSettingManyWatchesUnderWrites(t *testing.T) {
	r := newRig(t, nil)
	w := r.connect(t)
	fillBig(w)
	c := r.connect(t)
	before := c.must(jute.OpGetData, look("/w"), jute.OK)
	var all []byte
	paths := make([]string, bigChildren)
	for i := range paths {
		paths[i] = child(i)
		all = append(all, w.encode(jute.OpSetData, setTo(paths[i], "y"))...)
	}
	var writing sync.WaitGroup
	writing.Go(func() { w.write(all) })
	var missing []string
	for i := range bigChildren {
		missing = append(missing, fmt.Sprintf("/none/%d", i))
	}
	c.write(encodeRequest(jute.XidSetWatches, jute.OpSetWatches,
		&jute.SetWatchesRequest{RelativeZxid: before.Zxid, Data: paths, Exist: missing, Child: []string{"/big"}}))
	w.wantReplies(bigChildren, jute.OK)
	writing.Wait()
	told := map[string]int{}
	for replied := false; len(told) < bigChildren || !replied; {
		got := c.receive()
		if got.Xid == jute.XidNotification {
			e := got.event(t)
			if told[e.path]++; e.kind != changed || told[e.path] > 1 {
				t.Fatalf("event %v, told %d times", e, told[e.path])
			}
			continue
		}
		if got.Xid != jute.XidSetWatches || got.Err != jute.OK || replied {
			t.Fatalf("reply %+v", got.ReplyHeader)
		}
		replied = true
	}
	if n := r.server.watches.Counts().All; n != bigChildren+1 {
		t.Errorf("%d watches are left, want those of %d znodes that are not there, and one", n, bigChildren)
	}
}

// TestLargeReadsTakeTurns lets a large read wait for its turn: small ones go on, and one whose client goes away gives
// up.
func TestLargeReadsTakeTurns(t *testing.T) {
	r := newRig(t, nil)
	fillBig(r.connect(t))
	turns := r.takeTurns()
	waits, leaves, other := r.connect(t), r.connect(t), r.connect(t)
	waits.send(jute.OpGetChildren, look("/big"))
	leaves.send(jute.OpGetAllChildrenNumber, &jute.PathRequest{Path: "/big"})
	eventually(t, "two large reads that wait", func() bool { return r.server.readTurns.InLine() == 2 })
	other.mustCreate("/w/x", "", jute.ModePersistent)
	got := other.must(jute.OpGetChildren, look("/w"), jute.OK)
	if list := names(t, &got); len(list) != 1 {
		t.Errorf("children %q", list)
	}
	r.connOf(leaves).Out.Close()
	eventually(t, "one large read that waits", func() bool { return r.server.readTurns.InLine() == 1 })
	r.server.readTurns.End()
	got = waits.receive()
	if list := names(t, &got); len(list) != bigChildren {
		t.Errorf("%d children", len(list))
	}
	r.endTurns(turns - 1)
	eventually(t, "all turns given back", func() bool {
		free := r.takeTurns()
		r.endTurns(free)
		return free == turns
	})
}

// TestLargeAnswersTakeTurns: what is long for its data waits for a turn, too, and what is short does not; who has a
// turn and waits for memory gives it to others.
func TestLargeAnswersTakeTurns(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Limits.MemoryBytes = 4 << 20
		o.Clock = clock.NewManual(time.Now()) // who waits for memory waits
	})
	large, many, other := r.connect(t), r.connect(t), r.connect(t)
	other.mustCreate("/large", string(bytesOf('x', 400_000)), jute.ModePersistent)
	other.mustCreate("/short", string(bytesOf('x', 100_000)), jute.ModePersistent)
	turns := r.takeTurns()
	large.send(jute.OpGetData, look("/large"))
	many.send(jute.OpMultiRead, multi{{jute.OpGetData, look("/large")}, {jute.OpGetData, look("/short")}})
	eventually(t, "two large answers that wait", func() bool { return r.server.readTurns.InLine() == 2 })
	other.must(jute.OpGetData, look("/short"), jute.OK)
	r.endTurns(turns)
	for _, c := range []*client{large, many} {
		if got := c.receive(); got.Err != jute.OK || len(got.body) < 400_000 {
			t.Errorf("%+v with %d bytes", got.ReplyHeader, len(got.body))
		}
	}
	r.connOf(other).account.Add(limits.Unread, 4<<20) // all that there is
	many.send(jute.OpMultiRead, multi{{jute.OpGetData, look("/large")}})
	eventually(t, "a large answer that waits for memory", func() bool { return r.server.memory.Awaited() == 1 })
	if free := r.takeTurns(); free != turns {
		t.Fatalf("%d of %d turns are free", free, turns)
	}
	r.connOf(other).account.Add(limits.Unread, -4<<20)
	eventually(t, "a large answer that goes on in its turn", func() bool { return r.server.readTurns.InLine() == 1 })
	r.endTurns(turns)
	if got := many.receive(); got.Err != jute.OK || len(got.body) < 400_000 {
		t.Errorf("%+v with %d bytes", got.ReplyHeader, len(got.body))
	}
}

// takeTurns takes all turns of large reads that are free, and returns how many there were.
func (r *rig) takeTurns() (n int) { return takeTurns(&r.server.readTurns.Turns) }

// endTurns gives n turns of large reads back.
func (r *rig) endTurns(n int) { endTurns(&r.server.readTurns.Turns, n) }

// takeTurns takes all turns that are free, and returns how many there were.
func takeTurns(turns *limits.Turns) (n int) {
	gone := make(chan struct{})
	close(gone)
	for turns.Begin(gone) {
		n++
	}
	return n
}

// endTurns gives n turns back.
func endTurns(turns *limits.Turns, n int) {
	for range n {
		turns.End()
	}
}
