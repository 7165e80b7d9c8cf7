package state

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/acl"
	"zkd/storage/disk"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// memTablesMax is the number of memtables that exist in general: the one written to and the one being flushed.
const memTablesMax = 2

// levelZeroMost is twice the number (so Pebble counts) of tables one upon another in level 0 at which they are
// compacted into the next level, all of which a load that goes everywhere in the tree then writes anew. A read looks
// into the filters of those that may have its key. With 4 a create cost 2.7 KB to disk, with 8 and flushes of whole
// memtables 1.6 (2026-11).
const levelZeroMost = 8

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
	warm        *warmer      // reads what apply will ask of new tables
	ownManifest atomic.Bool  // one was begun since the store was opened
	frugal      *atomic.Bool // see Machine.Frugal
}

// openStateStore opens or creates the store.
func openStateStore(o *MachineOptions) (*stateStore, error) {
	// Pebble takes its memtables out of the block cache's budget.
	s := &stateStore{dir: o.Dir, blocks: pebble.NewCache(o.BlockCacheBytes + memTablesMax*o.MemTableBytes),
		warm: newWarmer(), frugal: o.frugal}
	if err := o.FS.MkdirAll(o.Dir, disk.DirPerm); err != nil {
		s.blocks.Unref()
		return nil, fmt.Errorf("create state store %s: %w", o.Dir, err)
	}
	s.fault.Store, s.fault.Dir, s.fault.Logger, s.fault.OnFatal = "state store", o.Dir, o.Logger, o.OnFatal
	s.fault.Tripped, s.fault.Outage = make(chan struct{}), o.Outage
	fence := disk.NewFenceFS(o.FS, &s.fault, o.SlowAfter)
	s.fence = fence
	if err := fence.Release(); err != nil {
		s.blocks.Unref()
		return nil, err
	}
	options := s.pebbleOptions(o, fence)
	s.warm.listen(options.EventListener)
	options.EventListener.ManifestCreated = func(pebble.ManifestCreateInfo) { s.ownManifest.Store(true) }
	s.compactions = disk.NewCompactions(s.fault.Stopped)
	options.Experimental.CompactionScheduler = s.compactions
	db, err := s.openPebble(options)
	if err != nil {
		s.blocks.Unref()
		return nil, fmt.Errorf("open state store %s: %w", o.Dir, err)
	}
	s.db = db
	s.warm.start(db)
	s.compactions.Release()
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
	if _, err := disk.CheckManifest(options.FS, s.dir); err != nil {
		return nil, err
	}
	if db, err = pebble.Open(s.dir, options); err != nil {
		return nil, err
	}
	if err := s.fault.Err(); err != nil {
		if s.fence != nil {
			s.fence.Closing()
		}
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
		L0CompactionThreshold: levelZeroMost, L0CompactionFileThreshold: 2 * levelZeroMost,
		LBaseMaxBytes: disk.VolumeShare(fs, o.Dir, volumeShareBaseLevel, baseLevelBytesLeast, baseLevelBytesMost),
		MaxOpenFiles:  256, MaxManifestFileSize: disk.ManifestBytes,
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
	s.warm.close()
	if s.fence != nil { // a store that is only read has none
		s.fence.Closing() // only now: a flush that fails begins again and again until the store is closed
	}
	err := s.db.Close()
	if s.fence != nil {
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

// usable returns why the store cannot be read: Install has closed it and could not open the next one.
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

// reader reads what the store holds, while nothing is written to it.
func (s *stateStore) reader() *Reader { return &Reader{store: s.db, dir: s.dir} }

// load checks the store's format and reads its level and position. An empty store gets the default tree, durably.
func (s *stateStore) load() (pos schema.Position, level entry.Level, err error) {
	r := s.reader()
	found, err := r.checkFormat()
	if err != nil {
		return pos, level, err
	}
	if !found {
		pos, err = s.create()
		return pos, entry.LevelOldest, err
	}
	if level, err = r.readLevel(); err != nil { // first: all else may be in the form of a newer level
		return pos, level, err
	}
	pos, err = r.position()
	return pos, level, err
}

// create writes the default tree (org.apache.zookeeper.server.DataTree's constructor and addConfigNode) to an empty
// store and makes it durable.
func (s *stateStore) create() (schema.Position, error) {
	err := s.reader().scanRange(nil, nil, func(_, _ []byte) error { return foreign(s.dir) })
	if err != nil {
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
	err = errors.Join(
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

// set puts a key into the store.
func (s *stateStore) set(key, value []byte) error { return s.db.Set(key, value, pebble.NoSync) }

// checkpoint makes a copy of the store at dir, of hard links where it can.
func (s *stateStore) checkpoint(dir string) error {
	if err := s.usable(); err != nil {
		return err
	}
	if !s.ownManifest.Load() { // Pebble copies as much of the MANIFEST as it has written itself: so far nothing
		if err := s.flushed(); err != nil {
			return err
		}
	}
	if err := errors.Join(s.db.Checkpoint(dir), s.fault.Stopped()); err != nil {
		return fmt.Errorf("checkpoint of state store %s at %s: %w", s.dir, dir, err)
	}
	return nil
}
