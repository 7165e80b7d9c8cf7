// Package bench loads a server of the ZooKeeper protocol and says what it did and what that cost: throughput,
// latencies, errors, the server's CPU time per request, its memory and what its disk was written. Compare does it to
// two servers in turn, whole runs or short slots of one, and to one without a state as the limit, and puts the ratios
// together; WriteMarkdown makes a table of them.
//
// A load is named (Loads) and shaped by Options. The closed loads keep a fixed number of requests outstanding on each
// connection, one goroutine a connection, which reads all replies that have come, records them, and answers with as
// many new requests in one write: the client stays cheap, so that the server is what is measured. The paced load is
// open: requests are due at even intervals whatever the server does, and latencies count from when they were due. The
// others look at memory (idle, watches, million), at the delivery of events (fanout) and at restarts (million). What
// delete deletes is made before, and when a connection has nothing left the measurement ends. On an ensemble
// connections are spread over all servers; beside reads on the followers alone, and failover ends the leader. listing
// is about what one greedy client costs another.
//
// The package owns: the loads, their recording, the results, the tables. It must never know what kind of server
// it loads: a Target is addresses, two functions that read its usage and restart it, and who leads and how to end it.
// Of the module it imports the codec only, so that nothing of the server under test can leak into the measurement.
//
// Invariants:
//
//   - Everything is bounded, in time and in number: Options.Validate has the limits, and a connection whose server
//     has gone silent fails at its deadline.
//   - A latency ends when the kernel has the reply for the connection's socket (client.Conn.Lag), where it says when
//     that was: what a busy load waits after that, for its own turn to read, is not the server's.
//   - A reply counts for the interval that it belongs to: when it came in a closed load, when its request was due in
//     an open one. Nothing of the warm-up counts.
//   - Data is random, so that a server that compresses gains nothing from it.
//   - A figure that is not known is absent from a table and from JSON, never 0.
//
// Sub-packages: process starts servers, on a slower disk if wanted, and reads their usage; null is the server without a
// state. The connection is package jute/client.
package bench
