package zkdata

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/adler32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"zkd/jute"
)

// tree is a Source of few znodes.
type tree struct {
	zxid     jute.Zxid
	digest   uint64
	sessions []Session
	nodes    []Node
}

func (t *tree) Zxid() jute.Zxid              { return t.zxid }
func (t *tree) Digest() uint64               { return t.digest }
func (t *tree) Sessions() ([]Session, error) { return t.sessions, nil }
func (t *tree) Nodes(_ bool, f func(*Node) error) error {
	for i := range t.nodes {
		if err := f(&t.nodes[i]); err != nil {
			return err
		}
	}
	return nil
}

// sample is a tree with one of each.
func sample() *tree {
	list := []jute.ACL{{Perms: jute.PermRead, ID: jute.ID{Scheme: "ip", ID: "10.0.0.0/8"}}}
	return &tree{
		zxid: 0x500000123, digest: 0xfedcba9876543210,
		sessions: []Session{{ID: 0x100001, TimeoutMillis: 30000}, {ID: -5, TimeoutMillis: 4000}},
		nodes: []Node{
			{Path: "/", Data: []byte{}, ACL: openACL, Creations: 3, Pzxid: 7},
			{Path: "/a", Data: nil, ACL: list, Czxid: 1, Mzxid: 2, Pzxid: 3, Ctime: 4, Mtime: 5, Version: 6,
				Aversion:  7,
				Creations: 8, Owner: 0x100001},
			{Path: "/a/b", Data: bytes.Repeat([]byte("x"), 100_000), ACL: list, Owner: -1 << 63},
			{Path: "/ü", Data: []byte("y"), ACL: []jute.ACL{}},
		},
	}
}

// readAll reads a snapshot.
func readAll(content []byte) (*tree, *Snapshot, error) {
	s, err := ReadSnapshot(bytes.NewReader(content), "snapshot.1")
	if err != nil {
		return nil, nil, err
	}
	got := &tree{sessions: s.Sessions()}
	for {
		n, ok, err := s.Next()
		if err != nil {
			return nil, nil, err
		}
		if !ok {
			break
		}
		kept := *n
		if n.Data != nil {
			kept.Data = bytes.Clone(n.Data)
		}
		got.nodes = append(got.nodes, kept)
	}
	got.zxid, _ = s.LastZxid()
	if d := s.Digest(); d != nil {
		got.digest = d.Sum
	}
	return got, s, nil
}

