package ensemble_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/target"
)

// quickWithin bounds what follows a fault with the quick settings.
const quickWithin = 60 * time.Second

// TestFillDisk leaves no byte on a disk of a server's own, and all of them afterwards.
func TestFillDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("-short was given")
	}
	if err := ensemble.Mountable(t); err != nil {
		target.LeaveOut(t, err.Error())
	}
	s := ensemble.Prepare(t, ensemble.Options{Servers: 1, DiskBytes: 4 << 20}).Servers[0]
	file := filepath.Join(s.DataDir(), "file")
	s.FillDisk()
	if err := os.WriteFile(file, make([]byte, 8192), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a write on a full disk: %v, want ENOSPC", err)
	}
	s.FreeDisk()
	if err := os.WriteFile(file, make([]byte, 8192), 0o600); err != nil {
		t.Error(err)
	}
}

// TestHangDisk stops the file system of a server's own: a write waits until it goes on.
func TestHangDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("-short was given")
	}
	if err := ensemble.Hangable(t); err != nil {
		target.LeaveOut(t, err.Error())
	}
	s := ensemble.Prepare(t, ensemble.Options{Servers: 1, CanHang: true}).Servers[0]
	file := filepath.Join(s.DataDir(), "file")
	s.HangDisk()
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(file, []byte("x"), 0o600) }()
	waits := time.NewTimer(100 * time.Millisecond) // how long it waits shows nothing
	defer waits.Stop()
	select {
	case err := <-written:
		t.Errorf("a write while the disk hangs: %v", err)
	case <-waits.C:
	}
	s.ThawDisk()
	if err := <-written; err != nil {
		t.Error(err)
	}
}
