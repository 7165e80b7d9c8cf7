package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/storage/acl"
	"zkd/storage/disk"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// memTablesMax is the number of memtables that exist in general: the one written to and the one being flushed.
const memTablesMax = 2

// stateStore is the Pebble store of the state, with the key layout of docs/formats/state.md. Its methods may be
// called by any goroutine.
type stateStore struct {
	db     *pebble.DB // nil after close
	dir    string
	blocks *pebble.Cache
	fault  disk.Fault
	fence  *disk.FenceFS
	// compactions decides when the store tidies up.
	compactions *disk.Compactions
	frugal      *atomic.Bool // see Machine.Frugal
}

// openStateStore opens or creates the store.
func openStateStore(o *MachineOptions) (*stateStore, error) {
	// Pebble takes its memtables out of the block cache's budget.
	s := &stateStore{dir: o.Dir, blocks: pebble.NewCache(o.BlockCacheBytes + memTablesMax*o.MemTableBytes),
		frugal: o.frugal}
	if err := o.FS.MkdirAll(o.Dir, 0o755); err != nil {
		s.blocks.Unref()
		return nil, fmt.Errorf("create state store %s: %w", o.Dir, err)
	}
	s.fault.Store, s.fault.Dir, s.fault.Logger, s.fault.OnFatal = "state store", o.Dir, o.Logger, o.OnFatal
	s.fault.Tripped = make(chan struct{})
	fence := disk.NewFenceFS(o.FS, &s.fault, o.SlowAfter)
	s.fence = fence
	if err := fence.Release(); err != nil {
		s.blocks.Unref()
		return nil, err
	}
	options := s.pebbleOptions(o, fence)
	s.compactions = disk.NewCompactions(s.fault.Stopped)
	options.Experimental.CompactionScheduler = s.compactions
	db, err := s.openPebble(options)
	if err != nil {
		s.blocks.Unref()
		return nil, fmt.Errorf("open state store %s: %w", o.Dir, err)
	}
	s.compactions.Release()
	s.db = db
	return s, nil
}

// openPebble opens the store. What the fence has swallowed on the way is a failure; what Pebble panics over (a damaged
// directory) is an error like another, and what it has begun is left as it is, for the process is about to end.
func (s *stateStore) openPebble(options *pebble.Options) (db *pebble.DB, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			if err = s.fault.Err(); err == nil {
				err = fmt.Errorf("pebble has given up: %v", cause)
			}
		}
	}()
	if db, err = pebble.Open(s.dir, options); err != nil {
		return nil, err
	}
	if err := s.fault.Err(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// pebbleOptions returns the store's options: no WAL, memory as the machine's options say, small blocks for point
// reads.
func (s *stateStore) pebbleOptions(o *MachineOptions, fs vfs.FS) *pebble.Options {
	p := &pebble.Options{
		FS: fs, Cache: s.blocks, DisableWAL: true, MemTableSize: uint64(o.MemTableBytes),
		FormatMajorVersion: disk.Format,
		Logger:             disk.Logger{Fault: &s.fault}, EventListener: disk.Events(&s.fault),
		// The machine bounds what is not flushed itself; Pebble must never stall a commit, which holds the machine's
		// lock.
		MemTableStopWritesThreshold: 1000, L0StopWritesThreshold: 1000,
		L0CompactionThreshold: 4, L0CompactionFileThreshold: 16,
		LBaseMaxBytes: disk.VolumeShare(fs, o.Dir, volumeShareBaseLevel, baseLevelBytesLeast, baseLevelBytesMost),
		MaxOpenFiles:  256, MaxManifestFileSize: 1 << 20,
		CompactionConcurrencyRange: func() (int, int) { return 1, 1 },
	}
	p.TargetFileSizes[0] = disk.VolumeShare(fs, o.Dir, volumeShareTable, tableBytesLeast, tableBytesMost)
	for i := range p.Levels {
		p.Levels[i] = pebble.LevelOptions{
			BlockSize: 4 << 10, IndexBlockSize: 16 << 10, FilterPolicy: bloom.FilterPolicy(10),
			FilterType:  pebble.TableFilter,
			Compression: func() *sstable.CompressionProfile { return sstable.NoCompression },
		}
	}
	p.Experimental.ValueSeparationPolicy = s.valueSeparation(fs)
	p.EnsureDefaults()
	return p
}

// close closes the store without flushing it. Closing twice is allowed.
func (s *stateStore) close() error {
	if s.db == nil {
		return nil
	}
	err := s.db.Close()
	if s.fence != nil { // a store that is only read has none
		err = errors.Join(err, s.fence.Health.Close())
	}
	s.db = nil
	s.blocks.Unref()
	if err != nil {
		return fmt.Errorf("close state store %s: %w", s.dir, err)
	}
	return nil
}

// retire closes the store, which will never be opened again, without waiting for the end of the compaction that runs:
// its next write fails. How the store takes that does not matter any more.
func (s *stateStore) retire() {
	s.fault.Retired.Store(true)
	s.compactions.Pause()
	err := s.close()
	s.fault.Retired.Store(false)
	if err != nil {
		s.fault.Logger.Debug("replaced store closed", "dir", s.dir, "err", err)
	}
}

// usable returns why the store cannot be read: Restore has closed it and could not open the next one.
func (s *stateStore) usable() error {
	if s.db == nil {
		return s.fault.Err()
	}
	return nil
}

// asyncFlush begins to make durable what is committed; the channel is closed when it is, unless the store has stopped
// meanwhile, which its fault tells.
func (s *stateStore) asyncFlush() (<-chan struct{}, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	done, err := s.db.AsyncFlush()
	if err != nil {
		return nil, fmt.Errorf("flush of state store %s: %w", s.dir, err)
	}
	return done, nil
}

// load checks the store's format and reads its position. An empty store gets the default tree, durably.
func (s *stateStore) load() (schema.Position, error) {
	value, closer, err := s.db.Get(schema.KeyFormat)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return s.create()
	case err != nil:
		return schema.Position{}, fmt.Errorf("read the format of state store %s: %w", s.dir, err)
	}
	err = s.checkFormat(value)
	_ = closer.Close() // it only gives back a block
	if err != nil {
		return schema.Position{}, err
	}
	return s.position()
}

