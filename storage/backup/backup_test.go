package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"

	"zkd/jute"
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

// written returns a backup of the machine's state.
func written(h *statetest.Harness) ([]byte, schema.Summary) {
	h.T.Helper()
	var b bytes.Buffer
	var begun schema.Summary
	info, err := WriteMachine(h.T.Context(), h.M, "scratch", Options{Made: 77, Writer: "test",
		Begun: func(i schema.Summary) error { begun = i; return nil }}, &b)
	if err != nil {
		h.T.Fatal(err)
	}
	if begun != info {
		h.T.Errorf("began as %+v, ended as %+v", begun, info)
	}
	if _, err := h.FS.Stat("scratch"); err == nil {
		h.T.Error("the checkpoint is left over")
	}
	return b.Bytes(), info
}

// restored returns the machine of a backup that was restored, and what the restore has said.
func restored(t *testing.T, backup []byte, o RestoreOptions) (vfs.FS, *state.Machine, schema.Summary) {
	t.Helper()
	fs := vfs.NewMem()
	o.Target = dirtest.Options(fs, "data", "")
	b, err := Open(bytes.NewReader(backup))
	if err != nil {
		t.Fatal(err)
	}
	info, err := Restore(context.Background(), b, o)
	if err != nil {
		t.Fatal(err)
	}
	dir := dirtest.Open(t, fs, "data", "")
	logtest.Open(t, fs, dir.RaftLogDir())
	return fs, statetest.Open(t, fs, dir.StateDir()), info
}

// TestBackupRestoresTheSameState restores backups of random states: all that clients can see is the same, and the
// store is what applying would have made.
func TestBackupRestoresTheSameState(t *testing.T) {
	for seed := range uint64(4) {
		h := statetest.Random(t, seed, 1500)
		h.Apply(entrytest.Create("/large", bytes.Repeat([]byte("x"), blockBytes+1), 0))
		backup, info := written(h)
		v := h.M.View()
		if info.Zxid != v.Zxid() || info.Digest != v.Digest() || info.Znodes != int64(v.NodeCount()) ||
			info.Sessions != int64(v.SessionCount()) || info.Index != h.M.AppliedIndex() || info.Made != 77 ||
			info.ClusterID != h.M.ClusterID() {
			t.Errorf("seed %d: %+v", seed, info)
		}
		v.Close()
		fs, m, got := restored(t, backup, RestoreOptions{})
		want := h.Content()
		content := statetest.Content(t, fs, m)
		config := string(schema.AppendNodeKey(nil, schema.KindNode, schema.ConfigPath))
		for _, key := range []string{string(schema.KeyApplied), string(schema.KeyEnsemble), string(schema.KeySums),
			config,
			"d" + config[1:]} {
			delete(want, key)
			delete(content, key)
		}
		if diff := cmp.Diff(want, content); diff != "" {
			t.Errorf("seed %d: backed up -, restored +\n%s", seed, diff)
		}
		statetest.Check(t, fs, m)
		if m.ClusterID() != (entry.ClusterID{}) || m.AppliedIndex() != raftlog.ImportedIndex ||
			m.LastZxid() != info.Zxid ||
			got.Digest != info.Digest || got.Znodes != info.Znodes {
			t.Errorf("seed %d: cluster %x, entry %d, %+v", seed, m.ClusterID(), m.AppliedIndex(), got)
		}
		if err := m.Apply(raftlog.ImportedIndex+1, 1,
			entrytest.Entries(1, []*entry.Proposal{entrytest.Session(1 << 40)})[0],
			statetest.Discard{}); err != nil {
			t.Errorf("seed %d: the restored state goes on: %v", seed, err)
		}
	}
}

