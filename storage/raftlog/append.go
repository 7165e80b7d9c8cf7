package raftlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"zkd/storage/invariants"
)

// logBatchRetainedBytes is how large a batch buffer may grow and still be kept for the next write: entries reach the
// request limit (1 MiB) and a little more.
const logBatchRetainedBytes = 4 << 20

// What a batch takes besides the data of its entries, at most: its head and the end of entries that are replaced, and
// for each entry its key, its header, and how Pebble keeps a record.
const (
	logBatchSpareBytes = 4 << 10
	logEntrySpareBytes = logEntryKeyBytes + logEntryHeaderBytes + 16
)

// Append writes entries, and hardState unless it is nil, in one batch. Entries must be consecutive; the first may be
// at most one past LastIndex; if it is at or before LastIndex, the old entries from there on are replaced. With sync
// it returns after the fsync, which covers everything written before as well; without, a crash may forget this batch,
// but never this one and keep a later. The log keeps the Data of entries and does not keep the slice or hardState. An
// error is final: nothing after it is written, and whether this batch is on disk is unknown.
func (l *Log) Append(entries []LogEntry, hardState []byte, sync bool) error {
	l.writer.Lock()
	defer l.writer.Unlock()
	nothing := len(entries) == 0 && hardState == nil
	if nothing && (!sync || l.writer.durable == l.writer.sequence) {
		return l.writableLocked()
	}
	if err := l.beginSizedLocked(logBatchBytes(entries), hardState, hardState != nil); err != nil {
		return err
	}
	batch, last := l.writer.batch, l.LastIndex()
	if err := l.setEntriesLocked(entries, last); err != nil {
		return err
	}
	if n := len(entries); n > 0 && entries[n-1].Index < last {
		err := batch.DeleteRange(logEntryKey(entries[n-1].Index+1), logEntryKey(last+1), nil)
		if err != nil {
			return l.fault.Trip(err)
		}
	}
	if err := l.commitLocked(sync); err != nil {
		return err
	}
	l.publishAppend(entries, hardState)
	return nil
}

// setEntriesLocked puts entries into the batch, straight into its buffer.
func (l *Log) setEntriesLocked(entries []LogEntry, last uint64) error {
	if len(entries) == 0 {
		return nil
	}
	first, start := entries[0].Index, l.FirstIndex()
	if first > last+1 || first < start {
		invariants.Violated("entries do not join the log", slog.Uint64("index", first),
			slog.Uint64("first", start), slog.Uint64("last", last))
	}
	bytes := uint64(0)
	for i := range entries {
		entry := &entries[i]
		if entry.Index != first+uint64(i) || (i > 0 && entry.Term < entries[i-1].Term) {
			invariants.Violated("entries are not consecutive", slog.Uint64("index", entry.Index),
				slog.Uint64("want", first+uint64(i)), slog.Uint64("term", entry.Term))
		}
		op := l.writer.batch.SetDeferred(logEntryKeyBytes, logEntryHeaderBytes+len(entry.Data))
		putLogEntryKey(op.Key, entry.Index)
		putLogEntry(op.Value, entry)
		if err := op.Finish(); err != nil {
			return l.fault.Trip(err)
		}
		bytes += uint64(len(entry.Data))
	}
	l.appends.Add(1)
	l.appendedEntries.Add(uint64(len(entries)))
	l.appendedBytes.Add(bytes)
	return nil
}

// publishAppend lets readers see what was written.
func (l *Log) publishAppend(entries []LogEntry, hardState []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(entries); n > 0 {
		l.mu.tail.append(entries)
		l.mu.outline.append(entries)
		l.mu.last = entries[n-1].Index
	}
	if hardState != nil {
		l.mu.hardState, l.mu.hasHardState = slices.Clone(hardState), true
	}
}

// Compact forgets the entries up to and including index, whose term is term, and stores blobs, as Install does. It is
// not synced on its own: a crash may bring entries back, with the blobs of before, never take one more. Compacting what
// is compacted is allowed and does nothing, nor does it store blobs. Fails with ErrUnavailable if index is beyond
// LastIndex.
func (l *Log) Compact(index, term uint64, meta map[string][]byte) error {
	l.writer.Lock()
	defer l.writer.Unlock()
	first, last := l.FirstIndex(), l.LastIndex()
	if index < first {
		return l.writableLocked()
	}
	if index > last {
		return fmt.Errorf("compact raft log to %d, last entry is %d: %w", index, last, ErrUnavailable)
	}
	if err := l.beginLocked(nil, false); err != nil {
		return err
	}
	if err := l.writer.batch.DeleteRange(logEntryKey(first), logEntryKey(index+1), nil); err != nil {
		return l.fault.Trip(err)
	}
	if err := errors.Join(l.setStartLocked(index, term), l.setMetaLocked(meta)); err != nil {
		return err
	}
	if err := l.commitLocked(false); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if kept := &l.mu.tail; kept.covers(index) && kept.at(index).Term != term {
		invariants.Violated("compacted entry has another term", slog.Uint64("index", index),
			slog.Uint64("term", term), slog.Uint64("want", kept.at(index).Term))
	}
	l.mu.startIndex, l.mu.startTerm = index, term
	l.mu.tail.compact(index)
	l.mu.outline.compact(index, l.mu.last)
	l.publishMetaLocked(meta)
	return nil
}

