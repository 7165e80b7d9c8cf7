// Package server is the client side of zkd: it accepts connections, speaks ZooKeeper's protocol on them, and gives each
// client's requests to the state machine and the answers back.
//
// It owns the listeners, the connections, the sessions as far as they are connections, the watches (server/watch), the
// identities of connections (server/auth) and the four-letter commands (server/fourletter). The bytes of a connection
// are server/socket's, and what clients may ask for is bounded by server/limits. What it measures goes by the names of
// one table (server/stats/catalog); operators ask by HTTP (server/admin). It must never know how agreement is reached:
// it proposes, and is told.
//
// # Life of a read
//
// The connection's reader goroutine takes what the socket has in one call, decodes the request in place, takes a
// state.Present with what it looks up, registers the watch, and appends the reply to the connection's output while it
// holds the Present. When the input is used up it writes the output in one call.
//
// What may take long is read from a state.View of the same moment, without any lock: the output leaves room for the
// reply, and what is appended meanwhile goes behind it. Reads that turn out to be large take turns (limits.Scan), and
// let others run now and then.
//
// # Life of a write
//
// The reader proposes the request as it came, with who its client is or a reference to that, and goes on reading. When
// the entry is applied, the apply goroutine calls Committed, which fires the watches, and then the Applied of the
// connection's writes, which appends the reply; the flusher goroutine writes what has gathered.
//
// # A connection
//
// conn is one connection. Its reader goroutine shakes hands, takes frames, and has each request answered in its turn by
// one of its types, which hold it: queries are what this server answers by itself, writes what the group decides on,
// login is who the client is. The admitter lets in what limits allow, and the auditor writes the audit log. metered
// counts who does what (server/traffic), gathered is what the shared figures get of reads once for what came together.
//
// # A member of an ensemble
//
// SetState tells who leads. The role controller, one goroutine, follows it: when there is a leader it asks for a
// barrier, and when that has passed the server serves. If the leader is lost, connections stay for LeaderGrace: reads
// go on as they are, writes and barriers wait at the node, and who comes new or with a local session waits with its
// handshake. Then all connections are closed, and a server that may serves reads only. So they are at once when this
// server is behind the others because its disk hangs. The serving state that follows from it is one atomic word, which
// a connection looks at once, at its ConnectRequest; so it costs requests nothing. What is unusual about a connection
// (connFlags) costs the others one comparison.
//
// A server that is out of the configuration serves on for RemovedGrace, as a follower, and then nobody.
//
// Every server tracks all sessions of the state, and only the leader expires them; the others report whom they hear.
// The end of a session that the leader proposes counts in its term alone. Local sessions, and those of the read-only
// mode, are in a tracker of their own, which always expires.
//
// # Invariants
//
//   - Replies leave in the order of the requests: a request that is not a write waits until the connection's writes
//     under way are answered. A write never waits for another, but for a reconfig before it, which is answered when it
//     is in force on this server.
//   - A watch event is in a connection's output before any reply that shows the change, and after the reply that
//     registered the watch: events are appended while the change is published, replies of reads, or the room for them,
//     while their Present is held.
//   - Lock order (docs/lock-order.md): the Present (the machine's lock), then a connection's output lock, which is
//     never held when a Present is taken or a View opened. A pending session's lock comes between the machine's and all
//     others. A connection's turn is held while a write is proposed. The local sessions' lock comes before the
//     tracker's. The sessions' lock, the flusher's lock and the availability's lock are leaves.
//   - A connection belongs to one epoch of the serving state. When the next one begins it is closed, even if its
//     ConnectRequest is just being answered: enter looks at the epoch again after it has told it.
//   - A session is bound to one connection of the ensemble: a reattach that is applied closes the one that was. On its
//     own server that is closed before, and proposes nothing behind the reattach (supersede).
//   - A connection that ends while its session is being made or upgraded takes nothing with it: the pending session
//     finds nobody.
//   - The apply goroutine never waits for a client: what a client does not read is bounded, and beyond that the client
//     is cut off. A reader waits for its own client only.
//   - What a limit holds back waits on its own connection's goroutine, and is woken by what it waits for: a reply on
//     the same connection (globalOutstandingLimit), or the end of any request (request_throttle_max_requests).
//   - A TLS handshake runs on its connection's goroutine, in bounded time, and never on the one that accepts.
//
// # Ownership
//
//	state                                 owner
//	decoded records                       the connection's reader goroutine
//	session to connection                 Server.sessions, its lock
//	local sessions                        Server.locals, its lock
//	serving state and epoch               Server.available: an atomic that the role controller and Replaced write
//	figures, counts of slow requests      atomics: metrics, slowLog
//	what a read holds of the state        its connection, in held; the watchdog looks at it
//	sessions that end in pieces           Server.endings, its lock, a leaf
//	watches                               watch.Table
package server
