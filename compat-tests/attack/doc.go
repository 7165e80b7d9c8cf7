// Package attack does to a server what a hostile client or a stranger on the network would, beside a healthy client
// that writes and reads every ten milliseconds, and says what that client, the server's memory and its disk noticed:
// before, during and after. The same is done to zkd and to Apache ZooKeeper, and one table shows both (Rows: as it
// stands in docs/security.md).
//
// An Attack is a row: a name, the server's settings, what is prepared and what is done. What attackers are refused is
// no failure: it is counted (Field.Cut) or noted (Field.Note). ZKD_ATTACK_SCALE is the size of everything, 1 for those
// of docs/security.md. Without it a hundredth runs, against zkd alone, and only what is not a time is demanded: what
// the healthy client has written is there, others are served afterwards and after a restart, memory stays below its
// bound.
//
// It owns the attacks, the healthy client, the measurement and the table. It must never know how a server is built: it
// sees ports, files and processes, as compat-tests/target starts them.
//
// Its invariants: every loop is bounded, by a number or by the time of the attack; everything stays on the loopback
// address; the healthy client is a process of its own, and counts from when it has sent to when the kernel has the
// answer, so that the attackers' use of the processors counts as little as can be.
package attack
