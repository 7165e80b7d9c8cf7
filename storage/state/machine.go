package state

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sync/semaphore"

	"zkd/jute"
	"zkd/storage/apply"
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
	// CacheBytes is the memory for znodes that were in use lately, ListBytes the one for lists of children,
	// BlockCacheBytes the one for blocks of the store, MemTableBytes the one for what is not flushed yet (of which two
	// may exist).
	CacheBytes, ListBytes, BlockCacheBytes, MemTableBytes int64
	// FlushBytes and FlushReplay bound what a crash leaves to replay: when the entries applied since the last flush
	// began take that much memory, or room in the log, or would take that long to apply again, by estimate, another
	// one begins; when four times as much is not durable, Apply waits. FlushBytes is below MemTableBytes in any case.
	FlushBytes  int64
	FlushReplay time.Duration
	// SlowAfter is how long an operation on a file of the state may take until it is told of, while it lasts. 0: none
	// is.
	SlowAfter time.Duration
	// OnFatal is told, once, when the store cannot be read or written: the process must end. View.Err says so, too,
	// from then on.
	OnFatal func(error)
	// Outage is that of the disk, which other stores share; nil: none does.
	Outage *disk.Outage

	frugal     *atomic.Bool // Machine.frugal, which outlives a store
	countPiece int64        // apply.Options.CountZnodes; tests make it smaller
	endPiece   int          // apply.Options.EndZnodes; likewise
}

// Defaults of MachineOptions, chosen with a million znodes of 100 bytes (docs/decisions/0009, docs/performance.md).
const (
	defaultCacheBytes      = 16 << 20
	defaultListBytes       = 16 << 20
	defaultBlockCacheBytes = 8 << 20
	defaultMemTableBytes   = 4 << 20
	defaultFlushBytes      = 4 << 20
	defaultFlushReplay     = 100 * time.Millisecond
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
		{&o.ListBytes, defaultListBytes},
		{&o.BlockCacheBytes, defaultBlockCacheBytes},
		{&o.MemTableBytes, defaultMemTableBytes},
		{&o.FlushBytes, defaultFlushBytes},
	} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if o.FlushReplay == 0 {
		o.FlushReplay = defaultFlushReplay
	}
	if o.frugal == nil {
		o.frugal = new(atomic.Bool)
	}
}

// copyingAll is what Machine.copying has to give: who takes it all has it alone. It is no lock, since who waits for it
// waits for a disk, and may be told to wait no longer.
const copyingAll = math.MaxInt64

// Machine is the replicated state machine of ZooKeeper: the tree of znodes and the sessions, in a Pebble store. One
// goroutine applies entries; any number read through Presents and Views meanwhile, and none of them waits for the disk
// while it holds the machine's lock.
type Machine struct {
	opts  MachineOptions // immutable after OpenMachine
	store *stateStore    // replaced by Install, which holds mu, copying and reading
	cache *cache
	lists lists
	flush flusher
	txn   *apply.Txn // owned by the apply goroutine, as are the next three
	shown shown      // to txn
	batch *batch     // nil while there is no store
	// committed is how much memory the last batch takes, about.
	committed int64

	frugal    *atomic.Bool // see Frugal
	scrubbing scrubbing
	copying   *semaphore.Weighted // one by Checkpoint, copyingAll by Install; taken before mu

	// reading is held shared by whoever reads the store without mu, a View until its end, and exclusively by Install;
	// taken after mu.
	reading sync.RWMutex
	// generation counts the states that have taken the place of another. Written under reading.
	generation atomic.Uint64

	mu struct { // held exclusively while an entry is published and by Install, shared by Presents
		sync.RWMutex
		apply.Base // written by the apply goroutine alone, which may read it without the lock
	}
	// The same as in mu.
	zxid     atomic.Int64
	level    atomic.Uint32
	applied  atomic.Uint64
	counting atomic.Int64
	ensemble atomic.Pointer[schema.EnsembleRecord]

	// the last checksum point at which the state was the majority's; 0: none since the start
	agreed atomic.Uint64
	steps  steps
	buried buried
	disk   atomic.Pointer[disk.Operations] // of store
}

