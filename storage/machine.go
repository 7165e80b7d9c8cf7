package storage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/jute"
	"zkd/storage/datadir"
	"zkd/storage/disk"
	"zkd/storage/entry"
	"zkd/storage/schema"
)

// MachineOptions says where a Machine keeps its state and how much memory it may take. Zero values take the defaults.
type MachineOptions struct {
	Dir    string       // of the state store
	FS     vfs.FS       // default the operating system's
	Logger *slog.Logger // default discards
	// CacheBytes is the memory for znodes that were in use lately, BlockCacheBytes the one for blocks of the store,
	// MemTableBytes the one for what is not flushed yet (of which two may exist).
	CacheBytes, BlockCacheBytes, MemTableBytes int64
	// FlushBytes and FlushRequests bound what a crash leaves to replay: when the entries applied since the last flush
	// began hold that much, another one begins; when four times as much is not durable, Apply waits.
	FlushBytes    int64
	FlushRequests int
	// SlowAfter is how long an operation on a file of the state may take until it is told of, while it lasts. 0: none
	// is.
	SlowAfter time.Duration
	// OnFatal is told, once, when the store cannot be read or written: the process must end. View.Err says so, too,
	// from then on.
	OnFatal func(error)

	frugal     *atomic.Bool // Machine.frugal, which outlives a store
	countPiece int64        // tests make countZnodesMax smaller
}

// Defaults of MachineOptions, chosen with a million znodes of 100 bytes (docs/decisions/0009, docs/performance.md).
const (
	defaultCacheBytes      = 16 << 20
	defaultBlockCacheBytes = 8 << 20
	defaultMemTableBytes   = 4 << 20
	defaultFlushBytes      = 4 << 20
	defaultFlushRequests   = 4 << 10
)

// setDefaults fills in what is zero.
func (o *MachineOptions) setDefaults() {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	for _, d := range []struct {
		v   *int64
		def int64
	}{
		{&o.CacheBytes, defaultCacheBytes},
		{&o.BlockCacheBytes, defaultBlockCacheBytes},
		{&o.MemTableBytes, defaultMemTableBytes},
		{&o.FlushBytes, defaultFlushBytes},
	} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if o.FlushRequests == 0 {
		o.FlushRequests = defaultFlushRequests
	}
	if o.countPiece == 0 {
		o.countPiece = countZnodesMax
	}
	if o.frugal == nil {
		o.frugal = new(atomic.Bool)
	}
}

// Machine is the replicated state machine of ZooKeeper: the tree of znodes and the sessions, in a Pebble store. One
// goroutine applies entries; any number read through Presents and Views meanwhile, and none of them waits for the disk
// while it holds the machine's lock.
type Machine struct {
	opts  MachineOptions // immutable after OpenMachine
	store *stateStore    // replaced by Restore, which holds mu, copying and reading
	cache *cache
	flush flusher
	txn   txn // owned by the apply goroutine

	counts   countings // owned by the apply goroutine
	counting atomic.Int64
	countMax int64 // countZnodesMax; immutable

	frugal    *atomic.Bool // see Frugal
	scrubbing scrubbing
	copying   sync.RWMutex // held shared by Checkpoint, exclusively by Restore; taken before mu

	// reading is held shared by whoever reads the store without mu, a View until its end, and exclusively by Restore;
	// taken after mu.
	reading sync.RWMutex
	// restores counts the states that have taken the place of another. Written under reading.
	restores atomic.Uint64

	mu struct { // held exclusively while an entry is published and by Restore, shared by Presents
		sync.RWMutex
		pos      schema.Position
		sums     schema.Kept
		ensemble *schema.EnsembleRecord                 // immutable; nil if none was founded
		sessions map[jute.SessionID]*schema.SessionInfo // the infos are immutable
		quotas   map[string]struct{}                    // paths that have a quota
		upload   *schema.Upload                         // nil if none is under way
		level    entry.Level                            // of the ensemble
		restored jute.Zxid                              // with which a restore has replaced the state last; 0: never
	}
	zxid     atomic.Int64
	level    atomic.Uint32 // the same as in mu
	applied  atomic.Uint64
	ensemble atomic.Pointer[schema.EnsembleRecord] // the same as in mu

	marks []mark // the last ones, oldest first; owned by the apply goroutine
	// the last mark of which a verdict has said the same; 0: none since the start
	agreed atomic.Uint64
	disk   atomic.Pointer[disk.Operations] // of store
}

// OpenMachine opens the state in o.Dir, or creates it with ZooKeeper's default tree. AppliedIndex then tells from
// where on the log must be applied again: what was not flushed before a crash is gone. It fails if the store is of
// another format, locked or damaged.
func OpenMachine(o MachineOptions) (*Machine, error) {
	o.setDefaults()
	o.fitVolume()
	if err := datadir.SettleRestore(o.FS, o.Dir); err != nil {
		return nil, err
	}
	store, err := openStateStore(&o)
	if err != nil {
		return nil, err
	}
	m := &Machine{opts: o, cache: newCache(o.CacheBytes), frugal: o.frugal, countMax: o.countPiece}
	m.setStore(store)
	m.flush.m = m
	if err := m.load(); err != nil {
		return nil, errors.Join(err, store.close())
	}
	m.txn.init(m)
	m.flush.start()
	return m, nil
}

