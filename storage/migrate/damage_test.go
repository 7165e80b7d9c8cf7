package migrate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"

	"zkd/jute"
	"zkd/storage/apply"
	"zkd/storage/crashfs/powercut"
	"zkd/storage/datadir"
	"zkd/storage/disk"
	"zkd/storage/disk/disktest"
	"zkd/storage/state"
	"zkd/storage/state/statetest"
	"zkd/storage/zkdata"
	"zkd/storage/zkdata/zkdatatest"
)

// fileOf returns the name of the file of a golden directory that has the prefix; the last of them.
func fileOf(t *testing.T, fs vfs.FS, prefix string) string {
	t.Helper()
	names, err := fs.List("/old/version-2")
	if err != nil {
		t.Fatal(err)
	}
	found := ""
	for _, name := range names {
		if strings.HasPrefix(name, prefix) && name > found {
			found = name
		}
	}
	return "/old/version-2/" + found
}

// TestImportRefuses checks that what is damaged or not whole is refused with the file, that nothing is left in the
// target, and that the import of the whole data succeeds there afterwards.
func TestImportRefuses(t *testing.T) {
	zeroed := func(from, to int) func([]byte) []byte {
		return func(b []byte) []byte { clear(b[from:to]); return b }
	}
	for _, c := range []struct {
		name, version string
		prepare       func(fs *vfs.MemFS)
		kind          error
		want          string
	}{
		{"a changed snapshot", "3.5", func(fs *vfs.MemFS) {
			disktest.Alter(t, fs, fileOf(t, fs, "snapshot"), disktest.Flip(9000))
		}, zkdata.ErrDamaged, "snapshot."},
		{"a changed snapshot, snappy", "3.8", func(fs *vfs.MemFS) {
			disktest.Alter(t, fs, fileOf(t, fs, "snapshot"), disktest.Flip(2000))
		}, zkdata.ErrDamaged, "snapshot."},
		{"a cut snapshot, gz", "3.9", func(fs *vfs.MemFS) {
			disktest.Alter(t, fs, fileOf(t, fs, "snapshot"), func(b []byte) []byte { return b[:len(b)-100] })
		}, zkdata.ErrDamaged, "snapshot."},
		{"a changed log", "3.9", func(fs *vfs.MemFS) {
			disktest.Alter(t, fs, fileOf(t, fs, "log"), disktest.Flip(5000))
		}, zkdata.ErrDamaged, "log."},
		{"a sector of zeros", "3.9", func(fs *vfs.MemFS) {
			disktest.Alter(t, fs, fileOf(t, fs, "log"), zeroed(1024, 1536))
		}, zkdata.ErrDamaged, "log."},
		{"no log", "3.9", func(fs *vfs.MemFS) {
			for log := fileOf(t, fs, "log"); log != "/old/version-2/"; log = fileOf(t, fs, "log") {
				if err := fs.Remove(log); err != nil {
					t.Fatal(err)
				}
			}
			whole := fileOf(t, fs, "snapshot") // say that it was begun before it was
			if err := fs.Rename(whole, "/old/version-2/snapshot.1.gz"); err != nil {
				t.Fatal(err)
			}
		}, zkdata.ErrGap, "the logs end at"},
		{"no snapshot", "3.9", func(fs *vfs.MemFS) {
			if err := fs.Remove(fileOf(t, fs, "snapshot")); err != nil {
				t.Fatal(err)
			}
		}, ErrNoData, "snapshot.trust.empty"},
		{"a missing transaction", "3.5", func(fs *vfs.MemFS) {
			appendRecord(t, fs, func(last jute.Zxid) []byte { return record(last+2, "x") })
		}, zkdata.ErrGap, "behind"},
		{"another digest", "3.9", func(fs *vfs.MemFS) {
			appendRecord(t, fs, func(last jute.Zxid) []byte { return recordWithDigest(last+1, 5) })
		}, apply.ErrDigest, "from transaction"},
		{"nothing", "3.9", func(fs *vfs.MemFS) {
			if err := errors.Join(fs.RemoveAll("/old"), fs.MkdirAll("/old", 0o750)); err != nil {
				t.Fatal(err)
			}
		}, ErrNoData, "name the dataDir"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := zkdatatest.Golden(t, c.version)
			c.prepare(fs)
			_, err := Import(context.Background(), optionsOf(fs))
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want %v and %q", err, c.kind, c.want)
			}
			names, err := fs.List("/new")
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			if err == nil {
				t.Errorf("the target is left, with %q", names)
			}
			if ok, err := vfs.Clone(zkdatatest.Golden(t, "3.8"), fs, "/old", "/whole"); err != nil || !ok {
				t.Fatal(err)
			}
			o := optionsOf(fs)
			o.From = "/whole"
			if _, err := Import(context.Background(), o); err != nil {
				t.Errorf("then: %v", err)
			}
		})
	}
}

