package state

import (
	"context"
	"errors"
	"fmt"
	"os"

	"zkd/storage/datadir"
	"zkd/storage/disk"
)

// Checkpoint makes a copy of the state at dir, which must not exist, of hard links where the file system has them:
// the state at some moment during the call, durable. It returns the index of the last entry applied in it, and that
// entry's term. It waits for an Install under way, or until ctx ends. Any goroutine may call it.
func (m *Machine) Checkpoint(ctx context.Context, dir string) (appliedIndex, term uint64, err error) {
	if err := m.copying.Acquire(ctx, 1); err != nil {
		return 0, 0, fmt.Errorf("copy of the state in %s: %w", dir, err)
	}
	defer m.copying.Release(1)
	if err := m.Flush(ctx); err != nil {
		return 0, 0, err
	}
	if err := m.store.checkpoint(dir); err != nil {
		return 0, 0, err
	}
	// What the copy holds may be more than was flushed above: only the copy knows.
	r, err := OpenReader(m.opts.FS, dir, m.opts.Logger)
	if err != nil {
		return 0, 0, err
	}
	if err := r.Close(); err != nil {
		return 0, 0, fmt.Errorf("close the copy of the state in %s: %w", dir, err)
	}
	// Pebble's lock file belongs to no copy.
	if err := m.opts.FS.Remove(m.opts.FS.PathJoin(dir, "LOCK")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, 0, fmt.Errorf("remove the lock of the copy of the state in %s: %w", dir, err)
	}
	return r.pos.Index, r.pos.Term, nil
}

// ReadCheckpoint makes a checkpoint at dir as Checkpoint does, and opens it. Closing the Reader removes it. Any
// goroutine may call it.
func (m *Machine) ReadCheckpoint(ctx context.Context, dir string) (*Reader, error) {
	fs := m.opts.FS
	remove := func() error {
		if err := fs.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove the copy of the state in %s: %w", dir, err)
		}
		return nil
	}
	if _, _, err := m.Checkpoint(ctx, dir); err != nil {
		return nil, errors.Join(err, remove())
	}
	r, err := OpenReader(fs, dir, m.opts.Logger)
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	closeStore := r.end
	r.end = func() error { return errors.Join(closeStore(), remove()) }
	return r, nil
}

// Verify is the function of that name for a copy of a state on the same file system, before Install takes it. Any
// goroutine may call it.
func (m *Machine) Verify(dir string, goOn func() error) (Verified, error) {
	return Verify(m.opts.FS, dir, m.opts.Logger, goOn)
}

// Install replaces the state by the checkpoint in dir, which must be datadir.Dir.StagingDir and is moved: complete,
// synced, and of an entry not before AppliedIndex. Views that are open end before; later ones wait and then show the
// new state. It is called on the apply goroutine, by who has noted in the raft log that it is under way: after a
// crash, datadir.Dir.FinishInstall does what is left of it. An error is final: the process must end.
//
// It waits for a Checkpoint that is being made. Views wait while one store is closed and the other opened, not for the
// removal of the old files.
func (m *Machine) Install(dir string) error {
	if err := m.err(); err != nil {
		return err
	}
	defer m.replacing()()
	if there, err := disk.HasFiles(m.opts.FS, dir); err != nil || !there {
		return m.store.fault.Trip(fmt.Errorf("install the state from %s: there is no state: %w", dir,
			errors.Join(disk.ErrDamaged, err)))
	}
	if err := m.replaceStore(dir, func() {}); err != nil {
		return err
	}
	if err := datadir.RemoveReplaced(m.opts.FS, m.opts.Dir); err != nil {
		return m.store.fault.Trip(fmt.Errorf("install the state from %s: %w", dir, err))
	}
	return nil
}

// replacing waits until nobody copies the store, and has nobody begin until done is called.
func (m *Machine) replacing() (done func()) {
	_ = m.copying.Acquire(context.Background(), copyingAll) // which does not end
	return func() { m.copying.Release(copyingAll) }
}

// swapIn puts the state that the entry has built into the place of the present one, and tells the sink. From the
// rename on, the new one is the state, after a crash too.
func (m *Machine) swapIn(sink Sink) error {
	defer m.replacing()()
	observer, observed := sink.(ReplaceObserver)
	if observed {
		observer.Replacing()
	}
	fs, dir := m.opts.FS, m.opts.Dir
	if err := disk.MoveDir(fs, dir+datadir.BuildingSuffix, dir+datadir.ReplacementSuffix); err != nil {
		return m.store.fault.Trip(fmt.Errorf("replace the state: %w", err))
	}
	c := &m.txn.Changes
	err := m.replaceStore(dir+datadir.ReplacementSuffix, func() { m.tell(sink, c) })
	if err != nil {
		return err
	}
	if observed {
		observer.Replaced()
	}
	if err := datadir.RemoveReplaced(fs, dir); err != nil {
		return m.store.fault.Trip(fmt.Errorf("replace the state: %w", err))
	}
	return nil
}

// replaceStore puts the store in dir into the present one's place, and calls published before Views show it. If it
// fails, Views find nothing but the fault.
func (m *Machine) replaceStore(dir string, published func()) error {
	defer m.scrubbing.halt()()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reading.Lock()
	defer m.reading.Unlock()
	m.generation.Add(1)
	m.flush.stop()
	err := m.endBatch()
	m.store.retire()
	m.cache.clear()
	m.lists.clear()
	if err == nil {
		err = datadir.SwapState(m.opts.FS, dir, m.opts.Dir)
	}
	if err == nil {
		err = m.reopenLocked()
	}
	if err != nil {
		return m.store.fault.Trip(fmt.Errorf("install the state from %s: %w", dir, err))
	}
	m.begin()
	m.flush.start()
	published()
	return nil
}

// reopenLocked opens the store that has come to the machine's directory. The closed one stays if it fails.
func (m *Machine) reopenLocked() error {
	applied, closed := m.applied.Load(), m.store
	store, err := openStateStore(&m.opts)
	if err != nil {
		return err
	}
	m.setStore(store)
	err = m.load()
	if index := m.applied.Load(); err == nil && index < applied {
		err = fmt.Errorf("it ends at log entry %d, but entry %d was applied: the log and the checkpoint do not fit "+
			"together", index, applied)
	}
	if err != nil {
		m.setStore(closed)
		return errors.Join(err, store.close())
	}
	return nil
}
