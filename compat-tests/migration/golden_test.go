package migration_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zkd/compat-tests/target"
)

var update = flag.Bool("update", false, "write the directories that storage's tests import anew, by real servers")

// goldenDir is where storage's tests find them.
const goldenDir = "../../storage/zkdata/zkdatatest/testdata/zookeeper"

// TestGolden writes, with -update, a small directory for each version, with a snapshot that was taken under load, and
// the walk over the server that has written it.
func TestGolden(t *testing.T) {
	if !*update {
		t.Skip("-update was not given")
	}
	for _, c := range []struct {
		name, version string
		flags         []string
	}{
		{"3.9", target.ServerVersion, []string{"-Dzookeeper.snapshot.compression.method=gz"}},
		{"3.8", target.ServerVersion38, []string{"-Dzookeeper.snapshot.compression.method=snappy"}},
		{"3.5", serverVersion35, nil},
		{"3.4", serverVersion34, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := old(t, c.version, c.flags...)
			holder := connect(t, 30*time.Second, server.Addr)
			load(t, server.Addr, 900, 3)
			fill(t, holder, c.version != serverVersion34)
			lines := walk(t, server.Addr)
			if c.version == serverVersion34 {
				lines = withConfig(t, lines)
			}
			server.Kill9()
			tear(t, filepath.Join(server.Dir, "data"))
			to := filepath.Join(goldenDir, c.name)
			must(t, os.RemoveAll(to))
			must(t, os.MkdirAll(filepath.Join(to, "version-2"), 0o750))
			must(t, os.WriteFile(filepath.Join(to, "walk.txt"), []byte(strings.Join(lines, "\n")+"\n"), 0o600))
			keepNewest(t, filepath.Join(server.Dir, "data", "version-2"), filepath.Join(to, "version-2"))
		})
	}
}

// keepNewest copies the newest snapshot and the logs that go with it.
func keepNewest(t *testing.T, from, to string) {
	t.Helper()
	snapshots, err := filepath.Glob(filepath.Join(from, "snapshot.*"))
	must(t, err)
	newest := ""
	for _, s := range snapshots {
		if newest == "" || zxidOf(s) > zxidOf(newest) {
			newest = s
		}
	}
	logs, err := filepath.Glob(filepath.Join(from, "log.*"))
	must(t, err)
	first := ""
	for _, l := range logs {
		if zxidOf(l) <= zxidOf(newest) && (first == "" || zxidOf(l) > zxidOf(first)) {
			first = l
		}
	}
	files := []string{newest}
	for _, l := range logs {
		if zxidOf(l) >= zxidOf(first) {
			files = append(files, l)
		}
	}
	for _, f := range files {
		content, err := os.ReadFile(f)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(to, filepath.Base(f)), content, 0o600))
	}
}