// appendRecord puts a record behind the last one of the newest log, in the place of the torn one.
func appendRecord(t *testing.T, fs *vfs.MemFS, f func(last jute.Zxid) []byte) {
	t.Helper()
	d, err := OpenDir(fs, "/old", "")
	if err != nil {
		t.Fatal(err)
	}
	r := d.Replay(0, zkdata.ReplayOptions{AcceptGaps: true})
	for ok := true; ok; {
		if _, ok, err = r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	var at int64
	for _, notice := range r.Notices {
		if i := strings.Index(notice, "at offset "); i >= 0 {
			_, _ = fmt.Sscanf(notice[i:], "at offset %d:", &at)
		}
	}
	if at == 0 {
		t.Fatalf("no torn record in %q", r.Notices)
	}
	disktest.Alter(t, fs, d.Logs[len(d.Logs)-1].Path, func(b []byte) []byte {
		return append(append(b[:at:at], f(r.Last)...), make([]byte, 512)...)
	})
}

// TestImportWhileAServerWrites lets the newest log grow during the import: it is refused, and nothing is left; when
// that has ended the import is whole.
func TestImportWhileAServerWrites(t *testing.T) {
	fs := zkdatatest.Golden(t, "3.9")
	o := optionsOf(fs)
	grown := false
	o.Progress = func(p Progress) {
		if p.Transactions > 0 && !grown { // the last call is behind the last transaction that there was
			grown = true
			appendRecord(t, fs, func(last jute.Zxid) []byte { return record(last+1, "meanwhile") })
		}
	}
	_, err := Import(context.Background(), o)
	if !grown || !errors.Is(err, ErrRunning) || !strings.Contains(err.Error(), "stop the server") {
		t.Fatalf("grown %v: %v", grown, err)
	}
	if names, err := fs.List("/new/state"); err == nil && len(names) > 0 {
		t.Errorf("%q is left", names)
	}
	o.Progress = nil
	report, err := Import(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []jute.Zxid{report.Zxid - 1, report.Zxid} {
		newer, err := Newer(context.Background(), fs, "/old", "", at)
		if err != nil || (newer == report.Zxid) != (at < report.Zxid) {
			t.Errorf("behind %#x there is %#x, %v; the last is %#x", int64(at), int64(newer), err, int64(report.Zxid))
		}
	}
	if newer, err := Newer(context.Background(), fs, "/nowhere", "", 0); newer != 0 || err != nil {
		t.Errorf("where nothing is there is %#x, %v", int64(newer), err)
	}
}

// multiRecord makes a record of one transaction that sets the data of /app very often.
func multiRecord(zxid jute.Zxid, times int) []byte {
	const headBytes = 8 + 4 + 8 + 8 // session, xid, zxid, time; then the operation
	one := setDataRecord(zxid, "x")
	b := jute.AppendInt(one[:headBytes:headBytes], int32(jute.OpMulti))
	b = jute.AppendInt(b, int32(times))
	for range times {
		b = jute.AppendBuffer(jute.AppendInt(b, int32(jute.OpSetData)), one[headBytes+4:])
	}
	return framedRecord(b)
}

// TestImportTellsWithinALargeTransaction: how far it has come, and it can be ended there.
func TestImportTellsWithinALargeTransaction(t *testing.T) {
	const times = 20 * progressEvery
	fs := zkdatatest.Golden(t, "3.9")
	appendRecord(t, fs, func(last jute.Zxid) []byte { return multiRecord(last+1, times) })
	o := optionsOf(fs)
	var before, within int64
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	o.Progress = func(p Progress) {
		switch {
		case p.Changes < progressEvery:
			before = p.Transactions
		case p.Transactions == before: // nothing but changes of the same one
			if within++; within == 5 {
				cancel()
			}
		default:
			before = p.Transactions
		}
	}
	if _, err := Import(ctx, o); !errors.Is(err, context.Canceled) || within != 5 {
		t.Fatalf("told %d times within the transaction, then %v", within, err)
	}
	o.Progress = nil
	if report, err := Import(context.Background(), o); err != nil || report.Zxid == 0 {
		t.Errorf("then: %+v, %v", report, err)
	}
}

// TestImportByForce imports what does not fit, and says so.
func TestImportByForce(t *testing.T) {
	for _, c := range []struct {
		change func(last jute.Zxid) []byte
		want   string
	}{
		{func(last jute.Zxid) []byte { return record(last+5, "after a gap") }, "transactions are missing between"},
		{func(last jute.Zxid) []byte { return recordWithDigest(last+1, 5) }, "does not fit from transaction"},
	} {
		fs := zkdatatest.Golden(t, "3.9")
		appendRecord(t, fs, c.change)
		o := optionsOf(fs)
		o.Force = true
		report, err := Import(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		if notices := strings.Join(report.Notices, "\n"); !strings.Contains(notices, c.want) {
			t.Errorf("no %q in %q", c.want, notices)
		}
		statetest.Check(t, fs, imported(t, fs))
	}
}

// TestImportWithoutSnapshot replays logs from the very beginning, when it is told to.
func TestImportWithoutSnapshot(t *testing.T) {
	fs := vfs.NewMem()
	create := jute.AppendLong(nil, 1)
	create = jute.AppendLong(jute.AppendInt(create, 1), 1)
	create = jute.AppendInt(jute.AppendLong(create, 5), int32(jute.OpCreate))
	create = jute.AppendInt(jute.AppendBuffer(jute.AppendString(create, "/app"), nil), -1) // the ACL is null
	create = jute.AppendInt(append(create, 0), 1)
	log := jute.AppendLong(jute.AppendInt(jute.AppendInt(nil, 0x5a4b4c47), 2), 0)
	log = append(append(log, framedRecord(create)...), record(2, "x")...)
	if err := errors.Join(fs.MkdirAll("/old/version-2", 0o750),
		disk.WriteFile(fs, "/old/version-2/log.1", string(log))); err != nil {
		t.Fatal(err)
	}
	o := optionsOf(fs)
	if _, err := Import(context.Background(), o); !errors.Is(err, ErrNoData) {
		t.Errorf("without being told: %v", err)
	}
	o.TrustEmpty = true
	report, err := Import(context.Background(), o)
	if err != nil || report.Snapshot != "" || report.Zxid != 2 || report.Znodes != 5 {
		t.Fatalf("%+v, %v", report, err)
	}
	v := imported(t, fs).View()
	defer v.Close()
	if n, ok := v.Get("/app"); !ok || string(n.Data()) != "x" {
		t.Error("/app is not there")
	}
}

// TestImportStopsOnAFullDisk fails a write of the target: the error says so, and nothing is left.
func TestImportStopsOnAFullDisk(t *testing.T) {
	mem := zkdatatest.Golden(t, "3.8")
	var tables atomic.Int32
	failing := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		table := strings.Contains(op.Path, "state") && strings.HasSuffix(op.Path, ".sst")
		if table && op.Kind == errorfs.OpCreate {
			tables.Add(1)
		}
		if table && op.Kind == errorfs.OpFileWrite && tables.Load() > 1 { // the first one is the empty server's
			return errorfs.ErrInjected
		}
		return nil
	}))
	_, err := Import(context.Background(), optionsOf(failing))
	if err == nil || !errors.Is(err, errorfs.ErrInjected) {
		t.Fatalf("on a disk that fails: %v", err)
	}
	if _, err := Import(context.Background(), optionsOf(mem)); err != nil {
		t.Errorf("then: %v", err)
	}
}

