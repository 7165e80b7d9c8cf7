package disk

import "github.com/cockroachdb/pebble/v2/vfs"

// MemTableBytesLeast is the least that a memtable comes to.
const MemTableBytesLeast = 512 << 10

// VolumeShare returns the part of the file system of dir, at least least and at most most; most if its size is not
// known.
func VolumeShare(fs vfs.FS, dir string, divisor, least, most int64) int64 {
	usage, err := fs.GetDiskUsage(dir)
	if err != nil || usage.TotalBytes == 0 {
		return most
	}
	return min(max(int64(usage.TotalBytes)/divisor, least), most)
}
