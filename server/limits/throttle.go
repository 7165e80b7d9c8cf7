package limits

import (
	"errors"
	"sync/atomic"
	"time"

	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/server/stats"
)

// RequestThrottle has requests wait in a queue (org.apache.zookeeper.server.RequestThrottler).
type RequestThrottle struct {
	MaxRequests     int           // request_throttle_max_requests: requests in flight at once; 0 is off
	Stall           time.Duration // request_throttle_stall_time: how often the first one is looked at; 0 is never
	DropStale       bool          // request_throttle_drop_stale: a stale request ends its connection
	StaleConnection bool          // request_stale_connection_check: stale is what a closed connection has sent
	StaleLatency    bool          // request_stale_latency_check: stale is what has waited for a session's timeout
	ThrottledOpWait time.Duration // throttled_op_wait_time: what has waited longer is answered Throttled; 0 is off
}

// Throttle has requests wait in a queue while too many are in flight (org.apache.zookeeper.server.RequestThrottler).
// ZooKeeper has one queue of requests; here readers queue up, each with the request that it has read.
type Throttle struct {
	o     RequestThrottle
	all   *InFlight
	clock clock.Clock
	turn  chan struct{} // has room for one: whoever has put its token there is the first in the queue
	ended chan struct{} // one token: a request has ended
	look  clock.Timer   // owned by the first in the queue; its time is Stall

	// Atomic.
	waits, stale, dropped, refused atomic.Int64
	queued                         stats.Histogram // milliseconds
}

// newThrottle returns a throttle of what all counts, or nil if it is off.
func newThrottle(o RequestThrottle, all *InFlight, c clock.Clock) *Throttle {
	if o.MaxRequests == 0 {
		return nil
	}
	t := &Throttle{o: o, all: all, clock: c, turn: make(chan struct{}, 1), ended: make(chan struct{}, 1)}
	t.look = c.NewTimer(time.Hour)
	t.look.Stop()
	return t
}

// ThrottleCounts are what a throttle has done to requests.
type ThrottleCounts struct{ Waits, Stale, Dropped, Refused int64 }

// Counts returns what it has done so far.
func (t *Throttle) Counts() ThrottleCounts {
	return ThrottleCounts{Waits: t.waits.Load(), Stale: t.stale.Load(), Dropped: t.dropped.Load(),
		Refused: t.refused.Load()}
}

// Times are how long requests have waited, in milliseconds.
func (t *Throttle) Times() *stats.Histogram { return &t.queued }

// wake tells the first in the queue that a request has ended.
func (t *Throttle) wake() {
	select {
	case t.ended <- struct{}{}:
	default: // it will look anyway
	}
}

// ErrStale ends a connection one of whose requests was dropped: those behind it must not overtake it.
var ErrStale = errors.New("a request was dropped because it was stale")

// Client is a client who waits, as far as what limits it has to know.
type Client interface {
	// Ended reports whether the connection is closed at this end.
	Ended() bool
	// Ending returns a channel that is closed when it is.
	Ending() <-chan struct{}
	// PeerClosed reports whether the client has closed its end, as far as the system tells: it costs a system call.
	PeerClosed() bool
}

// Queued is a request that may have to wait in a queue.
type Queued struct {
	Op      jute.Op
	Timeout time.Duration // of its session
	Waited  time.Duration // in the line, by those before it that came with it
}

// Enter waits until a request of c may begin, and counts it in. It returns how long the request has waited by then, or
// else ErrStale.
func (t *Throttle) Enter(c Client, r Queued) (time.Duration, error) {
	begun := t.clock.Now()
	first := true
	select {
	case t.turn <- struct{}{}:
	default:
		first = false
		t.turn <- struct{}{} // those who wait are let in in the order in which they came
	}
	defer func() { <-t.turn }()
	for {
		waited := r.Waited + t.clock.Since(begun)
		stale := t.isStale(c, r, waited, !first)
		if stale && t.o.DropStale {
			t.dropped.Add(1)
			return waited, ErrStale
		}
		if t.all.n.Load() < int64(t.o.MaxRequests) {
			if stale {
				t.stale.Add(1)
			}
			t.queued.Add(waited.Milliseconds())
			t.all.Begin()
			return waited, nil
		}
		first = false
		t.stall()
	}
}

// stall waits until a request has ended, or for Stall.
func (t *Throttle) stall() {
	t.waits.Add(1)
	var due <-chan time.Time
	if t.o.Stall > 0 {
		t.look.Reset(t.o.Stall)
		defer t.look.Stop()
		due = t.look.C()
	}
	select {
	case <-t.ended:
	case <-due:
	}
}

// isStale reports whether nobody waits for the answer any more (org.apache.zookeeper.server.Request.isStale). ask has
// the socket asked too, which is a system call.
func (t *Throttle) isStale(c Client, r Queued, waited time.Duration, ask bool) bool {
	switch {
	case r.Op == jute.OpCloseSession: // it outlives its connection
		return false
	case t.o.StaleConnection && (c.Ended() || ask && c.PeerClosed()):
		return true
	default:
		return t.o.StaleLatency && waited > r.Timeout
	}
}

// Refuses reports whether a request that was let in has waited for too long, and counts it then (Request.isThrottlable,
// RequestThrottler.shouldThrottleOp). New sessions are not asked about.
func (t *Throttle) Refuses(op jute.Op, waited time.Duration) bool {
	exempt := op == jute.OpPing || op == jute.OpCloseSession
	if t.o.ThrottledOpWait <= 0 || exempt || waited.Truncate(time.Millisecond) <= t.o.ThrottledOpWait {
		return false
	}
	t.refused.Add(1)
	return true
}
