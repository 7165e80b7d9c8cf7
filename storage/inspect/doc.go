// Package inspect looks at the data directory of a server that does not run: its raft log, its state, what takes the
// room, and in what two states differ. It changes nothing, so a directory may be a copy, or on a disk that is mounted
// read-only.
//
// It owns the words in which operations and differences are told. It must never know how they are shown; data and
// passwords are secrets, of which it gives lengths and checksums.
//
// Invariants: no file is written, made or removed; what a start would refuse is refused; damage is an error, never a
// difference.
package inspect
