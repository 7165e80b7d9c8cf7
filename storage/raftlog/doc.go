// Package raftlog is the durable log of one raft member: entries, hard state and a few named blobs in a Pebble store of
// their own (docs/formats/raftlog.md).
//
// It owns the store's format, the mark beside it that says how far it was acknowledged, and the verification of the
// write-ahead log at a start, by which a torn write is told from a loss. It must never know what an entry means, nor
// who else there is in an ensemble.
//
// Invariants: what Append has returned for is there after a power cut, or the next Open refuses the store and names the
// file; entries follow one another without a gap; after the first failed write or fsync every write fails; readers see
// only entries that their write has accepted.
package raftlog
