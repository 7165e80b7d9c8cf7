package space

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// chunkBytes is how much of a reserve is written at a time where it cannot be allocated at once.
const chunkBytes = 1 << 20

// allocate makes a file that takes so many bytes of its file system. Its size tells that it does: it is set last. What
// a failure leaves is removed.
func allocate(fs vfs.FS, path string, bytes int64) error {
	file, err := fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	err = fillTo(file, bytes)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		return nil
	}
	if removal := fs.Remove(path); removal != nil && !errors.Is(removal, os.ErrNotExist) {
		err = errors.Join(err, removal)
	}
	return fmt.Errorf("make %s: %w", path, err)
}

// fillTo has a new file take bytes of its file system. vfs allocates on Linux alone; where it cannot, the bytes are
// written, and are no zeros, which a file system might leave out.
func fillTo(file vfs.File, bytes int64) error {
	if runtime.GOOS == "linux" && file.Preallocate(0, bytes) == nil {
		_, err := file.WriteAt([]byte{1}, bytes-1)
		return err
	}
	chunk, state := make([]byte, chunkBytes), uint64(1)
	for at := int64(0); at < bytes; {
		for i := range chunk {
			state ^= state << 13 // xorshift: nothing that compression shrinks
			state ^= state >> 7
			state ^= state << 17
			chunk[i] = byte(state)
		}
		n, err := file.WriteAt(chunk[:min(int64(len(chunk)), bytes-at)], at)
		if err != nil {
			return err
		}
		at += int64(n)
	}
	return nil
}
