package zkdatatest

import (
	"embed"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/disk"
)

// Versions are the servers that have written the golden directories (compat-tests/migration.TestGolden).
var Versions = []string{"3.9", "3.8", "3.5", "3.4"}

//go:embed testdata/zookeeper
var golden embed.FS

// Golden returns a file system in memory with the data directory of a version at /old.
func Golden(t testing.TB, version string) *vfs.MemFS {
	t.Helper()
	mem := vfs.NewMem()
	from := path.Join("testdata/zookeeper", version)
	err := fs.WalkDir(golden, from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := path.Join("/old", strings.TrimPrefix(name, from))
		if d.IsDir() {
			return mem.MkdirAll(to, 0o750)
		}
		content, err := golden.ReadFile(name)
		if err != nil {
			return err
		}
		return disk.WriteFile(mem, to, string(content))
	})
	if err != nil {
		t.Fatal(err)
	}
	return mem
}

// Walk returns the walk over the server that has written a golden directory: a line for each znode, in the form of
// Server.Lines.
func Walk(t testing.TB, version string) []string {
	t.Helper()
	text, err := golden.ReadFile(path.Join("testdata/zookeeper", version, "walk.txt"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}
