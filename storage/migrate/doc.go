// Package migrate brings the data of an Apache ZooKeeper server into a new server's data directory, and a state into
// the files that Apache ZooKeeper starts from.
//
// It owns the names and the order of those files, which of them belong together, and what an import compares and
// reports; zkdata owns what is in them, and state.ImportState what a transaction does to a tree. It must never know
// of raft or of servers.
//
// Invariants: the directory that is imported is only read; an import that fails or is interrupted leaves no directory
// that a server would start from, and one that does not fit with the digests of its source is refused unless it is
// forced; a file that is exported has its name only when all of it is durable.
package migrate
