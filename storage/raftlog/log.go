package raftlog

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/disk"
)

// What the raft log fails with; errors.Is tells them apart, the text says where and what to do.
var (
	// ErrCompacted says that the entry asked for was forgotten by Compact or ResetToSnapshot.
	ErrCompacted = errors.New("entry is compacted away")
	// ErrUnavailable says that the entry asked for was never written.
	ErrUnavailable = errors.New("entry is not in the log")
	// ErrLogClosed says that the raft log was closed.
	ErrLogClosed = errors.New("raft log is closed")
)

// LogEntry is one raft entry as the log keeps it. Kind is the caller's (raft's entry type), opaque here. Data is
// never changed by the log.
type LogEntry struct {
	Index uint64
	Term  uint64
	Kind  uint8
	Data  []byte
}

// Defaults of Options; docs/formats/raftlog.md gives the measurements behind them.
const (
	logMemTableBytesDefault = 8 << 20
	logTailBytesDefault     = 8 << 20
	logCacheBytesDefault    = 1 << 20
	logBlockBytes           = 32 << 10
	logTablesMax            = 32 // that a flush has made, before they are written again as one
)

// volumeShareLog is the divisor by which the size of a small file system gives that of the log's memtable.
const volumeShareLog = 128

// Options says where a raft log lives and what it may use. Dir, FS and Logger are required.
type Options struct {
	Dir    string
	FS     vfs.FS
	Logger *slog.Logger

	// MemTableBytes is the size at which the log turns over to another write-ahead log file, 8 MiB if 0, less on a
	// small file system, at least 256 KiB. Entries compacted away before that are never written a second time.
	MemTableBytes int64
	// TailBytes bounds the newest entries kept in memory, 8 MiB if 0.
	TailBytes int64
	// CacheBytes bounds the cache of blocks for entries older than the tail, 1 MiB if 0.
	CacheBytes int64

	// Ample tells whether the disk has ample room, so that files may be made ahead; nil: what the disk says is enough.
	Ample func() bool
	// OnFatal is told once of the failure that stopped the log, on the goroutine that met it and possibly under
	// locks: it must not wait and must not call the log. It may be nil.
	OnFatal func(error)
	// Outage is that of the disk, which other stores share; nil: none does.
	Outage *disk.Outage
	// SlowAfter is how long an operation on a file of the log may take until it is told of, while it lasts. 0: none is.
	SlowAfter time.Duration
	// Nanotime is a monotonic clock in nanoseconds. With it, OnFsync is told how long each synced write took, the
	// wait for the disk included. Either may be nil.
	Nanotime func() int64
	OnFsync  func(took time.Duration)
}

// Log is the durable log of one raft member: entries, hard state and a few named blobs in a Pebble store of their
// own.
//
// Append, Compact, ResetToSnapshot, Install and SetMeta write one batch each, one after the other; everything else may
// run at the same time on other goroutines. After the first failed write or fsync every write fails.
type Log struct {
	opts  Options
	fault disk.Fault // safe for concurrent use
	fence *disk.FenceFS
	spare *spares
	db    *pebble.DB

	sizesAtOpen []LogSize // immutable after Open

	wal atomic.Uint64 // number of the write-ahead log file in use; written by Pebble's event listener

	// closing is held shared by what reads the store, exclusively by Close.
	closing sync.RWMutex
	closed  atomic.Bool

	// writer is what the next batch needs.
	writer struct {
		sync.Mutex
		batch    *pebble.Batch
		sequence uint64 // of the last batch given to Pebble
		durable  uint64 // highest sequence known to be fsynced
		large    bool   // the batch may be in an older write-ahead log than the one in use
		broken   bool   // a write panicked inside Pebble, whose locks are not to be trusted any more
		mark     syncMarker
	}

	// mu guards what readers see: only entries that their write has accepted.
	mu struct {
		sync.RWMutex
		startIndex   uint64 // last index compacted away
		startTerm    uint64
		last         uint64
		hardState    []byte // replaced, never changed
		hasHardState bool
		meta         map[string][]byte // values are replaced, never changed
		tail         logTail
		outline      logOutline
	}

	appends, appendedEntries, appendedBytes, syncs, recycled atomic.Uint64

	reclaimed atomic.Uint64 // the last entry that Reclaim has found compacted away
}

// withDefaults fills what the caller left open.
func (o Options) withDefaults() Options {
	if o.MemTableBytes == 0 {
		o.MemTableBytes = disk.VolumeShare(o.FS, o.FS.PathDir(o.Dir), volumeShareLog, disk.MemTableBytesLeast,
			logMemTableBytesDefault)
	}
	if o.TailBytes == 0 {
		o.TailBytes = logTailBytesDefault
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = logCacheBytesDefault
	}
	return o
}

