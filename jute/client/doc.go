// Package client is one connection of a ZooKeeper client with its session, and frames in both directions without a
// goroutine, a queue or an allocation of its own: so that a measurement measures the server and not the client, and a
// test sees each frame in the order in which it came. The load generator, zkd status and the tests stand on it.
//
// A Conn does the handshake, writes requests that its user has encoded and hands back reply frames as views of its
// buffer. Whoever uses it decides what is pipelined and reads the replies in the order of the requests. Do and
// Pipeline are the two patterns that most need: one request after the other, and many that differ in little. Ask is for
// four-letter commands, which need no session.
//
// The package knows nothing of loads, of tests and of what an application does with its session: it neither pings nor
// reconnects by itself. Time is handed in. Its invariants: every wait has a deadline; a frame longer than MaxReplyBytes
// is refused before memory is taken for it; a reply whose xid is not the expected one is an error, since nothing after
// it can be trusted.
package client