// position reads how far the state has come.
func (s *stateStore) position() (schema.Position, error) { return s.positionIn(s.db) }

// positionIn reads how far the state has come as r shows it.
func (s *stateStore) positionIn(r pebble.Reader) (schema.Position, error) {
	value, closer, err := r.Get(schema.KeyApplied)
	if err != nil {
		return schema.Position{}, fmt.Errorf("read the applied index of state store %s: %w", s.dir, err)
	}
	defer closer.Close()
	return schema.DecodePosition(value)
}

// checkFormat refuses what this code cannot read.
func (s *stateStore) checkFormat(value []byte) error {
	version, found := bytes.CutPrefix(value, []byte(schema.StateFormatName))
	if !found || len(version) != 2 {
		return fmt.Errorf("state store %s is not a zkd state: point dataDir at an empty directory or the right one",
			s.dir)
	}
	return schema.CheckStateFormat(binary.BigEndian.Uint16(version), "state store "+s.dir)
}

// create writes the default tree (org.apache.zookeeper.server.DataTree's constructor and addConfigNode) to an empty
// store and makes it durable.
func (s *stateStore) create() (schema.Position, error) {
	if err := s.refuseForeign(); err != nil {
		return schema.Position{}, err
	}
	batch := s.db.NewBatch()
	defer batch.Close()
	pos := schema.Position{}
	for _, n := range defaultTree() {
		n.SetData([]byte{})
		pos.Nodes++
		pos.DataBytes += int64(len(n.Path))
		pos.Digest += n.Digest(new([schema.DigestStatBytes]byte))
		if err := batch.Set(schema.AppendNodeKey(nil, schema.KindNode, n.Path), n.AppendHeader(nil), nil); err != nil {
			return schema.Position{}, fmt.Errorf("create state store %s: %w", s.dir, err)
		}
	}
	err := errors.Join(
		batch.Set(schema.KeyFormat, schema.FormatValue(entry.LevelOldest), nil),
		batch.Set(schema.KeyApplied, pos.Append(nil), nil),
		batch.Commit(pebble.NoSync),
	)
	if err == nil {
		err = s.flushed()
	}
	if err != nil {
		return schema.Position{}, fmt.Errorf("create state store %s: %w", s.dir, err)
	}
	return pos, nil
}

