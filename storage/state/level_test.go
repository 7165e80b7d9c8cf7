package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/storage/apply"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// raiseEntry is an entry with one raise of the level.
func raiseEntry(raise entry.RaiseTxn) []byte {
	return entry.AppendProposal(entry.AppendEntryHeader(nil, 1, 1),
		&entry.Proposal{Op: entry.OpRaiseLevel, Body: raise.Append(nil)})
}

// answers is a Sink that keeps the results' codes.
type answers []jute.Code

// Result implements Sink.
func (c *answers) Result(_, _ uint64, _ int, r *apply.Result) { *c = append(*c, r.Code) }

// openLevelMachine opens a machine on fs.
func openLevelMachine(t *testing.T, fs vfs.FS) *Machine {
	t.Helper()
	m, err := OpenMachine(MachineOptions{Dir: "state", FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestLevelIsRaisedAndNeverLowered raises the level, and finds it after a restart and in a copy of the state.
func TestLevelIsRaisedAndNeverLowered(t *testing.T) {
	fs := vfs.NewMem()
	m := openLevelMachine(t, fs)
	if m.Level() != entry.LevelOldest {
		t.Fatalf("a new state is at level %d", m.Level())
	}
	cluster := entry.ClusterID{7}
	var got answers
	found := entry.FoundTxn{ClusterID: cluster, Config: []byte("server.1=a:1:2:participant\nversion=0")}
	for i, entry := range [][]byte{
		raiseEntry(entry.RaiseTxn{Level: 2, Cluster: entry.ClusterID{9}}), // there is no ensemble yet
		entry.AppendProposal(entry.AppendEntryHeader(nil, 1, 1),
			&entry.Proposal{Op: entry.OpFoundEnsemble, Body: found.Append(nil)}),
		raiseEntry(entry.RaiseTxn{Level: 2, Cluster: entry.ClusterID{9}}),
		raiseEntry(entry.RaiseTxn{Level: 2, Cluster: cluster}),
		raiseEntry(entry.RaiseTxn{Level: 2}),
		raiseEntry(entry.RaiseTxn{Level: 1}),
		entry.AppendProposal(entry.AppendEntryHeader(nil, 1, 1),
			&entry.Proposal{Op: entry.OpRaiseLevel, Body: []byte{2}}),
	} {
		if err := m.Apply(uint64(i)+1, 1, entry, &got); err != nil {
			t.Fatal(err)
		}
	}
	want := answers{jute.BadArguments, jute.OK, jute.BadArguments, jute.OK, jute.NodeExists, jute.NodeExists,
		jute.MarshallingError}
	if len(got) != len(want) {
		t.Fatalf("results %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("result %d is %v, want %v", i, got[i], want[i])
		}
	}
	if m.Level() != 2 || m.LastZxid() != 0 {
		t.Errorf("level %d, zxid %d", m.Level(), m.LastZxid())
	}
	if _, _, err := m.Checkpoint(context.Background(), "copy"); err != nil {
		t.Fatal(err)
	}
	closeMachine(t, m)
	m = openLevelMachine(t, fs)
	if m.Level() != 2 {
		t.Errorf("level %d after a restart", m.Level())
	}
	closeMachine(t, m)
	m, err := OpenMachine(MachineOptions{Dir: "copy", FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	if m.Level() != 2 {
		t.Errorf("level %d in a copy", m.Level())
	}
	closeMachine(t, m)
}

// closeMachine closes a machine.
func closeMachine(t *testing.T, m *Machine) {
	t.Helper()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// TestNewerEntriesStopBeforeAnythingIsApplied applies entries that hold, behind a write that could be applied, what
// this program does not know or the level does not allow.
func TestNewerEntriesStopBeforeAnythingIsApplied(t *testing.T) {
	write := &entry.Proposal{Op: jute.OpError, Code: jute.OK}
	first := entry.AppendProposal(entry.AppendEntryHeader(nil, 1, 1), write)
	newer := bytes.Clone(first)
	newer[0] = byte(entry.LevelNewest) + 1
	raised := entry.AppendProposal(bytes.Clone(first), &entry.Proposal{Op: entry.OpRaiseLevel,
		Body: (&entry.RaiseTxn{Level: entry.LevelNewest + 1}).Append(nil)})
	under := func(p *entry.Proposal) []byte {
		b := entry.AppendProposal(bytes.Clone(first), p)
		b[0] = byte(entry.LevelOldest)
		return b
	}
	beyond := fmt.Sprintf("a log entry is of feature level %d, and it can do %d", entry.LevelNewest+1,
		entry.LevelNewest)
	wrong := entry.AppendProposal(bytes.Clone(first), &entry.Proposal{Op: entry.OpRaiseLevel,
		Body: (&entry.RaiseTxn{Level: entry.LevelNewest}).Append(nil)})
	wrong[0] = byte(entry.LevelOldest)
	for _, c := range []struct {
		name, want string
		entry      []byte
		level      bool
	}{
		{"a newer entry", beyond, newer, true},
		{"an operation", "operation -999", entry.AppendProposal(bytes.Clone(first), &entry.Proposal{Op: -999}), true},
		{"an operation that is no write", "operation 4 ",
			entry.AppendProposal(bytes.Clone(first), &entry.Proposal{Op: jute.OpGetData}), true},
		{"a flag", "flags 0x8000",
			entry.AppendProposal(bytes.Clone(first), &entry.Proposal{Op: jute.OpError, Flags: 1 << 15}), true},
		{"a raise", beyond, raised, true},
		{"a list of identities above its entry", "and its entry of 1",
			under(&entry.Proposal{Op: entry.OpSetIdentities}), false},
		{"a reference above its entry", "and its entry of 1",
			under(&entry.Proposal{Op: jute.OpError, Reference: 1}), false},
		{"a list of identities above the ensemble", "and the ensemble at 1",
			entry.AppendProposal(bytes.Clone(first), &entry.Proposal{Op: entry.OpSetIdentities}), false},
		{"a reference above the ensemble", "and the ensemble at 1",
			entry.AppendProposal(bytes.Clone(first), &entry.Proposal{Op: jute.OpError, Reference: 1}), false},
		{"an operation above its entry", "and its entry of 1", wrong, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := openLevelMachine(t, vfs.NewMem())
			defer closeMachine(t, m)
			var got answers
			err := m.Apply(1, 1, c.entry, &got)
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, entry.ErrLevel) != c.level {
				t.Errorf("apply: %v", err)
			}
			if m.AppliedIndex() != 0 || m.LastZxid() != 0 || len(got) != 0 {
				t.Errorf("index %d, zxid %d, results %v", m.AppliedIndex(), m.LastZxid(), got)
			}
		})
	}
}

// TestNewerStateIsRefused opens states that a newer zkd has written, and looks at what an older one would see.
func TestNewerStateIsRefused(t *testing.T) {
	fs := vfs.NewMem()
	m := openLevelMachine(t, fs)
	if got := string(readKey(t, m, schema.KeyFormat)); got != schema.StateFormatName+"\x00\x01" {
		t.Errorf("a state of level 1 has format %q", got)
	}
	if err := m.Apply(1, 1, raiseEntry(entry.RaiseTxn{Level: entry.LevelNewest}), discard{}); err != nil {
		t.Fatal(err)
	}
	if got := string(readKey(t, m, schema.KeyFormat)); got != schema.StateFormatName+"\x00\x02" {
		t.Errorf("a state of level 2 has format %q", got)
	}
	if err := m.store.db.Set(schema.KeyLevel, []byte{0, byte(entry.LevelNewest) + 1}, pebble.NoSync); err != nil {
		t.Fatal(err)
	}
	if err := m.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	// so that there is something to flush
	if err := m.Apply(2, 1, raiseEntry(entry.RaiseTxn{}), discard{}); err != nil {
		t.Fatal(err)
	}
	if err := m.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, key := range [][]byte{schema.KeyApplied, schema.KeyEnsemble, schema.AppendSessionKey(nil, 1)} {
		if err := m.store.db.Set(key, []byte{1}, pebble.NoSync); err != nil { // in a form of that level
			t.Fatal(err)
		}
	}
	if err := m.store.db.Flush(); err != nil {
		t.Fatal(err)
	}
	closeMachine(t, m)
	_, err := OpenMachine(MachineOptions{Dir: "state", FS: fs})
	want := fmt.Sprintf("state store state is of feature level %d", entry.LevelNewest+1)
	if !errors.Is(err, entry.ErrLevel) || !strings.Contains(err.Error(), want) {
		t.Errorf("open: %v", err)
	}
	if _, err := OpenReader(fs, "state", discardLogger()); !errors.Is(err, entry.ErrLevel) {
		t.Errorf("open for reading: %v", err)
	}
}

// readKey returns the value of a key of the store.
func readKey(t *testing.T, m *Machine, key []byte) []byte {
	t.Helper()
	value, closer, err := m.store.db.Get(key)
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close() //nolint:errcheck // it only gives back a block
	return append([]byte(nil), value...)
}
