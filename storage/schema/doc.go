// Package schema is the keys and values of the state (docs/formats/state.md): znodes, sessions, counts of quotas, what
// there is once, and the sums that stand for a whole state.
//
// It owns their bytes, the names of the znodes below /zookeeper, and what follows from a znode alone: its Stat, its
// part of ZooKeeper's digest and of the sums, whether it may expire. It must never know a store, nor what an entry
// changes. Everything in it is pure.
//
// Invariants: the keys of the children of one parent stand side by side, and apart from their own children; a value
// that is decoded and encoded again is the same bytes; what cannot be read is ErrDamagedValue, and never a guess.
package schema
