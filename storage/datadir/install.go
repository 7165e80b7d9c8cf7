package datadir

import (
	"errors"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/disk"
)

// What stands beside the directory of the state store while another state takes its place.
const (
	StagedSuffix   = ".staged"   // a state that is being received, or was and waits for its turn
	ReplacedSuffix = ".replaced" // the state before, on its way out
)

// StagedMarks are the files of a receiver's own in the staging directory (docs/formats/peer.md). They are no part of
// the state.
var StagedMarks = [...]string{"zkd-transfer", "zkd-complete"}

// StagingDir returns the directory where a state that another server sends is put together, for Machine.Install. It
// is beside the state, on its file system. Whoever receives makes it.
func (d *Dir) StagingDir() string { return d.StateDir() + StagedSuffix }

// FinishInstall settles a Machine.Install that a crash has interrupted, or has kept from beginning. fits tells what is
// wrong with the state in a directory, nil: nothing is. If the state that was staged fits, it is the state afterwards:
// true. Otherwise the state before it is in its place again, and its log goes on where it ended: false, and then the
// raft log is to say that no install is under way, before DiscardInstall removes the one that was staged.
//
// It is called at a start, before OpenMachine, if the raft log says that an install is under way; otherwise
// DiscardInstall is. It may itself be interrupted and called again. The state that was replaced stays until
// ForgetReplaced.
func (d *Dir) FinishInstall(fits func(dir string) error) (finished bool, err error) {
	fs, state, staged := d.Opts.FS, d.StateDir(), d.StagingDir()
	waiting, err := disk.HasFiles(fs, staged)
	if err != nil {
		return false, Failure(d.Opts.Dir, err)
	}
	newest := state
	if waiting {
		newest = staged
	}
	there, err := disk.HasFiles(fs, newest)
	if err != nil {
		return false, Failure(d.Opts.Dir, err)
	}
	if !there {
		return false, Refusal(d.Opts.Dir, fmt.Sprintf("there is neither a state in %s nor one in %s", staged, state),
			"restore it from a backup")
	}
	if wrong := fits(newest); wrong != nil {
		return false, d.goBack(waiting, wrong)
	}
	// A load that the crash has interrupted, too, came before: the log is applied in order.
	if err := discardReplacement(fs, state); err != nil {
		return false, Failure(d.Opts.Dir, err)
	}
	if err := SwapState(fs, staged, state); err != nil {
		return false, Failure(d.Opts.Dir, err)
	}
	d.Opts.Logger.Info("finished snapshot install", "path", state)
	return true, nil
}

// goBack puts the state before an install in its place again. waiting says that the one that does not fit is still
// staged. It goes on from wherever a crash has ended it.
func (d *Dir) goBack(waiting bool, wrong error) error {
	fs, state, staged := d.Opts.FS, d.StateDir(), d.StagingDir()
	there, err := disk.HasFiles(fs, state)
	if err != nil {
		return Failure(d.Opts.Dir, err)
	}
	before, err := disk.HasFiles(fs, state+ReplacedSuffix)
	if err != nil {
		return Failure(d.Opts.Dir, err)
	}
	keeps := waiting && there // the installation had not come to the state before
	switch {
	case !keeps && !before:
		return Refusal(d.Opts.Dir, fmt.Sprintf("the received state cannot be used (%v), and the one before is gone",
			wrong), "restore it from a backup")
	case !waiting: // what does not fit goes back where it came from, so that the next start finds it there
		if err := fs.RemoveAll(staged); err != nil {
			return Failure(d.Opts.Dir, err)
		}
		if err := disk.MoveDir(fs, state, staged); err != nil {
			return Failure(d.Opts.Dir, err)
		}
	}
	if !keeps {
		if err := fs.RemoveAll(state); err != nil { // Open has made it
			return Failure(d.Opts.Dir, err)
		}
		if err := disk.MoveDir(fs, state+ReplacedSuffix, state); err != nil {
			return Failure(d.Opts.Dir, err)
		}
	}
	d.Opts.Logger.Error("snapshot install undone: keeping the previous state", "path", state, "err", wrong)
	return nil
}

// ForgetReplaced removes the state that an install has replaced. It is called when the new one is open.
func (d *Dir) ForgetReplaced() error {
	if err := RemoveReplaced(d.Opts.FS, d.StateDir()); err != nil {
		return Failure(d.Opts.Dir, err)
	}
	return nil
}

// DiscardInstall removes what is left of states that were received and not installed, or replaced and not removed. It
// is called at a start if the raft log says nothing of an install under way.
func (d *Dir) DiscardInstall() error {
	if err := d.Opts.FS.RemoveAll(d.StagingDir()); err != nil {
		return Failure(d.Opts.Dir, err)
	}
	if err := RemoveReplaced(d.Opts.FS, d.StateDir()); err != nil {
		return Failure(d.Opts.Dir, err)
	}
	return nil
}

// SwapState makes the directory staged the directory state. What was there stays beside it until RemoveReplaced. It
// goes on from wherever a crash has ended it: the staged state is in its place once nothing is staged.
func SwapState(fs vfs.FS, staged, state string) error {
	waiting, err := disk.HasFiles(fs, staged)
	if err != nil {
		return err
	}
	there, err := disk.HasFiles(fs, state)
	if err != nil {
		return err
	}
	switch {
	case !waiting && !there:
		return fmt.Errorf("%w: there is neither a state in %s nor one in %s", disk.ErrDamaged, staged, state)
	case !waiting:
		return removeMarks(fs, state)
	case there:
		if err := RemoveReplaced(fs, state); err != nil {
			return err
		}
		if err := disk.MoveDir(fs, state, state+ReplacedSuffix); err != nil {
			return err
		}
	default:
		if err := fs.RemoveAll(state); err != nil { // Open has made it
			return err
		}
	}
	if err := disk.MoveDir(fs, staged, state); err != nil {
		return err
	}
	return removeMarks(fs, state)
}

// removeMarks removes the receiver's files from a state that is in its place.
func removeMarks(fs vfs.FS, state string) error {
	for _, name := range StagedMarks {
		if err := fs.Remove(fs.PathJoin(state, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// RemoveReplaced removes the state that SwapState has replaced, if there is one. What a crash leaves of it is removed
// at the next start.
func RemoveReplaced(fs vfs.FS, state string) error { return fs.RemoveAll(state + ReplacedSuffix) }

// What stands beside the directory of the state store while a load puts another state into its place
// (docs/formats/state.md).
const (
	BuildingSuffix    = ".restoring" // a state that is being built: nothing counts on it
	ReplacementSuffix = ".restored"  // a state that is whole, durable, and the next one whatever happens
)

// FinishReplacement finishes a load whose state was whole when the process ended, and removes what there is of one that
// was not: its entry is applied again.
func FinishReplacement(fs vfs.FS, dir string) error {
	whole, err := disk.HasFiles(fs, dir+ReplacementSuffix)
	if err == nil && whole {
		err = SwapState(fs, dir+ReplacementSuffix, dir)
	}
	if err == nil && whole {
		err = RemoveReplaced(fs, dir)
	}
	if err == nil {
		err = fs.RemoveAll(dir + BuildingSuffix)
	}
	if err != nil {
		return fmt.Errorf("finish the load of a snapshot into %s: %w", dir, err)
	}
	return nil
}

// discardReplacement removes what there is of loads: a newer state takes the place of what they led to.
func discardReplacement(fs vfs.FS, dir string) error {
	return errors.Join(fs.RemoveAll(dir+ReplacementSuffix), fs.RemoveAll(dir+BuildingSuffix))
}
