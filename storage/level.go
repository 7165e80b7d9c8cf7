package storage

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"zkd/jute"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// checkLevel refuses a proposal that this program does not know, or that the ensemble's level or its entry's version
// does not allow: who wrote it can do more, and to go on without it would be to part from the others.
func (t *txn) checkLevel() error {
	p := &t.p
	switch needs := p.Level(); {
	case needs == 0:
		return fmt.Errorf("%w: it does not know operation %d with flags %#x", entry.ErrLevel, p.Op, p.Flags)
	case needs > t.version:
		return fmt.Errorf("operation %d with flags %#x is of feature level %d, and its entry of %d: report this",
			p.Op, p.Flags, needs, t.version)
	case needs > t.level && p.Op != entry.OpRaiseLevel:
		return fmt.Errorf("operation %d with flags %#x is of feature level %d, and the ensemble at %d: report this",
			p.Op, p.Flags, needs, t.level)
	}
	return nil
}

// raiseLevel raises the ensemble's level. It changes nothing, and answers NodeExists, if that is as high already, and
// BadArguments if another ensemble is meant.
func (t *txn) raiseLevel(r *Result) {
	var body entry.RaiseTxn
	if body.Decode(t.p.Body) != nil {
		r.Code = jute.MarshallingError
		return
	}
	switch {
	case body.Cluster != entry.ClusterID{} && body.Cluster != t.ensemble.ClusterID():
		r.Code = jute.BadArguments
	case body.Level <= t.level:
		r.Code = jute.NodeExists
	default:
		t.level = body.Level
	}
}

// writeLevel adds the level to a batch. The store's format says that there is one, so that a program that knows no
// levels refuses the store.
func writeLevel(batch *pebble.Batch, level entry.Level) error {
	err := errors.Join(
		batch.Set(schema.KeyLevel, binary.BigEndian.AppendUint16(nil, uint16(level)), nil),
		batch.Set(schema.KeyFormat, schema.FormatValue(level), nil))
	if err != nil {
		return fmt.Errorf("write the feature level: %w", err)
	}
	return nil
}

// level reads the feature level, and refuses one that this program cannot do.
func (s *stateStore) level() (entry.Level, error) {
	level, err := optional(s, schema.KeyLevel, "feature level", func(value []byte) (entry.Level, error) {
		if len(value) != 2 {
			return 0, fmt.Errorf("%w %s: feature level %x", schema.ErrDamagedValue, s.dir, value)
		}
		return entry.Level(binary.BigEndian.Uint16(value)), nil
	})
	if err == nil {
		err = level.Check("state store " + s.dir)
	}
	return max(level, entry.LevelOldest), err
}

// Level returns the ensemble's feature level, as of the last entry applied. Any goroutine may call it, a Sink included.
func (m *Machine) Level() entry.Level { return entry.Level(m.level.Load()) }
