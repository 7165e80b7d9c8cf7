// Package invariants stops the process when the program has proven itself wrong.
//
// A broken invariant is neither a result for a client nor a failure of the machine: the code believed something that
// is not so, and whatever it would write next may be damage. So Violated panics with the values that contradict each
// other, and nobody recovers from it: the process ends, the logs keep the values, and the raft log on disk stays what
// the last fsync made it.
//
// Two prices exist. A cheap check (an index that goes backwards, a term that shrinks, a length that does not match)
// is always on: call Violated behind a plain if. A costly check (walk a whole structure, compare two copies) stands
// inside "if invariants.Enabled", which is a constant: false in a normal build, so that the compiler drops the check,
// and true under the build tag "invariants", which is how tests run.
//
// The package owns nothing and must never know the packages that use it, write a log of its own, or be used for what
// bad input, a bad disk or a client can bring about: those are errors.
package invariants
