// Package sim is a world in one process: complete servers, as zkd runs them, on machines that are simulated: their
// disks, clocks, networks and randomness.
//
// A World owns the machines and what befalls them. A Server is one of them: it starts server/instance on its disk, is
// killed, loses its power, its disk or its time. Who uses the servers, and what must hold, the package must never know:
// that is compat-tests/simulation.
//
// A server may be of the version before, in a program that is built with its sources, too.
//
// All of it runs inside one bubble of testing/synctest: time passes when everybody waits. Built with the overlay of
// server/sim/goruntime, a run is repeated by its seed, to the last line of each server's log.
//
// Invariants: what a server does after it was killed is seen by nobody, neither on its disk nor on the network; what a
// disk has synced is there after the power was cut, unless it was told to lie or to misdirect a write, or was restored.
package sim
