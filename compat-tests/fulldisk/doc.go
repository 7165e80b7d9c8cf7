// Package fulldisk shows that servers outlive full disks.
//
// Unmodified clients (go-zookeeper) write until the file systems of all servers, of one of each role, of the log or of
// the state alone, or those beside whose data something else takes the room, have no more to give. Then servers are
// stopped and started, and what was acknowledged is read, removed, and written anew.
//
// The package owns these tests and nothing else: package ensemble starts the servers and gives them file systems of
// their own.
//
// Invariants: every wait has a deadline; no time is measured.
package fulldisk
