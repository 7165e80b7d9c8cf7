package storage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/storage/disk"
	"zkd/storage/schema"
)

// BackupOptions says how a backup is made.
type BackupOptions struct {
	// Scratch is a directory on the state's file system that must not exist: what is backed up stands there meanwhile,
	// as hard links where the file system has them.
	Scratch string
	Made    jute.Millis // the time, for schema.Summary.Made
	Writer  string      // the version of the caller, for schema.Summary.Writer
	// Begun is told what the backup will hold, before anything is written; an error ends the backup. Progress is told
	// how many znodes were written, now and then. Both may be nil.
	Begun    func(schema.Summary) error
	Progress func(znodes int64)
}

// backupProgressEvery is how many znodes lie between two calls of Progress.
const backupProgressEvery = 4096

// Backup writes the state as it is at some moment during the call to w (docs/formats/backup.md), and returns what it
// has written. It works from a checkpoint, so that writes go on meanwhile however slow w is. Any goroutine may call it;
// ctx ends it between two blocks. What reached w before an error is no backup: the end of it is missing.
func (m *Machine) Backup(ctx context.Context, o BackupOptions, w io.Writer) (info schema.Summary, err error) {
	fs := m.opts.FS
	defer func() {
		if removeErr := fs.RemoveAll(o.Scratch); removeErr != nil && err == nil {
			err = fmt.Errorf("remove the checkpoint of a backup: %w", removeErr)
		}
	}()
	if _, _, err := m.Checkpoint(ctx, o.Scratch); err != nil {
		return schema.Summary{}, err
	}
	s, err := openCheckpoint(fs, o.Scratch, &disk.Fault{Store: "checkpoint", Dir: o.Scratch, Logger: m.opts.Logger})
	if err != nil {
		return schema.Summary{}, err
	}
	info, err = s.backup(ctx, &o, w)
	return info, errors.Join(err, s.db.Close())
}

// openCheckpoint opens a state store for reading alone.
func openCheckpoint(fs vfs.FS, dir string, fault *disk.Fault) (*stateStore, error) {
	s := &stateStore{dir: dir}
	var err error
	s.db, err = pebble.Open(dir, &pebble.Options{
		FS: fs, ReadOnly: true, ErrorIfNotExists: true, DisableTableStats: true, Logger: disk.Logger{Fault: fault},
	})
	if err != nil {
		return nil, fmt.Errorf("open state store %s: %w", dir, disk.AsDamage(err))
	}
	return s, nil
}

// describe returns what a backup of the store would say of it, after a look at its format.
func (s *stateStore) describe() (schema.Summary, map[jute.SessionID]*schema.SessionInfo, error) {
	value, closer, err := s.db.Get(schema.KeyFormat)
	if errors.Is(err, pebble.ErrNotFound) {
		return schema.Summary{}, nil, s.checkFormat(nil)
	}
	if err != nil {
		return schema.Summary{}, nil, fmt.Errorf("read the format of state store %s: %w", s.dir, disk.AsDamage(err))
	}
	err = s.checkFormat(value)
	_ = closer.Close() // it only gives back a block
	if err != nil {
		return schema.Summary{}, nil, err
	}
	pos, err := s.position()
	if err != nil {
		return schema.Summary{}, nil, err
	}
	record, err := s.ensemble()
	if err != nil {
		return schema.Summary{}, nil, err
	}
	sessions, err := s.sessions()
	return schema.SummaryOf(&pos, record, len(sessions)), sessions, err
}

// backup writes the store to w.
func (s *stateStore) backup(ctx context.Context, o *BackupOptions, w io.Writer) (schema.Summary, error) {
	info, sessions, err := s.describe()
	if err != nil {
		return info, err
	}
	info.Made, info.Writer = o.Made, o.Writer
	settled, grown, err := s.settled() // what is restored from a backup counts nothing on
	if err != nil {
		return info, err
	}
	info.DataBytes += grown
	if o.Begun != nil {
		if err := o.Begun(info); err != nil {
			return info, err
		}
	}
	b := &backupWriter{ctx: ctx, w: w, sum: sha256.New(), options: o}
	if err := b.begin(&info); err != nil {
		return info, err
	}
	if err := s.eachZnode(settledZnodes(settled, b.znode)); err != nil {
		return info, err
	}
	if err := b.flush(backupZnodes); err != nil {
		return info, err
	}
	for _, session := range sortedSessions(sessions) {
		if err := b.session(session); err != nil {
			return info, err
		}
	}
	if err := b.flush(backupSessions); err != nil {
		return info, err
	}
	if err := b.tally.Compare(&info); err != nil {
		return info, fmt.Errorf("%w: state store %s: %w: restore an older backup, or let this member fetch everything "+
			"from the others", disk.ErrDamaged, s.dir, err)
	}
	return info, b.end()
}

// eachZnode calls f with each znode in the order of the keys, its data loaded, and the value of its header, which is
// valid during the call. It fails if data has no znode or another length or checksum than its znode says.
func (s *stateStore) eachZnode(f func(n *schema.Znode, header []byte) error) error {
	return s.eachZnodeIn(s.db, f)
}

