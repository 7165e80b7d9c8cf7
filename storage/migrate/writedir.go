package migrate

import (
	"errors"
	"fmt"
	"strconv"

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
func WriteDir(fs vfs.FS, dir string, src zkdata.Source, o zkdata.WriteOptions) (string, error) {
	version := fs.PathJoin(dir, datadir.ZooKeeperDir)
	if err := fs.MkdirAll(version, 0o750); err != nil {
		return "", fmt.Errorf("make %s: %w", version, err)
	}
	d := Dir{fs: fs}
	for _, prefix := range []string{snapshotPrefix, logPrefix} {
		there, err := d.list(version, prefix)
		if err != nil {
			return "", err
		}
		if len(there) > 0 {
			return "", fmt.Errorf("%w: %s is there already: name an empty directory", ErrTarget, there[0].Path)
		}
	}
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
	err := writeWhole(fs, version, name, func(f vfs.File) error { return zkdata.WriteSnapshot(f, src, o) })
	return fs.PathJoin(version, name), err
}

// writeWhole makes a file under its name only when its content is durable.
func writeWhole(fs vfs.FS, dir, name string, write func(vfs.File) error) error {
	path := fs.PathJoin(dir, name)
	file, err := fs.Create(path+".tmp", vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	err = write(file)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), fs.Remove(path+".tmp"))
	}
	if err := fs.Rename(path+".tmp", path); err != nil {
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
