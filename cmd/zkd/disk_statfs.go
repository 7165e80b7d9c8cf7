//go:build linux || darwin

package main

import "golang.org/x/sys/unix"

// diskFree is the room that this user has on the disk of dir, in bytes.
func diskFree(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(s.Bsize), nil
}
