package state

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"zkd/storage/apply"
	"zkd/storage/schema"
)

// shown is the state before the entry that is applied, for apply: the cache, and the store as it was at the first read
// since the last close. Owned by the apply goroutine.
type shown struct {
	m   *Machine
	it  *pebble.Iterator // for znodes; nil before the first read
	key []byte
}

var _ apply.Store = (*shown)(nil)

// Znode implements Store. Most znodes that are asked for and not cached may not exist: unlike a point read it asks the
// filters of the lowest level, too.
func (s *shown) Znode(path string) (*schema.Znode, error) {
	if n, known := s.m.cache.look(path); known {
		return n, nil
	}
	n, err := s.stored(path)
	if n != nil {
		s.m.cache.fill(n, s.m.mu.Position.Index) // nobody else changes it
	}
	return n, err
}

// znodeIterOptions are those of an iterator that looks for single znodes.
var znodeIterOptions = pebble.IterOptions{UseL6Filters: true, KeyTypes: pebble.IterKeyTypePointsOnly}

// stored returns the znode at path past the cache, or nil.
func (s *shown) stored(path string) (*schema.Znode, error) {
	if s.it == nil {
		it, err := s.m.store.db.NewIter(&znodeIterOptions)
		if err != nil {
			return nil, s.failed(path, err)
		}
		s.it = it
	}
	s.key = schema.AppendNodeKey(s.key[:0], schema.KindNode, path)
	if !s.it.SeekPrefixGE(s.key) || !bytes.Equal(s.it.Key(), s.key) {
		if err := s.it.Error(); err != nil {
			return nil, s.failed(path, err)
		}
		return nil, nil
	}
	value, err := s.it.ValueAndErr()
	if err != nil {
		return nil, s.failed(path, err)
	}
	return schema.DecodeHeader(strings.Clone(path), value)
}

// failed says what could not be read.
func (s *shown) failed(path string, err error) error {
	return fmt.Errorf("read %q from state store %s: %w", path, s.m.store.dir, err)
}

// Data implements Store.
func (s *shown) Data(n *schema.Znode) ([]byte, error) {
	full, err := s.m.store.withData(n)
	if err != nil {
		return nil, err
	}
	return full.Data, nil
}

// Scan implements Store.
func (s *shown) Scan(lower, upper []byte) (apply.Cursor, error) {
	if err := s.m.store.usable(); err != nil {
		return nil, err
	}
	it, err := s.m.store.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, fmt.Errorf("read state store %s: %w", s.m.store.dir, err)
	}
	return it, nil
}

// close lets go of what is shown.
func (s *shown) close() error {
	if s.it == nil {
		return nil
	}
	err := s.it.Close()
	s.it = nil
	return err
}

// batch is what an entry changes in the store.
type batch struct{ *pebble.Batch }

var _ apply.Batch = (*batch)(nil)

// Set implements Batch.
func (b *batch) Set(key, value []byte) error { return b.Batch.Set(key, value, nil) }

// Delete implements Batch.
func (b *batch) Delete(key []byte) error { return b.Batch.Delete(key, nil) }

// DeleteRange implements Batch.
func (b *batch) DeleteRange(lower, upper []byte) error { return b.Batch.DeleteRange(lower, upper, nil) }
