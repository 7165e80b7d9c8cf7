// Package storage keeps what a zkd server must not lose: the log of what was agreed on (sub-package raftlog), and the
// state that follows from it.
//
// Both are Pebble stores. raftlog.Log is the log: append and fsync, and what was appended is there after a power
// cut. Machine is the state, the tree of znodes and the sessions: a deterministic state machine that applies the log's
// entries. The state's store has no write-ahead log of its own. A crash takes back what was not flushed, and applying
// the log again from AppliedIndex on brings it back; DurableIndex says how much of the log is no longer needed for
// that. So every write is made durable once.
//
// An entry of the log holds proposals: requests as clients sent them, with the session, the identities and the clock
// of the server that proposed them (docs/formats/entry.md). Machine.Apply evaluates them one after the other through
// an overlay of the state, without changing it; then it publishes what came of the whole entry in one step: the batch
// for the store, which carries the applied index with the data it covers, the cache, and the results and watch events
// for the Sink. A Present and a View show one state between two entries, never half of one, and never one whose
// events the Sink has not had. A Present holds the machine's lock and shows what is in memory; a View reads the store
// as it was at a moment, however long it takes, and holds up nobody (docs/decisions/0021).
//
// The package owns the order in which a write's errors are found, every rule about sequence, quota and zxid, and the
// cache. It must never know of raft, connections, watches, the clock, randomness or configuration: what an entry does
// depends on the entry and the state before it alone, so that servers with the same log have the same bytes, whatever
// their caches and flushes do.
//
// The state knows the feature level of the ensemble, which an entry raises and nothing lowers. An operation, a flag or
// an entry that this program does not know, or whose level is not reached, stops it before anything is applied.
//
// Invariants: the applied index goes up by whole entries; DurableIndex never exceeds it; the cache holds
// nothing but the present state; znodes that it, a Present, a View or an Event has shown are never changed; the
// counters and the digest in a View are those of all znodes in it; nothing that a request asks makes Apply fail.
//
// A server that is too far behind gets another one's state: Checkpoint copies it there, Restore puts what was received
// into the place of what is running, raftlog.Log.Install makes the log fit, and after a crash in between
// datadir.Dir.FinishInstall does what is left (docs/formats/raftlog.md). A state knows the ensemble that it belongs to,
// by an id and a configuration; it obeys a reconfig, but brings nothing into line with it: that is for who reads the
// results.
//
// Machine.Backup writes a state for another place and time, in a format of its own (docs/formats/backup.md), and
// RestoreBackup makes a new server's data directory of it. Inspect looks at a data directory without a change.
//
// A snapshot of Apache ZooKeeper's that an operator restores comes through the log in pieces, which the state keeps
// beside the tree until the entry that ends them. That entry builds the state that follows in a store of its own, and
// puts it into the place of the present one when it is whole and durable (docs/decisions/0016).
//
// Sub-packages, none of which knows this one: raftlog is the log, entry what it says as bytes, schema what the state is
// as keys and values, datadir whose a data directory is, disk what stores have between themselves and a file system,
// space the room that is left there; acl decides who may do what, ensemble what a configuration is and what a reconfig
// makes of it; zkdata reads and writes the files of Apache ZooKeeper; crashfs is a disk for tests that forgets;
// invariants stops a process that has contradicted itself.
package storage
