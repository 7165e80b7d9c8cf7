package server

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"zkd/jute"
	"zkd/quorum/batcher"
	"zkd/quorum/clock"
	"zkd/server/limits"
	"zkd/storage/apply"
	"zkd/storage/entry"
)

// oneAtATime is a throttle that lets one request in, and looks for stale ones only when a request ends.
func oneAtATime(o *Options) {
	o.Limits.Requests = limits.RequestThrottle{MaxRequests: 1, ThrottledOpWait: 50 * time.Millisecond}
}

// startThrottled starts a server with its own clock whose node holds setData: with one under way, requests wait.
func startThrottled(t *testing.T, set func(*Options)) (*rig, *holdingNode, *clock.Manual) {
	t.Helper()
	now := clock.NewManual(time.Unix(1_000_000_000, 0))
	r, node := startHolding(t, rigOptions{set: set, clock: now, ready: func() { now.Advance(ahead) }})
	return r, node, now
}

// line waits until a request has come to the head of the line and found no room; before is the count of such waits.
func (r *rig) line(before int64) {
	r.t.Helper()
	eventually(r.t, "a request waits in line", func() bool { return r.server.inFlight.Gate.Counts().Waits > before })
}

func TestARequestThatWaitedTooLongIsThrottled(t *testing.T) {
	const limit = 50 * time.Millisecond
	late := limit + time.Millisecond
	for _, tc := range []struct {
		op     jute.Op
		body   record
		waits  time.Duration
		xid    jute.Xid // 0 is the request's own
		want   jute.Code
		closed bool
	}{
		{op: jute.OpGetData, body: look("/n"), waits: late, want: jute.Throttled},
		{op: jute.OpGetData, body: look("/n"), waits: limit, want: jute.OK},
		{op: jute.OpCreate, body: makeNode("/late", "", jute.ModePersistent), waits: late, want: jute.Throttled},
		{op: jute.OpSetWatches, body: &jute.SetWatchesRequest{}, waits: late, want: jute.Throttled},
		{op: jute.OpSync, body: &jute.PathRequest{Path: "/"}, waits: late, want: jute.Throttled},
		{op: jute.OpPing, waits: late, xid: jute.XidPing, want: jute.OK},
		{op: jute.OpCloseSession, waits: late, want: jute.OK, closed: true},
	} {
		t.Run(fmt.Sprintf("%v after %v", tc.op, tc.waits), func(t *testing.T) {
			r, node, now := startThrottled(t, oneAtATime)
			a, b := r.connect(t), r.connect(t)
			a.mustCreate("/n", "", jute.ModePersistent)
			a.send(jute.OpSetData, setTo("/n", "a"))
			node.holds(t, 1)
			before := r.server.inFlight.Gate.Counts().Waits
			b.send(tc.op, tc.body)
			r.line(before)
			now.Advance(tc.waits)
			node.release(-1)
			if tc.xid == 0 {
				tc.xid = b.xid
			}
			got := b.receive()
			if got.Xid != tc.xid || got.Err != tc.want || got.Zxid == 0 {
				t.Errorf("reply %+v, want xid %d and code %v", got.ReplyHeader, tc.xid, tc.want)
			}
			refused := tc.want == jute.Throttled
			if refused && (len(got.body) != 0 || r.exists("/late")) {
				t.Errorf("a throttled request has a body of %d bytes or was carried out", len(got.body))
			}
			if n := r.server.inFlight.Gate.Counts().Refused; n != 1 && refused || n != 0 && !refused {
				t.Errorf("%d requests are counted as throttled", n)
			}
			if tc.closed {
				b.wantClosed()
			}
		})
	}
}

func TestNothingWaitsWithoutAThrottle(t *testing.T) {
	r, node, now := startThrottled(t, func(o *Options) {
		o.Limits.Requests = limits.RequestThrottle{ThrottledOpWait: time.Millisecond, DropStale: true,
			StaleLatency: true}
	})
	a, b := r.connect(t), r.connect(t)
	a.mustCreate("/n", "", jute.ModePersistent)
	a.pipeline(2, jute.OpSetData, setTo("/n", "a"))
	a.send(jute.OpGetData, look("/n"))
	node.holds(t, 2)
	now.Advance(time.Second)
	b.must(jute.OpGetData, look("/n"), jute.OK)
	node.release(-1)
	a.wantReplies(3, jute.OK)
	word := r.dial(t)
	word.write([]byte("mntr"))
	if text := string(word.rest()); !strings.Contains(text, "zk_cnt_request_throttle_queue_time_ms\t0\n") {
		t.Error("mntr tells of requests in line")
	}
}

