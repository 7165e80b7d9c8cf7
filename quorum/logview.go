package quorum

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"zkd/storage/raftlog"
)

// logView shows the raft log to raft. The loop goroutine uses it, and does not wait for the disk; the append goroutine
// writes the log meanwhile, which raft allows for: what it has not heard to be stored it keeps itself.
type logView struct {
	log      *raftlog.Log
	hard     *raftpb.HardState // at the start
	conf     *raftpb.ConfState // at the start
	offer    func() (*raftpb.Snapshot, error)
	leads    func() bool // raft leads at this moment
	uncached uncached
	applying bool // raft is asked for what is to be done: committed entries are all that it reads
	missed   bool // the answer before was that entries, which are yet to be read, are not there
	scratch  []raftlog.LogEntry
}

var _ raft.Storage = (*logView)(nil)

// InitialState returns what the node has started from.
func (v *logView) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	return v.hard, v.conf, nil
}

// Entries returns the entries [lo, hi), at least one, as far as their data stays within maxSize bytes. Those that would
// have to be read from the disk raft needs for one of three things, and gets different answers: to have them applied,
// when it gets them without data; to look for changes of membership among them before it campaigns, when their kinds
// are enough; or, if it leads, to send them, when it gets them once they were read.
func (v *logView) Entries(lo, hi, maxSize uint64) ([]*raftpb.Entry, error) {
	v.missed = false
	entries, found, err := v.log.RecentEntries(v.scratch[:0], lo, hi, maxSize)
	if err != nil {
		return nil, logError(err)
	}
	if found {
		v.scratch = entries
		out := raftEntries(entries)
		clear(entries)
		return out, nil
	}
	if v.applying {
		return v.heads(lo, min(hi, lo+headsMax))
	}
	if !v.leads() {
		return v.heads(lo, min(hi, lo+scanHeadsMax))
	}
	if out := v.uncached.take(lo, hi, maxSize); out != nil {
		return out, nil
	}
	// raft asks for a snapshot now, or lets it be; to any other error it has no answer but to panic.
	v.uncached.want(lo)
	v.missed = true
	return nil, raft.ErrCompacted
}

// heads returns the entries [lo, hi) without data.
func (v *logView) heads(lo, hi uint64) ([]*raftpb.Entry, error) {
	heads, err := v.log.Heads(v.scratch[:0], lo, hi)
	if err != nil {
		return nil, logError(err)
	}
	v.scratch = heads
	out := withoutDataAll(heads)
	clear(heads)
	return out, nil
}

// read is Entries for the start, which waits for the disk.
func (v *logView) read(lo, hi, maxSize uint64) ([]*raftpb.Entry, error) {
	entries, err := v.log.Entries(nil, lo, hi, maxSize)
	if err != nil {
		return nil, fmt.Errorf("read entry %d of the raft log: %w", lo, err)
	}
	return raftEntries(entries), nil
}

// scanBytes is how much of the log scan reads at once.
const scanBytes = 1 << 20

// scan calls do with all entries from next on, some at a time. It is for the start, as read is.
func (v *logView) scan(next uint64, do func(entries []*raftpb.Entry) error) error {
	last := v.log.LastIndex()
	for next = max(next, v.log.FirstIndex()); next <= last; {
		entries, err := v.read(next, last+1, scanBytes)
		if err != nil {
			return err
		}
		if err := do(entries); err != nil {
			return err
		}
		next += uint64(len(entries)) // read returns one at least
	}
	return nil
}

// Term returns the term of the entry at index i.
func (v *logView) Term(i uint64) (uint64, error) {
	v.missed = false
	term, err := v.log.Term(i)
	return term, logError(err)
}

// LastIndex returns the index of the newest entry that was written.
func (v *logView) LastIndex() (uint64, error) {
	v.missed = false
	return v.log.LastIndex(), nil
}

// FirstIndex returns the index of the oldest entry. raft asks for it before each answer of its own that an entry is
// compacted away.
func (v *logView) FirstIndex() (uint64, error) {
	v.missed = false
	return v.log.FirstIndex(), nil
}

// Snapshot returns the metadata of a checkpoint that can be sent, or says that there is none yet and has one made: but
// none is needed for entries that are yet to be read.
func (v *logView) Snapshot() (*raftpb.Snapshot, error) {
	if v.missed {
		v.missed = false
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	return v.offer()
}

// logError turns the log's errors into the ones that raft knows. It meets no others: they come of reading the disk.
func logError(err error) error {
	switch {
	case errors.Is(err, raftlog.ErrCompacted):
		return raft.ErrCompacted
	case errors.Is(err, raftlog.ErrUnavailable):
		return raft.ErrUnavailable
	}
	return err
}

// raftEntries are entries as raft has them; the data is shared.
func raftEntries(entries []raftlog.LogEntry) []*raftpb.Entry {
	out := make([]*raftpb.Entry, len(entries))
	for i := range entries {
		out[i] = raftEntry(&entries[i])
	}
	return out
}

// raftEntry is e as raft has it; the data is shared.
func raftEntry(e *raftlog.LogEntry) *raftpb.Entry {
	numbers := [2]uint64{e.Term, e.Index}
	out := &raftpb.Entry{Term: &numbers[0], Index: &numbers[1], Data: e.Data}
	if kind := raftpb.EntryType(e.Kind); kind != raftpb.EntryNormal {
		out.Type = kind.Enum()
	}
	return out
}

// logEntries appends entries to dst as the log has them; the data is shared.
func logEntries(dst []raftlog.LogEntry, entries []*raftpb.Entry) []raftlog.LogEntry {
	for _, e := range entries {
		dst = append(dst, raftlog.LogEntry{
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
