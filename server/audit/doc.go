// Package audit writes who has changed what: a line for each write of a client, with its user, its address and whether
// it was done, as ZooKeeper's audit log has them (org.apache.zookeeper.audit).
//
// It owns the names of the operations, the forms of a line, the queue in front of the sink, and the file. It must never
// know a connection, a request or the configuration: the server hands it events, server/instance the sink.
//
// # Goroutines
//
// Write is called on the apply goroutine and never blocks: a Log has one goroutine, which takes all that has gathered
// and writes it at once. Whoever makes requests calls Await before each, which waits while too much has gathered: so a
// sink that is slow holds writes up, and no line is left out for it.
//
// # Invariants
//
//   - Lines of one Log are in the order of Write.
//   - An event is one line, whatever a client has put into a path or a name: what would end the line or its field is
//     written as an escape sequence.
//   - Nothing secret is in a line: of an identity only what its scheme shows as the user, of an ACL the identities,
//     whose digests are hidden.
//   - A sink that fails is told about in the server's log, with the number of lines that are lost; later lines are
//     tried again. The server goes on.
package audit
