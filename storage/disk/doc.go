// Package disk is what the stores of zkd have between themselves and a file system: it does what Pebble leaves to its
// user.
//
// A Fault remembers the first failure of a store's disk and makes it final (what befalls all of a disk is told of once,
// by the first of the stores that share an Outage), a FenceFS lets nothing through to the directory once it is set,
// puts deletions off until the store was found whole, finds damage of blob files before Pebble does, and counts the
// operations, so that a disk that hangs shows. A store with a damaged MANIFEST, or without a blob file that it names,
// is refused before Pebble opens it. Compactions run one at a time, and none before they are released. Beside these
// there are the small things that whoever keeps files needs: names made durable, directories moved, a file system that
// refuses every change, and the share of a small volume that a store may take.
//
// The package must never know which store it serves, nor what is in it.
//
// Invariants: after the first failed write, fsync or rename nothing reaches the directory any more, and whoever is told
// that something is durable has looked at the fault first; a store that turns out incomplete still has all files that
// it was opened from.
package disk
