package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/storage/acl"
)

// stateFormat is the version of the key layout and the values that this code reads and writes.
const stateFormat = 1

// stateFormatName begins the value of the format key, so that a store of something else is not taken for a state.
const stateFormatName = "zkd state"

// memTablesMax is the number of memtables that exist in general: the one written to and the one being flushed.
const memTablesMax = 2

// stateStore is the Pebble store of the state, with the key layout of docs/formats/state.md. Its methods may be
// called by any goroutine.
type stateStore struct {
	db     *pebble.DB // nil after close
	dir    string
	blocks *pebble.Cache
	fault  diskFault
	// compactions decides when the store tidies up.
	compactions *compactions
}

// openStateStore opens or creates the store.
func openStateStore(o *MachineOptions) (*stateStore, error) {
	// Pebble takes its memtables out of the block cache's budget.
	s := &stateStore{dir: o.Dir, blocks: pebble.NewCache(o.BlockCacheBytes + memTablesMax*o.MemTableBytes)}
	if err := o.FS.MkdirAll(o.Dir, 0o755); err != nil {
		s.blocks.Unref()
		return nil, fmt.Errorf("create state store %s: %w", o.Dir, err)
	}
	s.fault.store, s.fault.dir, s.fault.logger, s.fault.onFatal = "state store", o.Dir, o.Logger, o.OnFatal
	s.fault.tripped = make(chan struct{})
	fence := newFenceFS(o.FS, &s.fault)
	if err := fence.release(); err != nil {
		s.blocks.Unref()
		return nil, err
	}
	options := s.pebbleOptions(o, fence)
	s.compactions = newCompactions()
	options.Experimental.CompactionScheduler = s.compactions
	db, err := s.openPebble(options)
	if err != nil {
		s.blocks.Unref()
		return nil, fmt.Errorf("open state store %s: %w", o.Dir, err)
	}
	s.compactions.release()
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
		FormatMajorVersion: pebbleFormat,
		Logger:             pebbleLogger{fault: &s.fault}, EventListener: pebbleEvents(&s.fault),
		// The machine bounds what is not flushed itself; Pebble must never stall a commit, which holds the machine's
		// lock.
		MemTableStopWritesThreshold: 1000, L0StopWritesThreshold: 1000,
		L0CompactionThreshold: 4, L0CompactionFileThreshold: 16, LBaseMaxBytes: 64 << 20,
		MaxOpenFiles: 256, MaxManifestFileSize: 1 << 20,
		CompactionConcurrencyRange: func() (int, int) { return 1, 1 },
	}
	for i := range p.Levels {
		p.Levels[i] = pebble.LevelOptions{
			BlockSize: 4 << 10, IndexBlockSize: 16 << 10, FilterPolicy: bloom.FilterPolicy(10),
			FilterType:  pebble.TableFilter,
			Compression: func() *sstable.CompressionProfile { return sstable.NoCompression },
		}
	}
	// Data that has a key of its own is written once and not again at each compaction (a third of the bytes written
	// when znodes of 1 KiB are made, measured 2026-11).
	p.Experimental.ValueSeparationPolicy = func() pebble.ValueSeparationPolicy {
		return pebble.ValueSeparationPolicy{
			Enabled: true, MinimumSize: 2 * inlineDataBytesMax, MaxBlobReferenceDepth: 8,
			RewriteMinimumAge: 5 * time.Minute, TargetGarbageRatio: 0.3,
		}
	}
	p.EnsureDefaults()
	return p
}

