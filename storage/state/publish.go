package state

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"zkd/storage/apply"
	"zkd/storage/datadir"
	"zkd/storage/disk"
	"zkd/storage/schema"
)

// conclude publishes what the entry has come to: changes of the state, or another state.
func (m *Machine) conclude(sink Sink) error {
	if err := m.shown.close(); err != nil {
		return err
	}
	if m.txn.Replaced {
		return m.swapIn(sink)
	}
	if err := m.txn.Prepare(m.batch); err != nil {
		return err
	}
	return m.publish(sink)
}

// publish makes the entry's effects visible and tells the sink, as one step to all readers. sink may be nil.
func (m *Machine) publish(sink Sink) error {
	c := &m.txn.Changes
	if d, ok := sink.(Decider); ok {
		if err := d.Decided(c.Results); err != nil {
			return err
		}
	}
	m.steps.at(StepPublish, 0)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.commitLocked(); err != nil {
		return err
	}
	index := c.Position.Index
	c.Each(func(path string, is *schema.Znode) {
		if is == nil {
			m.cache.remove(path, index)
		} else {
			m.cache.put(is, index)
		}
	})
	m.mu.Take(c)
	m.announceLocked()
	if c.Agreed > 0 {
		m.agreed.Store(c.Agreed)
	}
	m.tell(sink, c)
	return nil
}

// tell tells the sink of all results.
func (m *Machine) tell(sink Sink, c *apply.Changes) {
	for i := range c.Results {
		m.steps.at(StepTell, i)
		sink.Result(c.Origin, c.BatchNo, i, &c.Results[i])
	}
}

// announceLocked tells those who ask without the lock what the state is.
func (m *Machine) announceLocked() {
	m.ensemble.Store(m.mu.Ensemble)
	m.level.Store(uint32(m.mu.Level))
	m.counting.Store(int64(m.mu.Counts.Len()))
	m.zxid.Store(int64(m.mu.Position.Zxid))
	m.applied.Store(m.mu.Position.Index)
}

// commitLocked writes the batch to the store.
func (m *Machine) commitLocked() error {
	if err := m.batch.Commit(pebble.NoSync); err != nil {
		return fmt.Errorf("commit to state store %s: %w", m.store.dir, err)
	}
	// A batch that is large against the memtable stays in use by the store.
	if int64(m.batch.Len()) > m.opts.MemTableBytes/8 {
		if err := m.batch.Close(); err != nil {
			return fmt.Errorf("commit to state store %s: %w", m.store.dir, err)
		}
		m.batch.Batch = m.store.db.NewBatch()
		return nil
	}
	m.batch.Reset()
	return nil
}

// swapIn puts the state that the entry has built into the place of the present one, and tells the sink. From the
// rename on, the new one is the state, after a crash too.
func (m *Machine) swapIn(sink Sink) error {
	m.copying.Lock()
	defer m.copying.Unlock()
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
