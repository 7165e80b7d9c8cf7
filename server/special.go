package server

import "zkd/jute"

// special is what is unusual about a connection. Most have nothing, which costs a request one comparison.
type special uint8

// The unusual.
const (
	specialLinearizable special = 1 << iota // its reads wait for a barrier
	specialReadOnly                         // its writes are refused
	specialLocal                            // its session is known to this server alone
)

// specially does what a special connection has done before its request, or instead of it: then answered is true.
func (c *conn) specially(r *request) (answered bool, err error) {
	switch {
	case c.special&specialReadOnly != 0 && refusedReadOnly(r.op):
		c.reply(r.xid, c.server.opts.Machine.LastZxid(), jute.NotReadOnly)
		c.latency(r.op, c.now, c.server.elapsed())
		return true, nil
	case c.special&specialLocal != 0 && r.op == jute.OpCloseSession:
		return true, c.closeLocal(r)
	case c.special&specialLocal != 0 && isWrite(r.op):
		return c.ownsEphemeral(r)
	case c.special&(specialLinearizable|specialReadOnly) == specialLinearizable && isLinearized(r.op):
		return false, c.linearize()
	}
	return false, nil
}

// refusedReadOnly says what a server in read-only mode does not do
// (org.apache.zookeeper.server.quorum.ReadOnlyRequestProcessor). The end of the session is not among it.
func refusedReadOnly(op jute.Op) bool {
	return op == jute.OpSync || isWrite(op) && op != jute.OpCloseSession
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
	_, err := c.barrier()
	c.linearized, c.barred = err == nil, c.server.elapsed()-begun
	return err
}

// The scheme of auth packets by which a client chooses how its connection reads, and what it may say. It proves
// nothing: clients of ZooKeeper have no other way to set an option of a connection, and all of them have this one.
const (
	schemeOptions      = "zkd"
	optionLinearizable = "linearizable"
	optionLocal        = "local"
)

// option takes an option of the connection; false if there is none of that name.
func (c *conn) option(name string) bool {
	switch name {
	case optionLinearizable:
		c.special |= specialLinearizable
	case optionLocal:
		c.special &^= specialLinearizable
	default:
		return false
	}
	return true
}