// Open opens the log in opts.Dir, creating it if there is none. It verifies all that the log holds before
// anything is deleted or changed for good: a torn write at the end, which a crash leaves, is dropped; anything else
// that is missing or altered is refused with disk.ErrDamaged, the file, the place and what to do. Costs one read of the
// log.
func Open(opts Options) (*Log, error) {
	l := New(opts)
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("open raft log %s: %w", opts.Dir, err)
	}
	return l, nil
}

// New returns a log that is not opened yet.
func New(opts Options) *Log {
	l := &Log{opts: opts.withDefaults()}
	l.fault = disk.Fault{Store: "raft log", Dir: opts.Dir, Logger: opts.Logger, OnFatal: opts.OnFatal,
		Outage: opts.Outage}
	l.spare = newSpares(&l.opts, l.memTableBytes(), l.fault.Stopped)
	l.fence = disk.NewFenceFS(l.spare, &l.fault, opts.SlowAfter)
	l.fence.SwallowsAll = true
	l.mu.tail.bytesMax = l.opts.TailBytes
	l.mu.meta = make(map[string][]byte)
	return l
}

// pebbleOptions returns the options of the log's store. Compaction has almost nothing to do here: entries come in
// order and leave in order.
func (l *Log) pebbleOptions() *pebble.Options {
	events := disk.Events(&l.fault)
	events.WALCreated = func(info pebble.WALCreateInfo) {
		if info.Err == nil {
			l.wal.Store(uint64(info.FileNum))
			if info.RecycledFileNum != 0 {
				l.recycled.Add(1)
			}
		}
	}
	opts := &pebble.Options{
		FS:                          l.fence,
		Logger:                      disk.Logger{Fault: &l.fault},
		EventListener:               events,
		FormatMajorVersion:          disk.Format,
		CacheSize:                   l.opts.CacheBytes,
		MemTableSize:                uint64(l.memTableBytes()),
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       logTablesMax,
		L0StopWritesThreshold:       1000,
		MaxOpenFiles:                128,
		MaxManifestFileSize:         disk.ManifestBytes,
	}
	opts.CompactionConcurrencyRange = func() (int, int) { return 1, 1 }
	for i := range opts.Levels {
		opts.Levels[i].Compression = noCompression
		opts.Levels[i].BlockSize = logBlockBytes
	}
	return opts
}

// memTableBytes is the size of a memtable, and of a write-ahead log, which is never much longer but for what of one
// batch does not fit into a memtable.
func (l *Log) memTableBytes() int64 { return max(l.opts.MemTableBytes, 256<<10) }

// FirstIndex returns the index of the first entry kept, which is one more than the last compacted; 1 for a new log.
func (l *Log) FirstIndex() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.mu.startIndex + 1
}

// LastIndex returns the index of the newest entry; FirstIndex()-1 if there is none.
func (l *Log) LastIndex() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.mu.last
}

// HardState returns the blob that the last Append or ResetToSnapshot stored, and false if none ever was. The caller
// must not change it.
func (l *Log) HardState() ([]byte, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.mu.hardState, l.mu.hasHardState
}

// Meta returns the blob stored under key, and false if there is none. The caller must not change it.
func (l *Log) Meta(key string) ([]byte, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	value, ok := l.mu.meta[key]
	return value, ok
}

// Err returns the failure that stopped the log, or nil while it takes writes.
func (l *Log) Err() error { return l.fault.Err() }

// DiskProgress is what storage/state.Machine.DiskProgress is, of the files of the log.
func (l *Log) DiskProgress() (underWay bool, ended uint64) { return l.fence.Operations.Progress() }

// Close makes durable what was appended without sync and closes the store; it returns the failure that stopped the
// log, if one did. Closing twice is allowed. No write may be under way.
func (l *Log) Close() error {
	l.writer.Lock()
	defer l.writer.Unlock()
	l.closing.Lock()
	defer l.closing.Unlock()
	if l.closed.Load() {
		return nil
	}
	err := l.syncBeforeCloseLocked()
	l.closed.Store(true)
	l.spare.close()
	if l.writer.broken {
		return l.fault.Err()
	}
	l.fence.Closing()
	err = errors.Join(err, l.writer.batch.Close(), l.db.Close(), l.writer.mark.close(), l.fence.Health.Close())
	if fault := l.fault.Err(); fault != nil {
		return fault
	}
	if err != nil {
		return fmt.Errorf("close raft log %s: %w", l.opts.Dir, err)
	}
	return nil
}
