package server

import (
	"errors"
	"math"
	"sync/atomic"

	"zkd/quorum"
	"zkd/storage"
)

// errLargeRequests means a large request beyond what all of them may have together.
var errLargeRequests = errors.New("large requests under way have too many bytes together")

// frameLimits bound what clients may send: one frame, and all large requests under way together
// (ZooKeeperServer.checkRequestSizeWhenReceivingMessage).
type frameLimits struct {
	frame    int   // jute.maxbuffer
	large    int   // largeRequestThreshold; what is longer is large
	all      int64 // largeRequestMaxBytes
	bytes    atomic.Int64
	rejected atomic.Int64
}

// init sets the limits.
func (l *frameLimits) init(o *Options) {
	l.frame, l.large, l.all = o.MaxFrameBytes, math.MaxInt, o.Limits.LargeRequestsBytes
	if o.Limits.LargeRequestBytes > 0 {
		l.large = o.Limits.LargeRequestBytes
	}
}

// check refuses a frame of n bytes before its bytes have come. Nothing is reserved: they may not come.
func (l *frameLimits) check(n int) error {
	if n < 0 || n > l.frame {
		return errFrameLength
	}
	if n > l.large && l.bytes.Load()+int64(n) > l.all {
		l.rejected.Add(1)
		return errLargeRequests
	}
	return nil
}

// take reserves the bytes of a large request until give.
func (l *frameLimits) take(n int) error {
	if l.bytes.Add(int64(n)) > l.all {
		l.give(n)
		l.rejected.Add(1)
		return errLargeRequests
	}
	return nil
}

// give ends a reservation.
func (l *frameLimits) give(n int) { l.bytes.Add(-int64(n)) }

// large answers a large request, whose bytes count until it is answered.
func (c *conn) large(r *request, h handler) error {
	limits := c.in.limits
	if err := limits.take(len(r.body)); err != nil {
		return err
	}
	c.reserved = len(r.body)
	err := c.admit(r, h)
	limits.give(c.reserved) // nothing if a write has taken it over
	c.reserved = 0
	return err
}

// largeWrite is the waiter of a large write.
type largeWrite struct {
	*conn
	bytes int
}

// waiter returns whom to tell of a write's end: the connection, or a largeWrite that takes the reservation over.
func (c *conn) waiter() quorum.Waiter {
	if c.reserved == 0 {
		return c
	}
	w := &largeWrite{conn: c, bytes: c.reserved}
	c.reserved = 0
	return w
}

// Applied ends the reservation and answers.
func (w *largeWrite) Applied(r *storage.Result) {
	w.in.limits.give(w.bytes)
	w.conn.Applied(r)
}

// Dropped ends the reservation and the connection.
func (w *largeWrite) Dropped(err error) {
	w.in.limits.give(w.bytes)
	w.conn.Dropped(err)
}
