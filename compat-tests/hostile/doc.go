// Package hostile makes what a hostile network sends: real requests that are damaged, and connections that never finish
// their handshake.
//
// A Mutator takes recorded requests and changes bits, numbers, lengths and order, from a seed. It is used where the
// ports are: by server.TestHostileClients and quorum/transport.TestHostilePeers, which run under the race detector and
// count goroutines, memory and descriptors. The test of this package is of the whole process: thousands of connections
// that say nothing, and a client that works beside them.
//
// An Updater is a client of TLS that updates its keys as often as it likes, for server.TestKeyUpdates and its like.
//
// PeerStreams are what strangers send to the ports for servers, for server/instance.TestHostileStreams.
//
// It owns the mutations, the reading of the captures (jute/testdata) and the settings of an attack. It must never know
// what a server makes of the frames: what is asked is only that it goes on.
package hostile
