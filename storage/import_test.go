package storage

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"hash/crc32"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"zkd/jute"
	"zkd/storage/datadir"
	"zkd/storage/disk"
	"zkd/storage/entry"
	"zkd/storage/raftlog"
	"zkd/storage/schema"
	"zkd/storage/zkdata"
)

// goldenVersions are the servers that have written testdata/zookeeper (compat-tests/migration.TestGolden).
var goldenVersions = []string{"3.9", "3.8", "3.5", "3.4"}

// goldenFS returns a file system in memory with the directory of a version at /old.
func goldenFS(t testing.TB, version string) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewMem()
	from := filepath.Join("testdata", "zookeeper", version)
	if ok, err := vfs.Clone(vfs.Default, fs, from, "/old"); err != nil || !ok {
		t.Fatalf("copy %s: %v, %v", from, ok, err)
	}
	return fs
}

// importOptions returns the options of an import from /old to /new.
func importOptions(fs vfs.FS) ImportOptions {
	return ImportOptions{From: "/old", Target: datadir.Options{Dir: "/new", FS: fs,
		Logger: slog.New(slog.DiscardHandler)}}
}

// imported opens what an import has made.
func imported(t testing.TB, fs vfs.FS) *Machine {
	t.Helper()
	dir, err := datadir.Open(datadir.Options{Dir: "/new", FS: fs, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	m, err := OpenMachine(MachineOptions{Dir: dir.StateDir(), FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(m.Close(), dir.Close()); err != nil {
			t.Error(err)
		}
	})
	return m
}

// walkLines returns the lines that compat-tests/migration keeps of a walk.
func walkLines(t testing.TB, m *Machine) []string {
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

// goldenWalk returns the walk over the server that has written the directory.
func goldenWalk(t *testing.T, version string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "zookeeper", version, "walk.txt"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// TestImportGolden imports what real servers have written, and compares with what they have answered.
func TestImportGolden(t *testing.T) {
	for _, version := range goldenVersions {
		t.Run(version, func(t *testing.T) {
			fs := goldenFS(t, version)
			report, err := Import(context.Background(), importOptions(fs))
			if err != nil {
				t.Fatal(err)
			}
			want := goldenWalk(t, version)
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
			checkStore(t, m)
			checkCounters(t, m)
			if m.LastZxid() != report.Zxid || m.AppliedIndex() != raftlog.ImportedIndex {
				t.Errorf("zxid %#x, entry %d; report %+v", int64(m.LastZxid()), m.AppliedIndex(), report)
			}
		})
	}
}

// checkCounters compares the position with what the store holds.
func checkCounters(t *testing.T, m *Machine) {
	t.Helper()
	want := schema.Position{Index: m.mu.pos.Index, Term: m.mu.pos.Term, Zxid: m.mu.pos.Zxid}
	children := map[string]int32{}
	var all []*schema.Znode
	if err := m.store.scan([]byte{schema.KindNode}, func(key, value []byte) (bool, error) {
		n, err := schema.DecodeHeader(string(schema.PathOfNodeKey(nil, key)), value)
		if err != nil {
			return false, err
		}
		all = append(all, n)
		want.Nodes++
		want.DataBytes += int64(len(n.Path)) + int64(n.DataLen)
		want.Digest += n.Digest(new([schema.DigestStatBytes]byte))
		if schema.SessionOwner(n) != 0 {
			want.Ephemerals++
			if m.mu.sessions[n.Owner] == nil {
				t.Errorf("%s belongs to session %#x, which is gone", n.Path, uint64(n.Owner))
			}
		}
		if n.Path != schema.RootPath {
			parent := schema.ParentOf(n.Path)
			if parent == "" {
				parent = schema.RootPath
			}
			children[parent]++
		}
		return true, nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, n := range all {
		if n.Children != children[n.Path] {
			t.Errorf("%s says it has %d children, and has %d", n.Path, n.Children, children[n.Path])
		}
		delete(children, n.Path)
	}
	if len(children) > 0 {
		t.Errorf("znodes without their parents: %v", children)
	}
	if want != m.mu.pos {
		t.Errorf("position %+v, want %+v", m.mu.pos, want)
	}
}

// TestImportedStateGoesOn applies entries to what was imported: sessions have their old passwords, sequences and
// quotas go on.
func TestImportedStateGoesOn(t *testing.T) {
	fs := goldenFS(t, "3.9")
	report, err := Import(context.Background(), importOptions(fs))
	if err != nil {
		t.Fatal(err)
	}
	m := imported(t, fs)
	v := m.View()
	stats, _ := v.Get("/zookeeper/quota/app/zookeeper_stats")
	before := parseStatsTrack(stats.Data())
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
	create := createProposal("/app/new-", []byte("123"), 2)
	create.Session, create.Server = id, 1
	b := entry.AppendProposal(entry.AppendProposal(entry.AppendEntryHeader(nil, 1, 1), again), create)
	if err := m.Apply(raftlog.ImportedIndex+1, 2, b, discard{}); err != nil {
		t.Fatal(err)
	}
	v = m.View()
	defer v.Close()
	stats, _ = v.Get("/zookeeper/quota/app/zookeeper_stats")
	after := parseStatsTrack(stats.Data())
	if after.count != before.count+1 || after.bytes != before.bytes+3 {
		t.Errorf("the quota counts %+v, before %+v", after, before)
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
		fs := goldenFS(t, "3.8")
		first, err := Import(context.Background(), importOptions(fs))
		if err != nil {
			t.Fatal(err)
		}
		source, err := OpenStateSource(fs, "/new/state")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := zkdata.WriteDir(fs, "/back", source, zkdata.WriteOptions{Compression: compression}); err != nil {
			t.Fatal(err)
		}
		if own, err := source.OwnPasswords(); own != 0 || err != nil {
			t.Errorf("%d passwords of our own, %v", own, err)
		}
		if err := source.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := zkdata.WriteDir(fs, "/back", source, zkdata.WriteOptions{}); !errors.Is(err, zkdata.ErrTarget) {
			t.Errorf("into a directory with data: %v", err)
		}
		if err := fs.RemoveAll("/new"); err != nil {
			t.Fatal(err)
		}
		o := importOptions(fs)
		o.From = "/back"
		second, err := Import(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		if !second.Verified || second.Digest != first.Digest || second.Zxid != first.Zxid ||
			second.Sessions != first.Sessions || second.Znodes != first.Znodes || second.Transactions != 0 {
			t.Errorf("first %+v\nthen %+v", first, second)
		}
		if diff := cmp.Diff(goldenWalk(t, "3.8"), walkLines(t, imported(t, fs))); diff != "" {
			t.Errorf("the server -, the import of the export +\n%s", diff)
		}
	}
}

// rewrite changes the content of a file.
func rewrite(t *testing.T, fs vfs.FS, path string, f func([]byte) []byte) {
	t.Helper()
	file, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, info.Size())
	if _, err := file.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if err := disk.WriteFile(fs, path, string(f(b))); err != nil {
		t.Fatal(err)
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
	note, ok := log.Meta(raftlog.ImportedKey)
	if !ok || len(note) != 9 {
		t.Fatalf("the raft log's note of the import is %x", note)
	}
	return jute.Zxid(binary.BigEndian.Uint64(note[1:]))
}