// OpenMachine opens the state in o.Dir, or creates it with ZooKeeper's default tree. AppliedIndex then tells from
// where on the log must be applied again: what was not flushed before a crash is gone. It fails if the store is of
// another format, locked or damaged.
func OpenMachine(o MachineOptions) (*Machine, error) {
	o.setDefaults()
	o.fitVolume()
	if err := datadir.FinishReplacement(o.FS, o.Dir); err != nil {
		return nil, err
	}
	store, err := openStateStore(&o)
	if err != nil {
		return nil, err
	}
	m := &Machine{opts: o, cache: newCache(o.CacheBytes), frugal: o.frugal,
		copying: semaphore.NewWeighted(copyingAll), scrubbing: scrubbing{running: semaphore.NewWeighted(1)}}
	m.lists.init(o.ListBytes)
	m.setStore(store)
	m.flush.m = m
	if err := m.load(); err != nil {
		return nil, errors.Join(err, store.close())
	}
	m.begin()
	m.flush.start()
	return m, nil
}

// begin makes the machine ready for entries of the state that it has loaded.
func (m *Machine) begin() {
	m.shown.m = m
	m.batch = &batch{m.store.db.NewBatch()}
	m.txn = apply.New(apply.Options{
		Base: &m.mu.Base, Store: &m.shown, Replacement: replacements{m}, CountZnodes: m.opts.countPiece,
		EndZnodes:  m.opts.endPiece,
		Evaluating: func(proposal int) { m.steps.at(StepEvaluate, proposal) },
	})
}

// endBatch gives the batch back, so that the store can be closed.
func (m *Machine) endBatch() error {
	if m.batch == nil {
		return nil
	}
	batch := m.batch
	m.batch = nil
	if err := batch.Close(); err != nil {
		return fmt.Errorf("close the batch of state store %s: %w", m.store.dir, err)
	}
	return nil
}

// load reads what the machine keeps in memory.
func (m *Machine) load() (err error) {
	if m.mu.Position, m.mu.Level, err = m.store.load(); err != nil {
		return err
	}
	r := m.store.reader()
	if err := r.refuseDiverged(); err != nil {
		return err
	}
	if m.mu.Kept, err = r.sums(m.mu.Position.Index); err != nil {
		return err
	}
	if m.mu.Ensemble, err = r.ensemble(); err != nil {
		return err
	}
	m.mu.Sessions = make(map[jute.SessionID]*schema.SessionInfo)
	if err := r.Sessions(func(s *schema.SessionInfo) error { m.mu.Sessions[s.ID] = s; return nil }); err != nil {
		return err
	}
	if m.mu.Quotas, err = apply.QuotasOf(m.store.scanRange); err != nil {
		return err
	}
	counts, err := r.Counts()
	if err != nil {
		return err
	}
	m.mu.Counts = apply.CountsOf(counts)
	if m.mu.Upload, err = r.upload(); err != nil {
		return err
	}
	if m.mu.Loaded, err = r.loaded(); err != nil {
		return err
	}
	m.announceLocked()
	m.flush.durable.Store(m.mu.Position.Index)
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
	m.steps.at(StepFlush, 0)
	defer m.steps.at(StepNone, 0)
	if err := m.flush.wait(); err != nil {
		return err
	}
	t := m.txn
	t.Begin(index, term)
	m.steps.at(StepEvaluate, 0)
	if len(data) > 0 {
		if err := t.Evaluate(data); err != nil {
			t.End()
			var diverged *apply.DivergedError
			if errors.As(err, &diverged) {
				err = errors.Join(err, m.MarkDiverged(diverged))
			}
			return fmt.Errorf("apply log entry %d: %w", index, errors.Join(err, m.shown.close()))
		}
	}
	err := m.conclude(sink)
	requests := len(t.Results)
	t.End()
	if err != nil {
		return fmt.Errorf("apply log entry %d: %w", index, err)
	}
	return m.flush.note(loadOf(int64(len(data)), m.committed, requests))
}