func TestANewSessionWaitsButIsNotThrottled(t *testing.T) {
	r, node, now := startThrottled(t, func(o *Options) {
		oneAtATime(o)
		o.Limits.Requests.DropStale, o.Limits.Requests.StaleLatency = true, true // after its timeout, of 30 s
	})
	a := r.connect(t)
	a.mustCreate("/n", "", jute.ModePersistent)
	a.send(jute.OpSetData, setTo("/n", "a"))
	node.holds(t, 1)
	before := r.server.inFlight.Gate.Counts().Waits
	b := r.dial(t)
	b.write(frame((&jute.ConnectRequest{TimeoutMillis: 30000, Passwd: make([]byte, 16)}).Append(nil)))
	r.line(before)
	now.Advance(time.Second)
	node.release(-1)
	b.welcomed()
	if b.welcome.SessionID == 0 {
		t.Error("a session that waited is refused")
	}
	b.must(jute.OpGetData, look("/n"), jute.OK)
}

func TestAuthenticationDoesNotWaitInLine(t *testing.T) {
	r, node, _ := startThrottled(t, oneAtATime)
	a, b := r.connect(t), r.connect(t)
	a.mustCreate("/n", "", jute.ModePersistent)
	a.send(jute.OpSetData, setTo("/n", "a"))
	node.holds(t, 1)
	b.must(jute.OpAuth, &jute.AuthPacket{Scheme: "digest", Auth: []byte("u:p")}, jute.OK)
}

func TestRequestsBehindOneThatWaitedHaveWaitedToo(t *testing.T) {
	r, node, now := startThrottled(t, oneAtATime)
	a, b := r.connect(t), r.connect(t)
	a.mustCreate("/n", "", jute.ModePersistent)
	a.send(jute.OpSetData, setTo("/n", "a"))
	node.holds(t, 1)
	before := r.server.inFlight.Gate.Counts().Waits
	b.pipeline(3, jute.OpGetData, look("/n"))
	r.line(before)
	now.Advance(time.Second)
	node.release(-1)
	b.wantReplies(3, jute.Throttled)
	b.must(jute.OpGetData, look("/n"), jute.OK) // came later
}

// countingNode counts the writes that are under way at once.
type countingNode struct {
	Node
	now, most atomic.Int64
}

// countedWrite is the waiter of a write that is counted.
type countedWrite struct {
	batcher.Waiter
	node *countingNode
}

// Propose counts a write in.
func (n *countingNode) Propose(p *entry.Proposal, w batcher.Waiter) error {
	now := n.now.Add(1)
	for most := n.most.Load(); now > most && !n.most.CompareAndSwap(most, now); {
		most = n.most.Load()
	}
	return n.Node.Propose(p, countedWrite{w, n})
}

// Applied counts it out.
func (w countedWrite) Applied(r *apply.Result) {
	w.node.now.Add(-1)
	w.Waiter.Applied(r)
}

func TestThrottleBoundsWhatIsUnderWay(t *testing.T) {
	node := &countingNode{}
	r := startRig(t, rigOptions{
		set: func(o *Options) {
			o.Limits.Requests = limits.RequestThrottle{MaxRequests: 3, Stall: 100 * time.Millisecond, DropStale: true,
				StaleConnection: true}
		},
		node: func(n Node) Node {
			node.Node = n
			return node
		},
	})
	const clients, writes = 8, 50
	all := make([]*client, clients)
	for i := range all {
		all[i] = r.connect(t)
	}
	all[0].mustCreate("/n", "", jute.ModePersistent)
	var group sync.WaitGroup
	for _, c := range all {
		c.pipeline(writes, jute.OpSetData, setTo("/n", "x"))
		group.Go(func() {
			for range writes {
				if got, err := c.next(); err != nil || c.parse(got).Err != jute.OK {
					t.Errorf("reply %x, %v", got, err)
					return
				}
			}
		})
	}
	group.Wait()
	if most := node.most.Load(); most > 3 || most < 1 {
		t.Errorf("%d writes were under way at once, want at most 3", most)
	}
	if n := r.server.inFlight.Gate.Times().Load().Count; n < clients*writes {
		t.Errorf("%d requests have passed the throttle, want at least %d", n, clients*writes)
	}
}
