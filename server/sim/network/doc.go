// Package network is TCP between the hosts of a simulated world: connections in memory that are late, silent, cut off
// or reset when the world says so.
//
// A Fabric owns all hosts, listeners and connections, behind one lock. A Process of a Host listens, dials and looks up
// names (it implements the network of server/instance), until it is killed. What the bytes mean the package must never
// know.
//
// Invariants: what is read of a connection is what was written, in its order and without a gap, until the connection
// ends; nothing is read before it was under way for the delay of its link; a host that is down sends nothing.
//
// Waiting is done on the clock of package time: inside testing/synctest, that of the bubble.
package network
