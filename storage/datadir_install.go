package storage

import (
	"errors"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// What stands beside the directory of the state store while another state takes its place.
const (
	stagedSuffix   = ".staged"   // a state that is being received, or was and waits for its turn
	replacedSuffix = ".replaced" // the state before, on its way out
)

// stagedMarks are the files of a receiver's own in the staging directory (docs/formats/peer.md). They are no part of
// the state.
var stagedMarks = [...]string{"zkd-transfer", "zkd-complete"}

// StagingDir returns the directory where a state that another server sends is put together, for Machine.Restore. It
// is beside the state, on its file system. Whoever receives makes it.
func (d *DataDir) StagingDir() string { return d.StateDir() + stagedSuffix }

// FinishInstall completes a Machine.Restore that a crash has interrupted, or has kept from beginning: afterwards the
// state that was staged is the state. It is called at a start, before OpenMachine, if the raft log says that an
// install is under way; otherwise DiscardInstall is. It may itself be interrupted and called again.
func (d *DataDir) FinishInstall() error {
	// A restore that the crash has interrupted, too, came before: the log is applied in order.
	if err := discardRestore(d.opts.FS, d.StateDir()); err != nil {
		return dataDirFailure(d.opts.Dir, err)
	}
	if err := swapState(d.opts.FS, d.StagingDir(), d.StateDir()); err != nil {
		if errors.Is(err, ErrDamaged) {
			return dataDirRefusal(d.opts.Dir, err.Error(), "restore it from a backup")
		}
		return dataDirFailure(d.opts.Dir, err)
	}
	d.opts.Logger.Info("finished the install of a received state", "path", d.StateDir())
	if err := removeReplaced(d.opts.FS, d.StateDir()); err != nil {
		return dataDirFailure(d.opts.Dir, err)
	}
	return nil
}

// DiscardInstall removes what is left of states that were received and not installed, or replaced and not removed. It
// is called at a start if the raft log says nothing of an install under way.
func (d *DataDir) DiscardInstall() error {
	if err := d.opts.FS.RemoveAll(d.StagingDir()); err != nil {
		return dataDirFailure(d.opts.Dir, err)
	}
	if err := removeReplaced(d.opts.FS, d.StateDir()); err != nil {
		return dataDirFailure(d.opts.Dir, err)
	}
	return nil
}

// swapState makes the directory staged the directory state. What was there stays beside it until removeReplaced. It
// goes on from wherever a crash has ended it: the staged state is in its place once nothing is staged.
func swapState(fs vfs.FS, staged, state string) error {
	waiting, err := hasFiles(fs, staged)
	if err != nil {
		return err
	}
	there, err := hasFiles(fs, state)
	if err != nil {
		return err
	}
	switch {
	case !waiting && !there:
		return fmt.Errorf("%w: there is neither a state in %s nor one in %s", ErrDamaged, staged, state)
	case !waiting:
		return removeMarks(fs, state)
	case there:
		if err := removeReplaced(fs, state); err != nil {
			return err
		}
		if err := moveDir(fs, state, state+replacedSuffix); err != nil {
			return err
		}
	default:
		if err := fs.RemoveAll(state); err != nil { // OpenDataDir has made it
			return err
		}
	}
	if err := moveDir(fs, staged, state); err != nil {
		return err
	}
	return removeMarks(fs, state)
}

// removeMarks removes the receiver's files from a state that is in its place.
func removeMarks(fs vfs.FS, state string) error {
	for _, name := range stagedMarks {
		if err := fs.Remove(fs.PathJoin(state, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// removeReplaced removes the state that swapState has replaced, if there is one. What a crash leaves of it is removed
// at the next start.
func removeReplaced(fs vfs.FS, state string) error { return fs.RemoveAll(state + replacedSuffix) }

// moveDir renames a directory in its parent, durably.
func moveDir(fs vfs.FS, from, to string) error {
	if err := fs.Rename(from, to); err != nil {
		return err
	}
	return syncDir(fs, fs.PathDir(to))
}

// hasFiles tells whether dir is there and not empty.
func hasFiles(fs vfs.FS, dir string) (bool, error) {
	names, err := fs.List(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	return len(names) > 0, nil
}