// ResetToSnapshot empties the log, so that the next entry is index+1, and stores hardState unless it is nil: a
// snapshot that ends at index, whose term is term, has replaced what the entries led to. Synced. index may be
// anywhere at or after the last index compacted.
func (l *Log) ResetToSnapshot(index, term uint64, hardState []byte) error {
	return l.Install(index, term, hardState, nil)
}

// Install is ResetToSnapshot that also stores blobs, as SetMeta does: after a crash either all of it is there or
// nothing. A nil value deletes the blob.
func (l *Log) Install(index, term uint64, hardState []byte, meta map[string][]byte) error {
	l.writer.Lock()
	defer l.writer.Unlock()
	first, last := l.FirstIndex(), l.LastIndex()
	if index+1 < first {
		invariants.Violated("snapshot is older than the log", slog.Uint64("index", index), slog.Uint64("first", first))
	}
	if err := l.beginLocked(hardState, hardState != nil); err != nil {
		return err
	}
	if last >= first {
		if err := l.writer.batch.DeleteRange(logEntryKey(first), logEntryKey(last+1), nil); err != nil {
			return l.fault.Trip(err)
		}
	}
	if err := errors.Join(l.setStartLocked(index, term), l.setMetaLocked(meta)); err != nil {
		return err
	}
	if err := l.commitLocked(true); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.startIndex, l.mu.startTerm, l.mu.last = index, term, index
	l.mu.tail.reset()
	l.mu.outline.reset()
	if hardState != nil {
		l.mu.hardState, l.mu.hasHardState = slices.Clone(hardState), true
	}
	l.publishMetaLocked(meta)
	return nil
}

// SetMeta stores value under key: a small blob such as the id of the cluster or of this member. Synced. The log keeps
// neither.
func (l *Log) SetMeta(key string, value []byte) error {
	if value == nil {
		value = []byte{} // nil would delete it
	}
	return l.writeMeta(map[string][]byte{key: value})
}

// DeleteMeta removes the blob under key, if there is one. Synced.
func (l *Log) DeleteMeta(key string) error { return l.writeMeta(map[string][]byte{key: nil}) }

// writeMeta stores blobs, and removes those that are nil, durably.
func (l *Log) writeMeta(meta map[string][]byte) error {
	l.writer.Lock()
	defer l.writer.Unlock()
	if err := l.beginLocked(nil, false); err != nil {
		return err
	}
	if err := l.setMetaLocked(meta); err != nil {
		return err
	}
	if err := l.commitLocked(true); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.publishMetaLocked(meta)
	return nil
}

// setMetaLocked puts blobs into the batch, and the deletion of those that are nil.
func (l *Log) setMetaLocked(meta map[string][]byte) error {
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		value := meta[key]
		if value == nil {
			if err := l.writer.batch.Delete(logMetaKey(key), nil); err != nil {
				return l.fault.Trip(err)
			}
			continue
		}
		blob := make([]byte, logValueHeaderBytes, logValueHeaderBytes+len(value))
		blob = append(blob, value...)
		sealLogValue(blob, logMetaSalt(key))
		if err := l.writer.batch.Set(logMetaKey(key), blob, nil); err != nil {
			return l.fault.Trip(err)
		}
	}
	return nil
}

// publishMetaLocked lets readers see blobs that were written. l.mu is held.
func (l *Log) publishMetaLocked(meta map[string][]byte) {
	for key, value := range meta { // the order does not matter: each key is there once
		if value == nil {
			delete(l.mu.meta, key)
		} else {
			l.mu.meta[key] = slices.Clone(value)
		}
	}
}

// setStartLocked puts where the log starts into the batch.
func (l *Log) setStartLocked(index, term uint64) error {
	op := l.writer.batch.SetDeferred(1, logStartBytes)
	op.Key[0] = logKeyStart
	putLogStart(op.Value, index, term)
	if err := op.Finish(); err != nil {
		return l.fault.Trip(err)
	}
	return nil
}

// writableLocked tells whether the log still takes writes.
func (l *Log) writableLocked() error {
	if err := l.fault.Err(); err != nil {
		return err
	}
	if l.closed.Load() {
		return ErrLogClosed
	}
	return nil
}

// beginLocked starts a batch with its head, which must be the first record: recovery looks for it there. Without a
// new hard state the present one is written again.
func (l *Log) beginLocked(hardState []byte, replace bool) error {
	return l.beginSizedLocked(0, hardState, replace)
}

