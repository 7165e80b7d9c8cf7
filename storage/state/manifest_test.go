package state

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/disk"
	"zkd/storage/entry/entrytest"
)

// TestTheManifestStaysShort: a start reads the MANIFEST, and a checkpoint copies it, however often the state was
// flushed.
func TestTheManifestStaysShort(t *testing.T) {
	const flushes = 2000
	mem := vfs.NewMem()
	m, err := OpenMachine(MachineOptions{Dir: "state", FS: mem})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close() //nolint:errcheck // of a file system in memory
	h := &harness{t: t, m: m}
	h.apply(entrytest.Session(1))
	h.apply(entrytest.Create("/a", nil, 0))
	names := map[string]bool{}
	for i := range flushes {
		h.apply(entrytest.SetData("/a", fmt.Append(nil, i)))
		if err := m.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		name, size := manifest(t, mem, "state")
		if names[name] = true; size > 2*disk.ManifestBytes {
			t.Fatalf("after %d flushes %s has %d bytes", i+1, name, size)
		}
	}
	if len(names) < 2 {
		t.Errorf("after %d flushes the MANIFEST was never begun anew", flushes)
	}
	if _, _, err := m.Checkpoint(t.Context(), "checkpoint"); err != nil {
		t.Fatal(err)
	}
	if name, size := manifest(t, mem, "checkpoint"); size > 2*disk.ManifestBytes {
		t.Errorf("%s of the checkpoint has %d bytes", name, size)
	}
}

// manifest returns the name of the MANIFEST that a store uses, and its size in bytes.
func manifest(t *testing.T, fs vfs.FS, dir string) (name string, size int64) {
	t.Helper()
	desc, err := pebble.Peek(dir, fs)
	if err != nil || !desc.Exists {
		t.Fatalf("no store in %s: %v", dir, err)
	}
	info, err := fs.Stat(desc.ManifestFilename)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Base(desc.ManifestFilename), info.Size()
}
