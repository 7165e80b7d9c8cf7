package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"zkd/jute"
	"zkd/storage/backup"
	"zkd/storage/datadir"
	"zkd/storage/datadir/dirtest"
	"zkd/storage/disk"
	"zkd/storage/entry"
	"zkd/storage/entry/entrytest"
	"zkd/storage/raftlog"
	"zkd/storage/raftlog/logtest"
	"zkd/storage/schema"
	"zkd/storage/state"
	"zkd/storage/state/statetest"
)

// inspected is a data directory with a raft log of n entries, which the state has but for the last ones, as the end of
// the process leaves it.
func inspected(t *testing.T, n int) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewCrashableMem()
	d := dirtest.Open(t, fs, "data", "")
	l := logtest.Open(t, fs, d.RaftLogDir())
	m, err := state.OpenMachine(state.MachineOptions{FS: fs, Dir: d.StateDir()})
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(n) {
		record := entry.AppendEntryHeader(nil, 1, i)
		record = entry.AppendProposal(record, entrytest.Session(jute.SessionID(i+1)))
		owned := entrytest.Create(fmt.Sprintf("/of-%d", i+1), bytes.Repeat([]byte("x"), int(i)*10),
			jute.CreateMode(i%2))
		owned.Session = jute.SessionID(i + 1)
		record = entry.AppendProposal(record, owned)
		if err := l.Append([]raftlog.LogEntry{{Index: i + 1, Term: 1, Data: record}}, []byte("hard"),
			true); err != nil {
			t.Fatal(err)
		}
		if err := m.Apply(i+1, 1, record, statetest.Discard{}); err != nil {
			t.Fatal(err)
		}
		if i == uint64(n)/2 {
			if err := m.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	after := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
	if err := errors.Join(m.Close(), l.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
	return after
}

// contents returns all files below dir.
func contents(t *testing.T, fs vfs.FS, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		path := fs.PathJoin(dir, name)
		info, err := fs.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.IsDir() {
			for path, content := range contents(t, fs, path) { // order does not matter: a map is filled
				all[path] = content
			}
			continue
		}
		file, err := fs.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(file)
		if err = errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
		all[path] = string(content)
	}
	return all
}

// inspect opens both stores of a directory.
func inspect(t *testing.T, fs vfs.FS) (*raftlog.LogInspection, *State, error) {
	t.Helper()
	i, err := Open(dirtest.Options(fs, "data", ""))
	if err != nil {
		return nil, nil, err
	}
	t.Cleanup(func() { _ = i.Close() }) // it gives locks back
	l, err := i.OpenLog()
	if err != nil {
		return nil, nil, err
	}
	t.Cleanup(func() { _ = l.Close() }) // it was only read
	s, err := i.OpenState()
	if err != nil {
		return nil, nil, err
	}
	t.Cleanup(func() { _ = s.Close() }) // it was only read
	return l, s, nil
}

// TestInspectChangesNothing looks at a directory as a killed process has left it, at all there is to see, and finds
// every file as it was.
func TestInspectChangesNothing(t *testing.T) {
	fs := inspected(t, 20)
	before := contents(t, fs, "data")
	l, s, err := inspect(t, fs)
	if err != nil {
		t.Fatal(err)
	}
	if l.FirstIndex() != 1 || l.LastIndex() != 20 || s.Info().Index != 11 || s.Info().Sessions != 11 {
		t.Errorf("log %d to %d, state %+v", l.FirstIndex(), l.LastIndex(), s.Info())
	}
	entries, err := l.Entries(nil, 20, 21, 1<<20)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	reader, err := entry.NewReader(entries[0].Data)
	if err != nil {
		t.Fatal(err)
	}
	var p entry.Proposal
	var got []Operation
	for reader.Next(&p) {
		got = append(got, Operations(&p)...)
	}
	if diff := cmp.Diff([]Operation{{Op: jute.OpCreateSession}, {Op: jute.OpCreate, Path: "/of-20", DataBytes: 190}},
		got); diff != "" {
		t.Errorf("entry 20: want -, got +\n%s", diff)
	}
	sizes, err := s.Sizes(3, nil)
	if err != nil {
		t.Fatal(err)
	}
	if root := sizes[0]; root.Path != "/" || root.Znodes != 15 || root.Ephemerals != 5 ||
		root.LargestPath != "/of-11" || root.LargestData != 100 ||
		root.DataBytes+root.PathBytes != s.Info().DataBytes || len(sizes) != 2 {
		t.Errorf("sizes %+v", sizes)
	}
	sessions := 0
	if err := s.Sessions(func(info schema.SessionInfo, ephemerals []string) {
		sessions++
		if want := (int(info.ID) + 1) % 2; len(ephemerals) != want {
			t.Errorf("session %d has %q", info.ID, ephemerals)
		}
	}); err != nil || sessions != 11 {
		t.Errorf("%d sessions, %v", sessions, err)
	}
	var written bytes.Buffer
	if _, err := backup.Write(t.Context(), s.Reader(), backup.Options{}, &written); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(before, contents(t, fs, "data")); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
}

// TestInspectRefusals names why a directory cannot be looked at.
func TestInspectRefusals(t *testing.T) {
	_, _, err := inspect(t, vfs.NewMem())
	if !errors.Is(err, ErrNoData) {
		t.Errorf("nothing there: %v", err)
	}
	fs := vfs.NewMem()
	d := dirtest.Open(t, fs, "data", "")
	if _, _, err := inspect(t, fs); !errors.Is(err, ErrRunning) {
		t.Errorf("a server runs: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := inspect(t, fs); !errors.Is(err, ErrNoData) {
		t.Errorf("no stores: %v", err)
	}
	for mark, command := range map[string]string{"ZKD-IMPORT": "zkd import", datadir.RestoreName: "zkd restore"} {
		half := inspected(t, 3)
		if err := disk.WriteFile(half, "data/"+mark, ""); err != nil {
			t.Fatal(err)
		}
		if mark == datadir.RestoreName { // the format file is made last
			if err := half.Remove("data/" + datadir.FormatName); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := inspect(t, half); !errors.Is(err, datadir.ErrDataDir) ||
			!strings.Contains(err.Error(), command+" again") {
			t.Errorf("with %s: %v", mark, err)
		}
	}
	java := vfs.NewMem()
	err = errors.Join(java.MkdirAll("data/version-2", 0o755), disk.WriteFile(java, "data/version-2/log.1", ""))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := inspect(t, java); !errors.Is(err, datadir.ErrDataDir) ||
		!strings.Contains(err.Error(), "version-2") {
		t.Errorf("of Apache ZooKeeper: %v", err)
	}
}

// TestInspectFindsLostWrites cuts the last write-ahead log off: what was acknowledged is missing, and inspection says
// so as a start would, without the repair that a start begins with.
func TestInspectFindsLostWrites(t *testing.T) {
	fs := inspected(t, 20)
	names, err := fs.List("data/raftlog")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	for _, name := range slices.Backward(names) {
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		path := "data/raftlog/" + name
		content := contents(t, fs, "data/raftlog")[path]
		if err := disk.WriteFile(fs, path, content[:len(content)/2]); err != nil {
			t.Fatal(err)
		}
		break
	}
	before := contents(t, fs, "data")
	if _, _, err := inspect(t, fs); !errors.Is(err, disk.ErrDamaged) {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff(before, contents(t, fs, "data")); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
}

// TestInspectionFindsARestoredState: a restore that a crash has interrupted between two renames is seen, and changed by
// nobody who only looks; an install that was begun later makes it void.
func TestInspectionFindsARestoredState(t *testing.T) {
	fs := vfs.NewMem()
	dir, err := datadir.Open(dirtest.Options(fs, "data", ""))
	if err != nil {
		t.Fatal(err)
	}
	log, err := raftlog.Open(raftlog.Options{Dir: dir.RaftLogDir(), FS: fs, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	m, err := state.OpenMachine(state.MachineOptions{Dir: dir.StateDir(), FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	entry := entry.AppendProposal(entry.AppendEntryHeader(nil, 1, 1), &entry.Proposal{Op: jute.OpError})
	if err := m.Apply(1, 1, entry, statetest.Discard{}); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{datadir.ReplacementSuffix, datadir.StagedSuffix} {
		if _, _, err := m.Checkpoint(context.Background(), dir.StateDir()+to); err != nil {
			t.Fatal(err)
		}
		if err := m.Apply(m.AppliedIndex()+1, 1, entry, statetest.Discard{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []interface{ Close() error }{m, log, dir} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	i, err := Open(dirtest.Options(fs, "data", ""))
	if err != nil {
		t.Fatal(err)
	}
	found, err := i.OpenState()
	if err != nil {
		t.Fatal(err)
	}
	if found.Info().Zxid != 1 || !strings.HasSuffix(i.StateDir(), datadir.ReplacementSuffix) {
		t.Errorf("%+v in %s", found.Info(), i.StateDir())
	}
	if err := found.Close(); err != nil {
		t.Fatal(err)
	}
	if err := i.Close(); err != nil {
		t.Fatal(err)
	}
	if dir, err = datadir.Open(dirtest.Options(fs, "data", "")); err != nil {
		t.Fatal(err)
	}
	if finished, err := dir.FinishInstall(func(string) error { return nil }); err != nil || !finished {
		t.Fatal(finished, err)
	}
	if m, err = state.OpenMachine(state.MachineOptions{Dir: dir.StateDir(), FS: fs}); err != nil {
		t.Fatal(err)
	}
	if m.AppliedIndex() != 2 {
		t.Errorf("applied %d, want the state that was installed", m.AppliedIndex())
	}
	for _, c := range []interface{ Close() error }{m, dir} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
