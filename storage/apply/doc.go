// Package apply evaluates entries of the log: a Txn finds, for each proposal of an entry in turn, what it answers and
// what it changes, and shows the next one the state as it is then. Nothing becomes visible by it.
//
// Whoever applies entries hands it the state before the entry: the Base, what is in memory of it, and a Store, which
// shows the rest. After Evaluate, Prepare writes what differs to a Batch, and the Changes are what the entry comes to;
// Base.Take makes them the state before the next one.
//
// It owns the order in which a write's errors are found, every rule about sequences, quotas, sessions, ACLs and zxids,
// and what ZooKeeper's own files make of a state: an Importer does what a snapshot and transactions of Apache ZooKeeper
// say, through the same overlay, and Load what a snapshot that came through the log leads to.
//
// It must never know of Pebble, files, locks, the clock, randomness, configuration or who waits for a result: servers
// with the same log have the same bytes.
//
// Invariants: what a request asks is never an error but a result; an error is the store's, or says that a newer version
// wrote the entry. Znodes that the Base or the Store has shown are never changed. What is in Changes after Prepare has
// memory of its own where it outlives the entry. An entry reads no more of the state for its quotas than CountZnodes
// says, twice.
package apply