// written returns a snapshot of src.
func written(t testing.TB, src Source, c Compression) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteSnapshot(&b, src, WriteOptions{Compression: c}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestSnapshotRoundTrip(t *testing.T) {
	for _, c := range []Compression{Plain, Gzip, Snappy} {
		want := sample()
		got, s, err := readAll(written(t, want, c))
		if err != nil {
			t.Fatalf("%q: %v", c, err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(tree{})); diff != "" {
			t.Errorf("%q: written -, read +\n%s", c, diff)
		}
		if s.Compression != c || s.Digest().Zxid != want.zxid || s.Digest().Version != DigestVersion {
			t.Errorf("compression %q, digest %+v", s.Compression, s.Digest())
		}
	}
}

// TestSnapshotOfOtherVersions reads what older servers, or other settings, leave out behind the znodes.
func TestSnapshotOfOtherVersions(t *testing.T) {
	whole := written(t, sample(), Plain)
	const seal = 8 + 4 + 1
	lastBytes, digestBytes := 8+seal, 8+4+8+seal
	cut := len(whole) - lastBytes - digestBytes
	lastOnly := jute.AppendLong(bytes.Clone(whole[:cut]), 0x77)
	lastOnly = jute.AppendLong(lastOnly, int64(adler32.Checksum(lastOnly)))
	lastOnly = jute.AppendString(lastOnly, "/")
	oldDigest := jute.AppendInt(jute.AppendLong(bytes.Clone(whole[:cut]), 0x77), 1)
	oldDigest = jute.AppendString(oldDigest, "abc")
	oldDigest = jute.AppendLong(oldDigest, int64(adler32.Checksum(oldDigest)))
	oldDigest = jute.AppendString(oldDigest, "/")
	for _, c := range []struct {
		name    string
		content []byte
		digest  *Digest
		last    jute.Zxid
		hasLast bool
	}{
		{"3.5: nothing", whole[:cut], nil, 0, false},
		{"3.8: the digest", whole[:len(whole)-lastBytes], &Digest{0x500000123, 2, 0xfedcba9876543210}, 0, false},
		{"3.9 without digest", lastOnly, nil, 0x77, true},
		{"an old digest", oldDigest, &Digest{0x77, 1, 0xabc}, 0, false},
	} {
		_, s, err := readAll(c.content)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		last, has := s.LastZxid()
		if diff := cmp.Diff(c.digest, s.Digest()); diff != "" || last != c.last || has != c.hasLast {
			t.Errorf("%s: last %#x, %v, digest\n%s", c.name, int64(last), has, diff)
		}
	}
}

// TestSnapshotDamage changes each byte, and cuts the file at each length: all of it is noticed, with the file's name.
func TestSnapshotDamage(t *testing.T) {
	small := sample()
	small.nodes[2].Data = []byte("short")
	for _, c := range []Compression{Plain, Gzip, Snappy} {
		whole := written(t, small, c)
		for i := range whole {
			b := bytes.Clone(whole)
			b[i] ^= 0x41
			if got, _, err := readAll(b); err == nil &&
				!(c == Gzip && i < 10) { // gzip's head holds a time and the like
				if diff := cmp.Diff(small, got, cmp.AllowUnexported(tree{})); diff != "" {
					t.Errorf("%q: byte %d changed, and nobody noticed\n%s", c, i, diff)
				}
			} else if err != nil && (!errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "snapshot.1")) {
				t.Errorf("%q: byte %d changed: %v", c, i, err)
			}
		}
		const seal = 8 + 4 + 1
		ends := map[int]bool{len(whole) - 8 - seal: true, len(whole) - 2*8 - 4 - 8 - 2*seal: true}
		for n := range whole {
			_, _, err := readAll(whole[:n])
			if err == nil && !(c == Plain && ends[n]) {
				t.Errorf("%q: cut at %d of %d, and nobody noticed", c, n, len(whole))
			}
		}
	}
}

func TestReadSnapshotRefuses(t *testing.T) {
	head := jute.AppendLong(jute.AppendInt(jute.AppendInt(nil, snapshotMagic), fileVersion), -1)
	for _, c := range []struct {
		name    string
		content []byte
		want    string
	}{
		{"nothing", nil, "offset 0: the head"},
		{"a log", jute.AppendLong(jute.AppendInt(jute.AppendInt(nil, logMagic), 2), 0), "it begins with 5a4b4c47"},
		{"another version", jute.AppendLong(jute.AppendInt(jute.AppendInt(nil, snapshotMagic), 3), 0), "version is 3"},
		{"many sessions", jute.AppendInt(bytes.Clone(head), 1<<30), "the file ends inside"},
		{"a negative count", jute.AppendInt(bytes.Clone(head), -2), "negative"},
		{"a long path", jute.AppendInt(jute.AppendLong(bytes.Clone(head), 0), 1<<30), "the file ends inside"},
		{"a wrong path", jute.AppendString(jute.AppendLong(bytes.Clone(head), 0), "a//b"), `"a//b"`},
		{"snappy of the future", append(bytes.Clone(snappyHeader[:12]), 0, 0, 0, 9), "snappy"},
	} {
		if _, _, err := readAll(c.content); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestMissingACL reads a znode whose list came after the table was written.
func TestMissingACL(t *testing.T) {
	b := jute.AppendLong(jute.AppendInt(jute.AppendInt(nil, snapshotMagic), fileVersion), -1)
	b = jute.AppendLong(b, 0) // no sessions, no lists
	b = jute.AppendBuffer(jute.AppendString(b, ""), nil)
	b = append(jute.AppendLong(b, 9), make([]byte, 60)...)
	s, err := ReadSnapshot(bytes.NewReader(b), "snapshot.1")
	if err != nil {
		t.Fatal(err)
	}
	n, ok, err := s.Next()
	if err != nil || !ok || !n.ACLMissing || n.Path != "/" || n.Data != nil {
		t.Errorf("%+v, %v, %v", n, ok, err)
	}
}

// TestPasswd compares with what java.util.Random gives.
func TestPasswd(t *testing.T) {
	for id, want := range map[jute.SessionID]string{ // order does not matter: independent cases
		0x1000037e3a70000: "\x8b\x80\xd3\x64\xbc\xce\x43\xca\xe1\xb9\xec\x4f\x65\x93\xd9\xc5",
		1:                 "\x05\x4c\xc7\x4a\x37\x32\x7d\xb2\x15\xe7\x02\xe2\x0c\x73\xf0\x05",
		-2:                "\x0d\xd5\x32\xb5\xc4\x41\xe3\x92\x7c\x04\xb5\x5e\x50\xfd\x94\x21",
	} {
		if got := Passwd(id); string(got[:]) != want {
			t.Errorf("session %#x: %x, want %x", uint64(id), got, want)
		}
	}
}

// goldens returns the files that real servers have written.
func goldens(t testing.TB, prefix string) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("zkdatatest", "testdata", "zookeeper", "*", "version-2", prefix+".*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files of ZooKeeper: %v", err)
	}
	all := map[string][]byte{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[file] = content
	}
	return all
}

// TestGoldenSnapshots reads what real servers have written.
func TestGoldenSnapshots(t *testing.T) {
	for file, content := range goldens(t, "snapshot") { // order does not matter: independent cases
		got, s, err := readAll(content)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		_, hasLast := s.LastZxid()
		is39, isOld := strings.Contains(file, "3.9"), strings.Contains(file, "3.5") || strings.Contains(file, "3.4")
		if len(got.nodes) < 100 || len(got.sessions) == 0 || s.ACLs() == 0 || hasLast != is39 ||
			(s.Digest() == nil) != isOld {
			t.Errorf("%s: %d znodes, %d sessions, %d ACLs, last %v, digest %v", file, len(got.nodes), len(got.sessions),
				s.ACLs(), hasLast, s.Digest())
		}
	}
}

func FuzzSnapshot(f *testing.F) {
	for _, content := range goldens(f, "snapshot") { // order does not matter: a corpus
		if len(content) < 20<<10 {
			f.Add(content)
		}
	}
	small := sample()
	small.nodes[2].Data = nil
	for _, c := range []Compression{Plain, Gzip, Snappy} {
		f.Add(written(f, small, c))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		got, s, err := readAll(content)
		if err != nil {
			return
		}
		for _, n := range got.nodes {
			if n.ACLMissing || n.Path != "/" && !strings.HasPrefix(n.Path, "/") {
				return // what is written must have its lists
			}
		}
		got.zxid = max(got.zxid, 1)
		again, _, err := readAll(written(t, got, Snappy))
		if err != nil {
			t.Fatalf("what was read (offset %d) and written cannot be read: %v", s.Offset(), err)
		}
		if diff := cmp.Diff(got, again, cmp.AllowUnexported(tree{})); diff != "" {
			t.Fatal(diff)
		}
	})
}

// FuzzDecompress reads streams of snappy-java's form.
func FuzzDecompress(f *testing.F) {
	f.Add(written(f, sample(), Snappy))
	f.Add(append(bytes.Clone(snappyHeader), binary.BigEndian.AppendUint32(nil, 1<<31)...))
	f.Fuzz(func(t *testing.T, content []byte) {
		r, _, err := decompress(bytes.NewReader(content))
		if err != nil {
			return
		}
		buf := make([]byte, 4096)
		for total := 0; total < 1<<26; {
			n, err := r.Read(buf)
			total += n
			if err != nil {
				return
			}
		}
	})
}
