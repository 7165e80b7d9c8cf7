package migrate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"zkd/jute"
	"zkd/storage/disk"
	"zkd/storage/schema"
	"zkd/storage/state/statetest"
	"zkd/storage/zkdata"
	"zkd/storage/zkdata/zkdatatest"
)

// writeFiles writes what the server has.
func writeFiles(t *testing.T, fs vfs.FS, o *zkdatatest.Server, s *zkdatatest.Snapshot, at jute.Zxid) {
	t.Helper()
	if _, err := WriteDir(fs, "/old", s, zkdata.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	dir := "/old/version-2/"
	if err := errors.Join(fs.Rename(dir+SnapshotName(s.Last, zkdata.Plain),
		dir+SnapshotName(at, zkdata.Plain)), disk.WriteFile(fs, fmt.Sprintf("%slog.%x", dir, int64(o.From)),
		string(o.Log))); err != nil {
		t.Fatal(err)
	}
}

// envNumber returns a number from the environment.
func envNumber(t *testing.T, name string, def int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return def
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestImportAgainstModel imports what a server of chance has written, with a snapshot that is fuzzy, and compares the
// tree, the sessions and all that the store counts with the server's own.
func TestImportAgainstModel(t *testing.T) {
	worlds := envNumber(t, "ZKD_IMPORT_WORLDS", 60)
	first := uint64(envNumber(t, "ZKD_MODEL_SEED", 1))
	// In these a session may end whose ephemeral the snapshot does not have, in a log of before 3.6: in 925 it has the
	// parent, in 1375 another znode at its path.
	seeds := []uint64{925, 1375}
	for i := range uint64(worlds) {
		seeds = append(seeds, first+i)
	}
	for _, seed := range seeds {
		o := zkdatatest.NewServer(rand.New(rand.NewPCG(seed, 1)))
		o.Digests = seed%5 != 0 // as before 3.6
		for range o.R.IntN(150) {
			o.Step()
		}
		if seed%3 == 0 {
			o.Begin() // older logs were purged
		}
		at := o.Zxid
		s := o.Snapshot(int(seed % 8))
		for range o.R.IntN(100) {
			o.Step()
		}
		fs := vfs.NewMem()
		writeFiles(t, fs, o, s, at)
		report, err := Import(context.Background(), optionsOf(fs))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		m := imported(t, fs)
		if diff := cmp.Diff(o.Lines(), walkLines(t, m)); diff != "" {
			t.Fatalf("seed %d: server -, import +\n%s", seed, diff)
		}
		sessions := map[jute.SessionID]int32{}
		v := m.View()
		v.Sessions(func(info schema.SessionInfo) { sessions[info.ID] = info.TimeoutMillis })
		v.Close()
		if diff := cmp.Diff(o.Sessions, sessions); diff != "" {
			t.Fatalf("seed %d: sessions of the server -, of the import +\n%s", seed, diff)
		}
		if !report.Verified || report.Digest != o.Digest() || report.Zxid != o.Zxid || m.LastZxid() != o.Zxid ||
			importNote(t, fs) != o.Zxid {
			t.Fatalf("seed %d: report %+v, digest %#x, zxid %d", seed, report, o.Digest(), o.Zxid)
		}
		statetest.Check(t, fs, m)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
