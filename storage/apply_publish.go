package storage

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"zkd/storage/entry"
	"zkd/storage/schema"
)

// prepare writes what the entry changes to the batch. Nothing is visible yet.
func (t *txn) prepare() error {
	for _, c := range t.order {
		if c.cur == c.base {
			continue
		}
		if err := t.writeChange(c); err != nil {
			return fmt.Errorf("write %q: %w", c.path, err)
		}
	}
	if err := t.writeSessions(); err != nil {
		return err
	}
	if t.ensemble != t.m.mu.ensemble {
		t.scratch = t.ensemble.Append(t.scratch[:0])
		if err := t.batch.Set(schema.KeyEnsemble, t.scratch, nil); err != nil {
			return fmt.Errorf("write the ensemble's record: %w", err)
		}
	}
	if err := t.writeUpload(); err != nil {
		return err
	}
	if t.restored != t.m.mu.restored {
		t.scratch = binary.BigEndian.AppendUint64(t.scratch[:0], uint64(t.restored))
		if err := t.batch.Set(schema.KeyRestored, t.scratch, nil); err != nil {
			return fmt.Errorf("write the zxid of a restore: %w", err)
		}
	}
	if t.level != t.m.mu.level {
		if err := writeLevel(t.batch, t.level); err != nil {
			return err
		}
	}
	if err := t.writeCountings(); err != nil {
		return err
	}
	t.scratch = t.pos.Append(t.scratch[:0])
	if err := t.batch.Set(schema.KeyApplied, t.scratch, nil); err != nil {
		return fmt.Errorf("write the applied index: %w", err)
	}
	t.scratch = t.sums.Append(t.scratch[:0], t.pos.Index)
	if err := t.batch.Set(schema.KeySums, t.scratch, nil); err != nil {
		return fmt.Errorf("write the sums: %w", err)
	}
	return nil
}

// writeChange adds one znode's change to the batch and to the counters.
func (t *txn) writeChange(c *change) error {
	t.count(c)
	t.keyBuf = schema.AppendNodeKey(t.keyBuf[:0], schema.KindNode, c.path)
	if c.cur == nil {
		if err := t.batch.Delete(t.keyBuf, nil); err != nil {
			return err
		}
	} else {
		t.scratch = c.cur.AppendHeader(t.scratch[:0])
		if err := t.batch.Set(t.keyBuf, t.scratch, nil); err != nil {
			return err
		}
	}
	t.sumZnode(c)
	if err := t.writeData(c); err != nil {
		return err
	}
	return t.writeIndexes(c)
}

// writeData writes or deletes the data that has a key of its own. t.keyBuf holds the header's key.
func (t *txn) writeData(c *change) error {
	apart := c.cur != nil && !c.cur.Inline()
	switch {
	case apart && (c.base == nil || c.dataChanged):
		t.keyBuf[0] = schema.KindData
		return t.batch.Set(t.keyBuf, c.cur.Data, nil)
	case !apart && c.base != nil && !c.base.Inline():
		t.keyBuf[0] = schema.KindData
		return t.batch.Delete(t.keyBuf, nil)
	}
	return nil
}

// writeIndexes writes what has changed in the lists of ephemerals and of znodes that may go away by themselves.
func (t *txn) writeIndexes(c *change) error {
	was, is := schema.SessionOwner(c.base), schema.SessionOwner(c.cur)
	if was != is {
		if was != 0 {
			if err := t.batch.Delete(schema.AppendEphemeralKey(t.keyBuf[:0], was, c.path), nil); err != nil {
				return err
			}
		}
		if is != 0 {
			if err := t.batch.Set(schema.AppendEphemeralKey(t.keyBuf[:0], is, c.path), nil, nil); err != nil {
				return err
			}
		}
	}
	if !schema.MayExpire(c.base) && !schema.MayExpire(c.cur) {
		return nil
	}
	t.keyBuf = schema.AppendExpiryKey(t.keyBuf[:0], c.path, c.base)
	t.scratch = schema.AppendExpiryKey(t.scratch[:0], c.path, c.cur)
	if bytes.Equal(t.keyBuf, t.scratch) {
		return nil
	}
	if len(t.keyBuf) > 0 {
		if err := t.batch.Delete(t.keyBuf, nil); err != nil {
			return err
		}
	}
	if len(t.scratch) > 0 {
		return t.batch.Set(t.scratch, nil, nil)
	}
	return nil
}