// flushed flushes, and waits until that is done or the disk has failed: Pebble tries for ever.
func (s *stateStore) flushed() error {
	done, err := s.asyncFlush()
	if err != nil {
		return err
	}
	select {
	case <-done:
	case <-s.fault.Tripped:
	}
	return s.fault.Err()
}

// refuseForeign fails if the store holds anything although it has no format key.
func (s *stateStore) refuseForeign() error {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return fmt.Errorf("read state store %s: %w", s.dir, err)
	}
	found := it.First()
	if err := it.Close(); err != nil {
		return fmt.Errorf("read state store %s: %w", s.dir, err)
	}
	if found {
		return s.checkFormat(nil)
	}
	return nil
}

// defaultTree returns the znodes of an empty server, without their data. The children that come with their parents
// were never created: no cversion counts them.
func defaultTree() []*schema.Znode {
	return []*schema.Znode{
		{Path: schema.RootPath, Children: 1, ACL: acl.Open},
		{Path: schema.ZookeeperPath, Children: 2, ACL: acl.Open},
		{Path: schema.QuotaPath, ACL: acl.Open},
		{Path: schema.ConfigPath, ACL: acl.ReadOnly, Aversion: -1},
	}
}

// node returns the znode at path, or nil. Its data is loaded if it is in the header. It costs a point read and three
// allocations.
func (s *stateStore) node(path string) (*schema.Znode, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	var buf [256]byte
	value, closer, err := s.db.Get(schema.AppendNodeKey(buf[:0], schema.KindNode, path))
	if err != nil {
		if errors.Is(err, pebble.ErrNotFound) {
			return nil, nil
		}
		return nil, fmt.Errorf("read %q from state store %s: %w", path, s.dir, err)
	}
	n, err := schema.DecodeHeader(strings.Clone(path), value)
	_ = closer.Close() // it only gives back a block
	return n, err
}

// pointReader reads znodes of which most may not exist: unlike a point read it asks the filters of the lowest level,
// too. It shows the store as it was at the first read since the last close, and is for one goroutine.
type pointReader struct {
	it  *pebble.Iterator
	key []byte
}

// node returns the znode at path, or nil, as stateStore.node does.
func (r *pointReader) node(s *stateStore, path string) (*schema.Znode, error) {
	if r.it == nil {
		it, err := s.db.NewIter(&pebble.IterOptions{UseL6Filters: true, KeyTypes: pebble.IterKeyTypePointsOnly})
		if err != nil {
			return nil, fmt.Errorf("read %q from state store %s: %w", path, s.dir, err)
		}
		r.it = it
	}
	r.key = schema.AppendNodeKey(r.key[:0], schema.KindNode, path)
	if !r.it.SeekPrefixGE(r.key) || !bytes.Equal(r.it.Key(), r.key) {
		if err := r.it.Error(); err != nil {
			return nil, fmt.Errorf("read %q from state store %s: %w", path, s.dir, err)
		}
		return nil, nil
	}
	value, err := r.it.ValueAndErr()
	if err != nil {
		return nil, fmt.Errorf("read %q from state store %s: %w", path, s.dir, err)
	}
	return schema.DecodeHeader(strings.Clone(path), value)
}

// close lets go of what the reader shows.
func (r *pointReader) close() error {
	if r.it == nil {
		return nil
	}
	err := r.it.Close()
	r.it = nil
	return err
}

// withData returns n with its data, which may be a new znode.
func (s *stateStore) withData(n *schema.Znode) (*schema.Znode, error) {
	if n.DataLoaded {
		return n, nil
	}
	if err := s.usable(); err != nil {
		return nil, err
	}
	var buf [256]byte
	value, closer, err := s.db.Get(schema.AppendNodeKey(buf[:0], schema.KindData, n.Path))
	if err != nil {
		return nil, fmt.Errorf("read the data of %q from state store %s: %w", n.Path, s.dir, err)
	}
	defer closer.Close()
	return s.joined(n, value)
}

// joined returns n with a copy of value as its data.
func (s *stateStore) joined(n *schema.Znode, value []byte) (*schema.Znode, error) {
	if len(value) != int(n.DataLen) {
		return nil, fmt.Errorf("%w %s: data of %q has %d bytes, its header says %d", schema.ErrDamagedValue, s.dir,
			n.Path,
			len(value), n.DataLen)
	}
	full := *n
	full.Data, full.DataLoaded = append([]byte(nil), value...), true
	return &full, nil
}

