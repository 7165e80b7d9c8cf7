package ensemble

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Mountable returns why servers cannot have file systems of their own here, nil if they can.
func Mountable(tb testing.TB) error {
	tb.Helper()
	if os.Getuid() != 0 {
		return errors.New("mounting needs root")
	}
	dir := tb.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		return fmt.Errorf("mount a file system in memory: %w", err)
	}
	return syscall.Unmount(dir, syscall.MNT_DETACH)
}

// mountDisk gives dir a file system of its own, in memory, until the test ends.
func mountDisk(tb testing.TB, dir string, bytes int64) {
	tb.Helper()
	if err := os.MkdirAll(dir, 0o750); err != nil {
		tb.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		tb.Fatalf("mount a file system of %d bytes on %s: %v", bytes, dir, err)
	}
	tb.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) }) // gone with its last user
}

// filler is what FillDisk leaves until FreeDisk.
const filler = "filler"

// FillDisk fills the file system of the server's data to the last byte.
func (s *Server) FillDisk() {
	s.tb.Helper()
	file, err := os.Create(filepath.Join(s.DataDir(), filler))
	if err != nil {
		s.tb.Error(err)
		return
	}
	defer file.Close() //nolint:errcheck // its content means nothing
	for chunk := make([]byte, 1<<20); len(chunk) > 0; {
		if _, err := file.Write(chunk); errors.Is(err, syscall.ENOSPC) {
			chunk = chunk[:len(chunk)/2]
		} else if err != nil {
			s.tb.Error(err)
			return
		}
	}
}

// FreeDisk ends FillDisk.
func (s *Server) FreeDisk() {
	s.tb.Helper()
	if err := os.Remove(filepath.Join(s.DataDir(), filler)); err != nil {
		s.tb.Error(err)
	}
}
