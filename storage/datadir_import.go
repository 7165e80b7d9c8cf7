package storage

import (
	"errors"
	"fmt"
	"os"
)

// dataDirImportName is the mark of an import that is under way: what is in the stores is not whole.
const dataDirImportName = "ZKD-IMPORT"

// checkImport refuses a directory with an import that did not come to its end; for an import it removes what there is
// of the one before, and refuses stores that are no import's.
func (d *DataDir) checkImport() error {
	_, err := d.opts.FS.Stat(d.path(d.opts.Dir, dataDirImportName))
	marked := err == nil
	switch {
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return dataDirFailure(d.opts.Dir, err)
	case !d.opts.importing && marked:
		return dataDirRefusal(d.opts.Dir, "an import into it did not come to its end",
			"run zkd import again, or empty the directory")
	case !d.opts.importing:
		return nil
	case marked:
		d.opts.Logger.Info("removing what an interrupted import has left", "path", d.opts.Dir)
		return d.removeStores()
	}
	for _, dir := range []string{d.RaftLogDir(), d.StateDir()} {
		there, err := d.storeIsThere(dir)
		if err != nil {
			return err
		}
		if there {
			return dataDirRefusal(d.opts.Dir, fmt.Sprintf("it holds data of zkd already, in %s", dir),
				"import into an empty directory, or remove raftlog and state if nothing in them is wanted")
		}
	}
	return nil
}

// markImport makes the mark, durably, before anything else is made.
func (d *DataDir) markImport() error {
	if !d.opts.importing {
		return nil
	}
	_, err := d.opts.FS.Stat(d.path(d.opts.Dir, dataDirFormatName))
	d.formatted = err == nil
	err = errors.Join(syncNames(d.opts.FS, d.opts.Dir),
		writeFile(d.opts.FS, d.path(d.opts.Dir, dataDirImportName), "an import is under way\n"),
		syncDir(d.opts.FS, d.opts.Dir))
	if err != nil {
		return dataDirFailure(d.opts.Dir, err)
	}
	return nil
}

// endImport removes the mark once all that the stores hold is durable: the directory is a server's like any other.
func (d *DataDir) endImport() error {
	for _, dir := range []string{d.RaftLogDir(), d.StateDir()} {
		if err := syncDir(d.opts.FS, dir); err != nil {
			return dataDirFailure(dir, err)
		}
	}
	return d.unmark()
}

// unmark removes the mark.
func (d *DataDir) unmark() error {
	err := errors.Join(d.opts.FS.Remove(d.path(d.opts.Dir, dataDirImportName)), syncDir(d.opts.FS, d.opts.Dir))
	if err != nil {
		return dataDirFailure(d.opts.Dir, err)
	}
	return nil
}

// abandonImport leaves the directory as it was before the import, the mark last.
func (d *DataDir) abandonImport() error {
	if err := d.removeStores(); err != nil {
		return err
	}
	for _, dir := range d.dirs() {
		if d.formatted {
			break
		}
		err := syncDir(d.opts.FS, dir) // stores without the format file would be refused
		if err == nil {
			err = d.opts.FS.Remove(d.path(dir, dataDirFormatName))
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return dataDirFailure(dir, err)
		}
	}
	return d.unmark()
}

// removeStores removes both stores.
func (d *DataDir) removeStores() error {
	for _, dir := range []string{d.StateDir(), d.RaftLogDir()} {
		if err := d.opts.FS.RemoveAll(dir); err != nil {
			return dataDirFailure(dir, err)
		}
	}
	return nil
}

// dirs returns dataDir, and dataLogDir if it is another one.
func (d *DataDir) dirs() []string {
	if d.opts.LogDir != d.opts.Dir {
		return []string{d.opts.Dir, d.opts.LogDir}
	}
	return []string{d.opts.Dir}
}
