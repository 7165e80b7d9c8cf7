// Package backup writes a state for another place and time, in a format of its own (docs/formats/backup.md), and makes
// a new server's data directory of it.
//
// It owns the format: blocks with checksums, and an end that proves all of it. It reads a state through a
// state.Reader, of a checkpoint or of a directory that no server runs on, and fills one through a state.Filler. It
// must never know of raft, of servers, or of how a backup travels; server/backup serves it over HTTP.
//
// Invariants: what does not end with its last block is no backup; nothing of a backup is used before all of it was
// proven, and a restore that fails or is interrupted leaves no directory that a server would start from. A restored
// state belongs to no ensemble, and counts nothing on that the other one was counting.
package backup