// TestImportThatFailsAfterAKilledOne: after one import was killed and the next one has failed, the data is as little
// imported as before: a start must not take the directory for that of an empty server.
func TestImportThatFailsAfterAKilledOne(t *testing.T) {
	mem := zkdatatest.Golden(t, "3.8")
	inPlace := optionsOf(mem)
	inPlace.Target.Dir = "/old"
	killed := inPlace.Target
	killed.Importing = true
	dir, err := datadir.Open(killed)
	if err == nil {
		err = dir.Close() // as a kill leaves it: with the mark, and stores that are not whole
	}
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(context.Background())
	end()
	if _, err := Import(ended, inPlace); !errors.Is(err, context.Canceled) {
		t.Fatalf("an import that is to fail: %v", err)
	}
	if !datadir.ImportPending(mem, "/old", "") {
		t.Error("a start finds nothing to import any more")
	}
	if _, err := Import(context.Background(), inPlace); err != nil {
		t.Errorf("then: %v", err)
	}
}

// TestImportIsRefusedWhereDataIs imports into what holds data, or is being imported into.
func TestImportIsRefusedWhereDataIs(t *testing.T) {
	fs := zkdatatest.Golden(t, "3.8")
	if _, err := Import(context.Background(), optionsOf(fs)); err != nil {
		t.Fatal(err)
	}
	if datadir.ImportPending(fs, "/new", "") || !datadir.ImportPending(fs, "/old", "") {
		t.Error("what is to be imported is not known")
	}
	_, err := Import(context.Background(), optionsOf(fs))
	if !errors.Is(err, datadir.ErrDataDir) || !strings.Contains(err.Error(), "holds data of zkd already") {
		t.Errorf("into data: %v", err)
	}
	imported(t, fs) // it is whole, and now locked
	_, err = Import(context.Background(), optionsOf(fs))
	if !errors.Is(err, datadir.ErrDataDir) || !strings.Contains(err.Error(), "running") {
		t.Errorf("while a server runs: %v", err)
	}
}

