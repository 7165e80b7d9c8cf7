package quorum

import (
	"cmp"
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"zkd/quorum/member"
	"zkd/storage/entry"
)

// newerEntry is an entry that a zkd of the next level has written.
func newerEntry() []byte {
	record := entry.AppendProposal(entry.AppendEntryHeader(nil, 1, 1), proposal(applied{1, 1}, 0))
	record[0] = byte(entry.LevelNewest) + 1
	return record
}

// TestRaftLogSaysItsLevel: before an entry that needs it is in the log, and before a state that has it is applied to.
// One of a newer zkd is refused at the start.
func TestRaftLogSaysItsLevel(t *testing.T) {
	fs := vfs.NewMem()
	log := openLog(t, fs, "log")
	m := &fakeMachine{levels: true}
	o := testOptions(log, m)
	if level, err := openLevel(&o); level != entry.LevelOldest || err != nil {
		t.Fatalf("a new log: level %d, %v", level, err)
	}
	a := &appender{log: log, clock: o.Clock, level: entry.LevelOldest, step: 1, compactor: make(chan struct{}, 1)}
	raise := entry.AppendProposal(entry.AppendEntryHeader(nil, 1, 1), &entry.Proposal{
		Op: entry.OpRaiseLevel, Body: (&entry.RaiseTxn{Level: 2}).Append(nil),
	})
	if err := a.writeOne(appendOf(1, raise), true); err != nil {
		t.Fatal(err)
	}
	if level, err := openLevel(&o); level != 2 || err != nil {
		t.Errorf("with the entry that raises it: level %d, %v", level, err)
	}
	if err := a.writeOne(appendOf(2, newerEntry()), true); !errors.Is(err, entry.ErrLevel) || log.LastIndex() != 1 {
		t.Errorf("an entry of a newer zkd: %v, the log ends at %d", err, log.LastIndex())
	}
	if err := storeLevel(log, entry.LevelNewest+1); err != nil {
		t.Fatal(err)
	}
	if _, err := newNode(o); !errors.Is(err, entry.ErrLevel) || !strings.Contains(err.Error(), "the raft log") {
		t.Errorf("start on the log of a newer zkd: %v", err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	other := openLog(t, fs, "other")
	o = testOptions(other, &fakeMachine{levels: true, state: fakeState{level: 2}})
	for range 2 {
		if level, err := openLevel(&o); level != 2 || err != nil {
			t.Errorf("with a state of that level: level %d, %v", level, err)
		}
		o.Machine = &fakeMachine{levels: true} // the log has noted it
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
}

// appendOf is raft's message that stores an entry.
func appendOf(index uint64, data []byte) *raftpb.Message {
	term := uint64(1)
	return &raftpb.Message{Entries: []*raftpb.Entry{{Index: &index, Term: &term, Data: data}}}
}

// TestCheckpointOfANewerZkdIsRefused by its header, before anything of it is taken; one of the oldest level says
// nothing, as none did.
func TestCheckpointOfANewerZkdIsRefused(t *testing.T) {
	lead, own, index := uint64(2), uint64(1), uint64(5)
	header := func(data []byte) []byte {
		b, err := proto.Marshal(&raftpb.Message{
			Type: raftpb.MsgSnap.Enum(), From: &lead, To: &own, Term: &index,
			Snapshot: &raftpb.Snapshot{Data: data, Metadata: &raftpb.SnapshotMetadata{
				Index: &index, Term: &index, ConfState: &raftpb.ConfState{Voters: []uint64{1, 2}},
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if data := snapshotData(entry.LevelOldest, &member.Admissions{}); data != nil {
		t.Errorf("a checkpoint of the oldest level says %x", data)
	}
	n := startNode(t, testOptions(openLog(t, vfs.NewMem(), "log"), &fakeMachine{}))
	newest := snapshotData(entry.LevelNewest, &member.Admissions{})
	for _, tc := range []struct {
		name string
		data []byte
		want error // nil: it fits
	}{
		{"nothing said", nil, nil},
		{"this level", newest, nil},
		{"more than is known", append(snapshotData(entry.LevelNewest, &member.Admissions{}), "more"...), nil},
		{"another level", snapshotData(entry.LevelNewest+1, &member.Admissions{}), entry.ErrLevel},
		{"another format", append(append([]byte(nil), newest[:3]...), 0, 9), entry.ErrLevel},
		{"another version", append([]byte{9}, newest[1:]...), errSnapshot},
		{"cut short", newest[:4], errSnapshot},
	} {
		want := cmp.Or(tc.want, ErrNoLeader) // this member is not in that term
		if err := n.CheckSnapshot(lead, header(tc.data)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", tc.name, err, want)
		}
		if tc.want == nil {
			continue
		}
		if err := n.Staged(lead, header(tc.data), "dir"); !errors.Is(err, tc.want) {
			t.Errorf("%s: staged: %v, want %v", tc.name, err, tc.want)
		}
	}
	if n.CheckSnapshot(lead, []byte{0xff}) == nil {
		t.Error("what is no header fits")
	}
}
