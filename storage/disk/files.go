package disk

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// DirPerm is the mode of directories that zkd makes: the data of znodes is nobody else's business.
const DirPerm = 0o750

// LockHeld tells a lock that is held from a lock file that cannot be made: of another process's lock fcntl says
// EAGAIN or EACCES, with no path; of this one's Pebble's file system says a text.
func LockHeld(err error) bool {
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		return false
	}
	return errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) ||
		strings.Contains(err.Error(), "lock held")
}

// SyncNames makes the names of dir and of the directories above it durable: it is not known which of them are new, as
// an operator's script, or a zkd that was killed, may have made them a moment ago. Those above that cannot be synced
// with this user's rights, or on their file system, are not ours to answer for.
func SyncNames(fs vfs.FS, dir string) error {
	for at := dir; ; {
		above := fs.PathDir(at)
		if above == at || above == "" {
			return nil
		}
		err := SyncDir(fs, above)
		foreign := errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS) ||
			errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP)
		if err != nil && !foreign {
			return err
		}
		at = above
	}
}

// ReadFile returns the content of a small file.
func ReadFile(fs vfs.FS, path string) ([]byte, error) {
	file, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // opened for reading only
	return io.ReadAll(io.LimitReader(file, 4096))
}

// WriteFile writes a small file and fsyncs it, but not its name.
func WriteFile(fs vfs.FS, path, content string) error {
	file, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if _, err := file.Write([]byte(content)); err != nil {
		return errors.Join(err, file.Close())
	}
	return errors.Join(file.Sync(), file.Close())
}

// MoveDir renames a directory in its parent, durably.
func MoveDir(fs vfs.FS, from, to string) error {
	if err := fs.Rename(from, to); err != nil {
		return err
	}
	return SyncDir(fs, fs.PathDir(to))
}

// HasFiles tells whether dir is there and not empty.
func HasFiles(fs vfs.FS, dir string) (bool, error) {
	names, err := fs.List(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	return len(names) > 0, nil
}

// SyncDir makes the names in dir durable.
func SyncDir(fs vfs.FS, dir string) error {
	handle, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(handle.Sync(), handle.Close())
}
