package datadir

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/disk"
)

// What a data directory holds, beside what Apache ZooKeeper's tools put there (myid).
const (
	FormatName  = "ZKD-FORMAT" // made first; its presence says that the directory is zkd's
	LockName    = "ZKD-LOCK"   // locked while a zkd runs on the directory
	PIDName     = "zkd.pid"    // process id of the zkd that holds the lock, or held it last
	RaftLogName = "raftlog"
	stateName   = "state"
)

// Format is the version of the layout of a data directory. A directory of another one is refused.
const Format = 1

// formatPrefix begins the one line of the format file; the version in decimal and a newline follow.
const formatPrefix = "zkd data directory, format "

// ErrDataDir is what Open fails with when a directory cannot be used as it is; the text names the directory,
// the reason and the remedy.
var ErrDataDir = errors.New("cannot use data directory")

// Options says which directories to open. Dir, FS and Logger are required.
type Options struct {
	Dir    string // dataDir of the configuration
	LogDir string // dataLogDir of the configuration; "" or Dir for the same directory
	FS     vfs.FS
	Logger *slog.Logger
	// MustExist refuses directories that are missing: they may be on a disk that is not mounted (ZooKeeper's
	// datadir.autocreate=false, org.apache.zookeeper.server.persistence.FileTxnSnapLog).
	MustExist bool

	PID       int  // of the process, for whoever finds the lock held; 0: the operating system's
	Importing bool // the data of an Apache ZooKeeper server is brought into the directory
}

// Dir is a locked data directory: nobody else uses it until Close, or the end of the process.
type Dir struct {
	Opts  Options
	Locks []io.Closer

	formatted bool     // the directory was zkd's before an import began
	marked    bool     // an import before this one was killed
	made      []string // the directories that were not there
}

