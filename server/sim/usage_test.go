package sim

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestUsage: what is in a directory is told with all that is below it, and of one that is not there nothing.
func TestUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(Options{Random: rand.New(rand.NewPCG(1, 1)), Participants: 1}) //nolint:gosec // a test
		s := w.Servers[0]
		fs := s.volume.fs
		for _, name := range []string{"/data/raftlog/a", "/data/raftlog/below/b"} {
			if err := fs.MkdirAll(fs.PathDir(name), 0o700); err != nil {
				t.Fatal(err)
			}
			file, err := fs.Create(name, vfs.WriteCategoryUnspecified)
			if err == nil {
				_, err = file.Write([]byte("four"))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if got := s.Usage("raftlog"); got != (Usage{Bytes: 8, Entries: 2}) {
			t.Errorf("two files of four bytes: %+v", got)
		}
		if got := s.Usage("state"); got != (Usage{}) {
			t.Errorf("a directory that is not there: %+v", got)
		}
	})
}
