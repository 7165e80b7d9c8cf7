package migrate

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/storage/datadir"
	"zkd/storage/zkdata"
)

// The names of the files.
const (
	snapshotPrefix    = "snapshot"
	logPrefix         = "log"
	currentEpochName  = "currentEpoch"
	acceptedEpochName = "acceptedEpoch"
)

// File is a snapshot or a log. Its name says the zxid: of a snapshot the last one applied when its writing began, of a
// log that of its first transaction.
type File struct {
	Path string
	Zxid jute.Zxid
	Size int64
}

// Dir is a data directory of Apache ZooKeeper.
type Dir struct {
	// SnapshotDir and LogDir are the directories version-2.
	SnapshotDir, LogDir string
	// Snapshots and Logs are what they hold, the lowest zxid first.
	Snapshots, Logs []File
	// CurrentEpoch and AcceptedEpoch are what members of an ensemble write down, -1 if there is nothing.
	CurrentEpoch, AcceptedEpoch int64
	// Notices are what an operator should know.
	Notices []string

	fs vfs.FS
}

// Replay reads the transactions behind from, over all logs. Close ends it.
func (d *Dir) Replay(from jute.Zxid, o zkdata.ReplayOptions) *zkdata.Replay {
	files := d.LogsFrom(from)
	return zkdata.NewReplay(from, o, func() (*zkdata.Log, io.Closer, error) {
		if len(files) == 0 {
			return nil, nil, nil
		}
		f := files[0]
		files = files[1:]
		file, err := d.fs.Open(f.Path)
		if err != nil {
			return nil, nil, fmt.Errorf("open transaction log: %w", err)
		}
		log, err := zkdata.ReadLog(file, f.Size, f.Path)
		if err != nil {
			return nil, nil, errors.Join(err, file.Close())
		}
		return log, file, nil
	})
}

// LogsFrom returns the logs that may hold transactions behind zxid: those that begin behind it, and the one before
// them (FileTxnLog.getLogFiles).
func (d *Dir) LogsFrom(zxid jute.Zxid) []File {
	first := 0
	for i, f := range d.Logs {
		if f.Zxid <= zxid {
			first = i
		}
	}
	return d.Logs[first:]
}

// ErrNoData says that a directory holds nothing of Apache ZooKeeper.
var ErrNoData = errors.New("no data of Apache ZooKeeper")

// OpenDir lists what is in dataDir and dataLogDir, which may be "" for the same one. Either may be the directory
// version-2 itself. It fails with ErrNoData if there is neither a snapshot nor a log.
func OpenDir(fs vfs.FS, dataDir, dataLogDir string) (*Dir, error) {
	if dataLogDir == "" {
		dataLogDir = dataDir
	}
	d := &Dir{fs: fs, CurrentEpoch: -1, AcceptedEpoch: -1}
	var err error
	if d.SnapshotDir, err = versioned(fs, dataDir); err != nil {
		return nil, err
	}
	if d.LogDir, err = versioned(fs, dataLogDir); err != nil {
		return nil, err
	}
	if d.Snapshots, err = d.list(d.SnapshotDir, snapshotPrefix); err != nil {
		return nil, err
	}
	if d.Logs, err = d.list(d.LogDir, logPrefix); err != nil {
		return nil, err
	}
	if len(d.Snapshots)+len(d.Logs) == 0 {
		return nil, fmt.Errorf("%w in %s: name the dataDir of a ZooKeeper server, which holds %s", ErrNoData, dataDir,
			datadir.ZooKeeperDir)
	}
	if err := d.checkPair(); err != nil {
		return nil, err
	}
	for _, epoch := range []struct {
		name string
		v    *int64
	}{{currentEpochName, &d.CurrentEpoch}, {acceptedEpochName, &d.AcceptedEpoch}} {
		if *epoch.v, err = d.epoch(epoch.name); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// checkPair looks whether the two directories belong together (FileTxnSnapLog.checkLogDir, checkSnapDir).
func (d *Dir) checkPair() error {
	if d.LogDir == d.SnapshotDir {
		return nil
	}
	strayLogs, err := d.list(d.SnapshotDir, logPrefix)
	if err != nil {
		return err
	}
	straySnapshots, err := d.list(d.LogDir, snapshotPrefix)
	switch {
	case err != nil:
		return err
	case len(strayLogs) > 0:
		return fmt.Errorf("%s holds transaction logs, but they are looked for in %s: correct dataLogDir", d.SnapshotDir,
			d.LogDir)
	case len(straySnapshots) > 0:
		return fmt.Errorf("%s holds snapshots, but they are looked for in %s: correct dataDir", d.LogDir, d.SnapshotDir)
	}
	return nil
}

// versioned returns the directory version-2 of dir, or dir if it is one.
func versioned(fs vfs.FS, dir string) (string, error) {
	below := fs.PathJoin(dir, datadir.ZooKeeperDir)
	if info, err := fs.Stat(below); err == nil && info.IsDir() {
		return below, nil
	}
	info, err := fs.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("%w: there is no directory %s", ErrNoData, dir)
	case err != nil:
		return "", fmt.Errorf("read data directory %s: %w", dir, err)
	case !info.IsDir():
		return "", fmt.Errorf("%w: %s is a file: name the dataDir of a ZooKeeper server", ErrNoData, dir)
	}
	return dir, nil
}

// list returns the files of dir whose name has the prefix and a zxid, the lowest first. What comes first of two with
// the same zxid is left to chance, as in ZooKeeper.
func (d *Dir) list(dir, prefix string) ([]File, error) {
	names, err := d.fs.List(dir)
	if err != nil {
		return nil, fmt.Errorf("read data directory %s: %w", dir, err)
	}
	var files []File
	for _, name := range names {
		zxid, ok := zxidOf(name, prefix)
		if !ok {
			continue
		}
		path := d.fs.PathJoin(dir, name)
		info, err := d.fs.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("read data directory %s: %w", dir, err)
		}
		files = append(files, File{Path: path, Zxid: zxid, Size: info.Size()})
	}
	sort.Slice(files, func(i, j int) bool {
		a, b := &files[i], &files[j]
		return a.Zxid < b.Zxid || a.Zxid == b.Zxid && a.Path < b.Path
	})
	return files, nil
}