// TestImportSurvivesAPowerCut cuts the power before the operations of an import in place: what is left is refused by a
// server and imported by another import, or it is whole.
func TestImportSurvivesAPowerCut(t *testing.T) {
	device := vfs.NewCrashableMem()
	if ok, err := vfs.Clone(zkdatatest.Golden(t, "3.8"), device, "/old", "/old", vfs.CloneSync); err != nil || !ok {
		t.Fatal(err)
	}
	if err := errors.Join(disk.SyncDir(device, "/old/version-2"), disk.SyncDir(device, "/old"),
		disk.SyncDir(device, "/")); err != nil {
		t.Fatal(err)
	}
	want := zkdatatest.Walk(t, "3.8")
	inPlace := func(fs vfs.FS) Options {
		o := optionsOf(fs)
		o.Target.Dir = "/old"
		return o
	}
	c := powercut.New(device, 5, 0, 100, 50)
	c.LooksAt = func(int) bool { return c.Random.IntN(6) == 0 }
	if _, err := Import(context.Background(), inPlace(c.FS())); err != nil {
		t.Fatal(err)
	}
	whole := 0
	for i := range c.Points {
		p := &c.Points[i]
		dir, err := datadir.Open(datadir.Options{Dir: "/old", FS: p.Left, Logger: slog.New(slog.DiscardHandler)})
		switch {
		case err == nil:
			whole++
			if err := dir.Close(); err != nil {
				t.Fatal(err)
			}
		case !errors.Is(err, datadir.ErrDataDir) || !datadir.ImportPending(p.Left, "/old", ""):
			t.Fatalf("%s: %v", p, err)
		default:
			if _, err := Import(context.Background(), inPlace(p.Left)); err != nil {
				t.Fatalf("%s: the next import: %v", p, err)
			}
		}
		m, err := state.OpenMachine(state.MachineOptions{Dir: "/old/state", FS: p.Left})
		if err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		if diff := cmp.Diff(want, walkLines(t, m)); diff != "" {
			t.Fatalf("%s: the server -, the import +\n%s", p, diff)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d operations, %d points, %d of them whole", c.Operations, len(c.Points), whole)
}
