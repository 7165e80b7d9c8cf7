// Package member is who belongs to a group, and what members tell each other of that: values, without raft's state, a
// disk or a network.
//
// It owns the membership as of an entry of the log, with the incarnations that the log has admitted and those of
// members that are to be added again; what a change makes of both; and how they, the contexts of changes and the hello
// are encoded. It must never know which membership is in force, who is connected, or what should be changed next:
// package quorum keeps the memberships, and decides (quorum/members.go, quorum/rejoin.go, quorum/admit.go).
//
// # Invariants
//
//   - A Membership and all in it are immutable: Changed returns another one.
//   - What a change makes of a membership follows from the two alone, so it is the same on all members as of the same
//     entry.
//   - After says which members raft has after a change, and fails where raft would panic.
//   - A revision that knows nothing of admissions reads a membership with them as one without. What a later one has
//     written is refused.
//   - Who is added returns no more, nor does who is removed for good.
package member
