package server

import (
	"zkd/jute"
	"zkd/server/socket"
)

// awaitTurn waits for the turn of a request that is no write. It returns false if the connection has ended.
func (c *conn) awaitTurn() bool {
	c.queueWait, c.barrierWait = c.admitter.waited, 0
	ok, waited := c.Out.AwaitTurn(socket.FlushAtBytes)
	if waited {
		c.queueWait = c.server.elapsed() - c.now
	}
	return ok
}

// isLinearized says which requests read the tree. (setWatches and checkWatches are about what the client has seen
// before.)
func isLinearized(op jute.Op) bool {
	switch op {
	case jute.OpExists, jute.OpGetData, jute.OpGetChildren, jute.OpGetChildren2, jute.OpGetACL, jute.OpMultiRead,
		jute.OpGetEphemerals, jute.OpGetAllChildrenNumber:
		return true
	default:
		return false
	}
}

// linearize waits until all is applied here that was committed when the read came. One wait serves all requests that
// are in the input buffer with it: they had come before it began.
func (c *conn) linearize() error {
	if c.linearized {
		return nil
	}
	begun := c.server.elapsed()
	_, err := newBarrier().await(c)
	c.linearized, c.barrierWait = err == nil, c.server.elapsed()-begun
	return err
}
