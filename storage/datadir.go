package storage

import (
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

	"zkd/storage/zkdata"
)

// What a data directory holds, beside what Apache ZooKeeper's tools put there (myid).
const (
	dataDirFormatName = "ZKD-FORMAT" // made first; its presence says that the directory is zkd's
	dataDirLockName   = "ZKD-LOCK"   // locked while a zkd runs on the directory
	dataDirPIDName    = "zkd.pid"    // process id of the zkd that holds the lock, or held it last
	dataDirLogName    = "raftlog"
	dataDirStateName  = "state"
)

// dataDirFormat is the version of the layout of a data directory. A directory of another one is refused.
const dataDirFormat = 1

// dataDirFormatPrefix begins the one line of the format file; the version in decimal and a newline follow.
const dataDirFormatPrefix = "zkd data directory, format "

// dataDirPerm is the mode of directories that zkd makes: the data of znodes is nobody else's business.
const dataDirPerm = 0o750

// ErrDataDir is what OpenDataDir fails with when a directory cannot be used as it is; the text names the directory,
// the reason and the remedy.
var ErrDataDir = errors.New("cannot use data directory")

// DataDirOptions says which directories to open. Dir, FS and Logger are required.
type DataDirOptions struct {
	Dir    string // dataDir of the configuration
	LogDir string // dataLogDir of the configuration; "" or Dir for the same directory
	FS     vfs.FS
	Logger *slog.Logger
	// MustExist refuses directories that are missing: they may be on a disk that is not mounted (ZooKeeper's
	// datadir.autocreate=false, org.apache.zookeeper.server.persistence.FileTxnSnapLog).
	MustExist bool

	importing bool // the data of an Apache ZooKeeper server is brought into the directory
}

// DataDir is a locked data directory: nobody else uses it until Close, or the end of the process.
type DataDir struct {
	opts  DataDirOptions
	locks []io.Closer

	formatted bool // the directory was zkd's before an import began
}