// conclude publishes what the entry has come to: changes of the state, or another state.
func (m *Machine) conclude(sink Sink) error {
	if err := m.shown.close(); err != nil {
		return err
	}
	if m.txn.Replaced {
		return m.swapIn(sink)
	}
	if err := m.txn.Prepare(m.batch); err != nil {
		return err
	}
	return m.publish(sink)
}

// publish makes the entry's effects visible and tells the sink, as one step to all readers. sink may be nil.
func (m *Machine) publish(sink Sink) error {
	c := &m.txn.Changes
	if d, ok := sink.(Decider); ok {
		if err := d.Decided(c.Results); err != nil {
			return err
		}
	}
	m.steps.at(StepPublish, 0)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.commitLocked(); err != nil {
		return err
	}
	index := c.Position.Index
	lists := m.lists.any()
	c.Each(func(path string, was, is *schema.Znode) {
		if is == nil {
			m.cache.remove(path, index)
		} else {
			m.cache.put(is, index)
		}
		if lists && (was == nil || is == nil) {
			m.lists.note(path, is != nil, index)
		}
	})
	m.mu.Take(c)
	m.announceLocked()
	if c.Agreed > 0 {
		m.agreed.Store(c.Agreed)
	}
	m.tell(sink, c)
	return nil
}

// tell tells the sink of all results.
func (m *Machine) tell(sink Sink, c *apply.Changes) {
	for i := range c.Results {
		m.steps.at(StepTell, i)
		sink.Result(c.Origin, c.BatchNo, i, &c.Results[i])
	}
}

// announceLocked tells those who ask without the lock what the state is.
func (m *Machine) announceLocked() {
	m.ensemble.Store(m.mu.Ensemble)
	m.level.Store(uint32(m.mu.Level))
	m.counting.Store(int64(m.mu.Counts.Len()))
	m.zxid.Store(int64(m.mu.Position.Zxid))
	m.applied.Store(m.mu.Position.Index)
}

// memoryPerKey is what a key takes in a memtable beside its bytes and its value's, about (arenaskl.node).
const memoryPerKey = 40

// commitLocked writes the batch to the store.
func (m *Machine) commitLocked() error {
	m.committed = int64(m.batch.Len()) + int64(m.batch.Count())*memoryPerKey
	if err := m.batch.Commit(pebble.NoSync); err != nil {
		return fmt.Errorf("commit to state store %s: %w", m.store.dir, err)
	}
	// A batch that is large against the memtable stays in use by the store.
	if int64(m.batch.Len()) > m.opts.MemTableBytes/8 {
		if err := m.batch.Close(); err != nil {
			return fmt.Errorf("commit to state store %s: %w", m.store.dir, err)
		}
		m.batch.Batch = m.store.db.NewBatch()
		return nil
	}
	m.batch.Reset()
	return nil
}

// Applying tells what Apply is at, and with which proposal of the entry, the first being 0. Any goroutine may call it,
// and it does not wait.
func (m *Machine) Applying() (step Step, proposal int) {
	now := m.steps.now.Load()
	return Step(now >> 32), int(uint32(now))
}

// AppliedIndex returns the index of the last entry applied.
func (m *Machine) AppliedIndex() uint64 { return m.applied.Load() }

// DurableIndex returns the index of the last entry whose effects a crash cannot take back: the log is needed only
// behind it.
func (m *Machine) DurableIndex() uint64 { return m.flush.durable.Load() }

// CountingQuotas returns how many quotas are being counted. Any goroutine may call it.
func (m *Machine) CountingQuotas() int { return int(m.counting.Load()) }

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

