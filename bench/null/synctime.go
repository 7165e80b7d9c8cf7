package null

import (
	"os"
	"slices"
	"time"
)

// syncTimes is how many syncs SyncTime measures.
const syncTimes = 200

// SyncTime returns the median time in which a kibibyte is written over and synced on the disk of parent ("" for the
// system's temporary directory).
func SyncTime(parent string) (time.Duration, error) {
	dir, err := os.MkdirTemp(parent, "zkd-bench-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary directory
	l, err := openLog(dir)
	if err != nil {
		return 0, err
	}
	defer l.close()
	data, took := make([]byte, 1024), make([]time.Duration, syncTimes)
	for i := range took {
		began := time.Now()
		if err := l.write(data); err != nil {
			return 0, err
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return took[syncTimes/2], nil
}
