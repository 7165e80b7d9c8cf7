// Package quorum makes a group of servers agree on one order of writes, and has each server apply them in that order.
//
// It owns the raft node (go.etcd.io/raft), the batching of proposals, the read index, what the raft log keeps, and the
// membership. It must never know the client protocol: a proposal is bytes and somebody who waits. What it calls is
// small and declared here: the Machine that entries are applied to, the Waiter and the Observer that are told, the
// Transport to other members. A single server is a group of one on the same path as any other group; it has no
// Transport.
//
// # Life of a write
//
// Propose encodes the proposal into the open batch, under one short lock, and puts its waiter beside it. When no append
// of this leader is on its way to disk, the loop takes all batches and gives each to raft as one entry; until then they
// gather. raft's answer is two messages, to the append goroutine (write, fsync) and, when the entry is committed, to
// the apply goroutine (Machine.Apply). While the machine publishes an entry it calls back for each result: first the
// Observer, then the waiter. An entry names the process and the batch that it comes from, so the apply goroutine finds
// the waiters of all its proposals with one look, in order. No goroutine, channel or allocation belongs to a single
// proposal.
//
// # Ownership
//
//	state                                      owner                     how others reach it
//	raft.RawNode, leadership, membership       the loop goroutine        its mailboxes and one wake-up signal
//	writes of entries and hard state           the append goroutine      a mailbox
//	the machine, applied entries, barriers     the apply goroutine       a mailbox
//	flushes by time, compaction of the log     the keeper goroutine      a signal
//	batches that fill, wait or are proposed    the gatherer's lock       Propose, the loop, the apply goroutine
//
// A mailbox never blocks who puts: no two of these goroutines can wait for one another in a ring. Only the apply
// goroutine waits for the loop, for a change of membership, and the loop waits for nobody.
//
// # Invariants
//
//   - A waiter is told exactly once: Applied by the apply goroutine, or Dropped.
//   - Nothing is acknowledged before the entry is on disk (of a majority) and applied here, nor after an append, an
//     fsync or an Apply has failed: such an error stops the node for good.
//   - Entries are applied in order, each once after a start: from the machine's applied index on.
//   - What a proposer gave before another of the same goroutine is applied before it.
//   - An entry is never applied after one of a later term. So when an entry of a term is applied, every batch that was
//     proposed in an earlier one and is not applied is lost, and dropped.
//   - The log is forgotten only up to Machine.DurableIndex. The membership on disk is never older than the durable
//     state.
//   - The commit index on disk may be old: it is written with the next append. At the start it is raised to what is
//     applied, and a new leader finds out the rest.
//   - A read index is asked for only by a leader that has committed an entry of its own term. (raft answers a single
//     member at once, with whatever commit index it has.)
//   - What waits is bounded: proposals by MaxOutstandingBytes, beyond which Propose blocks, in line; entries that are
//     applied by maxApplyingBytes.
//   - Time, randomness and disk are handed in. (raft draws the jitter of its election timeouts from crypto/rand
//     itself.)
//
// # On disk
//
// In the raft log, beside the entries: the hard state (version byte 1, then term, vote and commit index, 8 bytes each)
// and the blob "membership" (version byte 1, 8 bytes index of the entry that made it so, then raftpb.ConfState in
// protobuf). Integers are big-endian. The log of a new group begins behind entry 1, of term 1, which does not exist.
package quorum
