// Package storage is what a zkd server must not lose, and nothing but the folder of it: the log of what was agreed on,
// and the state that follows from it. Each of its rooms imports only those that stand before it here, besides jute.
//
// What comes out the same on every server, whatever it runs on: serverid says by which id a server is known inside, acl
// decides who may do what, ensemble what a configuration is and what a reconfig makes of it, zkdata reads and writes
// what Apache ZooKeeper does; entry is what the log says, as bytes; schema what the state is, as keys and values; apply
// what an entry does to it.
//
// What stands on the disk: disk is what stores have between themselves and a file system, space the room that is left
// there; raftlog is the log, datadir whose a data directory is, and state the state: the Machine that applies entries,
// what shows it to readers, and how another state takes its place.
//
// What takes a state elsewhere: backup in a format of our own, migrate from and to the directories of Apache ZooKeeper,
// inspect for people.
//
// For tests: crashfs is a disk that forgets; invariants stops a process that has contradicted itself.
package storage
