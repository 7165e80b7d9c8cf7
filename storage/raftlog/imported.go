package raftlog

import (
	"encoding/binary"
	"strings"

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
	// the zxid, and of an import the directories of its snapshots and its logs, with a zero byte between them.
	ImportedKey = "imported"
)

// importedVersion begins the note of an import.
const importedVersion = 1

// Note is what a raft log says of an import or a restore.
type Note struct {
	Zxid jute.Zxid // of the state as it was brought in
	// Dir and LogDir are where the files of Apache ZooKeeper were; "" of a restore.
	Dir, LogDir string
}

// NoteImport notes in a new raft log that the state is from elsewhere.
func NoteImport(log *Log, n Note) error {
	blob := binary.BigEndian.AppendUint64([]byte{importedVersion}, uint64(n.Zxid))
	if n.Dir != "" {
		blob = append(append(append(blob, n.Dir...), 0), n.LogDir...)
	}
	return log.SetMeta(ImportedKey, blob)
}

// ImportNote returns the note, if there is one. log is a *Log or a *LogInspection.
func ImportNote(log interface {
	Meta(key string) ([]byte, bool)
}) (n Note, ok bool) {
	blob, ok := log.Meta(ImportedKey)
	if !ok || len(blob) < 9 || blob[0] != importedVersion {
		return n, false
	}
	n.Zxid = jute.Zxid(binary.BigEndian.Uint64(blob[1:]))
	n.Dir, n.LogDir, _ = strings.Cut(string(blob[9:]), "\x00")
	return n, true
}
