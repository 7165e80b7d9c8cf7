package disktest

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Read returns what a file holds.
func Read(t testing.TB, fs vfs.FS, path string) []byte {
	t.Helper()
	file, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // opened for reading only
	content, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// Manifest returns the path of the MANIFEST that the store in dir uses.
func Manifest(t testing.TB, fs vfs.FS, dir string) string {
	t.Helper()
	desc, err := pebble.Peek(dir, fs)
	if err != nil || !desc.Exists {
		t.Fatalf("no store in %s: %v", dir, err)
	}
	return desc.ManifestFilename
}

// Alter writes a file anew, with what f makes of what it holds.
func Alter(t testing.TB, fs vfs.FS, path string, f func(content []byte) []byte) {
	t.Helper()
	content := f(Read(t, fs, path))
	file, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.Write(slices.Clone(content)) // a file of memory may overwrite what it is given, to find who keeps it
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		t.Fatal(err)
	}
}

// AlterAll does it with each file of dir that has a suffix, of which there must be one.
func AlterAll(t testing.TB, fs vfs.FS, dir, suffix string, f func(content []byte) []byte) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range names {
		if strings.HasSuffix(name, suffix) {
			Alter(t, fs, fs.PathJoin(dir, name), f)
			n++
		}
	}
	if n == 0 {
		t.Fatalf("there is no file %s/*%s", dir, suffix)
	}
}

// Flip alters a byte: at from the beginning or, if it is negative, from the end.
func Flip(at int) func(content []byte) []byte {
	return func(content []byte) []byte {
		from := at
		if from < 0 {
			from += len(content)
		}
		content[from] ^= 1
		return content
	}
}
