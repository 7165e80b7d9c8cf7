// Package process starts servers on temporary directories, pauses and ends them, asks what they are, and reads from
// /proc what they and their children use, and what was written to their disk. It can make that disk slower
// (docs/decisions/0043-a-disk-as-slow-as-wanted.md). The load generator and the compatibility tests stand on it.
//
// It knows how to run a command line with the path of a zoo.cfg in it, how to fetch and run Apache ZooKeeper, and
// when a server serves. It knows nothing of loads and tests. Its invariants: every process that it starts is in a group
// of its own and is killed with the group, at the latest by Stop; every wait has a deadline.
package process
