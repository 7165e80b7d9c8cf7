package disk

import (
	"errors"
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// errReadOnly is what a change through a ReadOnlyFS fails with.
var errReadOnly = errors.New("the directory is only looked at")

// ReadOnlyFS lets nothing be changed. Its locks hold nothing: who looks has the lock of the data directory.
type ReadOnlyFS struct{ vfs.FS }

// Create implements vfs.FS.
func (ReadOnlyFS) Create(string, vfs.DiskWriteCategory) (vfs.File, error) { return nil, errReadOnly }

// Link implements vfs.FS.
func (ReadOnlyFS) Link(string, string) error { return errReadOnly }

// OpenReadWrite implements vfs.FS.
func (ReadOnlyFS) OpenReadWrite(string, vfs.DiskWriteCategory, ...vfs.OpenOption) (vfs.File, error) {
	return nil, errReadOnly
}

// Remove implements vfs.FS.
func (ReadOnlyFS) Remove(string) error { return errReadOnly }

// RemoveAll implements vfs.FS.
func (ReadOnlyFS) RemoveAll(string) error { return errReadOnly }

// Rename implements vfs.FS.
func (ReadOnlyFS) Rename(string, string) error { return errReadOnly }

// ReuseForWrite implements vfs.FS.
func (ReadOnlyFS) ReuseForWrite(string, string, vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, errReadOnly
}

// MkdirAll implements vfs.FS.
func (ReadOnlyFS) MkdirAll(string, os.FileMode) error { return errReadOnly }

// Lock implements vfs.FS.
func (ReadOnlyFS) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// Unwrap implements vfs.FS.
func (f ReadOnlyFS) Unwrap() vfs.FS { return f.FS }
