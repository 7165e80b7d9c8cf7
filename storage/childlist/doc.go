// Package childlist is the names of the children of a znode as a value, encoded as replies to getChildren have them: a
// reply is a copy of its bytes, and a list with one name more or less shares all but a few kilobytes with the one
// before (docs/decisions/0042).
//
// It owns the form of a List in memory and of the Changes that lead from one to the next. It must never know znodes,
// the state, who reads a list, or how long one is kept.
//
// Invariants: a List is never changed, so any number of goroutines may read one; its names are sorted by their bytes,
// each there once; what has been appended to Changes stays, so that a prefix of them may be read while more are
// appended.
package childlist
