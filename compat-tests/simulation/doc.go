// Package simulation runs whole ensembles of zkd under a seed: server/sim's world of complete servers, with the clients
// and the checks of compat-tests/faults.
//
// A Plan says all that is decided in a run: how the ensemble is made and configured, who its clients are, and each Deed
// that befalls it, at its time. Draw draws one from a seed. Play plays it in a bubble of testing/synctest and returns
// what was seen. The same plan comes out the same way, to the last line of the servers' logs, in a program that is
// built with the overlay of server/sim/goruntime; Runner builds that program and runs each plan in a process of its
// own, so that nothing is left of the one before. Shrink makes a plan that fails smaller, by leaving out what it can.
//
// A Knob is a limit in the sources, as the size of a batch or of a cache, that a plan may set to another value. A Plant
// is a bug that a run is to have, to see it found. Both are patches of the sources, which have no hooks; plants are no
// part of the program that plays plans without one.
//
// In some plans an operator changes the membership meanwhile, on a goroutine of his own: what he does to machines he
// has done on that of the world. What he was told last is what all members must know in the end.
//
// Some plans are upgrades: all servers begin as the version before, whose sources are taken from the history and built
// into the same program under other names, and become servers of the present one while all else goes on.
//
// The package owns plans, how they are played and made smaller, and what is counted. How a server works it must never
// know, but for the plants and the knobs: it sees what clients and operators see.
//
// Invariants: what a majority has acknowledged is never taken from it: a disk is lost, or goes back, only while all
// others have theirs and their votes, and no reconfig is under way. A server ends by itself only if its disk has
// failed, hangs, or lacks something. When all is mended, and while one fault stays that an ensemble must bear, each
// client's writes go on within a bound of simulated time, and nothing that a server keeps grows beyond its bound.
package simulation
