package process

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// sectorBytes is the unit of /proc/diskstats, whatever the disk's own is.
const sectorBytes = 512

// writtenTo returns the bytes that were written to the disk under dir since the system has started, what waited in
// memory included: it is written first. 0 if the file system has no disk, or one that the kernel does not count.
//
// It is not what /proc/PID/io says: that counts a whole folio when a byte of it changes, which is a mebibyte where a
// file was first written in such pieces (2,000 writes of 1 KiB were counted as 4 KiB or 1 MiB each, by that alone).
func writtenTo(dir string) (int64, error) {
	folder, err := os.Open(dir)
	if err != nil {
		return 0, err
	}
	defer func() { _ = folder.Close() }() // read only
	if err := unix.Syncfs(int(folder.Fd())); err != nil {
		return 0, fmt.Errorf("write what waits for the disk of %s: %w", dir, err)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(folder.Fd()), &stat); err != nil {
		return 0, err
	}
	text, err := os.ReadFile("/proc/diskstats")
	if err != nil {
		return 0, nil //nolint:nilerr // it is not known here
	}
	return writtenOf(string(text), unix.Major(stat.Dev), unix.Minor(stat.Dev)), nil
}

// writtenOf finds what was written to a device in the text of /proc/diskstats; 0 if it is not there.
func writtenOf(text string, major, minor uint32) int64 {
	for line := range strings.Lines(text) {
		var (
			gotMajor, gotMinor            uint32
			name                          string
			reads, merged, read, readTime int64
			writes, mergedWrites, written int64
		)
		n, _ := fmt.Sscan(line, &gotMajor, &gotMinor, &name, &reads, &merged, &read, &readTime, &writes,
			&mergedWrites, &written) // a line of another form has fewer
		if n == 10 && gotMajor == major && gotMinor == minor {
			return written * sectorBytes
		}
	}
	return 0
}
