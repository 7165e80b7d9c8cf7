package storage

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// What the raft log and the data directory fail with; errors.Is tells them apart, the text says where and what to do.
var (
	// ErrCompacted says that the entry asked for was forgotten by Compact or ResetToSnapshot.
	ErrCompacted = errors.New("entry is compacted away")
	// ErrUnavailable says that the entry asked for was never written.
	ErrUnavailable = errors.New("entry is not in the log")
	// ErrDamaged says that a file does not hold what was written to it. Nothing was changed.
	ErrDamaged = errors.New("damaged")
	// ErrDiskFailed says that a write or an fsync failed, after which the store takes no more of them.
	ErrDiskFailed = errors.New("disk failed")
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

// Defaults of RaftLogOptions; docs/formats/raftlog.md gives the measurements behind them.
const (
	logMemTableBytesDefault = 8 << 20
	logTailBytesDefault     = 8 << 20
	logCacheBytesDefault    = 1 << 20
	logBlockBytes           = 32 << 10
	logTablesMax            = 32 // that a flush has made, before they are written again as one
)

// RaftLogOptions says where a raft log lives and what it may use. Dir, FS and Logger are required.
type RaftLogOptions struct {
	Dir    string
	FS     vfs.FS
	Logger *slog.Logger

	// MemTableBytes is the size at which the log turns over to another write-ahead log file, 8 MiB if 0, at least
	// 256 KiB. Entries compacted away before that are never written a second time.
	MemTableBytes int64
	// TailBytes bounds the newest entries kept in memory, 8 MiB if 0.
	TailBytes int64
	// CacheBytes bounds the cache of blocks for entries older than the tail, 1 MiB if 0.
	CacheBytes int64

	// OnFatal is told once of the failure that stopped the log, on the goroutine that met it and possibly under
	// locks: it must not wait and must not call the log. It may be nil.
	OnFatal func(error)
	// Nanotime is a monotonic clock in nanoseconds. With it, OnFsync is told how long each synced write took, the
	// wait for the disk included. Either may be nil.
	Nanotime func() int64
	OnFsync  func(took time.Duration)
}

// RaftLog is the durable log of one raft member: entries, hard state and a few named blobs in a Pebble store of their
// own.
//
// Append, Compact, ResetToSnapshot, Install and SetMeta write one batch each, one after the other; everything else may
// run at the same time on other goroutines. After the first failed write or fsync every write fails.
type RaftLog struct {
	opts  RaftLogOptions
	fault diskFault // safe for concurrent use
	fence *fenceFS
	db    *pebble.DB

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
		mark     logMark
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
	}

	appends, appendedEntries, appendedBytes, syncs, recycled atomic.Uint64
}

// withDefaults fills what the caller left open.
func (o RaftLogOptions) withDefaults() RaftLogOptions {
	if o.MemTableBytes == 0 {
		o.MemTableBytes = logMemTableBytesDefault
	}
	if o.TailBytes == 0 {
		o.TailBytes = logTailBytesDefault
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = logCacheBytesDefault
	}
	return o
}

// OpenRaftLog opens the log in opts.Dir, creating it if there is none. It verifies all that the log holds before
// anything is deleted or changed for good: a torn write at the end, which a crash leaves, is dropped; anything else
// that is missing or altered is refused with ErrDamaged, the file, the place and what to do. Costs one read of the
// log.
func OpenRaftLog(opts RaftLogOptions) (*RaftLog, error) {
	l := newRaftLog(opts)
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("open raft log %s: %w", opts.Dir, err)
	}
	return l, nil
}

// newRaftLog returns a log that is not opened yet.
func newRaftLog(opts RaftLogOptions) *RaftLog {
	l := &RaftLog{opts: opts.withDefaults()}
	l.fault = diskFault{store: "raft log", dir: opts.Dir, logger: opts.Logger, onFatal: opts.OnFatal}
	l.fence = newFenceFS(opts.FS, &l.fault)
	l.fence.swallowsAll = true
	l.mu.tail.bytesMax = l.opts.TailBytes
	l.mu.meta = make(map[string][]byte)
	return l
}

// pebbleOptions returns the options of the log's store. Compaction has almost nothing to do here: entries come in
// order and leave in order.
func (l *RaftLog) pebbleOptions() *pebble.Options {
	events := pebbleEvents(&l.fault)
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
		Logger:                      pebbleLogger{fault: &l.fault},
		EventListener:               events,
		FormatMajorVersion:          pebbleFormat,
		CacheSize:                   l.opts.CacheBytes,
		MemTableSize:                uint64(max(l.opts.MemTableBytes, 256<<10)),
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       logTablesMax,
		L0StopWritesThreshold:       1000,
		MaxOpenFiles:                128,
	}
	opts.CompactionConcurrencyRange = func() (int, int) { return 1, 1 }
	for i := range opts.Levels {
		opts.Levels[i].Compression = noCompression
		opts.Levels[i].BlockSize = logBlockBytes
	}
	return opts
}

// FirstIndex returns the index of the first entry kept, which is one more than the last compacted; 1 for a new log.
func (l *RaftLog) FirstIndex() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.mu.startIndex + 1
}

// LastIndex returns the index of the newest entry; FirstIndex()-1 if there is none.
func (l *RaftLog) LastIndex() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.mu.last
}

// HardState returns the blob that the last Append or ResetToSnapshot stored, and false if none ever was. The caller
// must not change it.
func (l *RaftLog) HardState() ([]byte, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.mu.hardState, l.mu.hasHardState
}

// Meta returns the blob stored under key, and false if there is none. The caller must not change it.
func (l *RaftLog) Meta(key string) ([]byte, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	value, ok := l.mu.meta[key]
	return value, ok
}

// Err returns the failure that stopped the log, or nil while it takes writes.
func (l *RaftLog) Err() error { return l.fault.Err() }

// Close makes durable what was appended without sync and closes the store; it returns the failure that stopped the
// log, if one did. Closing twice is allowed. No write may be under way.
func (l *RaftLog) Close() error {
	l.writer.Lock()
	defer l.writer.Unlock()
	l.closing.Lock()
	defer l.closing.Unlock()
	if l.closed.Load() {
		return nil
	}
	err := l.syncBeforeCloseLocked()
	l.closed.Store(true)
	if l.writer.broken {
		return l.fault.Err()
	}
	err = errors.Join(err, l.writer.batch.Close(), l.db.Close(), l.writer.mark.close())
	if fault := l.fault.Err(); fault != nil {
		return fault
	}
	if err != nil {
		return fmt.Errorf("close raft log %s: %w", l.opts.Dir, err)
	}
	return nil
}