// Open makes the directories if need be and allowed, locks them, and checks that they are zkd's, of the format
// this zkd knows. It changes nothing in a directory that it refuses. A crash at any moment leaves directories that the
// next call opens. When it returns, no power cut takes back the directories, the stores' ones, or the names of what is
// in them, whoever made them. The raft log must be opened (raftlog.Open) before anything is put into the state
// directory: a state without its raft log is refused.
func Open(opts Options) (*Dir, error) {
	if opts.LogDir == "" {
		opts.LogDir = opts.Dir
	}
	opts.Dir, opts.LogDir = filepath.Clean(opts.Dir), filepath.Clean(opts.LogDir)
	d := &Dir{Opts: opts}
	if err := d.open(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// open claims each directory, then makes the two stores' own.
func (d *Dir) open() error {
	dirs := d.dirs()
	for _, dir := range dirs {
		if err := d.claim(dir); err != nil {
			return err
		}
	}
	if err := d.checkImport(); err != nil {
		return err
	}
	if err := d.CheckPair(); err != nil {
		return err
	}
	if err := d.markImport(); err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := d.WriteFormat(dir); err != nil {
			return Failure(dir, err)
		}
	}
	for _, dir := range []string{d.RaftLogDir(), d.StateDir()} {
		if err := d.Opts.FS.MkdirAll(dir, disk.DirPerm); err != nil {
			return Failure(dir, err)
		}
	}
	// What a killed process made and did not come to sync is there, and is relied on as if it were durable.
	for _, dir := range append(dirs, d.RaftLogDir(), d.StateDir()) {
		if err := disk.SyncDir(d.Opts.FS, dir); err != nil {
			return Failure(dir, err)
		}
	}
	return nil
}

// claim makes dir, looks whether it may be used, and locks it.
func (d *Dir) claim(dir string) error {
	info, err := d.Opts.FS.Stat(dir)
	if err == nil && !info.IsDir() {
		return Refusal(dir, "it is a file", "name a directory in zoo.cfg")
	}
	if d.Opts.MustExist && errors.Is(err, os.ErrNotExist) {
		return Refusal(dir, "it is missing, and datadir.autocreate is false",
			"mount its disk, or make the directory")
	}
	if err := d.Make(dir); err != nil {
		return err
	}
	if err := d.CheckOwner(dir); err != nil {
		return err
	}
	return d.Lock(dir)
}

// Make makes dir if it is not there.
func (d *Dir) Make(dir string) error {
	if _, err := d.Opts.FS.Stat(dir); errors.Is(err, os.ErrNotExist) {
		d.made = append(d.made, dir)
	}
	if err := d.Opts.FS.MkdirAll(dir, disk.DirPerm); err != nil {
		return Failure(dir, err)
	}
	return nil
}

// Leave closes d and takes away the files by which it was locked, and the directories that it has made if nothing else
// is in them: nobody has ever served from there.
func (d *Dir) Leave() error {
	var errs []error
	for _, dir := range d.dirs() {
		for _, name := range []string{PIDName, LockName} {
			if err := d.Opts.FS.Remove(d.Path(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
				errs = append(errs, Failure(dir, err))
			}
		}
	}
	errs = append(errs, d.Close())
	for _, dir := range d.made {
		if names, err := d.Opts.FS.List(dir); err == nil && len(names) == 0 {
			errs = append(errs, d.Opts.FS.Remove(dir))
		}
	}
	return errors.Join(errs...)
}

// CheckOwner reads the format file, or, where there is none, looks for what others keep in a directory.
func (d *Dir) CheckOwner(dir string) error {
	content, err := disk.ReadFile(d.Opts.FS, d.Path(dir, FormatName))
	if err == nil {
		return checkFormat(dir, string(content))
	}
	if !errors.Is(err, os.ErrNotExist) {
		return Failure(dir, err)
	}
	if _, err := d.Opts.FS.Stat(d.Path(dir, RestoreName)); err == nil {
		return Refusal(dir, "a restore into it did not come to its end",
			"run zkd restore again, or empty the directory")
	}
	for _, store := range []string{RaftLogName, stateName} {
		if names, err := d.Opts.FS.List(d.Path(dir, store)); err == nil && len(names) > 0 {
			return Refusal(dir,
				fmt.Sprintf("it has %s but no file %s, which is made first", store, FormatName),
				"restore that file from a backup, or give zkd an empty directory")
		}
	}
	if !d.Opts.Importing && HoldsZooKeeper(d.Opts.FS, dir) {
		return Refusal(dir,
			"it holds the data of an Apache ZooKeeper server (version-2), which zkd leaves as it is",
			"bring it over with zkd import and the same zoo.cfg, set zkd.importOnStart=true to have that done at the "+
				"start, or name another dataDir")
	}
	return nil
}

// checkFormat refuses a directory of another format.
func checkFormat(dir, content string) error {
	digits, ok := strings.CutPrefix(content, formatPrefix)
	format, err := strconv.Atoi(strings.TrimSuffix(digits, "\n"))
	switch {
	case !ok || err != nil || content != formatLine(format):
		return Refusal(dir, fmt.Sprintf("its file %s is damaged: found %.80q, want %q",
			FormatName, content, formatLine(Format)), "restore the directory from a backup")
	case format > Format:
		return Refusal(dir,
			fmt.Sprintf("a newer zkd wrote it (format %d, this knows %d)", format, Format),
			"start the newer zkd")
	case format < Format:
		return Refusal(dir, fmt.Sprintf("its format %d is none that zkd ever released", format),
			"restore the directory from a backup")
	}
	return nil
}

// formatLine is the content of the format file.
func formatLine(format int) string { return formatPrefix + strconv.Itoa(format) + "\n" }

// Lock takes the lock of dir and leaves the process id for whoever comes next.
func (d *Dir) Lock(dir string) error {
	lock, err := d.Opts.FS.Lock(d.Path(dir, LockName))
	if err != nil {
		if disk.LockHeld(err) {
			return d.lockedRefusal(dir)
		}
		return Failure(dir, err)
	}
	d.Locks = append(d.Locks, lock)
	pid := cmp.Or(d.Opts.PID, os.Getpid())
	if err := disk.WriteFile(d.Opts.FS, d.Path(dir, PIDName), strconv.Itoa(pid)+"\n"); err != nil {
		return Failure(dir, err)
	}
	return nil
}

// lockedRefusal words that another zkd runs here.
func (d *Dir) lockedRefusal(dir string) error {
	who := "another zkd is running on it"
	if pid, err := disk.ReadFile(d.Opts.FS, d.Path(dir, PIDName)); err == nil {
		if pid := strings.TrimSpace(string(pid)); pid != "" {
			who = fmt.Sprintf("another zkd is running on it (process %.20s)", pid)
		}
	}
	return Refusal(dir, who, "stop that one, or give this one a dataDir of its own")
}

// CheckPair looks whether the two directories belong together: a state without its raft log has lost acknowledged
// writes, and a raft log in both means that dataLogDir was changed.
func (d *Dir) CheckPair() error {
	logs, err := d.storeIsThere(d.RaftLogDir())
	if err != nil {
		return err
	}
	state, err := d.storeIsThere(d.StateDir())
	if err != nil {
		return err
	}
	if state && !logs {
		return Refusal(d.Opts.Dir, fmt.Sprintf("it has a state, but there is no raft log in %s", d.RaftLogDir()),
			"if dataLogDir was changed, move the directory raftlog there; otherwise restore it from a backup")
	}
	if d.Opts.LogDir == d.Opts.Dir {
		return nil
	}
	other := d.Path(d.Opts.Dir, RaftLogName)
	if here, err := d.storeIsThere(other); err != nil || !here {
		return err
	}
	return Refusal(d.Opts.Dir,
		fmt.Sprintf("it has a raft log of its own (%s), but dataLogDir is %s", other, d.Opts.LogDir),
		"if dataLogDir was changed, move the directory raftlog there, or set dataLogDir back")
}

// storeIsThere tells whether dir has files.
func (d *Dir) storeIsThere(dir string) (bool, error) {
	there, err := disk.HasFiles(d.Opts.FS, dir)
	if err != nil {
		return false, Failure(dir, err)
	}
	return there, nil
}

// WriteFormat makes the format file, whole or not at all, once the directory's own name is durable. The file's name is
// left to the caller.
func (d *Dir) WriteFormat(dir string) error {
	path := d.Path(dir, FormatName)
	if _, err := d.Opts.FS.Stat(path); err == nil {
		return nil
	}
	if err := disk.SyncNames(d.Opts.FS, dir); err != nil {
		return err
	}
	if err := disk.WriteFile(d.Opts.FS, path+".tmp", formatLine(Format)); err != nil {
		return err
	}
	if err := d.Opts.FS.Rename(path+".tmp", path); err != nil {
		return err
	}
	d.Opts.Logger.Info("created data directory", "path", dir)
	return nil
}

// RaftLogDir returns the directory for raftlog.Open.
func (d *Dir) RaftLogDir() string { return d.Path(d.Opts.LogDir, RaftLogName) }

// StateDir returns the directory of the state store.
func (d *Dir) StateDir() string { return d.Path(d.Opts.Dir, stateName) }

// Close gives the locks back. The stores must be closed before.
func (d *Dir) Close() error {
	var err error
	for _, lock := range d.Locks {
		err = errors.Join(err, lock.Close())
	}
	d.Locks = nil
	return err
}

// Path joins names.
func (d *Dir) Path(dir, name string) string { return d.Opts.FS.PathJoin(dir, name) }

// Refusal words why a directory is refused, and what to do.
func Refusal(dir, reason, remedy string) error {
	return fmt.Errorf("%w %s: %s: %s", ErrDataDir, dir, reason, remedy)
}

// Failure words what the operating system refused, and what to do.
func Failure(dir string, cause error) error {
	remedy := "check that the disk is healthy and mounted"
	switch {
	case errors.Is(cause, os.ErrPermission):
		remedy = fmt.Sprintf("make it writable for user id %d, or name another dataDir", os.Geteuid())
	case errors.Is(cause, syscall.EROFS):
		remedy = "the file system is read-only: remount it, or name another dataDir"
	case errors.Is(cause, syscall.ENOSPC), errors.Is(cause, syscall.EDQUOT):
		remedy = "the disk is full: free space there and start again"
	case errors.Is(cause, syscall.ENOTDIR):
		remedy = "a part of the path is a file: name a directory in zoo.cfg"
	}
	return fmt.Errorf("%w %s: %w: %s", ErrDataDir, dir, cause, remedy)
}

// IsDataDir tells whether dir is a data directory of zkd.
func IsDataDir(fs vfs.FS, dir string) bool {
	_, err := fs.Stat(fs.PathJoin(dir, FormatName))
	return err == nil
}

// OpenToOthers tells whether a directory of that mode lets in users who are neither its owner nor of its group.
func OpenToOthers(mode os.FileMode) bool { return mode.Perm()&0o007 != 0 }
