// Package migration proves that zkd takes the place of an Apache ZooKeeper server, data and sessions included, and that
// the way back is open: directories that real servers of several versions have written are imported, a walk over every
// znode gives the same answers before and after, clients keep their sessions, and the real server starts from what zkd
// exports.
//
// It owns what it fills the servers with, and the walk; it knows nothing of how zkd keeps its data.
package migration
