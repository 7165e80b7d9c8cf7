package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrRunning says that a server runs on the data directory.
var ErrRunning = errors.New("a server runs on the data directory")

// ErrNoData says that a data directory holds no data of zkd: it is not there, or empty.
var ErrNoData = errors.New("there is no data of zkd")

// Inspection is a data directory that is looked at and not changed, while no server runs on it.
type Inspection struct {
	dir *DataDir
}

// Inspect locks the directories of opts for a look, which changes nothing in them. It fails with ErrNoData, with
// ErrRunning while a server runs on them, and with ErrDataDir for what OpenDataDir refuses.
func Inspect(opts DataDirOptions) (*Inspection, error) {
	if opts.LogDir == "" {
		opts.LogDir = opts.Dir
	}
	opts.Dir, opts.LogDir = filepath.Clean(opts.Dir), filepath.Clean(opts.LogDir)
	opts.FS = readOnlyFS{opts.FS}
	i := &Inspection{dir: &DataDir{opts: opts}}
	if err := i.open(); err != nil {
		return nil, errors.Join(err, i.Close())
	}
	return i, nil
}

// open looks whose directories they are, and locks them.
func (i *Inspection) open() error {
	d := i.dir
	dirs := []string{d.opts.Dir}
	if d.opts.LogDir != d.opts.Dir {
		dirs = append(dirs, d.opts.LogDir)
	}
	for _, dir := range dirs {
		info, err := d.opts.FS.Stat(dir)
		switch {
		case errors.Is(err, os.ErrNotExist):
			return fmt.Errorf("%w: %s does not exist", ErrNoData, dir)
		case err != nil:
			return dataDirFailure(dir, err)
		case !info.IsDir():
			return dataDirRefusal(dir, "it is a file", "name a directory in zoo.cfg")
		}
		if err := d.checkOwner(dir); err != nil {
			return err
		}
		if err := i.lock(dir); err != nil {
			return err
		}
	}
	if err := d.checkPair(); err != nil {
		return err
	}
	if _, err := d.opts.FS.Stat(d.path(d.opts.Dir, dataDirFormatName)); err != nil {
		return fmt.Errorf("%w in %s", ErrNoData, d.opts.Dir)
	}
	return nil
}

// lock takes the lock of dir if there is one: without the file no server has ever run there, or the directory is a
// copy. On a file system that is read-only no server can run.
func (i *Inspection) lock(dir string) error {
	path := i.dir.path(dir, dataDirLockName)
	if _, err := i.dir.opts.FS.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	lock, err := i.dir.opts.FS.Unwrap().Lock(path)
	switch {
	case errors.Is(err, syscall.EROFS):
		return nil
	case err != nil && lockHeld(err):
		pid, _ := readFile(i.dir.opts.FS, i.dir.path(dir, dataDirPIDName)) // it helps, if it is there
		return fmt.Errorf("%w %s (process %.20s)", ErrRunning, dir, bytes.TrimSpace(pid))
	case err != nil:
		return dataDirFailure(dir, err)
	}
	i.dir.locks = append(i.dir.locks, lock)
	return nil
}

// Close lets servers use the directories again. What was opened through the Inspection must be closed before.
func (i *Inspection) Close() error { return i.dir.Close() }

// Format is the version of the directory's layout.
func (i *Inspection) Format() int { return dataDirFormat }

// StateDir is where the state store is.
//
// A crash may have interrupted a restore when the new state was whole, beside the present one: that is it then, as
// OpenMachine would find.
func (i *Inspection) StateDir() string {
	restored := i.dir.StateDir() + restoredSuffix
	if whole, err := hasFiles(i.dir.opts.FS, restored); err == nil && whole {
		return restored
	}
	return i.dir.StateDir()
}

// RaftLogDir is where the raft log is.
func (i *Inspection) RaftLogDir() string { return i.dir.RaftLogDir() }

// LogInspection is a raft log that is only read.
type LogInspection struct{ log *RaftLog }

// OpenLog opens the raft log and verifies it as OpenRaftLog does, without changing it. It fails with ErrNoData if there
// is none, and with ErrDamaged.
func (i *Inspection) OpenLog() (*LogInspection, error) {
	dir := i.dir.RaftLogDir()
	if there, err := hasFiles(i.dir.opts.FS, dir); err != nil || !there {
		return nil, errors.Join(fmt.Errorf("%w: no raft log in %s", ErrNoData, dir), err)
	}
	l := newRaftLog(RaftLogOptions{Dir: dir, FS: i.dir.opts.FS, Logger: i.dir.opts.Logger})
	if err := l.openReadOnly(); err != nil {
		return nil, fmt.Errorf("open raft log %s: %w", dir, err)
	}
	return &LogInspection{l}, nil
}

