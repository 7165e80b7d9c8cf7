package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// logMarkName is the file beside the store that says how far it was acknowledged.
const logMarkName = "SYNCED"

// A mark has two slots, each in a sector of its own, written in turn: a torn write leaves the other.
const (
	logMarkSlotBytes  = 9 + 8 + 8 // version, checksum, sequence, number of the write-ahead log
	logMarkSlotStride = 512
	logMarkBytes      = logMarkSlotStride + logMarkSlotBytes
)

// logMark remembers outside the store which write was the last whose fsync finished, so that a store that comes back
// with less is noticed: without it the loss of the last record of a write-ahead log looks like a torn write that
// nobody was told of. A mark is written after each fsync and not fsynced itself (a power cut may leave an older one,
// which still says nothing false), but for the first in each write-ahead log file. On a real file it is written
// through a shared mapping, which a killed process leaves behind as a write would: a write call a mark cost 25-50 us
// of processor time in the journal of ext4 (2026-11, BenchmarkRaftLogAppend/1KiB), a store costs nothing.
type logMark struct {
	file      vfs.File
	mapped    []byte // the file's content, shared; nil where the file system has no file descriptors
	sequence  uint64
	wal       uint64
	walSynced uint64 // the write-ahead log whose mark was fsynced
	slot      [logMarkSlotBytes]byte
}

// loadLogMark reads the mark in dir. found is false if there is no file, or none of its slots was ever written whole;
// damaged says that the file has bytes that are not a mark.
func loadLogMark(fs vfs.FS, dir string) (mark logMark, found, damaged bool, err error) {
	file, err := fs.Open(fs.PathJoin(dir, logMarkName))
	if errors.Is(err, os.ErrNotExist) {
		return logMark{}, false, false, nil
	}
	if err != nil {
		return logMark{}, false, false, err
	}
	defer file.Close() //nolint:errcheck // opened for reading only
	content, err := io.ReadAll(file)
	if err != nil {
		return logMark{}, false, false, fmt.Errorf("read %s: %w", fs.PathJoin(dir, logMarkName), err)
	}
	for _, offset := range []int{0, logMarkSlotStride} {
		if len(content) < offset+logMarkSlotBytes {
			continue
		}
		slot := content[offset : offset+logMarkSlotBytes]
		if openLogValue(slot, 0, logMarkSlotBytes) != nil {
			damaged = damaged || anyNonZero(slot)
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
func (m *logMark) openForWrite(fs vfs.FS, dir string) error {
	file, err := fs.OpenReadWrite(fs.PathJoin(dir, logMarkName), "pebble-wal")
	if err != nil {
		return err
	}
	m.file = file
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if size := info.Size(); size < logMarkBytes {
		if _, err := file.WriteAt(make([]byte, logMarkBytes-size), size); err != nil {
			return err
		}
	}
	if fd := file.Fd(); fd != vfs.InvalidFd {
		if m.mapped, err = mapShared(fd, logMarkBytes); err != nil {
			return fmt.Errorf("map %s: %w", fs.PathJoin(dir, logMarkName), err)
		}
	}
	return syncDir(fs, dir)
}

// put says that the write sequence is durable, in the write-ahead log file wal (0: not known which).
func (m *logMark) put(sequence, wal uint64) error {
	m.sequence, m.wal = sequence, wal
	binary.LittleEndian.PutUint64(m.slot[9:], sequence)
	binary.LittleEndian.PutUint64(m.slot[17:], wal)
	sealLogValue(m.slot[:], 0)
	offset := int64(sequence%2) * logMarkSlotStride
	if m.mapped != nil {
		copy(m.mapped[offset:], m.slot[:])
	} else if _, err := m.file.WriteAt(m.slot[:], offset); err != nil {
		return err
	}
	if wal == m.walSynced || wal == 0 {
		return nil
	}
	m.walSynced = wal
	return m.file.Sync()
}

// close makes the mark durable and closes its file.
func (m *logMark) close() error {
	if m.file == nil {
		return nil
	}
	err := errors.Join(m.file.Sync(), unmapShared(m.mapped), m.file.Close())
	m.file, m.mapped = nil, nil
	return err
}

// anyNonZero tells whether b holds anything but zeros.
func anyNonZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return true
		}
	}
	return false
}

// syncDir makes the names in dir durable.
func syncDir(fs vfs.FS, dir string) error {
	handle, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(handle.Sync(), handle.Close())
}
