// Package client is the small ZooKeeper client of the load generator: one connection with its session, and frames in
// both directions without a goroutine, a queue or an allocation of its own, so that the server is what a measurement
// measures and not the client.
//
// A Conn does the handshake, writes requests that its user has encoded and hands back reply frames as views of its
// buffer. Whoever uses it decides what is pipelined and reads the replies in the order of the requests. Do and
// Pipeline are the two patterns that every load needs for its preparation.
//
// The package knows nothing of loads and figures. Its invariants: every wait has a deadline; a frame longer than
// MaxReplyBytes is refused before memory is taken for it; a reply whose xid is not the expected one is an error,
// since nothing after it can be trusted.
package client
