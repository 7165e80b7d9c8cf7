package server

import "zkd/jute"

// connFlags is what is unusual about a connection. Most have nothing, which costs a request one comparison.
type connFlags uint8

// The unusual.
const (
	flagLinearizable connFlags = 1 << iota // its reads wait for a barrier
	flagReadOnly                           // its writes are refused
	flagLocal                              // its session is known to this server alone
)

// refusedReadOnly says what a server in read-only mode does not do
// (org.apache.zookeeper.server.quorum.ReadOnlyRequestProcessor). The end of the session is not among it.
func refusedReadOnly(op jute.Op) bool {
	return op == jute.OpSync || isWrite(op) && op != jute.OpCloseSession
}

// The scheme of auth packets by which a client chooses how its connection reads, and what it may say. It proves
// nothing: clients of ZooKeeper have no other way to set an option of a connection, and all of them have this one.
const (
	schemeOptions      = "zkd"
	optionLinearizable = "linearizable"
	optionLocal        = "local"
)

// option takes an option of the connection; false if there is none of that name.
func (s *connFlags) option(name string) bool {
	switch name {
	case optionLinearizable:
		*s |= flagLinearizable
	case optionLocal:
		*s &^= flagLinearizable
	default:
		return false
	}
	return true
}
