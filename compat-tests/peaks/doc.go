// Package peaks measures how much memory a server takes at most while clients do to it what needs much: sessions that
// own hundreds of thousands of ephemerals and end, the longest multis, large values, lists of a large znode, setWatches
// of all that a client watches.
//
// It owns the cases and their bound, which is what decision 9 promises; the server is compat-tests/target's. It must
// not know how the server keeps its memory: the kernel is asked. ZKD_PEAKS_SCALE=1 runs all cases whole; without it
// those that take long have a twentieth of their size, which the same bound must hold for.
//
// Invariants: each case has a server of its own, and its peak (VmHWM) is counted from the end of its preparation on.
package peaks
