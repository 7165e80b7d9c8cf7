// Package socket moves the bytes of one client: frames in, replies and events out, with TLS below them or without.
//
// It owns the buffers of a connection, the order in which what is to be sent is sent, the count of the writes that are
// not answered yet, TLS and its handshakes, and the goroutine that writes what others have appended. It must never know
// a session, a request or what a frame says: what is appended is made by whoever appends it.
//
// # Invariants
//
//   - A frame costs memory as its bytes arrive, never by what its length says. An idle connection holds no buffer.
//   - What is appended leaves in that order, but for a reply for which room was left (Output.Reserve): it goes before
//     what was appended meanwhile.
//   - What is large of either is in the account of the connection before there is memory for it (limits.Account); what
//     others append, at once.
//   - No two frames share a TLS record: Apache's C client would not find the second one.
//   - TLS is between the socket and Input and Output, which are the same with it and without; a plain connection is
//     read and written by its file descriptor, past all of it.
//   - What crypto/tls writes gathers, and is sent past its locks: who waits for a client to take something never keeps
//     crypto/tls from answering that client within a read. So the reader waits for nobody but the client while it reads
//     TLS, and for nobody at all while it has a turn.
//   - A handshake runs on its connection's goroutine. While it waits for its client, or for anybody else, it holds no
//     turn to compute.
//   - Who appends never waits for the client, and no lock is held during a system call that may. Nothing here allocates
//     for a request.
//
// # Ownership
//
//	state                                 owner
//	Input                                 the connection's reader goroutine
//	Output                                its lock; what is being written belongs to whoever has set writing
//	TLS records that are read             the connection's reader goroutine
//	TLS records that are to be sent       recordConn, its lock; who has set writing sends them, and at last the reader
//	handshakes under way, turns           Handshakes: an atomic, and a channel
//	outputs to be written                 Flusher, its lock, a leaf
package socket
