// Package traffic counts who does what: requests by operation, by path and by client, with their bytes, failures,
// latency, watches and the time that their writes take to be applied, and the slowest requests with their phases. It
// answers for windows of the last seconds (docs/decisions/0045-who-does-what.md).
//
// A Meter belongs to one connection. Its reader counts an answer in memory that nobody else touches, and hands a run of
// equal ones over at the end of each batch, under a lock that is the connection's alone. Once a second the Recorder
// collects what connections have counted, so operations and clients are counted exactly. Paths are sampled: each
// request is taken with a probability of one in Window.Every, a power of two that follows the load so that about a
// thousand are taken a second; one that moves much is always taken. Nothing here is shared by all requests but two
// words that they read, and that change once a second.
//
// What is counted by path or client is kept in space-saving sketches (Metwally, Agrawal, El Abbadi: "Efficient
// computation of frequent and top-k elements in data streams", 2005): as many entries as there is room for, and for
// each entry how much of it may have been missed.
//
// The package must never know connections, the state or HTTP: it is told, and it is asked.
//
// # Invariants
//
//   - Counting never waits but for locks that are held for a microsecond or less, allocates nothing for an answer that
//     is not sampled, and never fails.
//   - Memory does not grow with the number of paths and clients: the numbers of entries, the lengths of paths and the
//     number of frames are bounded by constants.
//   - A frame that is sealed never changes, so a Window is made of frames without a lock.
//   - An entry's requests are never more than those that were seen, and what it may lack is at most Missed.
//
// # Ownership
//
//	state                              owner
//	runs, random numbers               the connection's reader
//	sheets, counts of notices          the meter's lock, a leaf
//	the present frame, free sheets     Recorder.mu, a leaf
//	meters to look at                  Recorder.active, a leaf
//	sealed frames, totals              Recorder.kept, a leaf
package traffic
