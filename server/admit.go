package server

import (
	"log/slog"
	"time"

	"zkd/jute"
	"zkd/server/limits"
	"zkd/server/socket"
)

// admitter lets in what a connection asks for, as far as limits allow. Owned by the reader.
type admitter struct {
	*conn
	waited   time.Duration // how long the requests in the input buffer have waited in the throttle
	reserved int           // bytes of the large request that the reader is at, unless its write gives them back
}

// large answers a large request, whose bytes count until it is answered.
func (c *admitter) large(r *request, h handler) error {
	frames := &c.server.frames
	if err := frames.Take(len(r.body)); err != nil {
		return err
	}
	c.reserved = len(r.body)
	err := c.admit(r, h)
	frames.Give(c.reserved) // nothing if a write has taken it over
	c.reserved = 0
	return err
}

// admit has a request answered when the throttle lets it in.
func (c *admitter) admit(r *request, h handler) error {
	if c.server.inFlight.Gate != nil {
		return c.throttled(r, h)
	}
	return c.handle(r, h)
}

// throttled answers a request when its turn has come.
func (c *admitter) throttled(r *request, h handler) error {
	if err := c.enterLine(r.op); err != nil {
		return err
	}
	defer c.server.inFlight.End() // a write has been counted by itself
	if !c.server.inFlight.Gate.Refuses(r.op, c.waited) {
		return c.handle(r, h)
	}
	if !c.Out.AwaitSettled(socket.FlushAtBytes) {
		return errGone
	}
	c.server.bad.Warn("rejected request: throttled_op_wait_time exceeded",
		slog.String("peer", c.remote.String()), session(c.session), slog.String("op", r.op.String()))
	c.reply(r.xid, c.server.opts.Machine.LastZxid(), jute.Throttled)
	c.latency(r.op, c.now, c.server.elapsed())
	return nil
}

// enterLine waits until the throttle lets a request begin, and counts it in.
func (c *admitter) enterLine(op jute.Op) (err error) {
	r := limits.Queued{Op: op, Timeout: time.Duration(c.timeout.Load()), Waited: c.waited}
	c.waited, err = c.server.inFlight.Gate.Enter(&c.Out, r)
	return err
}
