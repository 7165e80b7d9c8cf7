package quorum

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/raftlog"
)

// TestImportedDataFoundsAlone opens a log whose state was imported: the only voter is who has it, however many servers
// are configured, and the log begins behind another entry than that of a member without data. A start that a crash has
// ended before the ensemble was founded comes to the same.
func TestImportedDataFoundsAlone(t *testing.T) {
	three := []Member{{ID: 1}, {ID: 2}, {ID: 3}}
	for _, c := range []struct {
		name     string
		imported bool
		applied  uint64
		change   func(o *Options)
		want     string // of the error; "" for none
	}{
		{"imported", true, raftlog.ImportedIndex, func(*Options) {}, ""},
		{"imported, and alone", true, raftlog.ImportedIndex, func(o *Options) { o.Members = nil }, ""},
		{"without its state", true, 0, func(*Options) {}, "is not there"},
		{"a state without its log", false, raftlog.ImportedIndex, func(*Options) {}, "raft log is empty"},
		{"that is to join", true, raftlog.ImportedIndex, func(o *Options) { o.Joining = true }, "zkd.join"},
		{"on an observer", true, raftlog.ImportedIndex, func(o *Options) {
			o.Members = []Member{{ID: 1, Learner: true}, {ID: 2}}
		}, "observer"},
	} {
		log, err := raftlog.Open(raftlog.Options{Dir: "log", FS: vfs.NewMem(),
			Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if c.imported {
			if err := log.SetMeta(raftlog.ImportedKey, []byte{1}); err != nil {
				t.Fatal(err)
			}
		}
		o := &Options{ID: 1, Log: log, Machine: &fakeMachine{}, Members: three}
		c.change(o)
		for range 2 { // the second time as after a crash
			_, m, err := openGroup(o, c.applied)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%s: %v, want %q", c.name, err, c.want)
				}
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if !slices.Equal(m.IDs(), []uint64{1}) || log.LastIndex() != raftlog.ImportedIndex ||
				log.FirstIndex() != raftlog.ImportedIndex+1 {
				t.Errorf("%s: members %v, log from %d to %d", c.name, m.IDs(), log.FirstIndex(), log.LastIndex())
			}
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