// openReadOnly is open for who only looks.
func (l *RaftLog) openReadOnly() (err error) {
	options := l.pebbleOptions()
	options.ReadOnly, options.ErrorIfNotExists, options.DisableTableStats = true, true, true
	replayed, err := l.openVerified(options)
	if err != nil {
		return err
	}
	if err := l.loadVerified(replayed); err != nil {
		return errors.Join(err, l.db.Close())
	}
	return nil
}

// FirstIndex is the index of the first entry kept, LastIndex that of the last; it is one less if there is none.
func (l *LogInspection) FirstIndex() uint64 { return l.log.FirstIndex() }

// LastIndex is the index of the newest entry.
func (l *LogInspection) LastIndex() uint64 { return l.log.LastIndex() }

// HardState is RaftLog.HardState.
func (l *LogInspection) HardState() ([]byte, bool) { return l.log.HardState() }

// Meta is RaftLog.Meta.
func (l *LogInspection) Meta(key string) ([]byte, bool) { return l.log.Meta(key) }

// Entries is RaftLog.Entries.
func (l *LogInspection) Entries(dst []LogEntry, lo, hi, maxBytes uint64) ([]LogEntry, error) {
	return l.log.Entries(dst, lo, hi, maxBytes)
}

// Close closes the log.
func (l *LogInspection) Close() error { return l.log.db.Close() }

// StateInspection is a state store that is only read: what was flushed of it.
type StateInspection struct {
	store *stateStore
	info  BackupInfo
}

// OpenState opens the state store. It fails with ErrNoData if there is none, and with ErrDamaged.
func (i *Inspection) OpenState() (*StateInspection, error) {
	dir := i.StateDir()
	if there, err := hasFiles(i.dir.opts.FS, dir); err != nil || !there {
		return nil, errors.Join(fmt.Errorf("%w: no state in %s", ErrNoData, dir), err)
	}
	store, err := openCheckpoint(i.dir.opts.FS, dir, &diskFault{store: "state store", dir: dir,
		logger: i.dir.opts.Logger})
	if err != nil {
		return nil, err
	}
	info, _, err := store.describe()
	if err != nil {
		return nil, errors.Join(err, store.db.Close())
	}
	return &StateInspection{store: store, info: info}, nil
}

// Info is what a backup would say of the state.
func (s *StateInspection) Info() BackupInfo { return s.info }

// Backup writes the state to w as Machine.Backup does; it makes no checkpoint.
func (s *StateInspection) Backup(ctx context.Context, o BackupOptions, w io.Writer) (BackupInfo, error) {
	return s.store.backup(ctx, &o, w)
}

// Close closes the store.
func (s *StateInspection) Close() error { return s.store.db.Close() }

// errReadOnly is what a change through a readOnlyFS fails with.
var errReadOnly = errors.New("the directory is only looked at")

// readOnlyFS lets nothing be changed. Its locks hold nothing: who looks has the lock of the data directory.
type readOnlyFS struct{ vfs.FS }

// Create implements vfs.FS.
func (readOnlyFS) Create(string, vfs.DiskWriteCategory) (vfs.File, error) { return nil, errReadOnly }

// Link implements vfs.FS.
func (readOnlyFS) Link(string, string) error { return errReadOnly }

// OpenReadWrite implements vfs.FS.
func (readOnlyFS) OpenReadWrite(string, vfs.DiskWriteCategory, ...vfs.OpenOption) (vfs.File, error) {
	return nil, errReadOnly
}

// Remove implements vfs.FS.
func (readOnlyFS) Remove(string) error { return errReadOnly }

// RemoveAll implements vfs.FS.
func (readOnlyFS) RemoveAll(string) error { return errReadOnly }

// Rename implements vfs.FS.
func (readOnlyFS) Rename(string, string) error { return errReadOnly }

// ReuseForWrite implements vfs.FS.
func (readOnlyFS) ReuseForWrite(string, string, vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, errReadOnly
}

// MkdirAll implements vfs.FS.
func (readOnlyFS) MkdirAll(string, os.FileMode) error { return errReadOnly }

// Lock implements vfs.FS.
func (readOnlyFS) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// Unwrap implements vfs.FS.
func (f readOnlyFS) Unwrap() vfs.FS { return f.FS }
