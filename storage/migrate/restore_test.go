package migrate

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"zkd/jute"
	"zkd/storage/entry/entrytest"
	"zkd/storage/schema/schematest"
	"zkd/storage/state/statetest"
	"zkd/storage/zkdata"
	"zkd/storage/zkdata/zkdatatest"
)

// restored applies a restore of content, in two entries, and returns what came of the second one.
func restored(h *statetest.Harness, content []byte) jute.Code {
	h.T.Helper()
	upload, commit := entrytest.Upload(7, content, 100)
	h.Apply(upload...)
	return h.Apply(commit)[0]
}

// TestRestoreIsAnImport restores snapshots of a server of chance into a state that has other znodes and sessions, and
// compares with what an import makes of them.
func TestRestoreIsAnImport(t *testing.T) {
	worlds := envNumber(t, "ZKD_RESTORE_WORLDS", 10)
	for seed := uint64(1); worlds > 0; worlds, seed = worlds-1, seed+1 {
		o := zkdatatest.NewServer(rand.New(rand.NewPCG(seed, 2)))
		for range 20 + o.R.IntN(150) {
			o.Step()
		}
		s := o.Snapshot(0)
		compressions := []zkdata.Compression{zkdata.Plain, zkdata.Gzip, zkdata.Snappy}
		options := zkdata.WriteOptions{Compression: compressions[seed%3], OmitLastZxid: seed%4 == 0}
		fs := vfs.NewMem()
		if _, err := WriteDir(fs, "/old", s, options); err != nil {
			t.Fatal(err)
		}
		if _, err := Import(context.Background(), optionsOf(fs)); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		want := imported(t, fs)

		h := statetest.New(t)
		h.Apply(entrytest.Session(100), entrytest.Create("/a", []byte("another"), 0),
			entrytest.Create("/before", nil, 0))
		var content bytes.Buffer
		if err := zkdata.WriteSnapshot(&content, s, options); err != nil {
			t.Fatal(err)
		}
		if code := restored(h, content.Bytes()); code != jute.OK {
			t.Fatalf("seed %d: %v", seed, code)
		}
		if diff := cmp.Diff(schematest.Tree(statetest.Content(t, fs, want)), schematest.Tree(h.Content())); diff != "" {
			t.Fatalf("seed %d: import -, restore +\n%s", seed, diff)
		}
		if diff := cmp.Diff(walkLines(t, want), walkLines(t, h.M)); diff != "" {
			t.Fatalf("seed %d: import -, restore +\n%s", seed, diff)
		}
		schematest.Check(t, h.Content())
		v := h.M.View()
		if v.Digest() != s.Sum || v.Zxid() != max(s.Last, 4) || v.AppliedIndex() != 3 {
			t.Errorf("seed %d: zxid %d, digest %#x, entry %d, want zxid %d and digest %#x", seed, v.Zxid(), v.Digest(),
				v.AppliedIndex(), s.Last, s.Sum)
		}
		v.Close()
	}
}

// TestRestoreGolden restores what real servers have written.
func TestRestoreGolden(t *testing.T) {
	for _, version := range zkdatatest.Versions {
		source, err := OpenDir(zkdatatest.Golden(t, version), "/old", "")
		if err != nil {
			t.Fatal(err)
		}
		newest, _, err := source.Newest()
		if err != nil {
			t.Fatal(err)
		}
		content, err := wholeFile(zkdatatest.Golden(t, version), newest.Path)
		if err != nil {
			t.Fatal(err)
		}
		h := statetest.New(t)
		before := h.Content()
		code := restored(h, content)
		schematest.Check(t, h.Content())
		if code != jute.OK || len(h.Content()) < len(before)+100 {
			t.Errorf("%s: %v", version, code)
		}
	}
}

// wholeFile returns what a file holds.
func wholeFile(fs vfs.FS, path string) ([]byte, error) {
	file, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // opened for reading only
	return io.ReadAll(file)
}
