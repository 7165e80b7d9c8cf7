package ensemble

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"zkd/compat-tests/target"
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

// MountDisk gives dir a file system of its own, in memory, until the test ends.
func MountDisk(tb testing.TB, dir string, bytes int64) {
	tb.Helper()
	if err := os.MkdirAll(dir, 0o750); err != nil {
		tb.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0750", bytes)); err != nil {
		tb.Fatalf("mount a file system of %d bytes on %s: %v", bytes, dir, err)
	}
	tb.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) }) // gone with its last user
}

// ResizeDisk gives the file system of the server's data another size; it must have one of its own.
func (s *Server) ResizeDisk(bytes int64) {
	s.tb.Helper()
	size := fmt.Sprintf("size=%d", bytes)
	if err := syscall.Mount("tmpfs", s.DataDir(), "tmpfs", syscall.MS_REMOUNT, size); err != nil {
		s.tb.Errorf("give the disk of server %d %d bytes: %v", s.ID, bytes, err)
	}
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

// hangingBytes is the size of a file system that can hang, if none is asked for: what ext4 wants for itself, the data
// of a short test, and what a log keeps for a server that is behind. What is not written takes no memory.
const hangingBytes = 512 << 20

// Hangable returns why servers cannot have file systems that hang here, nil if they can.
func Hangable(tb testing.TB) error {
	tb.Helper()
	if err := Mountable(tb); err != nil {
		return err
	}
	dir := filepath.Join(tb.TempDir(), "disk")
	if err := mountImageAt(dir, filepath.Dir(dir), hangingBytes); err != nil {
		return err
	}
	return errors.Join(freeze(dir, true), freeze(dir, false), unmountImage(dir, filepath.Dir(dir)))
}

// mountImage gives dir a file system of its own until the test ends. It is an ext4 in a file in memory: what is fsynced
// costs no disk of the machine's, and unlike a tmpfs it can be frozen.
func mountImage(tb testing.TB, dir, beside string, bytes int64) {
	tb.Helper()
	if err := mountImageAt(dir, beside, bytes); err != nil {
		tb.Fatalf("mount a file system of %d bytes on %s: %v", bytes, dir, err)
	}
	tb.Cleanup(func() {
		_ = freeze(dir, false) // or whoever writes there would wait for ever
		_ = unmountImage(dir, beside)
	})
}

// unmountImage ends mountImageAt. The file systems are gone with their last users.
func unmountImage(dir, beside string) error {
	return errors.Join(syscall.Unmount(dir, syscall.MNT_DETACH), syscall.Unmount(imageDir(beside), syscall.MNT_DETACH))
}

// imageDir is where the image of a server's file system is.
func imageDir(beside string) string { return filepath.Join(beside, "image") }

// mountWithin bounds the making of a file system. A guess: it takes a tenth of a second.
const mountWithin = time.Minute

// mountImageAt makes a file system and mounts it on dir.
func mountImageAt(dir, beside string, bytes int64) (err error) {
	memory := imageDir(beside)
	for _, d := range []string{dir, memory} {
		if err := os.MkdirAll(d, 0o750); err != nil {
			return err
		}
	}
	if err := syscall.Mount("tmpfs", memory, "tmpfs", 0, fmt.Sprintf("size=%d", bytes+bytes/8)); err != nil {
		return fmt.Errorf("mount a file system in memory: %w", err)
	}
	defer func() { // the mount of the image keeps it in use
		if err != nil {
			_ = syscall.Unmount(memory, syscall.MNT_DETACH)
		}
	}()
	image := filepath.Join(memory, "ext4")
	file, err := os.Create(image) //nolint:gosec // beside the server's data
	if err != nil {
		return err
	}
	if err := errors.Join(file.Truncate(bytes), file.Close()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), mountWithin)
	defer cancel()
	if err := target.Execute(ctx, memory, "mkfs.ext4", "-q", "-F", "-m", "0", image); err != nil {
		return err
	}
	return target.Execute(ctx, memory, "mount", "-o", "loop", image, dir)
}

// The requests of ioctl that stop a file system and let it go on (linux/fs.h).
const (
	requestFreeze = 0xc0045877 // FIFREEZE
	requestThaw   = 0xc0045878 // FITHAW
)

// freeze stops the file system that is mounted on dir, or lets it go on.
func freeze(dir string, stop bool) error {
	file, err := os.Open(dir) //nolint:gosec // a directory of the test's own
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // nothing was written
	request := uintptr(requestThaw)
	if stop {
		request = requestFreeze
	}
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), request, 0); errno != 0 {
		return fmt.Errorf("freeze %s, %v: %w", dir, stop, errno)
	}
	return nil
}

// HangDisk has whoever writes to the file system of the server's data, or syncs a file of it, wait until ThawDisk. It
// is done with what was written before. A process that waits so cannot be killed.
func (s *Server) HangDisk() {
	s.tb.Helper()
	if err := freeze(s.DataDir(), true); err != nil {
		s.tb.Error(err)
		return
	}
	s.hung = true
}

// ThawDisk ends HangDisk, if the disk hangs.
func (s *Server) ThawDisk() {
	s.tb.Helper()
	if !s.hung {
		return
	}
	s.hung = false
	if err := freeze(s.DataDir(), false); err != nil {
		s.tb.Error(err)
	}
}
