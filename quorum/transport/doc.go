// Package transport carries frames between the servers of an ensemble, and opens streams between them for snapshots.
//
// Every server dials every other one for its outgoing direction; the connection that it accepts from that server is the
// incoming direction. A peer may have several addresses, and former ones. Both, and streams of their own for snapshots,
// use the first port of the server's line in the configuration. A connection begins with a handshake that says who
// calls, who is meant, which cluster both belong to, and what the connection is for; what then follows is frames.
// docs/formats/peer.md draws the bytes.
//
// Before that handshake package proof has both sides prove that they belong together, if the options say so.
//
// It owns the connections, the queues of what is to be sent, and the dialing anew. It must never know what is in a
// frame, nor raft, nor the configuration: members and addresses are handed in with SetPeers, listeners, dialing, TLS,
// time and randomness with Options.
//
// # Goroutines
//
//   - One per peer dials, and writes while the stream is up: it takes all that is queued and writes it with one call.
//     One more per outgoing stream waits for its end, so that a killed process is noticed at once.
//   - One per incoming stream reads and calls Handler.Receive. One more calls it for large frames, and for those that
//     have to come behind them, while there are any.
//   - One per connection in handshake, of a bounded number.
//   - One, the supervisor, looks now and then for streams that are silent or stuck. So no deadline is set per read. It
//     has streams to former addresses of peers moved too, one at a time, on a goroutine of its own.
//
// # Invariants
//
//   - Frames to a peer arrive in the order of their Send, or not at all, and likewise those of SendInOrder; the former
//     may pass the latter. After a loss Handler.Lost is called on both sides, or Left, unless one side ended or removed
//     the other. Frames are never sent twice.
//   - A large frame holds up no frame of Send but by a few pieces, however slow the connection is and whatever its
//     receiver does with it, if both sides speak version 2.
//   - Frames of a stream are handed on only when the reader of the stream that it replaces has ended, and after that
//     stream's Lost.
//   - A server that stops as it was asked to says so in the last frame of each stream, to those that speak version 3,
//     and lets them hang up first. Whatever ends a process is one line of the log for both its streams.
//   - Send never blocks, and no peer's slowness is seen by another: each has its own queue, with a bound in bytes.
//   - A frame is handed on only if its checksum is right. The first one that is not ends the stream.
//   - Whoever has not finished the handshake costs one goroutine, a few hundred bytes and a bounded time.
package transport