// count brings the position's counters up to date with one znode's change.
func (t *txn) count(c *change) {
	if c.base != nil {
		t.pos.Nodes--
		t.pos.DataBytes -= int64(len(c.path)) + int64(c.base.DataLen)
		t.pos.Digest -= c.base.Digest(&t.digestBuf)
		if schema.SessionOwner(c.base) != 0 {
			t.pos.Ephemerals--
		}
	}
	if c.cur != nil {
		t.pos.Nodes++
		t.pos.DataBytes += int64(len(c.path)) + int64(c.cur.DataLen)
		t.pos.Digest += c.cur.Digest(&t.digestBuf)
		if schema.SessionOwner(c.cur) != 0 {
			t.pos.Ephemerals++
		}
	}
}

// publish makes the entry's effects visible and tells the sink, as one step to all readers.
func (t *txn) publish(sink Sink) error {
	t.settle()
	for i := range t.results {
		s := t.spans[i]
		t.results[i].Events = t.events[s.events:s.eventsEnd]
		t.results[i].Ops = t.ops[s.ops:s.opsEnd]
	}
	if d, ok := sink.(Decider); ok {
		if err := d.Decided(t.results); err != nil {
			return err
		}
	}
	m := t.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := t.commitLocked(); err != nil {
		return err
	}
	for _, c := range t.order {
		switch {
		case c.cur == c.base:
		case c.cur == nil:
			m.cache.remove(c.path, t.pos.Index)
		default:
			m.cache.put(c.cur, t.pos.Index)
		}
	}
	t.publishSessionsLocked()
	t.publishQuotasLocked()
	t.publishCountings()
	if t.ensemble != m.mu.ensemble {
		m.mu.ensemble = t.ensemble
		m.ensemble.Store(t.ensemble)
	}
	m.mu.upload, m.mu.restored = t.upload, t.restored
	m.mu.level = t.level
	m.level.Store(uint32(t.level))
	m.mu.pos, m.mu.sums = t.pos, t.sums
	m.zxid.Store(int64(t.pos.Zxid))
	m.applied.Store(t.pos.Index)
	for i := range t.results {
		sink.Result(t.origin, t.batchNo, i, &t.results[i])
	}
	return nil
}

// settle moves what outlives the entry into memory of its own: until now paths and new data were views.
func (t *txn) settle() {
	for _, c := range t.order {
		n := c.cur
		switch {
		case n == c.base || n == nil:
		case !c.dataChanged:
			n.Path = c.base.Path
		case n.Data == nil:
			n.Path = strings.Clone(c.path)
		default:
			// One allocation for both. The path is copied each time, so that an old one does not keep old data alive.
			b := make([]byte, len(c.path)+len(n.Data))
			copy(b, c.path)
			copy(b[len(c.path):], n.Data)
			n.Path = entry.ViewString(b[:len(c.path)])
			n.Data = b[len(c.path):]
		}
	}
}

// commitLocked writes the batch to the store.
func (t *txn) commitLocked() error {
	if err := t.batch.Commit(pebble.NoSync); err != nil {
		return fmt.Errorf("commit to state store %s: %w", t.m.store.dir, err)
	}
	// A batch that is large against the memtable stays in use by the store.
	if int64(t.batch.Len()) > t.m.opts.MemTableBytes/8 {
		if err := t.batch.Close(); err != nil {
			return fmt.Errorf("commit to state store %s: %w", t.m.store.dir, err)
		}
		t.batch = t.m.store.db.NewBatch()
		return nil
	}
	t.batch.Reset()
	return nil
}
