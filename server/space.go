package server

import (
	"time"

	"zkd/jute"
	"zkd/server/socket"
	"zkd/storage/entry"
	"zkd/storage/space"
)

// spaceAware is a Node that knows how much space the disks of its group have.
type spaceAware interface {
	// SpaceLevel is the level that counts for what is proposed here. It does not block.
	SpaceLevel() space.Level
}

// grows tells whether r, a write, must not be proposed for want of space on the disks. Costs an atomic load while there
// is space.
func (c *writes) grows(r *request) bool {
	node, ok := c.server.opts.node.(spaceAware)
	if !ok {
		return false
	}
	level := node.SpaceLevel()
	if level == space.Ample {
		return false
	}
	v := c.server.opts.Machine.View()
	defer v.Close()
	return v.Grows(&entry.Proposal{Op: r.op, Body: r.body}, level)
}

// rejectedForSpace answers a write that grows while the disks are nearly full. It takes no zxid, and nothing of it is
// written.
//
// SystemError is the one code that every client knows, and that none tries again by itself or doubts whether the write
// was done. QuotaExceeded, which says more, ends those that were made before it was (docs/decisions/0025).
func (c *writes) rejectForSpace(r *request) error {
	if !c.Out.AwaitSettled(socket.FlushAtBytes) || !c.spaceRefusals() {
		return errGone
	}
	s := c.server
	s.metrics.rejectedForSpace.Add(1)
	s.full.Warn("rejected write: disk space low")
	c.auditor.failed(r)
	c.reply(r.xid, s.opts.Machine.LastZxid(), jute.SystemError)
	now := s.elapsed()
	c.latency(jute.OpError, c.now, now)
	c.metered.tally(r, replyHeadBytes, jute.SystemError, now-c.now)
	return nil
}

// refusalInterval is the time between the refusals of a connection for want of space, but for those of requests that
// came together. Some clients try again at once, for as long as they are refused (Curator's PersistentNode: 6,500 times
// a second, measured 2026-11), and with many of them a server would do nothing else. A guess: a hundred of them cost
// little, and nobody waits for long for what stands behind one on the same connection.
const refusalInterval = 20 * time.Millisecond

// spaceRefusals waits until another write may be refused. It returns false if the connection ends meanwhile.
func (c *writes) spaceRefusals() bool {
	s := c.server
	if c.refusals.any && c.refusals.came != c.now {
		if wait := c.refusals.last + refusalInterval - s.elapsed(); wait > 0 {
			timer := s.opts.Clock.NewTimer(wait)
			defer timer.Stop()
			select {
			case <-timer.C():
			case <-c.Out.Ending():
				return false
			}
		}
	}
	c.refusals.any, c.refusals.came, c.refusals.last = true, c.now, s.elapsed()
	return true
}
