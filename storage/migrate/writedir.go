package migrate

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/datadir"
	"zkd/storage/zkdata"
)

// ErrTarget says that a directory holds data that an export would be mixed with.
var ErrTarget = errors.New("directory cannot take the export")

// WriteDir makes in dir what Apache ZooKeeper 3.9 starts from: version-2 with the snapshot of src and the epochs that
// belong to it. dir is made if need be; it must hold neither snapshots nor logs. It returns the path of the snapshot.
// The snapshot has its name only when all of it is durable.
//
// The epoch is the upper half of the zxid: members of an ensemble refuse to start if it is above the one in their
// files, and without files they take it from there (org.apache.zookeeper.server.quorum.QuorumPeer.loadDataBase).
func WriteDir(fs vfs.FS, dir string, src zkdata.Source, o zkdata.WriteOptions) (_ string, err error) {
	version := fs.PathJoin(dir, datadir.ZooKeeperDir)
	made := missing(fs, version, dir)
	if err := fs.MkdirAll(version, 0o750); err != nil {
		return "", fmt.Errorf("make %s: %w", version, err)
	}
	if err := checkTarget(fs, version); err != nil {
		return "", err
	}
	written := missing(fs, fs.PathJoin(version, acceptedEpochName), fs.PathJoin(version, currentEpochName))
	defer func() {
		if err != nil {
			err = errors.Join(err, removeAll(fs, append(written, made...)))
		}
	}()
	epoch := strconv.FormatInt(int64(uint64(src.Zxid())>>32), 10)
	for _, name := range []string{acceptedEpochName, currentEpochName} {
		if err := writeWhole(fs, version, name, func(f vfs.File) error {
			_, err := f.Write([]byte(epoch))
			return err
		}); err != nil {
			return "", err
		}
	}
	name := SnapshotName(src.Zxid(), o.Compression)
	err = writeWhole(fs, version, name, func(f vfs.File) error { return zkdata.WriteSnapshot(f, src, o) })
	return fs.PathJoin(version, name), err
}

// checkTarget refuses a directory version-2 with snapshots or logs. It removes what a process that was killed has left
// of a snapshot.
func checkTarget(fs vfs.FS, version string) error {
	d := Dir{fs: fs}
	for _, prefix := range []string{snapshotPrefix, logPrefix} {
		there, err := d.list(version, prefix)
		if err != nil {
			return err
		}
		for i := range there {
			path := there[i].Path
			if prefix == logPrefix || !strings.HasSuffix(path, tmpSuffix) {
				return fmt.Errorf("%w: %s is there already: name an empty directory", ErrTarget, path)
			}
			if err := fs.Remove(path); err != nil {
				return fmt.Errorf("remove %s: %w", path, err)
			}
		}
	}
	return nil
}

// missing are those of some paths that are not there.
func missing(fs vfs.FS, paths ...string) (gone []string) {
	for _, path := range paths {
		if _, err := fs.Stat(path); errors.Is(err, os.ErrNotExist) {
			gone = append(gone, path)
		}
	}
	return gone
}

// removeAll removes files and directories, of those that are there.
func removeAll(fs vfs.FS, paths []string) (err error) {
	for _, path := range paths {
		if removed := fs.Remove(path); !errors.Is(removed, os.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}
	return err
}

// tmpSuffix is that of a file whose content is not durable yet.
const tmpSuffix = ".tmp"

// writeWhole makes a file under its name only when its content is durable.
func writeWhole(fs vfs.FS, dir, name string, write func(vfs.File) error) error {
	path := fs.PathJoin(dir, name)
	file, err := fs.Create(path+tmpSuffix, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	err = write(file)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), fs.Remove(path+tmpSuffix))
	}
	if err := fs.Rename(path+tmpSuffix, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	handle, err := fs.OpenDir(dir)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := errors.Join(handle.Sync(), handle.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
