// Package zkdatatest has a model of an Apache ZooKeeper server for tests, as far as its files show one: a tree that
// transactions of chance change, their log, and snapshots that are written meanwhile; and what real servers have
// written.
package zkdatatest
