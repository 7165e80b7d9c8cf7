// Package faults shows that an ensemble keeps its promises while its servers are killed, stopped, paused, cut off from
// each other, moved, emptied, run out of disk and have disks that hang.
//
// Clients, some on frames of our own and some on go-zookeeper, write, read, compare and swap, create and watch, each
// keeping a record of what it asked, when, and what it was told. A seeded nemesis does to the servers what package
// ensemble can. A request whose reply was lost may or may not have been applied, then or later, and is kept as such.
// A round ends with all servers up; then the records are checked: writes, and sync with the read after it, are
// linearizable (porcupine) and in the order of their zxids; nothing acknowledged is lost on any server; all servers
// hold the same tree with the same Stats; no session sees time run backwards; ephemerals live and go with their
// session; a watch fires once and before what it tells of can be read; names of sequential znodes are unique.
//
// Beside them, clients of roles work on znodes of their own, each role with its own record and its own check:
// pipelines of requests, persistent watches, the lock of go-zookeeper, ACLs, times to live and containers, quotas, and
// large values (roles.go). Both worlds have them, this one's processes and those of compat-tests/simulation.
//
// The package owns: the raw session, the records, the checks. Its checks know nothing of servers or time: each is a
// function of records, and is itself tested with records that lie.
//
// Invariants: every wait has a deadline; what a check could not decide is a violation; a failure prints the seed and
// the schedule, and keeps the servers' logs.
package faults
