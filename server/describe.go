package server

import (
	"sync/atomic"
	"time"

	"zkd/jute"
	"zkd/server/fourletter"
	"zkd/server/limits"
	"zkd/server/stats"
)

// connCounts is what the four-letter commands cons and stat show of a connection. Atomic.
type connCounts struct {
	received, sent        atomic.Int64
	lastOp                atomic.Int32 // 0 before the first
	lastXid, lastZxid     atomic.Int64
	lastResponse, lastLat atomic.Int64 // milliseconds
	latency               stats.Summary
	bound                 atomic.Bool // the session is there
}

// describe is what cons shows of c.
func (c *conn) describe() fourletter.Connection {
	n := &c.counts
	out := c.Out.State()
	d := fourletter.Connection{
		Remote: c.remote, Secure: c.port.Secure, Outstanding: int64(out.Outstanding), Writes: out.Unread > 0,
		Received: n.received.Load(), Sent: n.sent.Load(),
	}
	if n.bound.Load() {
		d.Reads = true
		d.Session, d.Established = c.session, c.established
		d.Timeout = time.Duration(c.timeout.Load())
		if op := jute.Op(n.lastOp.Load()); op != 0 {
			d.LastOp = fourletter.OpName(op)
		}
		d.LastXid, d.LastZxid = n.lastXid.Load(), jute.Zxid(n.lastZxid.Load())
		d.LastResponseAt, d.LastLatency = n.lastResponse.Load(), n.lastLat.Load()
		d.Latency = n.latency.Load()
		d.HeldBytes = c.account.Held()
		d.Identities = c.login.ids.Proven().IDs()
		if watched := c.server.watches.BytesOf(&c.watch); watched >= limits.MemoryStepBytes {
			d.HeldBytes += int64(watched)
		}
	}
	return d
}

// source is what c is counted by.
func (c *conn) source() sourceAddress { return sourceAddress{c.remote.Addr(), c.port.Secure} }
