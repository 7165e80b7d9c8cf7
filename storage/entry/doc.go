// Package entry is what the replicated log says, as bytes: entries, the proposals in them, the bodies of the proposals
// that are zkd's own, and feature levels (docs/formats/entry.md).
//
// It owns the encoding, and which operations and flags there are from which level on. It must never know what a
// proposal does to a state. Everything in it is pure: what is decoded is a view of what it was decoded from.
//
// Invariants: an entry says the level that its proposals need, and one of a higher level than this program knows is
// refused before anything of it is read; what is decoded and encoded again is the same bytes.
package entry