// TestRestoreWithoutSessions ends all sessions and their ephemerals, and lets the zxids go on from elsewhere.
func TestRestoreWithoutSessions(t *testing.T) {
	h := statetest.New(t)
	for id := range jute.SessionID(sessionsMax + 10) {
		h.Apply(entrytest.Session(id + 1))
	}
	ephemeral := entrytest.Create("/e", nil, 1)
	ephemeral.Session = 3
	h.Apply(ephemeral, entrytest.Create("/stays", []byte("x"), 0))
	backup, info := written(h)
	fs, m, got := restored(t, backup, RestoreOptions{DropSessions: true, Time: 5, Zxid: info.Zxid + 1<<32})
	v := m.View()
	_, gone := v.Exists("/e")
	_, stays := v.Exists("/stays")
	if gone || !stays || v.SessionCount() != 0 || v.EphemeralCount() != 0 || v.Zxid() != info.Zxid+1<<32 {
		t.Errorf("/e %t, /stays %t, %d sessions, %d ephemerals, zxid %#x", gone, stays, v.SessionCount(),
			v.EphemeralCount(), v.Zxid())
	}
	if got.Sessions != 0 || got.Zxid != v.Zxid() || got.Digest != v.Digest() ||
		m.AppliedIndex() != raftlog.ImportedIndex {
		t.Errorf("%+v, entry %d", got, m.AppliedIndex())
	}
	v.Close()
	statetest.Check(t, fs, m)
	b, err := Open(bytes.NewReader(backup))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Restore(context.Background(), b, RestoreOptions{Zxid: 1})
	if err == nil || !strings.Contains(err.Error(), "cannot go on from 0x1") {
		t.Errorf("a zxid below the backup's: %v", err)
	}
}

// TestBackupDamageIsRefused flips each bit of a sample, and cuts the backup at each of a sample of places: no reader
// takes it for whole, and a restore leaves nothing behind.
func TestBackupDamageIsRefused(t *testing.T) {
	h := statetest.Random(t, 9, 400)
	backup, _ := written(h)
	verify := func(b []byte) error {
		r, err := Open(bytes.NewReader(b))
		if err != nil {
			return err
		}
		return r.Verify(nil)
	}
	if err := verify(backup); err != nil {
		t.Fatal(err)
	}
	step := max(len(backup)/400, 1)
	for at := 0; at < len(backup); at += step {
		flipped := bytes.Clone(backup)
		flipped[at] ^= 1 << (at % 8)
		for what, b := range map[string][]byte{"flipped": flipped, "cut": backup[:at]} { // any order: independent
			if err := verify(b); !errors.Is(err, ErrUnusable) {
				t.Fatalf("%s at %d of %d: %v", what, at, len(backup), err)
			}
		}
	}
	if err := verify(append(bytes.Clone(backup), 0)); !errors.Is(err, ErrUnusable) {
		t.Errorf("a byte behind the end: %v", err)
	}
	fs := vfs.NewMem()
	flipped := bytes.Clone(backup)
	flipped[len(flipped)-60] ^= 1
	r, err := Open(bytes.NewReader(flipped))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Restore(context.Background(), r, RestoreOptions{Target: dirtest.Options(fs, "data", "")})
	if !errors.Is(err, ErrUnusable) {
		t.Errorf("restore of a damaged backup: %v", err)
	}
	if names, err := fs.List("data"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left behind: %q, %v", names, err)
	}
}

// TestRestoreRefusesWhatIsNotEmpty leaves data of others alone, and what an operator puts there before.
func TestRestoreRefusesWhatIsNotEmpty(t *testing.T) {
	h := statetest.New(t)
	backup, _ := written(h)
	restore := func(fs vfs.FS, logDir string) error {
		r, err := Open(bytes.NewReader(backup))
		if err != nil {
			t.Fatal(err)
		}
		_, err = Restore(context.Background(), r, RestoreOptions{Target: dirtest.Options(fs, "data", logDir)})
		return err
	}
	for _, name := range []string{"data/version-2", "data/state", "logs/raftlog", "data/ZKD-FORMAT"} {
		fs := vfs.NewMem()
		if err := fs.MkdirAll(name, 0o755); err != nil {
			t.Fatal(err)
		}
		err := restore(fs, "logs")
		if !errors.Is(err, datadir.ErrDataDir) || !strings.Contains(err.Error(), "an empty directory only") {
			t.Errorf("beside %s: %v", name, err)
		}
	}
	fs := vfs.NewMem()
	if err := errors.Join(fs.MkdirAll("data", 0o755), disk.WriteFile(fs, "data/myid", "1")); err != nil {
		t.Fatal(err)
	}
	if err := restore(fs, "logs"); err != nil {
		t.Fatal(err)
	}
	if err := restore(fs, "logs"); !errors.Is(err, datadir.ErrDataDir) {
		t.Errorf("a second restore: %v", err)
	}
	d := dirtest.Open(t, fs, "data", "logs")
	if err := restore(fs, "logs"); !errors.Is(err, datadir.ErrDataDir) {
		t.Errorf("a restore under a running server: %v", err)
	}
	_ = d.Close() // tested elsewhere
}

