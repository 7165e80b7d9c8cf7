package quorum

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"zkd/storage"
)

// logView shows the raft log to raft. The loop goroutine uses it; the append goroutine writes the log meanwhile, which
// raft allows for: what it has not heard to be stored it keeps itself.
type logView struct {
	log     *storage.RaftLog
	hard    *raftpb.HardState // at the start
	conf    *raftpb.ConfState // at the start
	offer   func() (*raftpb.Snapshot, error)
	scratch []storage.LogEntry
	err     error // the first failure to read, on which raft panics
}

var _ raft.Storage = (*logView)(nil)

// InitialState returns what the node has started from.
func (v *logView) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	return v.hard, v.conf, nil
}

// Entries returns the entries [lo, hi), at least one, as far as their data stays within maxSize bytes.
func (v *logView) Entries(lo, hi, maxSize uint64) ([]*raftpb.Entry, error) {
	entries, err := v.log.Entries(v.scratch[:0], lo, hi, maxSize)
	if err != nil {
		return nil, v.failed("entries", err)
	}
	v.scratch = entries
	out := make([]*raftpb.Entry, len(entries))
	for i := range entries {
		out[i] = raftEntry(&entries[i])
	}
	clear(entries)
	return out, nil
}

// Term returns the term of the entry at index i.
func (v *logView) Term(i uint64) (uint64, error) {
	term, err := v.log.Term(i)
	if err != nil {
		return 0, v.failed("term", err)
	}
	return term, nil
}

// LastIndex returns the index of the newest entry that was written.
func (v *logView) LastIndex() (uint64, error) { return v.log.LastIndex(), nil }

// FirstIndex returns the index of the oldest entry.
func (v *logView) FirstIndex() (uint64, error) { return v.log.FirstIndex(), nil }

// Snapshot returns the metadata of a checkpoint that can be sent, or says that there is none yet and has one made.
func (v *logView) Snapshot() (*raftpb.Snapshot, error) { return v.offer() }

// failed turns the log's errors into the ones that raft knows, and keeps others.
func (v *logView) failed(what string, err error) error {
	switch {
	case errors.Is(err, storage.ErrCompacted):
		return raft.ErrCompacted
	case errors.Is(err, storage.ErrUnavailable):
		return raft.ErrUnavailable
	}
	if v.err == nil {
		v.err = fmt.Errorf("read %s of the raft log: %w", what, err)
	}
	return v.err
}

// raftEntry is e as raft has it; the data is shared.
func raftEntry(e *storage.LogEntry) *raftpb.Entry {
	numbers := [2]uint64{e.Term, e.Index}
	out := &raftpb.Entry{Term: &numbers[0], Index: &numbers[1], Data: e.Data}
	if kind := raftpb.EntryType(e.Kind); kind != raftpb.EntryNormal {
		out.Type = kind.Enum()
	}
	return out
}

// logEntries appends entries to dst as the log has them; the data is shared.
func logEntries(dst []storage.LogEntry, entries []*raftpb.Entry) []storage.LogEntry {
	for _, e := range entries {
		dst = append(dst, storage.LogEntry{
			Index: e.GetIndex(), Term: e.GetTerm(), Kind: uint8(e.GetType()), Data: e.GetData(),
		})
	}
	return dst
}

// stateVersion is the first byte of the hard state and of the membership in the log.
const stateVersion = 1

// hardStateBytes is the size of an encoded hard state: version, term, vote, commit.
const hardStateBytes = 1 + 3*8

// appendHardState adds the encoding of a hard state: the version byte, then term, vote and commit index, 8 bytes each,
// big-endian.
func appendHardState(b []byte, term, vote, commit uint64) []byte {
	b = append(b, stateVersion)
	b = binary.BigEndian.AppendUint64(b, term)
	b = binary.BigEndian.AppendUint64(b, vote)
	return binary.BigEndian.AppendUint64(b, commit)
}

// decodeHardState reads what appendHardState wrote.
func decodeHardState(b []byte) (*raftpb.HardState, error) {
	if len(b) != hardStateBytes || b[0] != stateVersion {
		return nil, fmt.Errorf("hard state %x in the raft log is not of format %d: run a newer zkd", b, stateVersion)
	}
	numbers := [3]uint64{
		binary.BigEndian.Uint64(b[1:]), binary.BigEndian.Uint64(b[9:]), binary.BigEndian.Uint64(b[17:]),
	}
	return &raftpb.HardState{Term: &numbers[0], Vote: &numbers[1], Commit: &numbers[2]}, nil
}
