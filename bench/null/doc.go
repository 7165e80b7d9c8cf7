// Package null is a server without a state: the limit beside both sides of a comparison. It answers the handshake and
// the requests of the closed loads, writes what it is told to write to a file, and answers once that is synced, one
// fdatasync for all that has come meanwhile. What a server of this protocol, written in Go with a goroutine a
// connection, can do on a machine is what this one does; what another does less is the price of its state.
//
// The package owns: the listener, the connections, the file. It must never know a znode: every read finds a kibibyte,
// every write succeeds, and a znode whose name ends in -N has N children. It is no server to keep anything in.
//
// Invariants: replies of a connection come in the order of its requests; no write is answered before an fdatasync that
// began after the write to the file; what a connection holds is bounded by frameMax and flushBytes.
package null
