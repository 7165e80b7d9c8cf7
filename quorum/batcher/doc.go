// Package batcher collects the proposals of a member into batches, each of which becomes one entry of the raft log, and
// remembers who waits for what.
//
// It owns the batches from the first proposal of one until its waiters are told, the barriers until the loop takes
// them, the bound of what is outstanding, and the queue of the proposers that meet it. It must never know raft's state,
// who leads, nor what a proposal says: package quorum takes batches, proposes or forwards them, and says what came of
// them.
//
// # Life of a batch
//
//	open       proposals are added (Add), each with who waits for it; at most one batch is
//	full       it waits for the loop: it has its size, or what comes next must be alone
//	proposed   the loop has taken it (Take), and proposes it in a term, or forwards it to the leader of that term
//	claimed    its entry is about to be applied (Claim): the apply goroutine tells its waiters
//	free       it is answered (Release), and its buffer is used again
//
// A batch goes back from proposed to full if it was not proposed after all (PutBack), or if an entry of a later term
// has come before its own, which then never will (Claim). Abandon takes all that is not claimed, to be dropped.
//
// Any goroutine may call a Batcher. A batch belongs to who has taken or claimed it, but for what Claim reads of it:
// Number and Term.
//
// # Invariants
//
//   - A batch becomes full, is taken, and is taken again in the order of the numbers: what a goroutine proposes is
//     proposed in its order.
//   - The batches that are proposed are of one term. Nothing is taken in a term while what was taken in another one is
//     undecided: it may be applied yet, or goes first.
//   - No allocation belongs to a single proposal: batches, their buffers and lists of waiters are used again, but for
//     buffers that are large, or that the transport has kept.
//   - What is outstanding is bounded by Options.MaxOutstandingBytes and one proposal beyond it. Who waits for room is
//     let in first come, first served, and each waits once.
//   - After Refuse nothing is taken any more; the channel that it returns is closed once all that was taken is
//     answered.
package batcher
