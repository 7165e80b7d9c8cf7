package raftlog

import (
	"encoding/binary"

	"zkd/jute"
)

// An imported state, as one that was restored from a backup, counts as the effect of a log entry that never existed, as
// that of an empty server does: this one, one behind the other's, so that a log that begins behind one cannot be taken
// for one that begins behind the other. The raft log is left without a beginning, but with ImportedKey: who makes the
// log begin makes it begin behind this entry then.
const (
	ImportedIndex = 2
	ImportedTerm  = 1
	// ImportedKey is the name among the raft log's blobs of the note of an import or a restore: version byte 1, then
	// the zxid.
	ImportedKey = "imported"
)

// importedVersion begins the note of an import.
const importedVersion = 1

// NoteImport notes in a new raft log that the state is from elsewhere, and its zxid.
func NoteImport(log *Log, zxid jute.Zxid) error {
	return log.SetMeta(ImportedKey, binary.BigEndian.AppendUint64([]byte{importedVersion}, uint64(zxid)))
}
