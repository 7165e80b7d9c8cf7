// Package sim runs a whole ensemble in one process, on one goroutine, under a seed.
//
// A run has one to five participants and up to two observers, each with its own in-memory disk, a network between
// them, clients with sessions, and a sequence of faults: members that crash (alone, or all at once) and come back with
// what their disks had synced and any part of what they had not (tear.go), disks and appliers that are slow, disks
// that hang, members that are paused, connections that break, partitions (also in one direction), frames that are
// delayed, dropped, repeated or overtaken, proposers whose clocks are wrong, checkpoints that are sent and cut off,
// disks that are lost, and members that come and go by the reconfigs of clients, in a fifth of the runs down to one
// voter and up again. What a majority has acknowledged is never taken away: group.go keeps count of who can still
// vouch for what. drawn.go counts what was drawn. Who does what next is drawn from one generator of random numbers, so
// that a seed that fails, fails again in the same way. In the end the faults stop, and the ensemble must heal within a
// bound of simulated time.
//
// The package owns the simulated world (queue of events, network, disks, members), a small stand-in for the server
// (connections, watches, expiry), the clients, and the checks. It must never know how the ensemble reaches agreement:
// it sees state.Machine and quorum.Stepper through what they offer to everybody.
//
// What is checked, in every run:
//
//   - every member applies the same entries at the same indexes, with the same results, zxids and digests, and none
//     twice; so what was acknowledged is never lost;
//   - a write takes effect after all that was known when it was proposed; a read after sync shows all that any member
//     had applied when it was asked for: the history of writes and of such reads is linearizable. The same history
//     without zxids is also given to a checker that knows nothing of the log (linear.go);
//   - the writes of a session take effect in order, and those of one connection without a gap;
//   - what a session sees never goes back, wherever it moves;
//   - a watch fires once, for the first change after its registration, before anything that shows the change;
//   - ephemeral znodes are there as long as their session is;
//   - each waiter is told exactly once, and with what is in the log;
//   - in the end all members hold the same state, byte for byte of what Views show, and so does a fresh machine to
//     which the log was applied; every read that was made shows what that machine shows at the same index.
//
// Plants (plant.go) are bugs that a test asks for, to see that each kind of check can fail.
//
// The only randomness that a run does not draw itself is raft's jitter of election timeouts, which comes from
// crypto/rand: a test makes it repeatable with testing/cryptotest. Pebble's background goroutines move files, and no
// decision depends on how far they are, but what is torn when the power fails: such a run may differ from the one
// before.
package sim
