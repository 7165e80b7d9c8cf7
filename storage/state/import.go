package state

import (
	"errors"
	"fmt"

	"zkd/storage/apply"
	"zkd/storage/raftlog"
)

// Sizes while a state is filled; guesses.
const (
	importMemTableBytes = 8 << 20 // larger ones make fewer tables
	importFlushBytes    = 16 << 20
)

// ImportState is a new state that is filled with what Apache ZooKeeper has written, before anybody is served from it.
type ImportState struct {
	*apply.Importer
	m *Machine

	failed    <-chan struct{} // closed when the store has stopped; nil: nobody says so
	flushing  <-chan struct{} // closed when the flush that was begun last is durable; nil before the first
	unflushed int64           // bytes committed since it was begun
}

// newImport fills m, whose state is that of an empty server and will count as the effect of an entry.
func newImport(m *Machine, failed <-chan struct{}, index, term uint64) *ImportState {
	i := &ImportState{m: m, failed: failed}
	i.Importer = apply.NewImporter(m.txn, i, index, term)
	return i
}

// OpenImport makes the state; of o, Dir, FS and Logger are taken. A new store waits for its first flush for ever if the
// disk fails (Pebble tries again); so it is given up then: the process is about to end.
func OpenImport(o MachineOptions) (*ImportState, error) {
	type opened struct {
		m   *Machine
		err error
	}
	var cause error // written before failed is closed
	failed, done := make(chan struct{}), make(chan opened, 1)
	go func() {
		m, err := OpenMachine(MachineOptions{Dir: o.Dir, FS: o.FS, Logger: o.Logger, MemTableBytes: importMemTableBytes,
			OnFatal: func(err error) {
				cause = err
				close(failed)
			}})
		done <- opened{m, err}
	}()
	select {
	case made := <-done:
		if made.err != nil {
			return nil, made.err
		}
		return newImport(made.m, failed, raftlog.ImportedIndex, raftlog.ImportedTerm), nil
	case <-failed:
		return nil, cause
	}
}

// Quotas returns how many there are. Finish has returned.
func (i *ImportState) Quotas() int { return i.m.mu.Quotas.Len() }

// Reader reads the state. Finish has returned; the ImportState goes on to own the store.
func (i *ImportState) Reader() (*Reader, error) {
	r := i.m.store.reader()
	return r, r.begin()
}

// Finish does what ZooKeeper does before it serves, and makes the state durable. It returns how many ephemerals of
// sessions that are gone it has removed.
func (i *ImportState) Finish() (orphans int, err error) {
	if orphans, err = i.Importer.Finish(); err != nil {
		return 0, err
	}
	return orphans, i.settle()
}

// Publish implements Target. It begins a flush whenever enough was committed, and waits for the one before it: so what
// waits for the disk stays bounded.
func (i *ImportState) Publish(t *apply.Txn) error {
	err := i.m.err()
	if err == nil {
		err = errors.Join(i.m.shown.close(), t.Prepare(i.m.batch))
	}
	i.unflushed += int64(i.m.batch.Len())
	if err == nil {
		err = i.m.publish(nil)
	}
	t.End()
	if err != nil {
		return fmt.Errorf("import into state store %s: %w", i.m.opts.Dir, err)
	}
	if i.unflushed < importFlushBytes {
		return nil
	}
	return i.flush()
}

// flush begins a flush when the one before it is durable.
func (i *ImportState) flush() error {
	if i.flushing != nil {
		select {
		case <-i.flushing:
		case <-i.failed:
			return i.m.err()
		}
	}
	done, err := i.m.store.asyncFlush()
	i.flushing, i.unflushed = done, 0
	return err
}

// settle makes all of it durable: the second flush waits for the first one.
func (i *ImportState) settle() error { return errors.Join(i.flush(), i.flush(), i.m.err()) }

// Close closes the state.
func (i *ImportState) Close() error { return errors.Join(i.m.shown.close(), i.m.Close()) }
