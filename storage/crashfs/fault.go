package crashfs

import (
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// FaultAt returns a file system whose n-th write operation of a kind fails with err, and all after it; n counts down
// from when armed.
func FaultAt(fs vfs.FS, countdown *atomic.Int64, err error) vfs.FS {
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && countdown.Add(-1) < 0 {
			return err
		}
		return nil
	}))
}