// OpenDataDir makes the directories if need be and allowed, locks them, and checks that they are zkd's, of the format
// this zkd knows. It changes nothing in a directory that it refuses. A crash at any moment leaves directories that the
// next call opens. When it returns, no power cut takes back the directories, the stores' ones, or the names of what is
// in them, whoever made them. The raft log must be opened (OpenRaftLog) before anything is put into the state
// directory: a state without its raft log is refused.
func OpenDataDir(opts DataDirOptions) (*DataDir, error) {
	if opts.LogDir == "" {
		opts.LogDir = opts.Dir
	}
	opts.Dir, opts.LogDir = filepath.Clean(opts.Dir), filepath.Clean(opts.LogDir)
	d := &DataDir{opts: opts}
	if err := d.open(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// open claims each directory, then makes the two stores' own.
func (d *DataDir) open() error {
	dirs := d.dirs()
	for _, dir := range dirs {
		if err := d.claim(dir); err != nil {
			return err
		}
	}
	if err := d.checkImport(); err != nil {
		return err
	}
	if err := d.checkPair(); err != nil {
		return err
	}
	if err := d.markImport(); err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := d.writeFormat(dir); err != nil {
			return dataDirFailure(dir, err)
		}
	}
	for _, dir := range []string{d.RaftLogDir(), d.StateDir()} {
		if err := d.opts.FS.MkdirAll(dir, dataDirPerm); err != nil {
			return dataDirFailure(dir, err)
		}
	}
	// What a killed process made and did not come to sync is there, and is relied on as if it were durable.
	for _, dir := range append(dirs, d.RaftLogDir(), d.StateDir()) {
		if err := syncDir(d.opts.FS, dir); err != nil {
			return dataDirFailure(dir, err)
		}
	}
	return nil
}

// claim makes dir, looks whether it may be used, and locks it.
func (d *DataDir) claim(dir string) error {
	info, err := d.opts.FS.Stat(dir)
	if err == nil && !info.IsDir() {
		return dataDirRefusal(dir, "it is a file", "name a directory in zoo.cfg")
	}
	if d.opts.MustExist && errors.Is(err, os.ErrNotExist) {
		return dataDirRefusal(dir, "it is missing, and datadir.autocreate is false",
			"mount its disk, or make the directory")
	}
	if err := d.opts.FS.MkdirAll(dir, dataDirPerm); err != nil {
		return dataDirFailure(dir, err)
	}
	if err := d.checkOwner(dir); err != nil {
		return err
	}
	return d.lock(dir)
}

// checkOwner reads the format file, or, where there is none, looks for what others keep in a directory.
func (d *DataDir) checkOwner(dir string) error {
	content, err := readFile(d.opts.FS, d.path(dir, dataDirFormatName))
	if err == nil {
		return checkDataDirFormat(dir, string(content))
	}
	if !errors.Is(err, os.ErrNotExist) {
		return dataDirFailure(dir, err)
	}
	for _, store := range []string{dataDirLogName, dataDirStateName} {
		if names, err := d.opts.FS.List(d.path(dir, store)); err == nil && len(names) > 0 {
			return dataDirRefusal(dir,
				fmt.Sprintf("it has %s but no file %s, which is made first", store, dataDirFormatName),
				"restore that file from a backup, or give zkd an empty directory")
		}
	}
	if !d.opts.importing && zkdata.Holds(d.opts.FS, dir) {
		return dataDirRefusal(dir,
			"it holds the data of an Apache ZooKeeper server (version-2), which zkd leaves as it is",
			"bring it over with zkd import and the same zoo.cfg, set zkd.importOnStart=true to have that done at the "+
				"start, or name another dataDir")
	}
	return nil
}

// checkDataDirFormat refuses a directory of another format.
func checkDataDirFormat(dir, content string) error {
	digits, ok := strings.CutPrefix(content, dataDirFormatPrefix)
	format, err := strconv.Atoi(strings.TrimSuffix(digits, "\n"))
	switch {
	case !ok || err != nil || content != dataDirFormatLine(format):
		return dataDirRefusal(dir, fmt.Sprintf("its file %s is damaged: found %.80q, want %q",
			dataDirFormatName, content, dataDirFormatLine(dataDirFormat)), "restore the directory from a backup")
	case format > dataDirFormat:
		return dataDirRefusal(dir,
			fmt.Sprintf("a newer zkd wrote it (format %d, this knows %d)", format, dataDirFormat),
			"start the newer zkd")
	case format < dataDirFormat:
		return dataDirRefusal(dir, fmt.Sprintf("its format %d is none that zkd ever released", format),
			"restore the directory from a backup")
	}
	return nil
}

// dataDirFormatLine is the content of the format file.
func dataDirFormatLine(format int) string { return dataDirFormatPrefix + strconv.Itoa(format) + "\n" }

// lock takes the lock of dir and leaves the process id for whoever comes next.
func (d *DataDir) lock(dir string) error {
	lock, err := d.opts.FS.Lock(d.path(dir, dataDirLockName))
	if err != nil {
		if lockHeld(err) {
			return d.lockedRefusal(dir)
		}
		return dataDirFailure(dir, err)
	}
	d.locks = append(d.locks, lock)
	if err := writeFile(d.opts.FS, d.path(dir, dataDirPIDName), strconv.Itoa(os.Getpid())+"\n"); err != nil {
		return dataDirFailure(dir, err)
	}
	return nil
}

// lockHeld tells a lock that is held from a lock file that cannot be made: of another process's lock fcntl says
// EAGAIN or EACCES, with no path; of this one's Pebble's file system says a text.
func lockHeld(err error) bool {
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		return false
	}
	return errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) ||
		strings.Contains(err.Error(), "lock held")
}

// lockedRefusal words that another zkd runs here.
func (d *DataDir) lockedRefusal(dir string) error {
	who := "another zkd is running on it"
	if pid, err := readFile(d.opts.FS, d.path(dir, dataDirPIDName)); err == nil {
		if pid := strings.TrimSpace(string(pid)); pid != "" {
			who = fmt.Sprintf("another zkd is running on it (process %.20s)", pid)
		}
	}
	return dataDirRefusal(dir, who, "stop that one, or give this one a dataDir of its own")
}

