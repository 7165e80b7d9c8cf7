package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/disk"
)

// syncMarkerName is the file beside the store that says how far it was acknowledged.
const syncMarkerName = "SYNCED"

// A mark has two slots, each in a sector of its own, written in turn: a torn write leaves the other.
const (
	syncMarkerSlotBytes  = 9 + 8 + 8 // version, checksum, sequence, number of the write-ahead log
	syncMarkerSlotStride = 512
	syncMarkerBytes      = syncMarkerSlotStride + syncMarkerSlotBytes
)

// syncMarkerEvery is how many fsyncs a mark on a real file may be old. A write call a mark costs 25-50 us of processor
// time in the journal of ext4 (2026-11, BenchmarkRaftLogAppend/1KiB), for each of them a tenth of what an entry
// takes.
const syncMarkerEvery = 16

// syncMarker remembers outside the store a write whose fsync has finished, one of the last, so that a store that comes
// back with less is noticed: without it the loss of the end of a write-ahead log looks like a torn write that nobody
// was told of. A mark is not fsynced itself (a power cut may leave an older one, which still says nothing false), but
// for the first in each write-ahead log file. It is written with write calls and not through a mapping: a store into
// a mapped page waits while the disk hangs, and whatever the process does then with its memory waits for that (its
// mmap_lock), so that it stands still as a whole.
type syncMarker struct {
	file      vfs.File
	every     int // puts that make a write
	skipped   int // puts since the last write
	sequence  uint64
	wal       uint64
	walSynced uint64 // the write-ahead log whose mark was fsynced
	slots     uint64 // writes so far: they go to the slots in turn
	slot      [syncMarkerSlotBytes]byte
}

// loadSyncMarker reads the mark in dir. found is false if there is no file, or none of its slots was ever written
// whole; damaged says that the file has bytes that are not a mark.
func loadSyncMarker(fs vfs.FS, dir string) (mark syncMarker, found, damaged bool, err error) {
	file, err := fs.Open(fs.PathJoin(dir, syncMarkerName))
	if errors.Is(err, os.ErrNotExist) {
		return syncMarker{}, false, false, nil
	}
	if err != nil {
		return syncMarker{}, false, false, err
	}
	defer file.Close() //nolint:errcheck // opened for reading only
	content, err := io.ReadAll(file)
	if err != nil {
		return syncMarker{}, false, false, fmt.Errorf("read %s: %w", fs.PathJoin(dir, syncMarkerName), err)
	}
	for _, offset := range []int{0, syncMarkerSlotStride} {
		if len(content) < offset+syncMarkerSlotBytes {
			continue
		}
		slot := content[offset : offset+syncMarkerSlotBytes]
		if openLogValue(slot, 0, syncMarkerSlotBytes) != nil {
			damaged = damaged || disk.AnyNonZero(slot)
			continue
		}
		if sequence := binary.LittleEndian.Uint64(slot[9:]); !found || sequence >= mark.sequence {
			mark.sequence, mark.wal = sequence, binary.LittleEndian.Uint64(slot[17:])
		}
		found = true
	}
	return mark, found, damaged, nil
}

// openForWrite opens the file of the mark, creating it whole before anything can be acknowledged.
func (m *syncMarker) openForWrite(fs vfs.FS, dir string) error {
	file, err := fs.OpenReadWrite(fs.PathJoin(dir, syncMarkerName), "pebble-wal")
	if err != nil {
		return err
	}
	m.file = file
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if size := info.Size(); size < syncMarkerBytes {
		if _, err := file.WriteAt(make([]byte, syncMarkerBytes-size), size); err != nil {
			return err
		}
	}
	m.every = 1
	if file.Fd() != vfs.InvalidFd {
		m.every = syncMarkerEvery
	}
	return disk.SyncDir(fs, dir)
}

// begin says durably that all up to the write sequence is durable, in no write-ahead log.
func (m *syncMarker) begin(sequence uint64) error {
	m.sequence, m.wal = sequence, 0
	return errors.Join(m.write(), m.file.Sync())
}

// put says that the write sequence is durable, in the write-ahead log file wal (0: not known which).
func (m *syncMarker) put(sequence, wal uint64) error {
	m.sequence, m.wal = sequence, wal
	first := wal != m.walSynced && wal != 0
	if m.skipped++; m.skipped < m.every && !first {
		return nil
	}
	if err := m.write(); err != nil || !first {
		return err
	}
	m.walSynced = wal
	return m.file.Sync()
}

// write writes the mark.
func (m *syncMarker) write() error {
	m.skipped = 0
	binary.LittleEndian.PutUint64(m.slot[9:], m.sequence)
	binary.LittleEndian.PutUint64(m.slot[17:], m.wal)
	sealLogValue(m.slot[:], 0)
	m.slots++
	_, err := m.file.WriteAt(m.slot[:], int64(m.slots%2)*syncMarkerSlotStride)
	return err
}

// close makes the mark durable and closes its file.
func (m *syncMarker) close() error {
	if m.file == nil {
		return nil
	}
	var err error
	if m.skipped > 0 {
		err = m.write()
	}
	err = errors.Join(err, m.file.Sync(), m.file.Close())
	m.file = nil
	return err
}
