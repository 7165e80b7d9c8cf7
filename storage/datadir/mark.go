package datadir

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/disk"
)

// The marks of an import and of a restore that are under way: what is in the stores is not whole.
const (
	importName  = "ZKD-IMPORT"
	RestoreName = "ZKD-RESTORE" // the restore makes the format file last, and then removes the mark
)

// CheckWhole refuses a directory with an import that did not come to its end.
func (d *Dir) CheckWhole() error {
	marked, err := d.importMarked()
	if marked {
		return Refusal(d.Opts.Dir, "an import into it did not come to its end",
			"run zkd import again, or empty the directory")
	}
	return err
}

// importMarked tells whether the mark of an import is there.
func (d *Dir) importMarked() (bool, error) {
	_, err := d.Opts.FS.Stat(d.Path(d.Opts.Dir, importName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, Failure(d.Opts.Dir, err)
	}
	return err == nil, nil
}

// checkImport refuses a directory with an import that did not come to its end; for an import it removes what there is
// of the one before, and refuses stores that are no import's.
func (d *Dir) checkImport() error {
	if !d.Opts.Importing {
		return d.CheckWhole()
	}
	marked, err := d.importMarked()
	if err != nil {
		return err
	}
	if d.marked = marked; marked {
		d.Opts.Logger.Info("removing incomplete import", "path", d.Opts.Dir)
		return d.removeStores()
	}
	for _, dir := range []string{d.RaftLogDir(), d.StateDir()} {
		there, err := d.storeIsThere(dir)
		if err != nil {
			return err
		}
		if there {
			return Refusal(d.Opts.Dir, fmt.Sprintf("it holds data of zkd already, in %s", dir),
				"import into an empty directory, or remove raftlog and state if nothing in them is wanted")
		}
	}
	return nil
}

// markImport makes the mark, durably, before anything else is made.
func (d *Dir) markImport() error {
	if !d.Opts.Importing {
		return nil
	}
	_, err := d.Opts.FS.Stat(d.Path(d.Opts.Dir, FormatName))
	// One beside a mark is of the import that was killed: who leaves it there without the mark leaves a directory that
	// looks like that of an empty server.
	d.formatted = err == nil && !d.marked
	err = errors.Join(disk.SyncNames(d.Opts.FS, d.Opts.Dir),
		disk.WriteFile(d.Opts.FS, d.Path(d.Opts.Dir, importName), "an import is under way\n"),
		disk.SyncDir(d.Opts.FS, d.Opts.Dir))
	if err != nil {
		return Failure(d.Opts.Dir, err)
	}
	return nil
}

// EndImport removes the mark once all that the stores hold is durable: the directory is a server's like any other.
func (d *Dir) EndImport() error {
	for _, dir := range []string{d.RaftLogDir(), d.StateDir()} {
		if err := disk.SyncDir(d.Opts.FS, dir); err != nil {
			return Failure(dir, err)
		}
	}
	return d.unmark()
}

// unmark removes the mark.
func (d *Dir) unmark() error {
	err := errors.Join(d.Opts.FS.Remove(d.Path(d.Opts.Dir, importName)), disk.SyncDir(d.Opts.FS, d.Opts.Dir))
	if err != nil {
		return Failure(d.Opts.Dir, err)
	}
	return nil
}

// AbandonImport leaves the directory as it was before the import, the mark last, and closes it.
func (d *Dir) AbandonImport() error {
	err := d.abandonImport()
	if err != nil || d.formatted {
		return errors.Join(err, d.Close())
	}
	return d.Leave()
}

// abandonImport is AbandonImport without what locks the directory.
func (d *Dir) abandonImport() error {
	if err := d.removeStores(); err != nil {
		return err
	}
	for _, dir := range d.dirs() {
		if d.formatted {
			break
		}
		err := disk.SyncDir(d.Opts.FS, dir) // stores without the format file would be refused
		if err == nil {
			err = d.Opts.FS.Remove(d.Path(dir, FormatName))
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return Failure(dir, err)
		}
	}
	return d.unmark()
}

// removeStores removes both stores.
func (d *Dir) removeStores() error {
	for _, dir := range []string{d.StateDir(), d.RaftLogDir()} {
		if err := d.Opts.FS.RemoveAll(dir); err != nil {
			return Failure(dir, err)
		}
	}
	return nil
}

// dirs returns dataDir, and dataLogDir if it is another one.
func (d *Dir) dirs() []string {
	if d.Opts.LogDir != d.Opts.Dir {
		return []string{d.Opts.Dir, d.Opts.LogDir}
	}
	return []string{d.Opts.Dir}
}

// ImportPending tells whether dir, or logDir, holds the data of an Apache ZooKeeper server that was not imported, or
// not to its end. logDir may be "" for the same one.
func ImportPending(fs vfs.FS, dir, logDir string) bool {
	if !HoldsZooKeeper(fs, dir) && (logDir == "" || !HoldsZooKeeper(fs, logDir)) {
		return false
	}
	_, err := fs.Stat(fs.PathJoin(dir, FormatName))
	_, marked := fs.Stat(fs.PathJoin(dir, importName))
	return err != nil || marked == nil
}

// HoldsZooKeeper tells whether dir holds a directory version-2 with a snapshot or a log. Without either it is no data:
// zkServer-initialize.sh, packages and images make an empty one, and a server that never came to serve leaves its
// epochs in it. One that cannot be read counts as data.
func HoldsZooKeeper(fs vfs.FS, dir string) bool {
	versioned := fs.PathJoin(dir, ZooKeeperDir)
	if info, err := fs.Stat(versioned); err != nil || !info.IsDir() {
		return false
	}
	names, err := fs.List(versioned)
	return err != nil || slices.ContainsFunc(names, func(name string) bool {
		return strings.HasPrefix(name, "snapshot.") || strings.HasPrefix(name, "log.")
	})
}

// ZooKeeperDir is the directory below dataDir and dataLogDir that holds the files.
const ZooKeeperDir = "version-2"
