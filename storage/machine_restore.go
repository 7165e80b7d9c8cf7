package storage

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/datadir"
	"zkd/storage/disk"
	"zkd/storage/schema"
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
	return pos.Index, pos.Term, nil
}

// readPosition reads how far the state store at dir has come, without changing it.
func readPosition(fs vfs.FS, dir string, fault *disk.Fault) (pos schema.Position, err error) {
	s := &stateStore{dir: dir}
	s.db, err = pebble.Open(dir, &pebble.Options{
		FS: fs, ReadOnly: true, ErrorIfNotExists: true, DisableTableStats: true, Logger: disk.Logger{Fault: fault},
	})
	if err != nil {
		return schema.Position{}, fmt.Errorf("open state store %s: %w", dir, disk.AsDamage(err))
	}
	pos, err = s.position()
	if err = errors.Join(err, s.db.Close()); err != nil {
		return schema.Position{}, fmt.Errorf("read the position of state store %s: %w", dir, err)
	}
	// Pebble's lock file belongs to no copy.
	if err := fs.Remove(fs.PathJoin(dir, "LOCK")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return schema.Position{}, fmt.Errorf("read the position of state store %s: %w", dir, err)
	}
	return pos, nil
}

// Restore replaces the state by the checkpoint in dir, which must be datadir.Dir.StagingDir and is moved: complete,
// synced, and of an entry not before AppliedIndex. Views that are open end before; later ones wait and then show the
// new state. It is called on the apply goroutine, by who has noted in the raft log that it is under way: after a
// crash, datadir.Dir.FinishInstall does what is left of it. An error is final: the process must end.
//
// It waits for a Checkpoint that is being made. Views wait while one store is closed and the other opened, not for the
// removal of the old files.
func (m *Machine) Restore(dir string) error {
	if err := m.err(); err != nil {
		return err
	}
	m.copying.Lock()
	defer m.copying.Unlock()
	if there, err := disk.HasFiles(m.opts.FS, dir); err != nil || !there {
		return m.store.fault.Trip(fmt.Errorf("restore the state from %s: there is no state: %w", dir,
			errors.Join(disk.ErrDamaged, err)))
	}
	if err := m.replaceStore(dir, func() {}); err != nil {
		return err
	}
	if err := datadir.RemoveReplaced(m.opts.FS, m.opts.Dir); err != nil {
		return m.store.fault.Trip(fmt.Errorf("restore the state from %s: %w", dir, err))
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
	m.restores.Add(1)
	m.flush.stop()
	err := m.txn.close()
	m.store.retire()
	m.cache.clear()
	if err == nil {
		err = datadir.SwapState(m.opts.FS, dir, m.opts.Dir)
	}
	if err == nil {
		err = m.reopenLocked()
	}
	if err != nil {
		return m.store.fault.Trip(fmt.Errorf("restore the state from %s: %w", dir, err))
	}
	m.txn.init(m)
	m.marks = nil // of another state
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
