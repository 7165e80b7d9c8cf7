package server

import (
	"errors"

	"zkd/jute"
	"zkd/storage/apply"
)

// sync answers when this server has applied all that was committed when it came.
func (c *writes) sync(r *request) error {
	p := &c.req.path
	if c.req.decode(r, p) != nil {
		return c.unreadable(r)
	}
	zxid, err := newBarrier().await(c.conn)
	if err != nil {
		return err
	}
	now := c.server.elapsed()
	c.Out.Lock()
	b, mark := c.beginLocked(r.xid, zxid, jute.OK)
	b = (&jute.SyncResponse{Path: p.Path, Nulls: p.Nulls}).Append(b)
	out := len(b) - mark
	c.Out.EndLocked(b, mark)
	c.Out.Unlock()
	c.gathered.add()
	c.answered(r.xid, zxid)
	c.latency(r.op, c.now, now)
	took := now - c.now
	c.barrierWait = took - max(c.queueWait, c.admitter.waited)
	c.metered.tally(r, out, jute.OK, took)
	if c.server.isSlow(took) {
		c.server.slowRead(c.conn, r, took)
	}
	return nil
}

// newBarrier returns a waiter for one barrier.
func newBarrier() *barrier { return &barrier{done: make(chan error, 1)} }

// barrier waits for one. It is told once, and nobody needs to listen.
type barrier struct {
	zxid jute.Zxid
	done chan error
}

// await waits until this server has applied all that was committed at the call, or the connection ends. It returns the
// last zxid then.
func (w *barrier) await(c *conn) (jute.Zxid, error) {
	c.server.opts.node.Barrier(w)
	select {
	case err := <-w.done:
		return w.zxid, err
	case <-c.Out.Ending():
		return 0, errGone
	}
}

// errNoBarrier means a barrier that was given up.
var errNoBarrier = errors.New("sync was given up")

// Applied ends the wait.
func (w *barrier) Applied(r *apply.Result) {
	w.zxid = r.Zxid
	w.done <- nil
}

// Dropped ends the wait.
func (w *barrier) Dropped(err error) { w.done <- errors.Join(errNoBarrier, err) }
