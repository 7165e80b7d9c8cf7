package state

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"zkd/storage/schema"
)

// What a Filler keeps in memory; guesses.
const (
	fillBatchBytes = 256 << 10 // before it is given to the store
	fillFlushBytes = 32 << 20  // before it is flushed
)

// Filler writes a state into a store past all entries: znodes and sessions that a Reader or a backup gives. It is for
// one goroutine. Nothing may be relied on before Finish has returned.
type Filler struct {
	store *stateStore
	batch *pebble.Batch
	bytes int // in the store and not flushed
}

// OpenFiller opens the state store in o.Dir, which no Machine has open, or creates it.
func OpenFiller(o MachineOptions) (*Filler, error) {
	o.setDefaults()
	store, err := openStateStore(&o)
	if err != nil {
		return nil, err
	}
	return &Filler{store: store, batch: store.db.NewBatch()}, nil
}

// Reader reads what the store held when it was opened; it fails if that is no state. The Filler goes on to own the
// store.
func (f *Filler) Reader() (*Reader, error) {
	r := f.store.reader()
	return r, r.begin()
}

// Znode adds a znode, whose data is loaded, and what follows from it. header is the value of its header.
func (f *Filler) Znode(n *schema.Znode, header []byte) error {
	key := schema.AppendNodeKey(nil, schema.KindNode, n.Path)
	err := f.set(key, header)
	if err == nil && !n.Inline() {
		key[0] = schema.KindData
		err = f.set(key, n.Data)
	}
	if owner := schema.SessionOwner(n); err == nil && owner != 0 {
		err = f.set(schema.AppendEphemeralKey(nil, owner, n.Path), nil)
	}
	if key := schema.AppendExpiryKey(nil, n.Path, n); err == nil && len(key) > 0 {
		err = f.set(key, nil)
	}
	return err
}

// Session adds a session.
func (f *Filler) Session(s *schema.SessionInfo) error {
	return f.set(schema.AppendSessionKey(nil, s.ID), schema.AppendSession(nil, s))
}

// Finish makes pos the state's position, and all that was added durable. The state is of the oldest feature level.
func (f *Filler) Finish(pos schema.Position) error {
	format := binary.BigEndian.AppendUint16([]byte(schema.StateFormatName), schema.StateFormat)
	if err := errors.Join(f.set(schema.KeyFormat, format), f.set(schema.KeyApplied, pos.Append(nil))); err != nil {
		return err
	}
	return f.flush()
}

// Close closes the store.
func (f *Filler) Close() error { return errors.Join(f.batch.Close(), f.store.close()) }

// set puts a key into the store.
func (f *Filler) set(key, value []byte) error {
	if err := f.batch.Set(key, value, nil); err != nil {
		return f.failed(err)
	}
	if f.batch.Len() < fillBatchBytes {
		return nil
	}
	if f.bytes += f.batch.Len(); f.bytes >= fillFlushBytes {
		return f.flush()
	}
	return f.commit()
}

// commit gives the open batch to the store.
func (f *Filler) commit() error {
	if err := f.store.fault.Err(); err != nil {
		return f.failed(err)
	}
	if err := f.batch.Commit(pebble.NoSync); err != nil {
		return f.failed(err)
	}
	f.batch.Reset()
	return nil
}

// flush makes durable what was set.
func (f *Filler) flush() error {
	if err := f.commit(); err != nil {
		return err
	}
	f.bytes = 0
	return f.store.flushed()
}

// failed says what could not be written.
func (f *Filler) failed(err error) error {
	return fmt.Errorf("fill state store %s: %w", f.store.dir, err)
}
