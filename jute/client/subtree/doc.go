// Package subtree goes through what is below a znode, writes it down, and makes it again: for the shell, and for the
// console.
//
// It owns the order of a walk, how much is asked for ahead, the form of an export (lines of JSON), and how much goes
// into one multi. It must never know a terminal, a file or a browser: it is given a session, readers and writers. Its
// invariants: a walk holds the names of the children on the way to where it is, and no more; what goes meanwhile is
// passed over; an export is read as it was written, whatever bytes values have.
package subtree
