package storage

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2"

	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// sumZnode brings the sums up to date with one znode's change. t.scratch holds the new header, if there is one.
func (t *txn) sumZnode(c *change) {
	if c.cur != nil {
		c.cur.Sum, t.scratch = schema.SumOfZnode(t.scratch, c.path)
		t.sums.Znodes += c.cur.Sum
	}
	if c.base != nil {
		sum := c.base.Sum
		if sum == 0 { // it was read from the store
			sum, t.scratch = schema.SumOfZnode(c.base.AppendHeader(t.scratch[:0]), c.path)
		}
		t.sums.Znodes -= sum
	}
}

// sumSession brings the sums up to date with one session's change. t.scratch holds its new value, if there is one.
func (t *txn) sumSession(id jute.SessionID, is *schema.SessionInfo) {
	var sum uint64
	if is != nil {
		sum, t.scratch = schema.SumOfSession(t.scratch, id)
		t.sums.Sessions += sum
	}
	if was := t.m.mu.sessions[id]; was != nil {
		sum, t.scratch = schema.SumOfSession(schema.AppendSession(t.scratch[:0], was), id)
		t.sums.Sessions -= sum
	}
}

// sums returns the sums of what is published. The apply goroutine calls it.
func (m *Machine) sums() entry.Sums {
	b := binary.BigEndian.AppendUint64(nil, uint64(m.mu.pos.Zxid))
	for _, n := range [...]int64{m.mu.pos.Nodes, m.mu.pos.Ephemerals, m.mu.pos.DataBytes, int64(m.mu.restored)} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	b = binary.BigEndian.AppendUint64(b, m.mu.pos.Digest)
	b = binary.BigEndian.AppendUint16(b, uint16(m.mu.level))
	if m.mu.upload != nil {
		b = m.mu.upload.Append(b)
	}
	if m.mu.ensemble != nil {
		b = m.mu.ensemble.Append(b)
	}
	b = m.counts.append(b)
	return entry.Sums{Znodes: m.mu.sums.Znodes, Sessions: m.mu.sums.Sessions, Rest: xxhash.Sum64(b)}
}

// sums reads the sums of the state whose last entry is at index. A program that knows nothing of them may have applied
// entries since they were written, or have made the state: then they are counted again, once.
func (s *stateStore) sums(index uint64) (schema.Kept, error) {
	k, found, err := s.writtenSums(s.db, index)
	if err != nil || found {
		return k, err
	}
	if k, err = s.countSums(); err != nil {
		return k, fmt.Errorf("count the sums of state store %s: %w", s.dir, err)
	}
	return k, nil
}

// refuseDiverged fails if the state was found to be another than the ensemble's.
func (s *stateStore) refuseDiverged() error {
	cause, err := optional(s, schema.KeyDiverged, "mark of a state that differs",
		func(value []byte) (string, error) { return string(value), nil })
	if err == nil && cause != "" {
		err = fmt.Errorf("%w: state store %s: %s", ErrDiverged, s.dir, cause)
	}
	return err
}

// set puts a key into the store.
func (s *stateStore) set(key, value []byte) error { return s.db.Set(key, value, pebble.NoSync) }

// writtenSums reads the sums as they were written; false if they are not those after the entry at index.
func (s *stateStore) writtenSums(r pebble.Reader, index uint64) (schema.Kept, bool, error) {
	value, closer, err := r.Get(schema.KeySums)
	if errors.Is(err, pebble.ErrNotFound) {
		return schema.Kept{}, false, nil
	}
	if err != nil {
		return schema.Kept{}, false, fmt.Errorf("read the sums of state store %s: %w", s.dir, err)
	}
	defer closer.Close()
	if len(value) != schema.SumsBytes || value[0] != schema.SumsVersion {
		return schema.Kept{}, false, fmt.Errorf("%w %s: sums %x", schema.ErrDamagedValue, s.dir, value)
	}
	k := schema.Kept{Znodes: binary.BigEndian.Uint64(value[9:]), Sessions: binary.BigEndian.Uint64(value[17:])}
	return k, binary.BigEndian.Uint64(value[1:]) == index, nil
}

// countSums reads the whole state for its sums: about a second for a million znodes.
func (s *stateStore) countSums() (k schema.Kept, err error) {
	var path, memory []byte
	err = s.scan([]byte{schema.KindNode}, func(key, value []byte) (bool, error) {
		path = schema.PathOfNodeKey(path[:0], key)
		var sum uint64
		sum, memory = schema.SumOfZnode(append(memory[:0], value...), entry.ViewString(path))
		k.Znodes += sum
		return true, nil
	})
	if err != nil {
		return k, err
	}
	return k, s.scan([]byte{schema.KindSession}, func(key, value []byte) (bool, error) {
		info, err := schema.DecodeSession(key, value)
		if err != nil {
			return false, err
		}
		var sum uint64
		sum, memory = schema.SumOfSession(append(memory[:0], value...), info.ID)
		k.Sessions += sum
		return true, nil
	})
}