// close closes the store without flushing it. Closing twice is allowed.
func (s *stateStore) close() error {
	if s.db == nil {
		return nil
	}
	err := s.db.Close()
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
	s.fault.retired.Store(true)
	s.compactions.pause()
	err := s.close()
	s.fault.retired.Store(false)
	if err != nil {
		s.fault.logger.Debug("replaced store closed", "dir", s.dir, "err", err)
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
func (s *stateStore) load() (position, error) {
	value, closer, err := s.db.Get(keyFormat)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return s.create()
	case err != nil:
		return position{}, fmt.Errorf("read the format of state store %s: %w", s.dir, err)
	}
	err = s.checkFormat(value)
	_ = closer.Close() // it only gives back a block
	if err != nil {
		return position{}, err
	}
	return s.position()
}

// position reads how far the state has come.
func (s *stateStore) position() (position, error) {
	value, closer, err := s.db.Get(keyApplied)
	if err != nil {
		return position{}, fmt.Errorf("read the applied index of state store %s: %w", s.dir, err)
	}
	defer closer.Close()
	return decodePosition(value)
}

// checkFormat refuses what this code cannot read.
func (s *stateStore) checkFormat(value []byte) error {
	version, found := bytes.CutPrefix(value, []byte(stateFormatName))
	if !found || len(version) != 2 {
		return fmt.Errorf("state store %s is not a zkd state: point dataDir at an empty directory or the right one",
			s.dir)
	}
	if v := binary.BigEndian.Uint16(version); v != stateFormat {
		return fmt.Errorf(
			"state store %s has format %d, this version reads %d: run the zkd that wrote it, or a newer one",
			s.dir, v, stateFormat)
	}
	return nil
}

// create writes the default tree (org.apache.zookeeper.server.DataTree's constructor and addConfigNode) to an empty
// store and makes it durable.
func (s *stateStore) create() (position, error) {
	if err := s.refuseForeign(); err != nil {
		return position{}, err
	}
	batch := s.db.NewBatch()
	defer batch.Close()
	pos := position{}
	for _, n := range defaultTree() {
		n.setData([]byte{})
		pos.nodes++
		pos.dataBytes += int64(len(n.path))
		pos.digest += n.digest(new([digestStatBytes]byte))
		if err := batch.Set(appendNodeKey(nil, kindNode, n.path), n.appendHeader(nil), nil); err != nil {
			return position{}, fmt.Errorf("create state store %s: %w", s.dir, err)
		}
	}
	format := binary.BigEndian.AppendUint16([]byte(stateFormatName), stateFormat)
	err := errors.Join(
		batch.Set(keyFormat, format, nil), batch.Set(keyApplied, pos.append(nil), nil),
		batch.Commit(pebble.NoSync),
	)
	if err == nil {
		err = s.flushed()
	}
	if err != nil {
		return position{}, fmt.Errorf("create state store %s: %w", s.dir, err)
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
	case <-s.fault.tripped:
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
func defaultTree() []*znode {
	return []*znode{
		{path: rootPath, children: 1, acl: acl.Open},
		{path: zookeeperPath, children: 2, acl: acl.Open},
		{path: quotaPath, acl: acl.Open},
		{path: ConfigPath, acl: acl.ReadOnly, aversion: -1},
	}
}

// node returns the znode at path, or nil. Its data is loaded if it is in the header. It costs a point read and three
// allocations.
func (s *stateStore) node(path string) (*znode, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	var buf [256]byte
	value, closer, err := s.db.Get(appendNodeKey(buf[:0], kindNode, path))
	if err != nil {
		if errors.Is(err, pebble.ErrNotFound) {
			return nil, nil
		}
		return nil, fmt.Errorf("read %q from state store %s: %w", path, s.dir, err)
	}
	n, err := decodeHeader(strings.Clone(path), value)
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
func (r *pointReader) node(s *stateStore, path string) (*znode, error) {
	if r.it == nil {
		it, err := s.db.NewIter(&pebble.IterOptions{UseL6Filters: true, KeyTypes: pebble.IterKeyTypePointsOnly})
		if err != nil {
			return nil, fmt.Errorf("read %q from state store %s: %w", path, s.dir, err)
		}
		r.it = it
	}
	r.key = appendNodeKey(r.key[:0], kindNode, path)
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
	return decodeHeader(strings.Clone(path), value)
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
func (s *stateStore) withData(n *znode) (*znode, error) {
	if n.dataLoaded {
		return n, nil
	}
	if err := s.usable(); err != nil {
		return nil, err
	}
	var buf [256]byte
	value, closer, err := s.db.Get(appendNodeKey(buf[:0], kindData, n.path))
	if err != nil {
		return nil, fmt.Errorf("read the data of %q from state store %s: %w", n.path, s.dir, err)
	}
	defer closer.Close()
	if len(value) != int(n.dataLen) {
		return nil, fmt.Errorf("%w %s: data of %q has %d bytes, its header says %d", errDamaged, s.dir, n.path,
			len(value), n.dataLen)
	}
	full := *n
	full.data, full.dataLoaded = append([]byte(nil), value...), true
	return &full, nil
}

// scan calls f with each key and value that begins with prefix, in order, until f returns false. Both are valid only
// during the call.
func (s *stateStore) scan(prefix []byte, f func(key, value []byte) (bool, error)) error {
	return s.scanRange(prefix, prefixEnd(prefix), f)
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
	if path != rootPath {
		return s.descendantsFrom(path, nil, f)
	}
	root := appendNodeKey(nil, kindNode, rootPath)
	return s.scan([]byte{kindNode}, func(key, value []byte) (bool, error) {
		if bytes.Equal(key, root) {
			return true, nil
		}
		return f(key, value)
	})
}

// descendantsFrom is descendants for a path that is not the root, beginning at the key from unless that is nil.
func (s *stateStore) descendantsFrom(path string, from []byte, f func(key, value []byte) (bool, error)) error {
	goOn := true
	for _, prefix := range [...][]byte{appendDescendantsPrefix(nil, path), appendChildrenPrefix(nil, path)} {
		lower := prefix
		if from != nil {
			if !bytes.HasPrefix(from, prefix) {
				continue // before from
			}
			lower, from = from, nil
		}
		err := s.scanRange(lower, prefixEnd(prefix), func(key, value []byte) (_ bool, err error) {
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
func (s *stateStore) sessions() (map[jute.SessionID]*SessionInfo, error) {
	all := make(map[jute.SessionID]*SessionInfo)
	err := s.scan([]byte{kindSession}, func(key, value []byte) (bool, error) {
		info, err := decodeSession(key, value)
		if err == nil {
			all[info.ID] = info
		}
		return true, err
	})
	return all, err
}

// ensemble returns what the state knows of its ensemble; nil if it belongs to none.
func (s *stateStore) ensemble() (*ensembleRecord, error) {
	return optional(s, keyEnsemble, "ensemble", decodeEnsemble)
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
	if err := errors.Join(s.db.Checkpoint(dir), s.fault.stopped()); err != nil {
		return fmt.Errorf("checkpoint of state store %s at %s: %w", s.dir, dir, err)
	}
	return nil
}