// Close closes the machine; no call may be under way but one that makes a copy, or room, or scrubs, and that its caller
// has given up, as the disk does not answer: then the store is left as it is, for the process to end. (Pebble panics
// when such a call goes on in a store that was closed.) What is not flushed comes back from the log.
func (m *Machine) Close() error {
	m.flush.stop()
	err := m.endBatch()
	if !m.copying.TryAcquire(copyingAll) {
		return errors.Join(err, m.unanswered())
	}
	defer m.copying.Release(copyingAll)
	if !m.scrubbing.running.TryAcquire(1) {
		return errors.Join(err, m.unanswered())
	}
	defer m.scrubbing.running.Release(1)
	return errors.Join(err, m.store.close())
}

// unanswered is why Close has left the store open.
func (m *Machine) unanswered() error {
	return fmt.Errorf("state store %s is not closed: its disk does not answer", m.store.dir)
}

// err returns why the machine cannot go on, or nil.
func (m *Machine) err() error { return m.store.fault.Err() }

// fail records that the store cannot be read.
func (m *Machine) fail(err error) { _ = m.store.fault.Trip(err) } // it has been reported

// Level returns the ensemble's feature level, as of the last entry applied. Any goroutine may call it, a Sink included.
func (m *Machine) Level() entry.Level { return entry.Level(m.level.Load()) }

// AgreedIndex is the last entry of the log before which this state was found to be the ensemble's; 0 if none was since
// the start. Any goroutine may call it.
func (m *Machine) AgreedIndex() uint64 { return m.agreed.Load() }

// MarkDiverged makes it durable that the state is not the ensemble's, so that no later start serves it. Any goroutine
// may call it; the process is to end.
func (m *Machine) MarkDiverged(cause error) error {
	defer m.scrubbing.halt()() // a state that takes this one's place is another one, and waits
	if err := m.store.set(schema.KeyDiverged, []byte(cause.Error())); err != nil {
		return fmt.Errorf("note in state store %s that it differs from the ensemble's: %w", m.store.dir, err)
	}
	return m.store.flushed()
}

// MachineMetrics is what a machine says of itself at one moment. Counters run from Open, but those of the store, which
// begin again when a snapshot has replaced it.
type MachineMetrics struct {
	DiskBytes    uint64 // all files of the store
	MemoryBytes  int64  // of the store: blocks, and what is not flushed
	Tables       int64  // files of the store
	WrittenBytes uint64 // to disk, compactions too

	CacheBytes, CacheEntries int64  // znodes that were in use lately
	CacheHits, CacheMisses   uint64 // of look-ups of znodes

	ListBytes, Lists     int64  // lists of children that are kept
	ListHits, ListMisses uint64 // of reads of lists
}

// Metrics returns the machine's figures. Costs some microseconds; while a snapshot replaces the state it has those of
// the cache alone. Not after Close.
func (m *Machine) Metrics() MachineMetrics {
	var found MachineMetrics
	for i := range m.cache.shards {
		s := &m.cache.shards[i]
		s.mu.Lock()
		found.CacheBytes += s.mu.bytes
		found.CacheEntries += int64(s.mu.count)
		found.CacheHits += s.mu.hits
		found.CacheMisses += s.mu.misses
		s.mu.Unlock()
	}
	m.lists.figures(&found)
	if !m.copying.TryAcquire(1) {
		return found
	}
	defer m.copying.Release(1)
	if m.store.db == nil {
		return found
	}
	p := m.store.db.Metrics()
	found.DiskBytes = p.DiskSpaceUsage()
	found.MemoryBytes = p.BlockCache.Size + int64(p.MemTable.Size)
	for i := range p.Levels {
		found.Tables += p.Levels[i].TablesCount
		found.WrittenBytes += p.Levels[i].TableBytesFlushed + p.Levels[i].TableBytesCompacted
	}
	return found
}
