package crashfs

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestSyncOfWhatWasAppended: after a crash a file has what was synced of it, however it was written.
func TestSyncOfWhatWasAppended(t *testing.T) {
	fs := New()
	file, err := fs.Create("log", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if file.(*gated).appended == nil {
		t.Fatal("MemFS holds files otherwise than it did")
	}
	other, err := fs.OpenReadWrite("log", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := fs.OpenDir("")
	if err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		do   func() error
		left string
	}{
		{dir.Sync, ""},
		{func() error { _, err := file.Write([]byte("abc")); return err }, ""},
		{file.Sync, "abc"},
		{func() error { _, err := file.Write([]byte("def")); return err }, "abc"},
		{func() error { _, err := other.WriteAt([]byte("B"), 1); return err }, "abc"},
		{file.Sync, "aBcdef"},
		{func() error { _, err := file.Write([]byte("g")); return err }, "aBcdef"},
		{file.SyncData, "aBcdefg"},
	}
	for i, step := range steps {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		left, err := contents(fs.CrashClone(vfs.CrashCloneCfg{}), "log")
		if err != nil || string(left) != step.left {
			t.Errorf("step %d: %q is left, want %q: %v", i, left, step.left, err)
		}
	}
}