// TestRestoreSurvivesAPowerCut cuts the power at operations of a restore all over it: the directory is then refused,
// or whole, and another restore into it goes well.
func TestRestoreSurvivesAPowerCut(t *testing.T) {
	h := statetest.Random(t, 3, 200)
	backup, info := written(h)
	restore := func(fs vfs.FS) error {
		r, err := Open(bytes.NewReader(backup))
		if err != nil {
			t.Fatal(err)
		}
		_, err = Restore(context.Background(), r, RestoreOptions{Target: dirtest.Options(fs, "data", "")})
		return err
	}
	var operations atomic.Int64 // Pebble works on several goroutines
	count := errorfs.InjectorFunc(func(errorfs.Op) error { operations.Add(1); return nil })
	if err := restore(errorfs.Wrap(vfs.NewCrashableMem(), count)); err != nil {
		t.Fatal(err)
	}
	total := operations.Load()
	whole, refused := 0, 0
	for cut := int64(1); cut < total; cut += max(total/40, 1) {
		mem := vfs.NewCrashableMem()
		var found atomic.Pointer[vfs.MemFS]
		var n atomic.Int64
		_ = restore(errorfs.Wrap(mem, errorfs.InjectorFunc(func(errorfs.Op) error {
			if n.Add(1) == cut {
				found.Store(mem.CrashClone(vfs.CrashCloneCfg{}))
			}
			return nil
		}))) // what it says does not matter: the power was cut
		after := found.Load()
		if after == nil {
			continue
		}
		if d, err := datadir.Open(dirtest.Options(after, "data", "")); err != nil {
			refused++
		} else if names, err := after.List(d.StateDir()); err == nil && len(names) > 0 {
			m, err := state.OpenMachine(state.MachineOptions{FS: after, Dir: d.StateDir()})
			if err != nil {
				t.Fatalf("cut at %d: %v", cut, err)
			}
			if m.LastZxid() != info.Zxid {
				t.Errorf("cut at %d: zxid %#x, want %#x", cut, m.LastZxid(), info.Zxid)
			}
			whole++
			_ = errors.Join(m.Close(), d.Close()) // nothing is lost with it
			continue
		} else {
			_ = d.Close() // it was empty, and is a new server's now
			continue
		}
		if err := restore(after); err != nil {
			t.Errorf("restore after a cut at %d: %v", cut, err)
		}
	}
	t.Logf("%d operations; after a cut %d directories were refused, %d were whole", total, refused, whole)
	if refused == 0 {
		t.Error("no cut left a half restored directory")
	}
}

// TestCountUnderWayInBackup: the stats in a backup say what the count of their quota will come to, and a state that was
// restored from it counts nothing.
func TestCountUnderWayInBackup(t *testing.T) {
	const children = 3000 // more than an entry counts
	h := statetest.New(t)
	h.Lines("raise\ncreateSession\ncreate /a")
	some := make([]*entry.Proposal, children)
	for i := range some {
		some[i] = entrytest.Create(fmt.Sprintf("/a/%04d", i), []byte("12"), 0)
	}
	h.Apply(some...)
	h.Lines("create /zookeeper/quota/a\ncreate /zookeeper/quota/a/zookeeper_stats")
	if h.M.CountingQuotas() != 1 {
		t.Fatal("nothing is left to count")
	}
	backup, _ := written(h)
	fs, m, _ := restored(t, backup, RestoreOptions{})
	v := m.View()
	defer v.Close()
	stats, _ := v.Get("/zookeeper/quota/a/zookeeper_stats")
	if got := string(stats.Data()); got != "count=3001,bytes=6000" || m.CountingQuotas() != 0 {
		t.Errorf("restored %q, counting %d", got, m.CountingQuotas())
	}
	statetest.Check(t, fs, m)
}
