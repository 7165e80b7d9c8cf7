package process

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestWrittenOf(t *testing.T) {
	const text = "   7       0 loop0 1 2 3 4 5 6 7 8 9 10 11 12\n" +
		" 254       1 vda1 44 5 66 7 88 9 1234 8 9 10 11 12 13 14 15\nrubbish\n"
	if n := writtenOf(text, 254, 1); n != 1234*sectorBytes {
		t.Errorf("%d bytes, want 1234 sectors", n)
	}
	if n := writtenOf(text, 254, 2); n != 0 {
		t.Errorf("%d bytes of a device that is not there", n)
	}
}

// TestWrittenTo sees what waits for the disk.
func TestWrittenTo(t *testing.T) {
	dir := t.TempDir()
	before, err := writtenTo(dir)
	if err != nil {
		t.Fatal(err)
	}
	const size = 1 << 20
	if err := os.WriteFile(filepath.Join(dir, "file"), make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	after, err := writtenTo(dir)
	if err != nil || before != 0 && after-before < size { // 0: a file system without a disk
		t.Errorf("%d bytes more, %v; want %d", after-before, err, size)
	}
	if _, err := writtenTo(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v for a directory that is not there", err)
	}
}
