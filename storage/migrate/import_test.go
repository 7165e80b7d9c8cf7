package migrate

import (
	"context"
	"errors"
	"fmt"
	"hash/adler32"
	"hash/crc32"
	"log/slog"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"zkd/jute"
	"zkd/storage/datadir/dirtest"
	"zkd/storage/entry"
	"zkd/storage/entry/entrytest"
	"zkd/storage/raftlog"
	"zkd/storage/state"
	"zkd/storage/state/statetest"
	"zkd/storage/zkdata"
	"zkd/storage/zkdata/zkdatatest"
)

// optionsOf returns the options of an import from /old to /new.
func optionsOf(fs vfs.FS) Options {
	return Options{From: "/old", Target: dirtest.Options(fs, "/new", "")}
}

// imported opens what an import has made.
func imported(t testing.TB, fs vfs.FS) *state.Machine {
	t.Helper()
	return statetest.Open(t, fs, dirtest.Open(t, fs, "/new", "").StateDir())
}

// walkLines returns the lines that compat-tests/migration keeps of a walk.
func walkLines(t testing.TB, m *state.Machine) []string {
	t.Helper()
	v := m.View()
	defer v.Close()
	var lines []string
	var visit func(p string)
	visit = func(p string) {
		n, ok := v.Get(p)
		if !ok {
			t.Fatalf("%q is gone", p)
		}
		var list []string
		for _, a := range n.ACL() {
			list = append(list, fmt.Sprintf("%d:%s:%s", a.Perms, a.ID.Scheme, a.ID.ID))
		}
		s := n.Stat()
		lines = append(lines, fmt.Sprintf("%q %x %x %x %d %d %d %d %d %x %d %d %s %08x", p, int64(s.Czxid),
			int64(s.Mzxid),
			int64(s.Pzxid), s.Ctime, s.Mtime, s.Version, s.Cversion, s.Aversion, uint64(s.EphemeralOwner), s.DataLength,
			s.NumChildren, strings.Join(list, ","), crc32.ChecksumIEEE(n.Data())))
		children, _ := v.Children(p, nil)
		for _, c := range children {
			visit(path.Join(p, c))
		}
	}
	visit("/")
	return lines
}

// TestImportGolden imports what real servers have written, and compares with what they have answered.
func TestImportGolden(t *testing.T) {
	for _, version := range zkdatatest.Versions {
		t.Run(version, func(t *testing.T) {
			fs := zkdatatest.Golden(t, version)
			report, err := Import(context.Background(), optionsOf(fs))
			if err != nil {
				t.Fatal(err)
			}
			want := zkdatatest.Walk(t, version)
			containers := int64(1) // and two TTL znodes
			if version == "3.4" {
				containers = 0
			}
			if report.Znodes != int64(len(want)) || report.Sessions == 0 || report.Ephemerals == 0 ||
				report.Containers != containers || report.TTLs != 2*containers || report.Quotas != 1 ||
				report.Verified != (version > "3.5") ||
				report.Transactions == 0 || !strings.Contains(strings.Join(report.Notices, "\n"), "torn") {
				t.Errorf("report %+v, %d znodes in the walk", report, len(want))
			}
			m := imported(t, fs)
			if diff := cmp.Diff(want, walkLines(t, m)); diff != "" {
				t.Errorf("the server -, the import +\n%s", diff)
			}
			statetest.Check(t, fs, m)
			if m.LastZxid() != report.Zxid || m.AppliedIndex() != raftlog.ImportedIndex {
				t.Errorf("zxid %#x, entry %d; report %+v", int64(m.LastZxid()), m.AppliedIndex(), report)
			}
		})
	}
}

// counted reads the stats of a quota.
func counted(t *testing.T, stats []byte) (count, size int) {
	t.Helper()
	if _, err := fmt.Sscanf(string(stats), "count=%d,bytes=%d", &count, &size); err != nil {
		t.Fatalf("%q: %v", stats, err)
	}
	return count, size
}

