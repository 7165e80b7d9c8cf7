// Package limits bounds what clients may ask of a server: requests in flight, new sessions, the length of frames, large
// requests and large reads, as ZooKeeper's settings of those names do; and what they hold of its memory.
//
// It owns the counts, the tokens, the queue of requests and the turns. It must never know a connection, a session or
// what is answered: who waits is a Client, which is asked whether it is still there, and what a limit refuses is
// refused by whoever has asked.
//
// # Invariants
//
//   - What a limit holds back waits on its own goroutine, and is woken by what it waits for.
//   - A limit that is off costs a comparison. Nothing here allocates for a request.
//   - Who needs memory that clients hold waits for a moment at most, and whoever costs most gives way.
//   - What is counted in (Account.Add, InFlight.Begin, Share.Begin, Throttle.Enter, FrameLimits.Take, Turns.Begin) is
//     counted out once.
//   - Who has a turn waits for nobody but the processor and the disk.
//
// # Ownership
//
//	state                            owner
//	what is in flight, large bytes   atomics: InFlight, FrameLimits
//	shares of addresses              Share: atomics; who waits for one, Shares' lock, a leaf
//	the queue of the throttle        whoever is first in it (Throttle.turn)
//	tokens of new sessions           TokenBucket, its lock, a leaf
//	turns of large reads and frames  Turns: a channel
//	connections without a session    Churn, its lock, a leaf
//	memory that is held              Account, its lock, a leaf; the sums are atomics
//	who waits for memory             Memory, the lock of its line, a leaf
package limits
