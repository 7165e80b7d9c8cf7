// Package state is the state of a server, the tree of znodes and the sessions: a deterministic state machine that
// applies the log's entries, in a Pebble store.
//
// The store has no write-ahead log of its own. A crash takes back what was not flushed, and applying the log again from
// AppliedIndex on brings it back; DurableIndex says how much of the log is no longer needed for that. So every write is
// made durable once.
//
// An entry of the log holds proposals: requests as clients sent them, with the session, the identities and the clock of
// the server that proposed them (docs/formats/entry.md). An apply.Txn evaluates them one after the other through an
// overlay of the state, without changing it. Machine.Apply then publishes what they come to in one step: the batch for
// the store, which carries the applied index with the data it covers, the cache, and the results and watch events for
// the Sink. A Present and a View show one state between two entries, never half of one, and never one whose events the
// Sink has not had. A Present holds the machine's lock and shows what is in memory; a View reads the store as it was at
// a moment, however long it takes, and holds up nobody (docs/decisions/0021).
//
// The package owns the store, the cache, and what becomes visible when. It must never know of raft, connections,
// watches, the clock, randomness or configuration, nor why an entry came: what an entry does depends on the entry and
// the state before it alone (package apply), so that servers with the same log have the same bytes, whatever their
// caches and flushes do.
//
// The state knows the feature level of the ensemble, which an entry raises and nothing lowers. An operation, a flag or
// an entry that this program does not know, or whose level is not reached, stops it before anything is applied.
//
// Invariants: the applied index goes up by whole entries; DurableIndex never exceeds it; the cache holds nothing but
// the present state; znodes that it, a Present, a View or an Event has shown are never changed; the counters and the
// digest in a View are those of all znodes in it; nothing that a request asks makes Apply fail.
//
// A server that is too far behind gets another one's state: Checkpoint copies it there, Install puts what was received
// into the place of what is running, raftlog.Log.Install makes the log fit, and after a crash in between
// datadir.Dir.FinishInstall does what is left (docs/formats/raftlog.md). A state knows the ensemble that it belongs to,
// by an id and a configuration; it obeys a reconfig, but brings nothing into line with it: that is for who reads the
// results.
//
// A snapshot of Apache ZooKeeper's that an operator restores comes through the log in pieces, which the state keeps
// beside the tree until the entry that ends them. That entry builds the state that follows in a store of its own, and
// puts it into the place of the present one when it is whole and durable (docs/decisions/0016).
//
// A Reader reads a state from one end to the other: of a store that nobody writes to, as a checkpoint, or as it was at
// one moment, for a scrub. A Filler writes one past all entries, and an ImportState is one that is filled from the
// files of Apache ZooKeeper. Packages backup, migrate and inspect stand on them.
package state
