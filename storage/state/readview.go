package state

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"zkd/jute"
	"zkd/storage/schema"
)

// readView is what a View needs of the state as it was after one entry: what is kept in memory, and the store through
// an iterator, which goes on to show what it showed when it was made. That costs no I/O, and keeps the files and
// memtables of then until the end.
type readView struct {
	m        *Machine
	it       *pebble.Iterator // nil if the store cannot be read
	scanning bool             // it is in use by a scan
	side     *pebble.Iterator // for znodes that are read during a scan; nil before the first
	follows  bool             // side stands where following has left it
	pos      schema.Position
	ensemble *schema.EnsembleRecord
	loaded   jute.Zxid
	sessions int
	key      []byte
	pace     func() bool
	paced    int // keys that scans have read since pace was called last
}

// readViews holds those that are not in use.
var readViews = sync.Pool{New: func() any { return new(readView) }}

// ScanPace is how many keys a scan reads between two calls of what View.Pace was given: about a tenth of a millisecond
// (measured 2026-11).
const ScanPace = 256

// errStopped ends a scan that is no longer wanted.
var errStopped = errors.New("scan was stopped")

// readViewOptions are those of a moment's iterators.
var readViewOptions = pebble.IterOptions{UseL6Filters: true, KeyTypes: pebble.IterKeyTypePointsOnly}

// close lets go of the moment.
func (a *readView) close() {
	m := a.m
	for _, it := range [...]*pebble.Iterator{a.it, a.side} {
		if it == nil {
			continue
		}
		if err := it.Close(); err != nil {
			m.fail(a.failed(err))
		}
	}
	*a = readView{key: a.key[:0]}
	readViews.Put(a)
	m.reading.RUnlock()
}

// node returns the znode at path, or nil.
func (a *readView) node(path string) (*schema.Znode, error) {
	if n := a.m.cache.at(path, a.pos.Index); n != nil {
		return n, nil
	}
	n, err := a.stored(path)
	if n != nil {
		a.m.cache.fill(n, a.pos.Index)
	}
	return n, err
}

// stored returns the znode at path past the cache, or nil.
func (a *readView) stored(path string) (*schema.Znode, error) {
	value, err := a.get(schema.KindNode, path)
	if value == nil || err != nil {
		return nil, err
	}
	return schema.DecodeHeader(strings.Clone(path), value)
}

// following returns the znode at path past the cache, or nil, for paths that are asked for in the order of their keys,
// more or less: siblings cost a step of the iterator instead of a search. It may be called during a scan.
func (a *readView) following(path string) (*schema.Znode, error) {
	if a.it == nil {
		return nil, a.m.store.usable()
	}
	if a.side == nil {
		side, err := a.it.Clone(pebble.CloneOptions{IterOptions: &readViewOptions})
		if err != nil {
			return nil, a.failed(err)
		}
		a.side = side
	}
	a.key = schema.AppendNodeKey(a.key[:0], schema.KindNode, path)
	found := a.follows && a.side.Next() && bytes.Equal(a.side.Key(), a.key)
	found = found || a.side.SeekGE(a.key) && bytes.Equal(a.side.Key(), a.key)
	a.follows = a.side.Valid()
	if err := a.side.Error(); err != nil {
		return nil, a.failed(err)
	}
	if !found {
		return nil, nil
	}
	value, err := a.side.ValueAndErr()
	if err != nil {
		return nil, a.failed(err)
	}
	return schema.DecodeHeader(strings.Clone(path), value)
}

// withData returns n with its data, which may be a new znode.
func (a *readView) withData(n *schema.Znode) (*schema.Znode, error) {
	if n.DataLoaded {
		return n, nil
	}
	value, err := a.get(schema.KindData, n.Path)
	if err != nil {
		return nil, err
	}
	full, err := a.m.store.joined(n, value)
	if err == nil {
		a.m.cache.fill(full, a.pos.Index)
	}
	return full, err
}

// get returns the value at the key of a path, nil if there is none. It is valid until the next call.
func (a *readView) get(kind byte, path string) ([]byte, error) {
	if a.it == nil {
		return nil, a.m.store.usable()
	}
	it := a.it
	if a.scanning {
		if a.side == nil {
			side, err := it.Clone(pebble.CloneOptions{IterOptions: &readViewOptions})
			if err != nil {
				return nil, a.failed(err)
			}
			a.side = side
		}
		it, a.follows = a.side, false
	}
	a.key = schema.AppendNodeKey(a.key[:0], kind, path)
	if !it.SeekPrefixGE(a.key) || !bytes.Equal(it.Key(), a.key) {
		if err := it.Error(); err != nil {
			return nil, a.failed(err)
		}
		return nil, nil
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return nil, a.failed(err)
	}
	return value, nil
}

// failed says what could not be read.
func (a *readView) failed(err error) error {
	return fmt.Errorf("read state store %s: %w", a.m.store.dir, err)
}

// scan calls f with each key and value that begins with prefix, in order, until f returns false. Both are valid only
// during the call.
func (a *readView) scan(prefix []byte, f func(key, value []byte) (bool, error)) error {
	return a.scanRange(prefix, schema.PrefixEnd(prefix), f)
}

// scanRange calls f with each key and value from lower to before upper, in order, until f returns false.
func (a *readView) scanRange(lower, upper []byte, f func(key, value []byte) (bool, error)) error {
	if a.it == nil {
		return a.m.store.usable()
	}
	it := a.it
	if a.scanning {
		clone, err := it.Clone(pebble.CloneOptions{IterOptions: &pebble.IterOptions{
			LowerBound: lower, UpperBound: upper, KeyTypes: pebble.IterKeyTypePointsOnly,
		}})
		if err != nil {
			return a.failed(err)
		}
		err = a.walk(clone, f)
		if closeErr := clone.Close(); err == nil && closeErr != nil {
			err = a.failed(closeErr)
		}
		return err
	}
	a.scanning = true
	it.SetBounds(lower, upper)
	err := a.walk(it, f)
	it.SetBounds(nil, nil)
	a.scanning = false
	return err
}

// walk calls f with all that it shows, until f returns false.
func (a *readView) walk(it *pebble.Iterator, f func(key, value []byte) (bool, error)) error {
	for valid := it.First(); valid; valid = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return a.failed(err)
		}
		if goOn, err := f(it.Key(), value); err != nil || !goOn {
			return err
		}
		if a.pace != nil {
			if a.paced++; a.paced%ScanPace == 0 && !a.pace() {
				return errStopped
			}
		}
	}
	if err := it.Error(); err != nil {
		return a.failed(err)
	}
	return nil
}
