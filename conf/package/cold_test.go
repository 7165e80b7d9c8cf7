package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// releasedBytesMax is how large the binary of a release may be. Measured 2026-11: 23.99 MB.
const releasedBytesMax = 24_000_000

// TestReleasedBinaryIsSmall builds the binary of linux/amd64 as dist does.
func TestReleasedBinaryIsSmall(t *testing.T) {
	if testing.Short() || runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("builds zkd for Linux on amd64")
	}
	file, err := build(t.Context(), testRoot, t.TempDir(), testStamp, target{"linux", "amd64"})
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", info.Size())
	if info.Size() > releasedBytesMax {
		t.Errorf("the binary has %d bytes, more than %d", info.Size(), releasedBytesMax)
	}
}

// hot are packages that every request goes through.
var hot = []string{
	"runtime", "syscall", "net", "internal/poll", "bufio", "sync", "time", "slices", "strings", "bytes", "hash/crc32",
	"crypto/internal/fips140/aes/gcm", "zkd/jute", "zkd/jute/client", "zkd/server", "zkd/server/socket",
	"zkd/server/limits", "zkd/server/watch", "zkd/server/traffic", "zkd/quorum", "zkd/quorum/batcher",
	"zkd/quorum/transport", "zkd/storage/entry", "zkd/storage/schema", "zkd/storage/apply", "zkd/storage/state",
	"zkd/storage/childlist", "zkd/storage/acl", "zkd/storage/raftlog", "go.etcd.io/raft/v3",
	"github.com/cockroachdb/pebble/v2", "github.com/cockroachdb/pebble/v2/sstable", "github.com/cockroachdb/swiss",
	"github.com/klauspost/compress/zstd", "github.com/golang/snappy",
}

// TestColdPackages compares the patterns with what is in the binary: each names something, and no hot package.
func TestColdPackages(t *testing.T) {
	root, err := filepath.Abs(testRoot)
	if err != nil {
		t.Fatal(err)
	}
	list, err := output(t.Context(), root, buildEnviron(target{"linux", "amd64"}), "go", "list", "-deps",
		"-tags", buildTags, "./cmd/zkd")
	if err != nil {
		t.Fatal(err)
	}
	linked := map[string]bool{}
	for name := range strings.Lines(list + "\n") {
		linked[strings.TrimSuffix(name, "\n")] = true
	}
	matched := map[string]bool{}
	for _, pattern := range cold {
		before := len(matched)
		parent, below := strings.CutSuffix(pattern, "/...")
		for name := range linked { // any order: into a set
			if name == parent || below && strings.HasPrefix(name, parent+"/") {
				matched[name] = true
			}
		}
		if len(matched) == before {
			t.Errorf("%s names no package of the binary that is not named before", pattern)
		}
	}
	for _, name := range hot {
		if !linked[name] {
			t.Errorf("%s is not in the binary", name)
		}
		if matched[name] {
			t.Errorf("%s is compiled without inlining", name)
		}
	}
}
