package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"zkd/jute"
	"zkd/storage/apply"
	"zkd/storage/disk"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// optional reads a record that the state need not have; the zero value then. what names it in errors; decode keeps
// nothing of the value.
func optional[T any](r *Reader, key []byte, what string, decode func(value []byte) (T, error)) (T, error) {
	var none T
	value, closer, err := r.store.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("read the %s of state store %s: %w", what, r.dir, disk.AsDamage(err))
	}
	defer closer.Close()
	return decode(value)
}

// checkFormat refuses what this code cannot read; found says that the store has a format at all.
func (r *Reader) checkFormat() (found bool, err error) {
	return optional(r, schema.KeyFormat, "format", func(value []byte) (bool, error) {
		version, named := bytes.CutPrefix(value, []byte(schema.StateFormatName))
		if !named || len(version) != 2 {
			return true, foreign(r.dir)
		}
		return true, schema.CheckStateFormat(binary.BigEndian.Uint16(version), "state store "+r.dir)
	})
}

// foreign says of a store that it is something else.
func foreign(dir string) error {
	return fmt.Errorf("state store %s is not a zkd state: point dataDir at an empty directory or the right one", dir)
}

// position reads how far the state has come.
func (r *Reader) position() (schema.Position, error) {
	value, closer, err := r.store.Get(schema.KeyApplied)
	if err != nil {
		return schema.Position{}, fmt.Errorf("read the applied index of state store %s: %w", r.dir, disk.AsDamage(err))
	}
	defer closer.Close()
	return schema.DecodePosition(value)
}

// ensemble returns what the state knows of its ensemble; nil if it belongs to none.
func (r *Reader) ensemble() (*schema.EnsembleRecord, error) {
	return optional(r, schema.KeyEnsemble, "ensemble", schema.DecodeEnsemble)
}

// readLevel reads the feature level, and refuses one that this program cannot do.
func (r *Reader) readLevel() (entry.Level, error) {
	level, err := optional(r, schema.KeyLevel, "feature level", func(value []byte) (entry.Level, error) {
		if len(value) != 2 {
			return 0, fmt.Errorf("%w %s: feature level %x", schema.ErrDamagedValue, r.dir, value)
		}
		return entry.Level(binary.BigEndian.Uint16(value)), nil
	})
	if err == nil {
		err = level.Check("state store " + r.dir)
	}
	return max(level, entry.LevelOldest), err
}

// upload returns the upload that is under way; nil if none is.
func (r *Reader) upload() (*schema.Upload, error) {
	return optional(r, schema.KeyUpload, "upload", func(value []byte) (*schema.Upload, error) {
		u, ok := schema.DecodeUpload(value)
		if !ok {
			return nil, fmt.Errorf("%w %s: record of an upload %x", schema.ErrDamagedValue, r.dir, value)
		}
		return u, nil
	})
}

// loaded returns the zxid with which a load has replaced the state last, 0 if none has.
func (r *Reader) loaded() (jute.Zxid, error) {
	return optional(r, schema.KeyLoaded, "last load", func(value []byte) (jute.Zxid, error) {
		if len(value) != 8 {
			return 0, fmt.Errorf("%w %s: zxid of a load %x", schema.ErrDamagedValue, r.dir, value)
		}
		return jute.Zxid(binary.BigEndian.Uint64(value)), nil
	})
}

// refuseDiverged fails if the state was found to be another than the ensemble's.
func (r *Reader) refuseDiverged() error {
	cause, err := optional(r, schema.KeyDiverged, "mark of a state that differs",
		func(value []byte) (string, error) { return string(value), nil })
	if err == nil && cause != "" {
		err = fmt.Errorf("%w: state store %s: %s", apply.ErrDiverged, r.dir, cause)
	}
	return err
}

// sums reads the sums of the state whose last entry is at index. A program that knows nothing of them may have applied
// entries since they were written, or have made the state: then they are counted again, once.
func (r *Reader) sums(index uint64) (schema.Kept, error) {
	k, found, err := r.writtenSums(index)
	if err != nil || found {
		return k, err
	}
	if k, err = r.countSums(); err != nil {
		return k, fmt.Errorf("count the sums of state store %s: %w", r.dir, err)
	}
	return k, nil
}

// writtenSums reads the sums as they were written; false if they are not those after the entry at index.
func (r *Reader) writtenSums(index uint64) (k schema.Kept, found bool, err error) {
	k, err = optional(r, schema.KeySums, "sums", func(value []byte) (schema.Kept, error) {
		if len(value) != schema.SumsBytes || value[0] != schema.SumsVersion {
			return schema.Kept{}, fmt.Errorf("%w %s: sums %x", schema.ErrDamagedValue, r.dir, value)
		}
		found = binary.BigEndian.Uint64(value[1:]) == index
		return schema.Kept{Znodes: binary.BigEndian.Uint64(value[9:]),
			Sessions: binary.BigEndian.Uint64(value[17:])}, nil
	})
	return k, found, err
}

// countSums reads the whole state for its sums: about a second for a million znodes.
func (r *Reader) countSums() (schema.Kept, error) {
	var all summing
	err := r.Headers(func(n *schema.Znode, header []byte) error { all.znode(n, header); return nil })
	if err == nil {
		err = r.Sessions(func(s *schema.SessionInfo) error { all.session(s); return nil })
	}
	return all.Kept, err
}

// summing adds up sums.
type summing struct {
	schema.Kept
	memory []byte // to work in
}

// znode adds a znode.
func (s *summing) znode(n *schema.Znode, header []byte) {
	var sum uint64
	sum, s.memory = schema.SumOfZnode(append(s.memory[:0], header...), n.Path)
	s.Znodes += sum
}

// session adds a session.
func (s *summing) session(info *schema.SessionInfo) {
	var sum uint64
	sum, s.memory = schema.SumOfSession(schema.AppendSession(s.memory[:0], info), info.ID)
	s.Sessions += sum
}
