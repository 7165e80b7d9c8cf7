package apply

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"zkd/jute"
	"zkd/storage/schema"
)

// writer writes what an entry changes to a batch, and brings counters and sums up to date.
type writer struct {
	base    *Base
	changes *Changes
	batch   Batch

	scratch   []byte
	keyBuf    []byte
	digestBuf [schema.DigestStatBytes]byte
}

// write writes it all.
func (w *writer) write(batch Batch) error {
	w.batch = batch
	c := w.changes
	for _, z := range c.znodes {
		if z.cur == z.base {
			continue
		}
		if err := w.znode(z); err != nil {
			return fmt.Errorf("write %q: %w", z.path, err)
		}
	}
	if err := w.sessions(); err != nil {
		return err
	}
	if c.Ensemble != w.base.Ensemble {
		w.scratch = c.Ensemble.Append(w.scratch[:0])
		if err := batch.Set(schema.KeyEnsemble, w.scratch); err != nil {
			return fmt.Errorf("write the ensemble's record: %w", err)
		}
	}
	if err := w.upload(); err != nil {
		return fmt.Errorf("write an upload: %w", err)
	}
	if c.Loaded != w.base.Loaded {
		w.scratch = binary.BigEndian.AppendUint64(w.scratch[:0], uint64(c.Loaded))
		if err := batch.Set(schema.KeyLoaded, w.scratch); err != nil {
			return fmt.Errorf("write the zxid of a load: %w", err)
		}
	}
	if c.Level != w.base.Level {
		if err := w.level(); err != nil {
			return fmt.Errorf("write the feature level: %w", err)
		}
	}
	if err := w.counts(); err != nil {
		return err
	}
	w.scratch = c.Position.Append(w.scratch[:0])
	if err := batch.Set(schema.KeyApplied, w.scratch); err != nil {
		return fmt.Errorf("write the applied index: %w", err)
	}
	w.scratch = c.Kept.Append(w.scratch[:0], c.Position.Index)
	if err := batch.Set(schema.KeySums, w.scratch); err != nil {
		return fmt.Errorf("write the sums: %w", err)
	}
	return nil
}

// znode writes one znode's change, and counts it.
func (w *writer) znode(z *change) error {
	w.count(z)
	w.keyBuf = schema.AppendNodeKey(w.keyBuf[:0], schema.KindNode, z.path)
	if z.cur == nil {
		if err := w.batch.Delete(w.keyBuf); err != nil {
			return err
		}
	} else {
		w.scratch = z.cur.AppendHeader(w.scratch[:0])
		if err := w.batch.Set(w.keyBuf, w.scratch); err != nil {
			return err
		}
	}
	w.sumZnode(z)
	if err := w.data(z); err != nil {
		return err
	}
	return w.indexes(z)
}

// data writes or deletes the data that has a key of its own. w.keyBuf holds the header's key.
func (w *writer) data(z *change) error {
	apart := z.cur != nil && !z.cur.Inline()
	switch {
	case apart && (z.base == nil || z.dataChanged):
		w.keyBuf[0] = schema.KindData
		return w.batch.Set(w.keyBuf, z.cur.Data)
	case !apart && z.base != nil && !z.base.Inline():
		w.keyBuf[0] = schema.KindData
		return w.batch.Delete(w.keyBuf)
	}
	return nil
}

// indexes writes what has changed in the lists of ephemerals and of znodes that may go away by themselves.
func (w *writer) indexes(z *change) error {
	was, is := schema.SessionOwner(z.base), schema.SessionOwner(z.cur)
	if was != is {
		if was != 0 {
			w.keyBuf = schema.AppendEphemeralKey(w.keyBuf[:0], was, z.path)
			if err := w.batch.Delete(w.keyBuf); err != nil {
				return err
			}
		}
		if is != 0 {
			w.keyBuf = schema.AppendEphemeralKey(w.keyBuf[:0], is, z.path)
			if err := w.batch.Set(w.keyBuf, nil); err != nil {
				return err
			}
		}
	}
	if !schema.MayExpire(z.base) && !schema.MayExpire(z.cur) {
		return nil
	}
	w.keyBuf = schema.AppendExpiryKey(w.keyBuf[:0], z.path, z.base)
	w.scratch = schema.AppendExpiryKey(w.scratch[:0], z.path, z.cur)
	if bytes.Equal(w.keyBuf, w.scratch) {
		return nil
	}
	if len(w.keyBuf) > 0 {
		if err := w.batch.Delete(w.keyBuf); err != nil {
			return err
		}
	}
	if len(w.scratch) > 0 {
		return w.batch.Set(w.scratch, nil)
	}
	return nil
}

