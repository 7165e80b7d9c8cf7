package raftlog

import (
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// logSizeStep is how many bytes of entries are between two of Log.SizesAtOpen: 4,096 of them for 1 GiB.
const logSizeStep = 256 << 10

// LogSize says how many bytes the data of the entries up to Index has, from some entry on.
type LogSize struct{ Index, Bytes uint64 }

// loadedSize notes an entry that was there at Open.
func (l *Log) loadedSize(e *LogEntry) {
	sizes := l.sizesAtOpen
	if len(sizes) == 0 {
		sizes = append(sizes, LogSize{Index: e.Index - 1})
	}
	last := sizes[len(sizes)-1]
	now := LogSize{Index: e.Index, Bytes: last.Bytes + uint64(len(e.Data))}
	if n := len(sizes); n > 1 && now.Bytes-sizes[n-2].Bytes < logSizeStep {
		sizes[n-1] = now
	} else {
		sizes = append(sizes, now)
	}
	l.sizesAtOpen = sizes
}

// SizesAtOpen returns what the entries had that were there at Open, in steps: the first one is of the entry before the
// first, with no bytes, the last one of the last entry. Empty if there were none. The slice is not to be changed.
func (l *Log) SizesAtOpen() []LogSize { return l.sizesAtOpen }

// DiskFree is the room that is left where the log is, in bytes. Costs one system call.
func (l *Log) DiskFree() (int64, error) {
	return diskFree(l.opts.FS, l.opts.Dir)
}

// diskFree is the room that is left for dir.
func diskFree(fs vfs.FS, dir string) (int64, error) {
	usage, err := fs.GetDiskUsage(dir)
	if err != nil {
		return 0, fmt.Errorf("ask for the room in %s: %w", dir, err)
	}
	return int64(min(usage.AvailBytes, math.MaxInt64)), nil
}