// beginSizedLocked is beginLocked for a batch that will have about size bytes. One that grows doubles: it would copy
// large entries again and again, and have up to twice their bytes until they are flushed, as Pebble keeps its buffer.
func (l *Log) beginSizedLocked(size int, hardState []byte, replace bool) error {
	if err := l.writableLocked(); err != nil {
		return err
	}
	l.writer.batch.Reset()
	if size > logBatchRetainedBytes {
		if err := l.writer.batch.Close(); err != nil {
			return l.fault.Trip(err)
		}
		l.writer.batch = l.newBatch(size)
	}
	head := logHead{
		sequence: l.writer.sequence + 1, durable: l.writer.durable, hardState: hardState, hasHardState: replace,
	}
	if !replace {
		head.hardState, head.hasHardState = l.HardState()
	}
	op := l.writer.batch.SetDeferred(1, head.bytes())
	op.Key[0] = logKeyHead
	head.put(op.Value)
	if err := op.Finish(); err != nil {
		return l.fault.Trip(err)
	}
	return nil
}

// newBatch returns a batch with room for size bytes.
func (l *Log) newBatch(size int) *pebble.Batch {
	return l.db.NewBatchWithSize(size, pebble.WithMaxRetainedSizeBytes(logBatchRetainedBytes))
}

// logBatchBytes is the room that entries take in a batch, with what is beside them, or a little more.
func logBatchBytes(entries []LogEntry) int {
	size := logBatchSpareBytes
	for i := range entries {
		size += logEntrySpareBytes + len(entries[i].Data)
	}
	return size
}

// commitLocked writes the batch. Pebble is kept from seeing a failed write (disk.FenceFS), so its success means nothing
// until the fault was looked at.
func (l *Log) commitLocked(sync bool) error {
	started := l.nanotime(sync)
	if err := l.applyLocked(sync); err != nil {
		return err
	}
	l.writer.sequence++
	if !sync {
		return nil
	}
	l.writer.durable = l.writer.sequence
	l.syncs.Add(1)
	wal := l.wal.Load()
	if l.writer.large {
		wal = 0
	}
	if l.opts.OnFsync != nil && l.opts.Nanotime != nil {
		l.opts.OnFsync(time.Duration(l.opts.Nanotime() - started))
	}
	if err := l.writer.mark.put(l.writer.durable, wal); err != nil {
		return l.fault.Trip(err)
	}
	return l.fault.Err()
}

// nanotime reads the caller's clock if somebody wants to know how long a sync takes.
func (l *Log) nanotime(sync bool) int64 {
	if !sync || l.opts.OnFsync == nil || l.opts.Nanotime == nil {
		return 0
	}
	return l.opts.Nanotime()
}

// applyLocked hands the batch to Pebble and turns every way in which that can fail into an error.
func (l *Log) applyLocked(sync bool) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			l.writer.broken = true
			err = l.fault.Trip(fmt.Errorf("write-ahead log: %v", cause))
		}
	}()
	l.writer.large = int64(l.writer.batch.Len()) >= l.opts.MemTableBytes/4
	option := pebble.NoSync
	if sync {
		option = pebble.Sync
	}
	if err := l.db.Apply(l.writer.batch, option); err != nil {
		return l.fault.Trip(err)
	}
	return l.fault.Err()
}

// syncBeforeCloseLocked makes durable what was written without sync.
func (l *Log) syncBeforeCloseLocked() error {
	if l.fault.Err() != nil || l.writer.durable == l.writer.sequence {
		return nil
	}
	if err := l.beginLocked(nil, false); err != nil {
		return err
	}
	return l.commitLocked(true)
}

// Frugal says whether the log is to do without spare files, whose room is given back. It may run while the log is
// written.
func (l *Log) Frugal(on bool) error {
	l.closing.RLock()
	defer l.closing.RUnlock()
	if l.closed.Load() {
		return ErrLogClosed
	}
	return l.spare.setFrugal(on)
}

// reclaimLogBytes is how much of a log may be in tables or in write-ahead logs before Reclaim has it written anew.
// Below it is what a log has that is used; a guess.
const reclaimLogBytes = 1 << 20

// Reclaim gives the room of entries that were compacted away back to the file system, as far as the store has them in
// tables or in a write-ahead log. It ends with ctx. It may run while the log is written.
func (l *Log) Reclaim(ctx context.Context) error {
	l.closing.RLock()
	defer l.closing.RUnlock()
	if l.closed.Load() {
		return ErrLogClosed
	}
	before := l.FirstIndex() - 1
	metrics := l.db.Metrics()
	bytes := metrics.WAL.Size
	for i := range metrics.Levels {
		bytes += uint64(metrics.Levels[i].TablesSize)
	}
	if before == 0 || before == l.reclaimed.Load() || bytes < reclaimLogBytes {
		return nil
	}
	err := l.db.Compact(ctx, logEntryKey(0), logEntryKey(before+1), false)
	if err != nil && ctx.Err() == nil && !errors.Is(err, pebble.ErrClosed) {
		return fmt.Errorf("reclaim room in raft log %s: %w", l.opts.Dir, err)
	}
	if err == nil {
		l.reclaimed.Store(before)
	}
	return l.fault.Err()
}