// count brings the position's counters up to date with one znode's change.
func (w *writer) count(z *change) {
	pos := &w.changes.Position
	if z.base != nil {
		pos.Nodes--
		pos.DataBytes -= int64(len(z.path)) + int64(z.base.DataLen)
		pos.Digest -= w.digest(z.base)
		if schema.SessionOwner(z.base) != 0 {
			pos.Ephemerals--
		}
	}
	if z.cur != nil {
		pos.Nodes++
		pos.DataBytes += int64(len(z.path)) + int64(z.cur.DataLen)
		part := z.cur.Digest(&w.digestBuf)
		z.cur.DigestPart = uint32(part) //nolint:gosec // a CRC-32
		pos.Digest += part
		if schema.SessionOwner(z.cur) != 0 {
			pos.Ephemerals++
		}
	}
}

// digest returns a znode's part of the digest. What was written lately knows it.
func (w *writer) digest(n *schema.Znode) uint64 {
	if n.DigestPart != 0 {
		return uint64(n.DigestPart)
	}
	return n.Digest(&w.digestBuf)
}

// sumZnode brings the sums up to date with one znode's change. w.scratch holds the new header, if there is one.
func (w *writer) sumZnode(z *change) {
	sums := &w.changes.Kept
	if z.cur != nil {
		z.cur.Sum, w.scratch = schema.SumOfZnode(w.scratch, z.path)
		sums.Znodes += z.cur.Sum
	}
	if z.base != nil {
		sum := z.base.Sum
		if sum == 0 { // it was read from the store
			sum, w.scratch = schema.SumOfZnode(z.base.AppendHeader(w.scratch[:0]), z.path)
		}
		sums.Znodes -= sum
	}
}

// sessions writes the changes of sessions.
func (w *writer) sessions() error {
	made := &w.changes.sessions
	for _, id := range made.order {
		w.keyBuf = schema.AppendSessionKey(w.keyBuf[:0], id)
		var err error
		if info := made.made[id]; info != nil {
			w.scratch = schema.AppendSession(w.scratch[:0], info)
			err = w.batch.Set(w.keyBuf, w.scratch)
		} else {
			err = w.batch.Delete(w.keyBuf)
		}
		if err != nil {
			return fmt.Errorf("write session %#x: %w", uint64(id), err)
		}
		w.sumSession(id, made.made[id])
	}
	return nil
}

// sumSession brings the sums up to date with one session's change. w.scratch holds its new value, if there is one.
func (w *writer) sumSession(id jute.SessionID, is *schema.SessionInfo) {
	sums := &w.changes.Kept
	var sum uint64
	if is != nil {
		sum, w.scratch = schema.SumOfSession(w.scratch, id)
		sums.Sessions += sum
	}
	if was := w.base.Sessions[id]; was != nil {
		sum, w.scratch = schema.SumOfSession(schema.AppendSession(w.scratch[:0], was), id)
		sums.Sessions -= sum
	}
}

// upload writes the changes of the upload, in their order.
func (w *writer) upload() error {
	u := &w.changes.upload
	for _, piece := range u.writes {
		var err error
		if piece.data == nil {
			err = w.batch.DeleteRange(schema.UploadPrefix, schema.PrefixEnd(schema.UploadPrefix))
		} else {
			w.keyBuf = schema.AppendUploadKey(w.keyBuf[:0], piece.offset)
			err = w.batch.Set(w.keyBuf, piece.data)
		}
		if err != nil {
			return err
		}
	}
	switch u.is {
	case w.base.Upload:
		return nil
	case nil:
		return w.batch.Delete(schema.KeyUpload)
	}
	w.scratch = u.is.Append(w.scratch[:0])
	return w.batch.Set(schema.KeyUpload, w.scratch)
}

// level writes the feature level. The store's format says that there is one, so that a program that knows no levels
// refuses the store.
func (w *writer) level() error {
	level := w.changes.Level
	return errors.Join(
		w.batch.Set(schema.KeyLevel, binary.BigEndian.AppendUint16(nil, uint16(level))),
		w.batch.Set(schema.KeyFormat, schema.FormatValue(level)))
}

// counts writes the changes of counts of quotas.
func (w *writer) counts() error {
	for target, is := range w.changes.counts { // order: each has a key of its own
		was := w.base.Counts.by[target]
		if was != nil && (is == nil || is.Began != was.Began) {
			w.keyBuf = was.AppendKey(w.keyBuf[:0])
			if err := w.batch.Delete(w.keyBuf); err != nil {
				return fmt.Errorf("write the count of %q: %w", target, err)
			}
		}
		if is == nil || is == was {
			continue
		}
		w.keyBuf, w.scratch = is.AppendKey(w.keyBuf[:0]), is.Append(w.scratch[:0])
		if err := w.batch.Set(w.keyBuf, w.scratch); err != nil {
			return fmt.Errorf("write the count of %q: %w", target, err)
		}
	}
	return nil
}
