package storage

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// TestOpenWithFailingSyncs lets each sync fail, one after the other, while a state is opened: none is more than an
// error, and the next start finds a state.
func TestOpenWithFailingSyncs(t *testing.T) {
	failed := errors.New("input/output error")
	for at := 1; ; at++ {
		mem := vfs.NewMem()
		n := 0
		fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind != errorfs.OpFileSync && op.Kind != errorfs.OpFileSyncData {
				return nil
			}
			if n++; n == at {
				return failed
			}
			return nil
		}))
		m, err := OpenMachine(MachineOptions{Dir: "state", FS: fs})
		if err == nil {
			err = m.Close()
			if n < at {
				if at < 3 {
					t.Errorf("%d syncs: this tests nothing", n)
				}
				return
			}
		}
		if err != nil && !errors.Is(err, ErrDiskFailed) {
			t.Errorf("sync %d: %v", at, err)
		}
		again, err := OpenMachine(MachineOptions{Dir: "state", FS: mem})
		if err != nil {
			t.Errorf("after sync %d: %v", at, err)
			continue
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
}