// zxidOf returns the zxid in a file's name (org.apache.zookeeper.server.persistence.Util.getZxidFromName).
func zxidOf(name, prefix string) (jute.Zxid, bool) {
	parts := strings.Split(name, ".")
	if len(parts) < 2 || parts[0] != prefix {
		return 0, false
	}
	z, err := strconv.ParseInt(parts[1], 16, 64)
	return jute.Zxid(z), err == nil && z >= 0
}

// SnapshotName returns the name of the file that a snapshot of zxid has.
func SnapshotName(zxid jute.Zxid, c zkdata.Compression) string {
	return fmt.Sprintf("%s.%x%s", snapshotPrefix, int64(zxid), suffix(c))
}

// suffix is what the name of a snapshot ends in.
func suffix(c zkdata.Compression) string {
	if c == zkdata.Plain {
		return ""
	}
	return "." + string(c)
}

// epoch reads an epoch file.
func (d *Dir) epoch(name string) (int64, error) {
	path := d.fs.PathJoin(d.SnapshotDir, name)
	file, err := d.fs.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return -1, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", path, err)
	}
	defer file.Close() //nolint:errcheck // opened for reading only
	text, err := io.ReadAll(io.LimitReader(file, 64))
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", path, err)
	}
	epoch, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %s: %.64q is no epoch: restore the file, or remove it if the server stood alone",
			zkdata.ErrDamaged, path, text)
	}
	return epoch, nil
}

// Newest returns the snapshot to start from: the newest that was written to its end (FileSnap.findNValidSnapshots).
// Those that were not are noted. It is false if there is none.
func (d *Dir) Newest() (File, bool, error) {
	for i := len(d.Snapshots) - 1; i >= 0; i-- {
		f := d.Snapshots[i]
		whole, err := d.whole(f)
		if err != nil {
			return File{}, false, err
		}
		if whole {
			return f, true, nil
		}
		d.Notices = append(d.Notices, fmt.Sprintf("%s was not written to its end, as a crash leaves it: passed over",
			f.Path))
	}
	return File{}, false, nil
}

// whole tells whether a snapshot looks as if it was written to its end.
func (d *Dir) whole(f File) (bool, error) {
	file, err := d.fs.Open(f.Path)
	if err != nil {
		return false, fmt.Errorf("open snapshot: %w", err)
	}
	defer file.Close() //nolint:errcheck // opened for reading only
	compressed := strings.HasSuffix(f.Path, suffix(zkdata.Gzip)) || strings.HasSuffix(f.Path, suffix(zkdata.Snappy))
	whole, err := zkdata.LooksWhole(file, f.Size, compressed)
	if err != nil {
		return false, fmt.Errorf("read snapshot %s: %w", f.Path, err)
	}
	return whole, nil
}
