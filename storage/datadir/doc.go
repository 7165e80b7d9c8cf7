// Package datadir is a data directory of zkd: whose it is, its lock and its marks, and how another state takes the
// place of the one that is in it.
//
// It owns the names in the directory and beside the state, and the order in which they are made and made durable. It
// must never know what the raft log and the state hold.
//
// Invariants: nothing is changed in a directory that is refused; a crash at any moment leaves directories that the next
// start opens, or an import or restore that is begun anew; a state that was replaced is whole, or the one before is
// still there.
package datadir