// checkPair looks whether the two directories belong together: a state without its raft log has lost acknowledged
// writes, and a raft log in both means that dataLogDir was changed.
func (d *DataDir) checkPair() error {
	logs, err := d.storeIsThere(d.RaftLogDir())
	if err != nil {
		return err
	}
	state, err := d.storeIsThere(d.StateDir())
	if err != nil {
		return err
	}
	if state && !logs {
		return dataDirRefusal(d.opts.Dir, fmt.Sprintf("it has a state, but there is no raft log in %s", d.RaftLogDir()),
			"if dataLogDir was changed, move the directory raftlog there; otherwise restore it from a backup")
	}
	if d.opts.LogDir == d.opts.Dir {
		return nil
	}
	other := d.path(d.opts.Dir, dataDirLogName)
	if here, err := d.storeIsThere(other); err != nil || !here {
		return err
	}
	return dataDirRefusal(d.opts.Dir,
		fmt.Sprintf("it has a raft log of its own (%s), but dataLogDir is %s", other, d.opts.LogDir),
		"if dataLogDir was changed, move the directory raftlog there, or set dataLogDir back")
}

// storeIsThere tells whether dir has files.
func (d *DataDir) storeIsThere(dir string) (bool, error) {
	there, err := hasFiles(d.opts.FS, dir)
	if err != nil {
		return false, dataDirFailure(dir, err)
	}
	return there, nil
}

// writeFormat makes the format file, whole or not at all, once the directory's own name is durable. The file's name is
// left to the caller.
func (d *DataDir) writeFormat(dir string) error {
	path := d.path(dir, dataDirFormatName)
	if _, err := d.opts.FS.Stat(path); err == nil {
		return nil
	}
	if err := syncNames(d.opts.FS, dir); err != nil {
		return err
	}
	if err := writeFile(d.opts.FS, path+".tmp", dataDirFormatLine(dataDirFormat)); err != nil {
		return err
	}
	if err := d.opts.FS.Rename(path+".tmp", path); err != nil {
		return err
	}
	d.opts.Logger.Info("made a new data directory", "path", dir)
	return nil
}

// RaftLogDir returns the directory for OpenRaftLog.
func (d *DataDir) RaftLogDir() string { return d.path(d.opts.LogDir, dataDirLogName) }

// StateDir returns the directory of the state store.
func (d *DataDir) StateDir() string { return d.path(d.opts.Dir, dataDirStateName) }

// Close gives the locks back. The stores must be closed before.
func (d *DataDir) Close() error {
	var err error
	for _, lock := range d.locks {
		err = errors.Join(err, lock.Close())
	}
	d.locks = nil
	return err
}

// path joins names.
func (d *DataDir) path(dir, name string) string { return d.opts.FS.PathJoin(dir, name) }

// dataDirRefusal words why a directory is refused, and what to do.
func dataDirRefusal(dir, reason, remedy string) error {
	return fmt.Errorf("%w %s: %s: %s", ErrDataDir, dir, reason, remedy)
}

// dataDirFailure words what the operating system refused, and what to do.
func dataDirFailure(dir string, cause error) error {
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

// syncNames makes the names of dir and of the directories above it durable: it is not known which of them are new, as
// an operator's script, or a zkd that was killed, may have made them a moment ago. Those above that cannot be synced
// with this user's rights, or on their file system, are not ours to answer for.
func syncNames(fs vfs.FS, dir string) error {
	for at := dir; ; {
		above := fs.PathDir(at)
		if above == at || above == "" {
			return nil
		}
		err := syncDir(fs, above)
		foreign := errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS) ||
			errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP)
		if err != nil && !foreign {
			return err
		}
		at = above
	}
}

// readFile returns the content of a small file.
func readFile(fs vfs.FS, path string) ([]byte, error) {
	file, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // opened for reading only
	return io.ReadAll(io.LimitReader(file, 4096))
}

// writeFile writes a small file and fsyncs it, but not its name.
func writeFile(fs vfs.FS, path, content string) error {
	file, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if _, err := file.Write([]byte(content)); err != nil {
		return errors.Join(err, file.Close())
	}
	return errors.Join(file.Sync(), file.Close())
}