// eachZnodeIn is eachZnode for the store as r shows it.
func (s *stateStore) eachZnodeIn(r pebble.Reader, f func(n *schema.Znode, header []byte) error) (err error) {
	nodes, err := r.NewIter(&pebble.IterOptions{LowerBound: []byte{schema.KindNode},
		UpperBound: []byte{schema.KindNode + 1}})
	if err != nil {
		return fmt.Errorf("read state store %s: %w", s.dir, disk.AsDamage(err))
	}
	defer func() { err = errors.Join(err, nodes.Close()) }()
	data, err := r.NewIter(&pebble.IterOptions{LowerBound: []byte{schema.KindData},
		UpperBound: []byte{schema.KindData + 1}})
	if err != nil {
		return fmt.Errorf("read state store %s: %w", s.dir, disk.AsDamage(err))
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	more := data.First()
	for ok := nodes.First(); ok; ok = nodes.Next() {
		header, err := nodes.ValueAndErr()
		if err != nil {
			return fmt.Errorf("read state store %s: %w", s.dir, disk.AsDamage(err))
		}
		n, err := schema.DecodeHeader(string(schema.PathOfNodeKey(nil, nodes.Key())), header)
		if err != nil {
			return fmt.Errorf("read state store %s: %w", s.dir, err)
		}
		if !n.Inline() {
			if !more || !bytes.Equal(data.Key()[1:], nodes.Key()[1:]) {
				return fmt.Errorf("%w %s: the data of %q is missing", schema.ErrDamagedValue, s.dir, n.Path)
			}
			value, err := data.ValueAndErr()
			if err != nil {
				return fmt.Errorf("read state store %s: %w", s.dir, disk.AsDamage(err))
			}
			n.Data, n.DataLoaded = value, true // valid until data moves
		}
		if err := checkData(n); err != nil {
			return fmt.Errorf("%w %s: %w", schema.ErrDamagedValue, s.dir, err)
		}
		if err := f(n, header); err != nil {
			return err
		}
		if !n.Inline() {
			more = data.Next()
		}
	}
	if more {
		return fmt.Errorf("%w %s: there is data of %q, and no such znode", schema.ErrDamagedValue, s.dir,
			schema.PathOfNodeKey(nil, data.Key()))
	}
	return errors.Join(disk.AsDamage(nodes.Error()), disk.AsDamage(data.Error()))
}

// checkData compares n's loaded data with what the header says of it.
func checkData(n *schema.Znode) error {
	if len(n.Data) != int(n.DataLen) {
		return fmt.Errorf("data of %q has %d bytes, its header says %d", n.Path, len(n.Data), n.DataLen)
	}
	is := *n
	is.SetData(n.Data)
	if is.CRC != n.CRC {
		return fmt.Errorf("path and data of %q have the checksum %#x, its header says %#x", n.Path, is.CRC, n.CRC)
	}
	return nil
}

// backupWriter writes blocks.
type backupWriter struct {
	ctx     context.Context //nolint:containedctx // it lives as long as the call of Backup
	w       io.Writer
	sum     hash.Hash // of all that was written
	options *BackupOptions
	number  uint64 // of the next block
	payload []byte
	tally   schema.Tally
}

// begin writes what begins a backup.
func (b *backupWriter) begin(info *schema.Summary) error {
	if err := b.put([]byte(backupMagic)); err != nil {
		return err
	}
	b.payload = appendInfo(b.payload[:0], info)
	return b.flush(backupHeader)
}

// put writes bytes.
func (b *backupWriter) put(p []byte) error {
	_, _ = b.sum.Write(p) // never fails
	if _, err := b.w.Write(p); err != nil {
		return fmt.Errorf("write the backup: %w", err)
	}
	return nil
}

// flush writes the open block, if it holds anything.
func (b *backupWriter) flush(kind byte) error {
	if len(b.payload) == 0 {
		return nil
	}
	if err := b.ctx.Err(); err != nil {
		return fmt.Errorf("write the backup: %w", err)
	}
	var head [backupBlockHeaderBytes]byte
	head[0] = kind
	binary.BigEndian.PutUint32(head[1:], uint32(len(b.payload)))
	binary.BigEndian.PutUint64(head[5:], backupChecksum(kind, b.number, b.payload))
	b.number++
	if err := b.put(head[:]); err != nil {
		return err
	}
	err := b.put(b.payload)
	b.payload = b.payload[:0]
	return err
}

// znode adds a znode.
func (b *backupWriter) znode(n *schema.Znode, header []byte) error {
	apart := n.Data
	if n.Inline() {
		apart = nil
	}
	b.payload = appendBackupZnode(b.payload, n.Path, header, apart)
	b.tally.Add(n)
	if b.options.Progress != nil && b.tally.Znodes%backupProgressEvery == 0 {
		b.options.Progress(b.tally.Znodes)
	}
	if len(b.payload) < backupBlockBytes {
		return nil
	}
	return b.flush(backupZnodes)
}

// session adds a session.
func (b *backupWriter) session(s *schema.SessionInfo) error {
	b.payload = binary.BigEndian.AppendUint64(b.payload, uint64(s.ID))
	b.payload = schema.AppendSession(b.payload, s)
	b.tally.Sessions++
	if len(b.payload) < backupBlockBytes {
		return nil
	}
	return b.flush(backupSessions)
}

// end writes the last block.
func (b *backupWriter) end() error {
	b.payload = binary.BigEndian.AppendUint64(b.payload, uint64(b.tally.Znodes))
	b.payload = binary.BigEndian.AppendUint64(b.payload, uint64(b.tally.Sessions))
	b.payload = b.sum.Sum(b.payload)
	return b.flush(backupEnd)
}