// scan calls f with each key and value that begins with prefix, in order, until f returns false. Both are valid only
// during the call.
func (s *stateStore) scan(prefix []byte, f func(key, value []byte) (bool, error)) error {
	return s.scanRange(prefix, schema.PrefixEnd(prefix), f)
}

// scanRange calls f with each key and value from lower to before upper, in order, until f returns false.
func (s *stateStore) scanRange(lower, upper []byte, f func(key, value []byte) (bool, error)) error {
	if err := s.usable(); err != nil {
		return err
	}
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return fmt.Errorf("read state store %s: %w", s.dir, err)
	}
	goOn := true
	for valid := it.First(); valid && goOn && err == nil; valid = it.Next() {
		var value []byte
		if value, err = it.ValueAndErr(); err == nil {
			goOn, err = f(it.Key(), value)
		}
	}
	if err = errors.Join(err, it.Close()); err != nil {
		return fmt.Errorf("read state store %s: %w", s.dir, err)
	}
	return nil
}

// descendants calls f with the header key and value of each znode below path, first those deeper down, or the whole
// tree for the root, until f returns false.
func (s *stateStore) descendants(path string, f func(key, value []byte) (bool, error)) error {
	if path != schema.RootPath {
		return s.descendantsFrom(path, nil, f)
	}
	root := schema.AppendNodeKey(nil, schema.KindNode, schema.RootPath)
	return s.scan([]byte{schema.KindNode}, func(key, value []byte) (bool, error) {
		if bytes.Equal(key, root) {
			return true, nil
		}
		return f(key, value)
	})
}

// descendantsFrom is descendants for a path that is not the root, beginning at the key from unless that is nil.
func (s *stateStore) descendantsFrom(path string, from []byte, f func(key, value []byte) (bool, error)) error {
	return belowFrom(s, path, from, f)
}

// scanner is a store, or a moment of it.
type scanner interface {
	scanRange(lower, upper []byte, f func(key, value []byte) (bool, error)) error
}

// belowFrom calls f with the header key and value of each znode below path, which is not the root, first those deeper
// down, until f returns false. It begins at the key from unless that is nil.
func belowFrom(s scanner, path string, from []byte, f func(key, value []byte) (bool, error)) error {
	goOn := true
	for _, prefix := range [...][]byte{schema.AppendDescendantsPrefix(nil, path),
		schema.AppendChildrenPrefix(nil, path)} {
		lower := prefix
		if from != nil {
			if !bytes.HasPrefix(from, prefix) {
				continue // before from
			}
			lower, from = from, nil
		}
		err := s.scanRange(lower, schema.PrefixEnd(prefix), func(key, value []byte) (_ bool, err error) {
			goOn, err = f(key, value)
			return goOn, err
		})
		if err != nil || !goOn {
			return err
		}
	}
	return nil
}

// sessions returns all sessions.
func (s *stateStore) sessions() (map[jute.SessionID]*schema.SessionInfo, error) {
	all := make(map[jute.SessionID]*schema.SessionInfo)
	err := s.scan([]byte{schema.KindSession}, func(key, value []byte) (bool, error) {
		info, err := schema.DecodeSession(key, value)
		if err == nil {
			all[info.ID] = info
		}
		return true, err
	})
	return all, err
}

// ensemble returns what the state knows of its ensemble; nil if it belongs to none.
func (s *stateStore) ensemble() (*schema.EnsembleRecord, error) {
	return optional(s, schema.KeyEnsemble, "ensemble", schema.DecodeEnsemble)
}

// optional reads a record that the state need not have; the zero value then. what names it in errors; decode keeps
// nothing of the value.
func optional[T any](s *stateStore, key []byte, what string, decode func(value []byte) (T, error)) (T, error) {
	var none T
	value, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("read the %s of state store %s: %w", what, s.dir, err)
	}
	defer closer.Close()
	return decode(value)
}

// checkpoint makes a copy of the store at dir, of hard links where it can.
func (s *stateStore) checkpoint(dir string) error {
	if err := s.usable(); err != nil {
		return err
	}
	if err := errors.Join(s.db.Checkpoint(dir), s.fault.Stopped()); err != nil {
		return fmt.Errorf("checkpoint of state store %s at %s: %w", s.dir, dir, err)
	}
	return nil
}
