//go:build linux || darwin

package main

import "golang.org/x/sys/unix"

// diskRoom is the room that this user has on the disk of dir, and the size of that disk, in bytes.
func diskRoom(dir string) (free, total uint64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, err
	}
	return s.Bavail * uint64(s.Bsize), s.Blocks * uint64(s.Bsize), nil
}
