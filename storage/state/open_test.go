package state

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// TestOpenOnAFailingDisk lets each write, one after the other, fail while a state is opened, a new one and one that is
// there: none is more than an error, and the next start finds a state.
func TestOpenOnAFailingDisk(t *testing.T) {
	for _, there := range []bool{false, true} {
		at := int64(1)
		for openFailing(t, there, at) {
			at++
		}
		if at < 10 {
			t.Errorf("state there: %v; %d writes: this tests nothing", there, at-1)
		}
	}
}

// openFailing opens a state while the write with the number at fails, and tells whether there was one.
func openFailing(t *testing.T, there bool, at int64) bool {
	t.Helper()
	mem := vfs.NewMem()
	open := func(fs vfs.FS) error {
		m, err := OpenMachine(MachineOptions{Dir: "state", FS: fs})
		if err != nil {
			return err
		}
		return m.Close()
	}
	if there {
		if err := open(mem); err != nil {
			t.Fatal(err)
		}
	}
	failed := errors.New("input/output error")
	var n atomic.Int64
	err := open(errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && n.Add(1) == at {
			return failed
		}
		return nil
	})))
	if err != nil && !errors.Is(err, failed) {
		t.Errorf("state there: %v; write %d: %v", there, at, err)
	}
	if err := open(mem); err != nil {
		t.Errorf("state there: %v; after write %d: %v", there, at, err)
	}
	return n.Load() >= at
}

// TestStateIsClosedToOthers: the directory of a state that is made beside another, as a restore does, is no more open
// than what the first start makes.
func TestStateIsClosedToOthers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	m, err := OpenMachine(MachineOptions{Dir: dir, FS: vfs.Default})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode&0o027 != 0 {
		t.Errorf("the state has mode %v", mode)
	}
}
