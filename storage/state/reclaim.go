package state

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/disk"
	"zkd/storage/schema"
)

// Where Pebble's stores must not write more at a time than a small file system has to spare, their sizes follow that of
// the file system: what is not flushed, and what a compaction writes before it removes anything, which is about a level
// and ten tables. Divisors of the size; from 4 GiB on they make no difference.
const (
	volumeShareMemTable  = 64   // of the state's memtable, and of what is applied between flushes
	volumeShareBaseLevel = 64   // of the first level below level 0
	volumeShareTable     = 2048 // of a table of level 0; those of each level below may be twice as long
)

// The least that they come to, and what they are on a large file system.
const (
	baseLevelBytesLeast = 1 << 20
	baseLevelBytesMost  = 64 << 20
	tableBytesLeast     = 128 << 10
	tableBytesMost      = 2 << 20
)

// memTableSpare is the part of a memtable that is left free when it is flushed. Pebble flushes one that is full by
// itself, and what comes until the machine's own flush, the one that counts, would be a small table more: two tables
// for each memtable, and level 0 is compacted twice as often. The part is what the estimate of its memory may be wrong.
const memTableSpare = 8

// fitVolume makes what the options leave to the defaults fit a small file system, and a flush fit a memtable.
func (o *MachineOptions) fitVolume() {
	o.MemTableBytes = disk.VolumeShare(o.FS, o.FS.PathDir(o.Dir), volumeShareMemTable, disk.MemTableBytesLeast,
		o.MemTableBytes)
	o.FlushBytes = min(o.FlushBytes, o.MemTableBytes-o.MemTableBytes/memTableSpare)
}

// Frugal says whether the store is to give room back at the price of more work: files of values are written anew when
// little of them is garbage, and none is where that needs much room at once. Any goroutine may call it.
func (m *Machine) Frugal(on bool) { m.frugal.Store(on) }

// How values that have a key of their own are kept (Pebble's ValueSeparationPolicy). A compaction whose tables refer to
// more than blobDepth files one upon another writes all their values anew, which takes as much room as they have; so
// not where room is short, nor ever on a small file system. There, files with garbage are written anew at once, one by
// one, elsewhere when they are blobRewriteAge old: most are all garbage by then.
const (
	blobDepth          = 8
	blobDepthUnbounded = 1 << 20
	blobRewriteAge     = 5 * time.Minute
	blobGarbage        = 0.3
	blobGarbageFrugal  = 0.05
	smallVolumeBytes   = 4 << 30
)

// valueSeparation returns Pebble's policy for the data of znodes that has a key of its own: it is written once and not
// again at each compaction (a third of the bytes written when znodes of 1 KiB are made, measured 2026-11).
func (s *stateStore) valueSeparation(fs vfs.FS) func() pebble.ValueSeparationPolicy {
	policy := pebble.ValueSeparationPolicy{
		Enabled: true, MinimumSize: 2 * schema.InlineDataBytesMax, MaxBlobReferenceDepth: blobDepth,
		RewriteMinimumAge: blobRewriteAge, TargetGarbageRatio: blobGarbage,
	}
	if disk.VolumeShare(fs, s.dir, 1, 0, smallVolumeBytes) < smallVolumeBytes {
		policy.MaxBlobReferenceDepth, policy.RewriteMinimumAge = blobDepthUnbounded, 0
	}
	return func() pebble.ValueSeparationPolicy {
		p := policy
		if s.frugal.Load() {
			p.MaxBlobReferenceDepth, p.TargetGarbageRatio = blobDepthUnbounded, blobGarbageFrugal
		}
		return p
	}
}

// Reclaim gives the room of removed znodes back to the file system: it flushes what is applied, and has the store
// compacted where keys were removed. It writes, at a time, little more than what one table of the lowest level and
// those above it hold. It ends with ctx; an install waits for it, and it for one.
func (m *Machine) Reclaim(ctx context.Context) error {
	if err := m.copying.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("reclaim room in state store %s: %w", m.opts.Dir, err)
	}
	defer m.copying.Release(1)
	if err := m.Flush(ctx); err != nil {
		return err
	}
	if err := m.store.reclaim(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("reclaim room in state store %s: %w", m.store.dir, err)
	}
	return m.store.fault.Err()
}

// keySpan is a range of keys, both ends included.
type keySpan struct{ first, last []byte }

// overlaps tells whether s and o have a key in common.
func (s keySpan) overlaps(o keySpan) bool {
	return bytes.Compare(s.first, o.last) <= 0 && bytes.Compare(o.first, s.last) <= 0
}

// reclaim compacts what lies below removals, a piece at a time: along the tables of the lowest level, which hold most.
func (s *stateStore) reclaim(ctx context.Context) error {
	if err := s.usable(); err != nil {
		return err
	}
	levels, err := s.db.SSTables(pebble.WithProperties())
	if err != nil {
		return err
	}
	var removed, pieces []keySpan
	for level, tables := range levels {
		for i := range tables {
			t := &tables[i]
			keys := keySpan{bytes.Clone(t.Smallest.UserKey), bytes.Clone(t.Largest.UserKey)}
			if level == len(levels)-1 {
				pieces = append(pieces, keys)
			} else if t.Properties != nil && t.Properties.NumDeletions > 0 {
				removed = append(removed, keys)
			}
		}
	}
	for _, keys := range removed {
		// What lies outside of the tables of the lowest level, too.
		pieces = append(pieces, keySpan{keys.first, keys.first}, keySpan{keys.last, keys.last})
	}
	for _, piece := range pieces {
		for _, keys := range removed {
			if !piece.overlaps(keys) {
				continue
			}
			if err := s.compact(ctx, piece); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

// compact has Pebble compact the keys of a span.
func (s *stateStore) compact(ctx context.Context, keys keySpan) error {
	select {
	case <-s.fault.Tripped:
		return s.fault.Err()
	default:
	}
	return s.db.Compact(ctx, keys.first, append(bytes.Clone(keys.last), 0), false)
}
