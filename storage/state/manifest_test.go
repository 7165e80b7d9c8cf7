package state

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/disk"
	"zkd/storage/disk/disktest"
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
		path := disktest.Manifest(t, mem, "state")
		names[path] = true
		if size := len(disktest.Read(t, mem, path)); size > 2*disk.ManifestBytes {
			t.Fatalf("after %d flushes %s has %d bytes", i+1, path, size)
		}
	}
	if len(names) < 2 {
		t.Errorf("after %d flushes the MANIFEST was never begun anew", flushes)
	}
	if _, _, err := m.Checkpoint(t.Context(), "checkpoint"); err != nil {
		t.Fatal(err)
	}
	path := disktest.Manifest(t, mem, "checkpoint")
	if size := len(disktest.Read(t, mem, path)); size > 2*disk.ManifestBytes {
		t.Errorf("%s has %d bytes", path, size)
	}
}
