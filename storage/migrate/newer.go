package migrate

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/storage/zkdata"
)

// ErrRunning says that the files of an import have gone on meanwhile: a server writes them.
var ErrRunning = errors.New("a ZooKeeper server still writes")

// checkStill fails with ErrRunning if the files hold a transaction behind last by now.
func (d *Dir) checkStill(ctx context.Context, last jute.Zxid) error {
	newer, err := Newer(ctx, d.fs, d.SnapshotDir, d.LogDir, last)
	if err == nil && newer != 0 {
		err = fmt.Errorf("%w to %s: transaction %#x was not there when the import began: stop the server, and import "+
			"again", ErrRunning, d.LogDir, int64(newer))
	}
	return err
}

// Newer returns the zxid of the first transaction behind last in the files of dataDir and dataLogDir, or that of a
// snapshot behind it; 0 if there is none, or no such files.
func Newer(ctx context.Context, fs vfs.FS, dataDir, dataLogDir string, last jute.Zxid) (jute.Zxid, error) {
	d, err := OpenDir(fs, dataDir, dataLogDir)
	if errors.Is(err, ErrNoData) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if snapshot, found, err := d.Newest(); err != nil || found && snapshot.Zxid > last {
		return snapshot.Zxid, err
	}
	if len(d.Logs) == 0 {
		return 0, nil
	}
	logs := d.Replay(last, zkdata.ReplayOptions{AcceptGaps: true})
	defer logs.Close() //nolint:errcheck // opened for reading only
	for {
		x, ok, err := logs.Next()
		switch {
		case err != nil || !ok:
			return 0, err
		case x.Zxid > last:
			return x.Zxid, nil
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
	}
}
