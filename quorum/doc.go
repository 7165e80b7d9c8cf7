// Package quorum makes a group of servers agree on one order of writes, and has each server apply them in that order.
//
// It owns the raft node (go.etcd.io/raft), the way of proposals to the leader, the read index, what the raft log keeps,
// the membership, and the checkpoints that members get who are too far behind. It must never know the client protocol:
// a proposal is bytes and somebody who waits. What it calls is small and declared here: the Machine that entries are
// applied to, the Observer and whoever proposes (batcher.Waiter), who are told, the Transport and the SnapshotSender to
// other members. A single server is a group of one on the same path as any other group; it has neither of those two.
//
// # Life of a write
//
// Propose encodes the proposal into the open batch, under one short lock, and puts its waiter beside it. When no append
// of this leader is on its way to disk, the loop takes all batches and gives each to raft as one entry; until then they
// wait (quorum/batcher). raft's answer is two messages, to the append goroutine (write, fsync) and, when the entry is
// committed, to the apply goroutine (Machine.Apply). While the machine publishes an entry it calls back for each
// result: first the Observer, then the waiter. An entry names the process and the batch that it comes from, so the
// apply goroutine finds the waiters of all its proposals with one look, in order. No goroutine, channel or allocation
// belongs to a single proposal.
//
// A member that does not lead sends its batches to the leader instead, in a stream (forward.go), with at most two on
// their way. The leader proposes them together with its own. Each member applies the entry, and the one that filled it
// tells its waiters.
//
// # Elections
//
// raft's pre-vote and check-quorum are on. When the connection to the leader breaks, the voters campaign at once, in
// the order of their ids, and do not wait for raft's timeout: two round trips and two fsyncs later there is a leader
// (election.go). A leader whose connections to a majority stay broken for some ticks, or break because the others
// stop, steps down. One that stops transfers the leadership before (transfer.go). Who refuses a vote says which entry
// is committed: it may be the only one to know that a change of membership is.
//
// # Disks that hang
//
// The loop does not wait for the disk, and counts how long it does not answer. A leader proposes on as long as the
// others commit, and transfers the leadership after two election timeouts; a member whose disk hangs does not campaign
// (stall.go). A leader whose disk is for long much slower than those of a majority transfers the leadership, too
// (slowdisk.go). Entries that the log does not have in memory are read by the read goroutine, to be sent, or by the
// apply goroutine, to be applied (uncached.go).
//
// # At rest
//
// A member that stops as it was asked to writes down what it knows to be committed, so that an export or a backup of
// its directory can tell what was acknowledged from what never came to be (rest.go).
//
// # Ownership
//
//	state                                      owner                       how others reach it
//	raft.RawNode, leadership, membership       the loop goroutine          its mailboxes and one wake-up signal
//	writes of entries and hard state           the append goroutine        a mailbox
//	the machine, applied entries, barriers     the apply goroutine         a mailbox
//	flushes by time, compaction of the log     the compactor goroutine     a signal; atomics of retention
//	checkpoints being made or sent             the checkpointer goroutine  a mailbox
//	reads of old entries for other members     the read goroutine          a mailbox, one at a time
//	frames and requests not taken yet          the inbox's lock            Receive and others, the loop
//	batches that fill, wait or are proposed    the batcher's lock          Propose, the loop, the apply goroutine
//
// A mailbox never blocks who puts, and none of these goroutines waits for another one: what takes more than one of them
// (a change of membership, the install of a snapshot) is handed from mailbox to mailbox. So tests run all parts on one
// goroutine, in any order. Only the goroutines that read from other members wait, when the loop has not taken 16
// MiB of that member's frames. At a stop the append goroutine ends behind the loop and the apply goroutine, and writes
// what they have left for it.
//
// # The loop and its components
//
// The loop takes what comes and drives raft (loop.go, peers.go, propose.go, install.go). What else there is to do has a
// component each, a type with fields that nobody else writes, on the loop goroutine. All share the facts (facts.go),
// which the loop writes, and the members among them. Whom else a component asks, and what it has done to raft, the log
// or other members, it is handed when the loop is built (connect.go). None waits for anything.
//
//	members         who belongs to the group, and changes of that (members.go)
//	admission       whose messages count, and who is admitted next (rejoin.go, admit.go, bootstrapchoice.go)
//	reconfiguring   what a reconfig makes of the group (reconfigure.go, addresschange.go)
//	leaving         who is out of the configuration, and stays for its clients (leaving.go, docs/decisions/0039)
//	inForce         when a reconfig is in force here, for who has asked for it (inforce.go)
//	checkpoints     the state for members that are too far behind (checkpoint.go, backoff.go)
//	retention       what the log keeps (retention.go)
//	election        who leads, soon (election.go)
//	transfer        the leadership transfer (transfer.go)
//	readIndex       barriers (readindex.go)
//	forwarding      batches on their way to the leader (forward.go)
//	levels          the feature level (level.go)
//	comparison      sums of the members' states (compare.go)
//	counting        pieces of counts while nobody writes (counting.go)
//	uncachedReads   old entries for members that are behind (uncached.go)
//	sender          raft's messages (send.go, large.go)
//	health          disks that hang or are slow (stall.go, slowdisk.go)
//	spaceControl    what the space on the disks leads to (spacecontrol.go)
//	clocks          the members' clocks, and the time of writes (clocks.go, clockskew.go, timestamps.go)
//	voterWatch   why there is no leader (missingvoters.go)
//	commitWatch  whether what this leader proposes is committed (commitwatch.go)
//	status          what is published of all that (state.go, status.go)
//
// # Invariants
//
//   - A waiter is told exactly once: Applied by the apply goroutine, or Dropped.
//   - Nothing is acknowledged before the entry is on disk (of a majority) and applied here, nor after an append, an
//     fsync or an Apply has failed: such an error stops the node for good.
//   - Entries are applied in order, each once after a start: from the machine's applied index on.
//   - What a proposer gave before another of the same goroutine is applied before it.
//   - An entry is never applied after one of a later term, and a leader takes forwarded batches for its own term only.
//     So when an entry of a term is applied, every batch that was proposed or forwarded in an earlier one and is not
//     applied never will be: it is taken again, before what came after it, and nothing of a later term is proposed
//     before that is settled. A write is dropped only if the node stops, if there is no leader for long, or if a
//     snapshot takes its entry's place.
//   - The leader takes a member's batches in the order of their numbers, each once. A gap is only possible behind
//     batches that were given up, and then nothing before the gap is taken any more.
//   - The log is forgotten only up to what is durable in the state and what raft knows to be applied. What members or
//     checkpoints need is kept within Options.RetainBytes, by all members alike (retention.go); beyond that it is
//     forgotten, whoever needs it. The membership on disk is never older than the durable state.
//   - A member that fails to take a checkpoint is sent the next one later, each time twice as late (backoff.go).
//   - A change of membership that comes with a proposal is in force on a member if and only if the proposal came out
//     well.
//   - A member that is not in the configuration has no vote, but until those who stay can decide without it, and is
//     one for no longer than Options.RemovedGrace, as each leader counts it.
//   - From feature level 2 on only incarnations that the log has admitted count, by the membership of who counts
//     (admit.go, docs/decisions/0018). A member whose disk was emptied does not vote, nor acknowledge anything, before
//     it has been added anew (rejoin.go).
//   - A member without data takes part in the bootstrap without data or gives way to data, and never does both,
//     however often it is started (bootstrapchoice.go, docs/decisions/0029).
//   - No write is proposed before the founders' incarnations are in the membership.
//   - The commit index on disk may be old: it is written with the next append. At the start it is raised to what is
//     applied, and a new leader finds out the rest.
//   - The leader gives writes their time. Times do not go back from entry to entry, but by more than a minute, when the
//     clock of an earlier leader was ahead (timestamps.go).
//   - A read index is asked for only by a leader that has committed an entry of its own term. (raft answers a single
//     member at once, with whatever commit index it has.)
//   - The feature level goes up when all members can do more, and never down. What needs a level is proposed when the
//     group is at it, so no member meets an entry that it cannot read; if one does, it stops before it has stored it.
//   - What waits is bounded: proposals by MaxOutstandingBytes, beyond which Propose blocks, queued; entries that are
//     applied by maxApplyingBytes, those without data by headsMax; frames by maxInboxBytes for each member; forwarded
//     batches by maxForwardedBytes; entries that were read for members that are behind by chunksBytesMax.
//   - An entry without its data is sent to nobody and applied nowhere. Entries that were read are sent if the log's
//     terms say that they are in it still.
//   - Time, randomness and disk are handed in. (raft draws the jitter of its election timeouts from crypto/rand
//     itself.)
//
// # Comparing states
//
// The leader has all members take the sums of their states at one place of the log, and believes most of them; who
// differs stops (compare.go).
//
// # On disk
//
// In the raft log, beside the entries: the hard state (version byte 1, then term, vote and commit index, 8 bytes each)
// and the blobs
//
//	membership   version byte 1, 8 bytes index of the entry that made it so, then raftpb.ConfState in protobuf, with
//	             the admissions (member.Admissions) as its field 1000, which older revisions skip
//	installing   version byte 1, 8 bytes term of the snapshot's entry, then a membership as above: a snapshot is being
//	             installed (install.go)
//	incarnation  version byte 1, 8 bytes drawn on the first start (rejoin.go)
//	peers        version byte 1, then id and incarnation of each other member that was met, 8 bytes each
//	level        version byte 1, the highest feature level that an entry of the log has needed, 2 bytes (level.go)
//	time         version byte 1, 8 bytes of milliseconds since 1970: the newest time in the log of who has sent the
//	             snapshot that was installed last (timestamps.go)
//	compacted    the same of the entries that the log has forgotten since then: the time of the last one that was
//	             applied when it last forgot some
//	founding     version byte 1, then the id of the cluster that imported data founds, 16 bytes
//	gaveway      version byte 1: this member, which has nothing, has given way to imported data (bootstrapchoice.go)
//	admitted     version byte 1, then 1 if the group was founded with incarnations: it has taken in this member, which
//	             had nothing
//
// Integers are big-endian. The log of a new group begins behind entry 1, of term 1, which does not exist; that of a
// member that joins a group is empty until a snapshot comes.
//
// # Between members
//
// Frames have a kind, a byte, and a body: frames.go. They may be lost, doubled and reordered. Entries and forwarded
// batches are sent in order, and all else may pass them (large.go, docs/decisions/0030). The answers that raft
// counts have the incarnation of who sends them in the field vote, which raft does not use in them. A snapshot has the
// admissions as its data.
package quorum