// TestImportedStateGoesOn applies entries to what was imported: sessions have their old passwords, sequences and
// quotas go on.
func TestImportedStateGoesOn(t *testing.T) {
	fs := zkdatatest.Golden(t, "3.9")
	report, err := Import(context.Background(), optionsOf(fs))
	if err != nil {
		t.Fatal(err)
	}
	m := imported(t, fs)
	v := m.View()
	stats, _ := v.Get("/zookeeper/quota/app/zookeeper_stats")
	countBefore, bytesBefore := counted(t, stats.Data())
	var id jute.SessionID
	v.Ephemerals(func(owner jute.SessionID, p string) {
		if p == "/app/live/e" {
			id = owner
		}
	})
	session, ok := v.Session(id)
	v.Close()
	if !ok || session.Passwd != zkdata.Passwd(id) || session.TimeoutMillis != 30000 {
		t.Fatalf("session %#x: %+v", uint64(id), session)
	}
	again := &entry.Proposal{Op: entry.OpReattachSession, Session: id,
		Body: (&entry.SessionTxn{TimeoutMillis: 4000, Passwd: zkdata.Passwd(id), Owner: 1}).Append(nil)}
	create := entrytest.Create("/app/new-", []byte("123"), 2)
	create.Session, create.Server = id, 1
	b := entry.AppendProposal(entry.AppendProposal(entry.AppendEntryHeader(nil, 1, 1), again), create)
	if err := m.Apply(raftlog.ImportedIndex+1, 2, b, statetest.Discard{}); err != nil {
		t.Fatal(err)
	}
	v = m.View()
	defer v.Close()
	stats, _ = v.Get("/zookeeper/quota/app/zookeeper_stats")
	if count, size := counted(t, stats.Data()); count != countBefore+1 || size != bytesBefore+3 {
		t.Errorf("the quota counts %d znodes of %d bytes, before %d of %d", count, size, countBefore, bytesBefore)
	}
	if m.LastZxid() != report.Zxid+1 {
		t.Errorf("zxid %#x behind %#x", int64(m.LastZxid()), int64(report.Zxid))
	}
	children, _ := v.Children("/app", nil)
	if !slices.ContainsFunc(children, func(name string) bool { return strings.HasPrefix(name, "new-00000000") }) {
		t.Errorf("no sequential znode among %q", children)
	}
}

// TestExportGolden exports what was imported and imports that: nothing is lost either way.
func TestExportGolden(t *testing.T) {
	for _, compression := range []zkdata.Compression{zkdata.Plain, zkdata.Gzip, zkdata.Snappy} {
		fs := zkdatatest.Golden(t, "3.8")
		first, err := Import(context.Background(), optionsOf(fs))
		if err != nil {
			t.Fatal(err)
		}
		r, err := state.OpenReader(fs, "/new/state", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		source := SourceOf(r)
		if _, err := WriteDir(fs, "/back", source, zkdata.WriteOptions{Compression: compression}); err != nil {
			t.Fatal(err)
		}
		if own, err := source.OwnPasswords(); own != 0 || err != nil {
			t.Errorf("%d passwords of our own, %v", own, err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := WriteDir(fs, "/back", source, zkdata.WriteOptions{}); !errors.Is(err, ErrTarget) {
			t.Errorf("into a directory with data: %v", err)
		}
		if err := fs.RemoveAll("/new"); err != nil {
			t.Fatal(err)
		}
		o := optionsOf(fs)
		o.From = "/back"
		second, err := Import(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		if !second.Verified || second.Digest != first.Digest || second.Zxid != first.Zxid ||
			second.Sessions != first.Sessions || second.Znodes != first.Znodes || second.Transactions != 0 {
			t.Errorf("first %+v\nthen %+v", first, second)
		}
		if diff := cmp.Diff(zkdatatest.Walk(t, "3.8"), walkLines(t, imported(t, fs))); diff != "" {
			t.Errorf("the server -, the import of the export +\n%s", diff)
		}
	}
}

// setDataRecord returns a SetData of /app.
func setDataRecord(zxid jute.Zxid, data string) []byte {
	b := jute.AppendLong(nil, 1)
	b = jute.AppendInt(b, 1)
	b = jute.AppendLong(b, int64(zxid))
	b = jute.AppendLong(b, 5)
	b = jute.AppendInt(b, int32(jute.OpSetData))
	b = jute.AppendString(b, "/app")
	b = jute.AppendBuffer(b, []byte(data))
	return jute.AppendInt(b, 1)
}

// record returns a log's record of a SetData of /app; recordWithDigest one that says the digest afterwards.
func record(zxid jute.Zxid, data string) []byte { return framedRecord(setDataRecord(zxid, data)) }

func recordWithDigest(zxid jute.Zxid, sum int64) []byte {
	b := jute.AppendInt(setDataRecord(zxid, "x"), zkdata.DigestVersion)
	return framedRecord(jute.AppendLong(b, sum))
}

// framedRecord makes a record of a transaction.
func framedRecord(b []byte) []byte {
	framed := jute.AppendLong(nil, int64(adler32.Checksum(b)))
	framed = jute.AppendInt(framed, int32(len(b)))
	return append(append(framed, b...), 'B')
}

// importNote returns the zxid that the raft log says was imported.
func importNote(t *testing.T, fs vfs.FS) jute.Zxid {
	t.Helper()
	log, err := raftlog.Open(raftlog.Options{Dir: "/new/raftlog", FS: fs, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close() //nolint:errcheck // read only
	note, ok := raftlog.ImportNote(log)
	if !ok || note.Dir != "/old" {
		t.Fatalf("the raft log's note of the import is %+v", note)
	}
	return note.Zxid
}
