package server

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"zkd/jute"
	"zkd/quorum/clock"
	"zkd/server/stats"
)

// throttle has requests wait in line while too many are under way (org.apache.zookeeper.server.RequestThrottler).
// ZooKeeper has one queue of requests; here readers stand in line, each with the request that it has read.
type throttle struct {
	o     RequestThrottle
	all   *underWay
	turn  chan struct{} // has room for one: whoever has put its token there is the first in line
	ended chan struct{} // one token: a request has ended
	look  clock.Timer   // owned by the first in line; its time is Stall

	// Atomic.
	waits, stale, dropped, refused atomic.Int64
	queued                         stats.Histogram // milliseconds
}

// newThrottle returns a throttle of what all counts, or nil if it is off.
func newThrottle(o RequestThrottle, all *underWay, c clock.Clock) *throttle {
	if o.MaxRequests == 0 {
		return nil
	}
	t := &throttle{o: o, all: all, turn: make(chan struct{}, 1), ended: make(chan struct{}, 1)}
	t.look = c.NewTimer(time.Hour)
	t.look.Stop()
	return t
}

// wake tells the first in line that a request has ended.
func (t *throttle) wake() {
	select {
	case t.ended <- struct{}{}:
	default: // it will look anyway
	}
}

// errStale ends a connection one of whose requests was dropped: those behind it must not overtake it.
var errStale = errors.New("a request was dropped because it was stale")

// enter waits until the next request of c may begin, and counts it in. op says what the request is.
func (t *throttle) enter(c *conn, op jute.Op) error {
	begun := c.server.elapsed()
	first := true
	select {
	case t.turn <- struct{}{}:
	default:
		first = false
		t.turn <- struct{}{} // those who wait are let in in the order in which they came
	}
	defer func() { <-t.turn }()
	for {
		waited := c.waited + c.server.elapsed() - begun
		stale := t.isStale(c, op, waited, !first)
		if stale && t.o.DropStale {
			t.dropped.Add(1)
			return errStale
		}
		if t.all.n.Load() < int64(t.o.MaxRequests) {
			c.waited = waited
			if stale {
				t.stale.Add(1)
			}
			break
		}
		first = false
		t.stall()
	}
	t.queued.Add(c.waited.Milliseconds())
	t.all.begin()
	return nil
}

// stall waits until a request has ended, or for Stall.
func (t *throttle) stall() {
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
func (t *throttle) isStale(c *conn, op jute.Op, waited time.Duration, ask bool) bool {
	switch {
	case op == jute.OpCloseSession: // it outlives its connection
		return false
	case t.o.StaleConnection && (c.out.ended() || ask && hungUp(c.out.socket)):
		return true
	default:
		return t.o.StaleLatency && waited > time.Duration(c.timeout.Load())
	}
}

// refuses reports whether the request that c has been let in with has waited for too long (Request.isThrottlable,
// RequestThrottler.shouldThrottleOp). New sessions are not asked about.
func (t *throttle) refuses(c *conn, op jute.Op) bool {
	exempt := op == jute.OpPing || op == jute.OpCloseSession
	return t.o.ThrottledOpWait > 0 && !exempt && c.waited.Truncate(time.Millisecond) > t.o.ThrottledOpWait
}

// throttled answers a request when its turn has come.
func (c *conn) throttled(r *request, h handler) error {
	t := c.server.underWay.gate
	if err := t.enter(c, r.op); err != nil {
		return err
	}
	defer c.server.underWay.end() // a write has been counted by itself
	if !t.refuses(c, r.op) {
		return c.handle(r, h)
	}
	t.refused.Add(1)
	if !c.out.awaitSettled(flushAtBytes) {
		return errGone
	}
	c.server.bad.Warn("a request has waited for too long and is refused (throttled_op_wait_time)",
		slog.String("peer", c.remote.String()), session(c.session), slog.String("op", r.op.String()))
	c.reply(r.xid, c.server.opts.Machine.LastZxid(), jute.Throttled)
	c.latency(r.op, c.now, c.server.elapsed())
	return nil
}
