package audit

import (
	"errors"
	"fmt"
	"os"
	"time"

	"zkd/quorum/clock"
)

// lookEvery is how often a File looks whether its name has gone to another file.
const lookEvery = time.Second

// File appends to a file, and opens it again when its name was given to another one or taken away: so whatever rotates
// logs by renaming them needs to tell nobody. It belongs to one goroutine.
type File struct {
	name   string
	clock  clock.Clock
	file   *os.File
	looked time.Time // at the name
}

// OpenFile opens a file for appending, and makes it, readable by its owner alone, if it is not there. An error names
// the file.
func OpenFile(name string, c clock.Clock) (*File, error) {
	f := &File{name: name, clock: c}
	return f, f.open()
}

// open opens the file by its name.
func (f *File) open() error {
	file, err := os.OpenFile(f.name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the audit log: %w", err)
	}
	f.file, f.looked = file, f.clock.Now()
	return nil
}

// Write appends b.
func (f *File) Write(b []byte) (int, error) {
	if f.clock.Since(f.looked) >= lookEvery {
		if err := f.look(); err != nil {
			return 0, err
		}
	}
	return f.file.Write(b)
}

// look opens the file again if its name does not lead to it any more.
func (f *File) look() error {
	f.looked = f.clock.Now()
	named, err := os.Stat(f.name)
	if err == nil {
		own, err := f.file.Stat()
		if err == nil && os.SameFile(own, named) {
			return nil
		}
	}
	old := f.file
	if err := f.open(); err != nil {
		return err
	}
	return old.Close()
}

// Close closes the file.
func (f *File) Close() error {
	if err := f.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("close the audit log: %w", err)
	}
	return nil
}
