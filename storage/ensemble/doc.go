// Package ensemble says what the configuration of an ensemble is and what a reconfig makes of it.
//
// A Config is the list of servers that /zookeeper/config shows, with its version. Parse and Text are its text, as
// org.apache.zookeeper.server.quorum.flexible.QuorumMaj reads and writes it; Config.Apply is the reconfig request as
// PrepRequestProcessor evaluates it, with the same answers in the same order; Diff tells what has changed between two
// configurations, for whoever brings a group into line.
//
// All of it is pure: the proposer of a reconfig and every server that applies it compute the same from the same
// configuration and request. So the package must never know of names (no host is resolved), of connections, of raft, or
// of configuration files; what a proposer's configuration decides comes in Rules.
//
// Invariants: the servers of a Config are sorted by number, no two have the same, and none has −1; each has an address,
// its addresses are sorted by host, and hosts stand as Java writes them.
package ensemble
