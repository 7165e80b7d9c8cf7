package backup

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"

	"zkd/jute"
	"zkd/storage/disk"
	"zkd/storage/schema"
	"zkd/storage/state"
)

// Options says how a backup is made.
type Options struct {
	Made   jute.Millis // the time, for schema.Summary.Made
	Writer string      // the version of the caller, for schema.Summary.Writer
	// Begun is told what the backup will hold, before anything is written; an error ends the backup. Progress is told
	// how many znodes were written, now and then. Both may be nil.
	Begun    func(schema.Summary) error
	Progress func(znodes int64)
}

// progressEvery is how many znodes lie between two calls of Progress.
const progressEvery = 4096

// WriteMachine writes the state of m as it is at some moment during the call to w, and returns what it has written. It
// works from a checkpoint, so that writes go on meanwhile however slow w is: it stands in scratch, a directory on the
// state's file system that must not exist, as hard links where the file system has them. Any goroutine may call it.
func WriteMachine(
	ctx context.Context, m *state.Machine, scratch string, o Options, w io.Writer,
) (info schema.Summary, err error) {
	r, err := m.ReadCheckpoint(ctx, scratch)
	if err != nil {
		return info, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return Write(ctx, r, o, w)
}

// Write writes a state to w (docs/formats/backup.md), and returns what it has written; ctx ends it between two
// blocks. What reached w before an error is no backup: the end of it is missing.
func Write(ctx context.Context, r *state.Reader, o Options, w io.Writer) (schema.Summary, error) {
	r, err := r.Settled() // what is restored from a backup counts nothing on
	if err != nil {
		return schema.Summary{}, err
	}
	info, err := r.Summary()
	if err != nil {
		return info, err
	}
	info.Made, info.Writer = o.Made, o.Writer
	if o.Begun != nil {
		if err := o.Begun(info); err != nil {
			return info, err
		}
	}
	b := &writer{ctx: ctx, w: w, sum: sha256.New(), options: &o}
	if err := b.begin(&info); err != nil {
		return info, err
	}
	if err := r.Each(b.znode, b.session); err != nil {
		return info, err
	}
	if err := b.flush(); err != nil {
		return info, err
	}
	if err := b.tally.Compare(&info); err != nil {
		return info, fmt.Errorf("%w: state store %s: %w: restore an older backup, or let this member fetch everything "+
			"from the others", disk.ErrDamaged, r.Dir(), err)
	}
	return info, b.end()
}

// writer writes blocks.
type writer struct {
	ctx     context.Context //nolint:containedctx // it lives as long as the call of Backup
	w       io.Writer
	sum     hash.Hash // of all that was written
	options *Options
	number  uint64 // of the next block
	kind    byte   // of the open block
	payload []byte
	tally   schema.Tally
}

// begin writes what begins a backup.
func (b *writer) begin(info *schema.Summary) error {
	if err := b.put([]byte(fileMagic)); err != nil {
		return err
	}
	b.kind, b.payload = kindHeader, appendInfo(b.payload[:0], info)
	return b.flush()
}

// put writes bytes.
func (b *writer) put(p []byte) error {
	_, _ = b.sum.Write(p) // never fails
	if _, err := b.w.Write(p); err != nil {
		return fmt.Errorf("write the backup: %w", err)
	}
	return nil
}

// open makes the open block one of a kind.
func (b *writer) open(kind byte) error {
	if b.kind == kind {
		return nil
	}
	err := b.flush()
	b.kind = kind
	return err
}

// flush writes the open block, if it holds anything.
func (b *writer) flush() error {
	if len(b.payload) == 0 {
		return nil
	}
	if err := b.ctx.Err(); err != nil {
		return fmt.Errorf("write the backup: %w", err)
	}
	var head [blockHeaderBytes]byte
	head[0] = b.kind
	binary.BigEndian.PutUint32(head[1:], uint32(len(b.payload)))
	binary.BigEndian.PutUint64(head[5:], checksum(b.kind, b.number, b.payload))
	b.number++
	if err := b.put(head[:]); err != nil {
		return err
	}
	err := b.put(b.payload)
	b.payload = b.payload[:0]
	return err
}

// znode adds a znode.
func (b *writer) znode(n *schema.Znode, header []byte) error {
	if err := b.open(kindZnodes); err != nil {
		return err
	}
	apart := n.Data
	if n.Inline() {
		apart = nil
	}
	b.payload = appendZnode(b.payload, n.Path, header, apart)
	b.tally.Add(n)
	if b.options.Progress != nil && b.tally.Znodes%progressEvery == 0 {
		b.options.Progress(b.tally.Znodes)
	}
	if len(b.payload) < blockBytes {
		return nil
	}
	return b.flush()
}

// session adds a session.
func (b *writer) session(s *schema.SessionInfo) error {
	if err := b.open(kindSessions); err != nil {
		return err
	}
	b.payload = binary.BigEndian.AppendUint64(b.payload, uint64(s.ID))
	kept := *s
	kept.Identities = nil // they are those of a connection, which will be another one
	kept.Ending = false   // its timeout ends it, in a program that may be older
	b.payload = schema.AppendSession(b.payload, &kept)
	b.tally.Sessions++
	if len(b.payload) < blockBytes {
		return nil
	}
	return b.flush()
}

// end writes the last block.
func (b *writer) end() error {
	b.payload = binary.BigEndian.AppendUint64(b.payload, uint64(b.tally.Znodes))
	b.payload = binary.BigEndian.AppendUint64(b.payload, uint64(b.tally.Sessions))
	b.payload = b.sum.Sum(b.payload)
	b.kind = kindEnd
	return b.flush()
}
