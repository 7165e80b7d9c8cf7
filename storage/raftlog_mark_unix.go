//go:build unix

package storage

import "syscall"

// mapShared maps the first bytes of a file, which must be that long, so that what is stored there reaches the file
// without a system call.
func mapShared(fd uintptr, bytes int) ([]byte, error) {
	return syscall.Mmap(int(fd), 0, bytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
}

// unmapShared undoes mapShared; nil is allowed.
func unmapShared(mapped []byte) error {
	if mapped == nil {
		return nil
	}
	return syscall.Munmap(mapped)
}
