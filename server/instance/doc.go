// Package instance is the life of a server: it opens the stores, the node and the ports that a configuration asks for,
// serves, and closes all of it, the last first.
//
// It owns what turns the configuration (package conf) into the options of storage, quorum and server, the order in
// which they are opened and closed, the ports for clients, for operators and for metrics, the scrubs of the state, and
// the audit log's sink. What it is handed is a World: the clock, the file system of the data, the files that the
// operator names, the network, randomness, and figures of the process. It must never reach for one of these itself, nor
// for flags, signals, the environment or the collector's settings, which are the affair of cmd/zkd: so that tests and
// simulations run the servers that operators run. No package below imports it.
//
// # Life
//
// Open opens everything; what it has opened before a failure it closes. Run serves until its context ends or a part of
// the server fails for good. Close stops what runs, within a bound. There are goroutines of an Instance between Open
// and Close alone.
package instance