// load reads what the machine keeps in memory.
func (m *Machine) load() (err error) {
	if m.mu.pos, err = m.store.load(); err != nil {
		return err
	}
	if err := m.store.refuseDiverged(); err != nil {
		return err
	}
	if m.mu.sums, err = m.store.sums(m.mu.pos.Index); err != nil {
		return err
	}
	if m.mu.ensemble, err = m.store.ensemble(); err != nil {
		return err
	}
	if m.mu.sessions, err = m.store.sessions(); err != nil {
		return err
	}
	if m.mu.quotas, err = quotasOf(m.store); err != nil {
		return err
	}
	if m.counts, err = m.store.countings(); err != nil {
		return err
	}
	if m.mu.upload, err = m.store.upload(); err != nil {
		return err
	}
	if m.mu.restored, err = m.store.restored(); err != nil {
		return err
	}
	if m.mu.level, err = m.store.level(); err != nil {
		return err
	}
	m.level.Store(uint32(m.mu.level))
	m.counting.Store(int64(len(m.counts.of)))
	m.ensemble.Store(m.mu.ensemble)
	m.applied.Store(m.mu.pos.Index)
	m.zxid.Store(int64(m.mu.pos.Zxid))
	m.flush.durable.Store(m.mu.pos.Index)
	return nil
}

// Apply evaluates the entry at index of the log and publishes its effects: when it returns, Views show them, and sink
// has had the results. data is only read and may be reused afterwards; empty data only moves the applied index.
// Entries come in the order of the log, each once, from one goroutine.
//
// What a request asks can never fail here: that is a result. An error means that the disk or an invariant broke, or
// that a newer version wrote the entry; the process must end.
func (m *Machine) Apply(index, term uint64, data []byte, sink Sink) error {
	if err := m.err(); err != nil {
		return err
	}
	if applied := m.applied.Load(); index <= applied {
		return fmt.Errorf("apply of log entry %d after entry %d: the log and the state do not fit together", index,
			applied)
	}
	if err := m.flush.wait(); err != nil {
		return err
	}
	t := &m.txn
	t.begin(index, term)
	if len(data) > 0 {
		if err := t.evaluateEntry(data); err != nil {
			t.end()
			var diverged *DivergedError
			if errors.As(err, &diverged) {
				err = errors.Join(err, m.Condemn(diverged))
			}
			return fmt.Errorf("apply log entry %d: %w", index, errors.Join(err, t.reader.close()))
		}
	}
	err := t.conclude(sink)
	requests := len(t.results)
	t.end()
	if err != nil {
		return fmt.Errorf("apply log entry %d: %w", index, err)
	}
	return m.flush.note(int64(len(data)), requests)
}

// conclude publishes what the entry has come to: changes of the state, or another state.
func (t *txn) conclude(sink Sink) error {
	if err := t.reader.close(); err != nil {
		return err
	}
	if t.successor {
		return t.m.succeed(sink)
	}
	if err := t.prepare(); err != nil {
		return err
	}
	return t.publish(sink)
}

// AppliedIndex returns the index of the last entry applied.
func (m *Machine) AppliedIndex() uint64 { return m.applied.Load() }

// DurableIndex returns the index of the last entry whose effects a crash cannot take back: the log is needed only
// behind it.
func (m *Machine) DurableIndex() uint64 { return m.flush.durable.Load() }

// setStore has the machine use a store.
func (m *Machine) setStore(s *stateStore) {
	m.store = s
	m.disk.Store(&s.fence.Operations)
}

// DiskProgress tells whether operations on the files of the state are under way, and how many have ended: a disk with
// which the former stays and the latter does not change hangs. Any goroutine may call it, and it does not wait.
func (m *Machine) DiskProgress() (underWay bool, ended uint64) { return m.disk.Load().Progress() }

// LastZxid returns the zxid of the last write.
func (m *Machine) LastZxid() jute.Zxid { return jute.Zxid(m.zxid.Load()) }

// Flush makes all that is applied at the call durable. Any goroutine may call it.
func (m *Machine) Flush(ctx context.Context) error { return m.flush.now(ctx) }

// ClusterID returns the id of the ensemble that the state belongs to; zero if none was founded. Any goroutine may call
// it, a Sink included.
func (m *Machine) ClusterID() entry.ClusterID { return m.ensemble.Load().ClusterID() }

// EnsembleConfig returns the text of the ensemble's configuration (storage/ensemble reads it); "" if none was founded.
// Unlike the data of /zookeeper/config, no client can write it. Any goroutine may call it, a Sink included.
func (m *Machine) EnsembleConfig() string { return m.ensemble.Load().ConfigText() }

// Close closes the machine; no call may be under way. What is not flushed comes back from the log.
func (m *Machine) Close() error {
	m.flush.stop()
	return errors.Join(m.txn.close(), m.store.close())
}

// err returns why the machine cannot go on, or nil.
func (m *Machine) err() error { return m.store.fault.Err() }

// fail records that the store cannot be read.
func (m *Machine) fail(err error) { _ = m.store.fault.Trip(err) } // it has been reported
