package inspect

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"zkd/storage/datadir"
	"zkd/storage/disk"
	"zkd/storage/entry"
	"zkd/storage/raftlog"
	"zkd/storage/schema"
	"zkd/storage/state"
)

// ErrRunning says that a server runs on the data directory.
var ErrRunning = errors.New("a server runs on the data directory")

// ErrNoData says that a data directory holds no data of zkd: it is not there, or empty.
var ErrNoData = errors.New("there is no data of zkd")

// Dir is a data directory that is looked at and not changed, while no server runs on it.
type Dir struct {
	dir *datadir.Dir
}

// Open locks the directories of opts for a look, which changes nothing in them. It fails with ErrNoData, with
// ErrRunning while a server runs on them, and with datadir.ErrDataDir for what datadir.Open refuses.
func Open(opts datadir.Options) (*Dir, error) {
	if opts.LogDir == "" {
		opts.LogDir = opts.Dir
	}
	opts.Dir, opts.LogDir = filepath.Clean(opts.Dir), filepath.Clean(opts.LogDir)
	opts.FS = disk.ReadOnlyFS{FS: opts.FS}
	i := &Dir{dir: &datadir.Dir{Opts: opts}}
	if err := i.open(); err != nil {
		return nil, errors.Join(err, i.Close())
	}
	return i, nil
}

// open looks whose directories they are, and locks them.
func (i *Dir) open() error {
	d := i.dir
	dirs := []string{d.Opts.Dir}
	if d.Opts.LogDir != d.Opts.Dir {
		dirs = append(dirs, d.Opts.LogDir)
	}
	var missing error
	for _, dir := range dirs {
		info, err := d.Opts.FS.Stat(dir)
		switch {
		case errors.Is(err, os.ErrNotExist):
			if missing == nil {
				missing = fmt.Errorf("%w: %s does not exist", ErrNoData, dir)
			}
			continue
		case err != nil:
			return datadir.Failure(dir, err)
		case !info.IsDir():
			return datadir.Refusal(dir, "it is a file", "name a directory in zoo.cfg")
		}
		if err := d.CheckOwner(dir); err != nil {
			return err
		}
		if err := i.lock(dir); err != nil {
			return err
		}
	}
	if err := d.CheckWhole(); err != nil {
		return err
	}
	if err := d.CheckPair(); err != nil {
		return err
	}
	if missing != nil {
		return missing
	}
	if _, err := d.Opts.FS.Stat(d.Path(d.Opts.Dir, datadir.FormatName)); err != nil {
		return fmt.Errorf("%w in %s", ErrNoData, d.Opts.Dir)
	}
	return nil
}

// lock takes the lock of dir if there is one: without the file no server has ever run there, or the directory is a
// copy. On a file system that is read-only no server can run.
func (i *Dir) lock(dir string) error {
	path := i.dir.Path(dir, datadir.LockName)
	if _, err := i.dir.Opts.FS.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	lock, err := i.dir.Opts.FS.Unwrap().Lock(path)
	switch {
	case errors.Is(err, syscall.EROFS):
		return nil
	case err != nil && disk.LockHeld(err):
		pid, _ := disk.ReadFile(i.dir.Opts.FS, i.dir.Path(dir, datadir.PIDName)) // it helps, if it is there
		return fmt.Errorf("%w %s (process %.20s)", ErrRunning, dir, bytes.TrimSpace(pid))
	case err != nil:
		return datadir.Failure(dir, err)
	}
	i.dir.Locks = append(i.dir.Locks, lock)
	return nil
}

// Close lets servers use the directories again. What was opened through it must be closed before.
func (i *Dir) Close() error { return i.dir.Close() }

// Format is the version of the directory's layout.
func (i *Dir) Format() int { return datadir.Format }

// StateDir is where the state store is.
//
// A crash may have interrupted a restore when the new state was whole, beside the present one: that is it then, as
// state.OpenMachine would find.
func (i *Dir) StateDir() string {
	restored := i.dir.StateDir() + datadir.ReplacementSuffix
	if whole, err := disk.HasFiles(i.dir.Opts.FS, restored); err == nil && whole {
		return restored
	}
	return i.dir.StateDir()
}

// RaftLogDir is where the raft log is.
func (i *Dir) RaftLogDir() string { return i.dir.RaftLogDir() }

// OpenLog opens the raft log and verifies it as raftlog.Open does, without changing it. It fails with ErrNoData if
// there is none, and with disk.ErrDamaged.
func (i *Dir) OpenLog() (*raftlog.LogInspection, error) {
	dir := i.dir.RaftLogDir()
	if there, err := disk.HasFiles(i.dir.Opts.FS, dir); err != nil || !there {
		return nil, errors.Join(fmt.Errorf("%w: no raft log in %s", ErrNoData, dir), err)
	}
	return raftlog.OpenReadOnly(raftlog.Options{Dir: dir, FS: i.dir.Opts.FS, Logger: i.dir.Opts.Logger})
}

// State is a state store that is only read: what was flushed of it.
type State struct {
	r    *state.Reader
	info schema.Summary
}

// OpenState opens the state store. It fails with ErrNoData if there is none, and with disk.ErrDamaged.
func (i *Dir) OpenState() (*State, error) {
	dir := i.StateDir()
	if there, err := disk.HasFiles(i.dir.Opts.FS, dir); err != nil || !there {
		return nil, errors.Join(fmt.Errorf("%w: no state in %s", ErrNoData, dir), err)
	}
	r, err := state.OpenReader(i.dir.Opts.FS, dir, i.dir.Opts.Logger)
	if err != nil {
		return nil, err
	}
	info, err := r.Summary()
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return &State{r: r, info: info}, nil
}

// Info is what a backup would say of the state.
func (s *State) Info() schema.Summary { return s.info }

// Level is the feature level of the ensemble, as of what was flushed.
func (s *State) Level() entry.Level { return s.r.Level() }

// Reader reads the state. It is closed with s.
func (s *State) Reader() *state.Reader { return s.r }

// Close closes the store.
func (s *State) Close() error { return s.r.Close() }
