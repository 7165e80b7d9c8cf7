package storage

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Checkpoint makes a copy of the state at dir, which must not exist, of hard links where the file system has them:
// the state at some moment during the call, durable. It returns the index of the last entry applied in it, and that
// entry's term. Any goroutine may call it.
func (m *Machine) Checkpoint(ctx context.Context, dir string) (appliedIndex, term uint64, err error) {
	m.copying.RLock()
	defer m.copying.RUnlock()
	if err := m.Flush(ctx); err != nil {
		return 0, 0, err
	}
	if err := m.store.checkpoint(dir); err != nil {
		return 0, 0, err
	}
	// What the copy holds may be more than was flushed above: only the copy knows.
	pos, err := readPosition(m.opts.FS, dir, &m.store.fault)
	if err != nil {
		return 0, 0, err
	}
	return pos.index, pos.term, nil
}

// readPosition reads how far the state store at dir has come, without changing it.
func readPosition(fs vfs.FS, dir string, fault *diskFault) (pos position, err error) {
	s := &stateStore{dir: dir}
	s.db, err = pebble.Open(dir, &pebble.Options{
		FS: fs, ReadOnly: true, ErrorIfNotExists: true, DisableTableStats: true, Logger: pebbleLogger{fault: fault},
	})
	if err != nil {
		return position{}, fmt.Errorf("open state store %s: %w", dir, asDamage(err))
	}
	pos, err = s.position()
	if err = errors.Join(err, s.db.Close()); err != nil {
		return position{}, fmt.Errorf("read the position of state store %s: %w", dir, err)
	}
	// Pebble's lock file belongs to no copy.
	if err := fs.Remove(fs.PathJoin(dir, "LOCK")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return position{}, fmt.Errorf("read the position of state store %s: %w", dir, err)
	}
	return pos, nil
}

// Restore replaces the state by the checkpoint in dir, which must be DataDir.StagingDir and is moved: complete,
// synced, and of an entry not before AppliedIndex. Views that are open end before; later ones wait and then show the
// new state. It is called on the apply goroutine, by who has noted in the raft log that it is under way: after a
// crash, DataDir.FinishInstall does what is left of it. An error is final: the process must end.
//
// It waits for a Checkpoint that is being made. Views wait while one store is closed and the other opened, not for the
// removal of the old files.
func (m *Machine) Restore(dir string) error {
	if err := m.err(); err != nil {
		return err
	}
	m.copying.Lock()
	defer m.copying.Unlock()
	if there, err := hasFiles(m.opts.FS, dir); err != nil || !there {
		return m.store.fault.trip(fmt.Errorf("restore the state from %s: there is no state: %w", dir,
			errors.Join(ErrDamaged, err)))
	}
	if err := m.replaceStore(dir, func() {}); err != nil {
		return err
	}
	if err := removeReplaced(m.opts.FS, m.opts.Dir); err != nil {
		return m.store.fault.trip(fmt.Errorf("restore the state from %s: %w", dir, err))
	}
	return nil
}

// replaceStore puts the store in dir into the present one's place, and calls published before Views show it. If it
// fails, Views find nothing but the fault.
func (m *Machine) replaceStore(dir string, published func()) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.flush.stop()
	err := m.txn.close()
	m.store.retire()
	m.cache.clear()
	if err == nil {
		err = swapState(m.opts.FS, dir, m.opts.Dir)
	}
	if err == nil {
		err = m.reopenLocked()
	}
	if err != nil {
		return m.store.fault.trip(fmt.Errorf("restore the state from %s: %w", dir, err))
	}
	m.txn.init(m)
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
	m.store = store
	err = m.load()
	if index := m.applied.Load(); err == nil && index < applied {
		err = fmt.Errorf("it ends at log entry %d, but entry %d was applied: the log and the checkpoint do not fit "+
			"together", index, applied)
	}
	if err != nil {
		m.store = closed
		return errors.Join(err, store.close())
	}
	return nil
}
