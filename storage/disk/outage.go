package disk

import (
	"errors"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Outage is one disk that stores of a server are on: what befalls all of it is one event, which the first store that
// meets it tells of. Safe for concurrent use.
type Outage struct{ told atomic.Bool }

// Outages finds the Outage of each disk of a server. It is for one goroutine.
type Outages struct {
	FS   vfs.FS
	disk map[vfs.DeviceID]*Outage
}

// Of returns the one of the disk that a directory is on, or will be when it is made.
func (o *Outages) Of(dir string) *Outage {
	for {
		info, err := o.FS.Stat(dir)
		if err == nil {
			id := info.DeviceID()
			if o.disk == nil {
				o.disk = map[vfs.DeviceID]*Outage{}
			}
			if o.disk[id] == nil {
				o.disk[id] = new(Outage)
			}
			return o.disk[id]
		}
		parent := o.FS.PathDir(dir)
		if parent == dir {
			return new(Outage)
		}
		dir = parent
	}
}

// first tells whether a failure is to be told of: it is that of one store, or nobody has met it on this disk.
func (o *Outage) first(cause error) bool {
	return o == nil || !ofWholeDisk(cause) || o.told.CompareAndSwap(false, true)
}

// ofWholeDisk tells whether a failure befalls all that is on a disk.
func ofWholeDisk(cause error) bool {
	return errors.Is(cause, syscall.ENOSPC) || errors.Is(cause, syscall.EDQUOT) || errors.Is(cause, syscall.EROFS)
}
