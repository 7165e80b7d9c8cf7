// Package liveness knows which sessions have been heard of lately, and says which have not.
//
// A Tracker owns, for every session it is told of, its timeout and when it was last heard, in buckets of the server's
// tick as org.apache.zookeeper.server.ExpiryQueue has them. It must never know what a session is otherwise: not its
// connection, its znodes or its password, nor how the end of a session is agreed on. It is told that a session exists
// (Add), was heard (Touch) and is gone (Remove), and hands those that were silent for too long to Expire, once each.
// One that is heard before its end is proposed goes on (Silent): the ends of many wait for each other, and for a disk.
//
// In a group every server has a tracker of all sessions, but only the leader's expires (Lead). The others report
// (Follow): each half tick they hand the sessions whose clients they have heard since the last report to Report, which
// brings them to the leader's TouchAll. So the leader's clock decides, and hears of a client half a tick late at most.
// Whose write is forwarded to the leader was heard, too, and so was whose write it applies: the leader is told at once
// (TouchAll, Touch), for a server that is cut off, then paused before its next report would else cost a session that
// has just had a write acknowledged; and the leader itself may apply late, on a slow disk, what the others commit.
//
// What a lost report costs: a client pings at least every third of its timeout T, so what the leader knows of it is
// never older than T/3 plus half a tick. If reports are lost silently for a time L, it may grow to T/3 + L + half a
// tick, and a live session expires early only if that exceeds T: L > ⅔T - ½tick, at least 0.8 ticks as T is two ticks
// or more. Loss that the sender notices (Report returns false) costs nothing once the way is back, as what was heard
// meanwhile and in the tick before is reported then; and a server that does not reach its leader for longer than its
// grace closes its connections, so that the clients report themselves elsewhere by coming back.
//
// Invariants:
//
//   - A tracker that does not lead expires nobody, and one that begins to lead gives every session its full timeout.
//   - Never early. A session is not handed out before its timeout has passed since it was last heard, on the clock of
//     the tracker; and when it is, the deadline ((heard + timeout) / tick + 1) × tick has passed.
//   - A touch is one atomic store. The session stays in its bucket; only when the bucket is due is it looked at, and
//     moved to where it belongs by then. So each session is moved at most once in a timeout, however often it is heard.
//   - The tracker's clock stands still while the server does. Its goroutine wakes at a steady beat; a beat that comes
//     much later than planned means that the process was stopped (SIGSTOP, a paused virtual machine, a machine without
//     a free processor), and what its clients sent meanwhile lies unread. The gap is not counted against anybody, and
//     nobody is handed out until one tick after it, in which the server reads what has come. ZooKeeper expires sessions
//     in that case. It stands still as well while the leader cannot commit anything (Halt), without the tick at the
//     end: over slow lines that comes and goes, with less than a tick between, and no session would end. The tick is
//     given if the process was stopped meanwhile.
//
// Ownership: one lock guards the sessions and buckets; a session's last time is atomic; one goroutine, the tracker's,
// calls Expire.
package liveness
