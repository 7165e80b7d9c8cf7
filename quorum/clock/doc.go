// Package clock is the time of everything above storage: an interface, the machine's own clock, and one that tests move
// by hand.
//
// It owns no state of the server. It must never know who asks it. Code that measures or waits takes a Clock and calls
// nothing of package time but its types and arithmetic, so that a whole cluster can run in simulated time.
//
// Invariants: Now never goes backwards as Sub and Since see it (the real clock's readings are monotonic); a timer or
// ticker never fires before its time; a channel of either holds one value, and what is not taken in time is dropped, as
// in package time.
package clock
