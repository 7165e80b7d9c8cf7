package raftlog

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// Keys and values of the raft log; docs/formats/raftlog.md draws them.
const (
	logKeyEntry = 'e' // one entry, by index
	logKeyHead  = 'h' // the head: counters of the writes, and raft's hard state
	logKeyMeta  = 'm' // a named blob
	logKeyStart = 't' // where the log starts: the last index compacted away and its term
)

// logFormatVersion is the first byte of every value. A value of another version is refused.
const logFormatVersion = 1

const (
	logEntryKeyBytes    = 1 + 8         // kind, index (big-endian)
	logValueHeaderBytes = 1 + 8         // version, checksum
	logEntryHeaderBytes = 9 + 1 + 8     // version, checksum, kind, term
	logHeadHeaderBytes  = 9 + 1 + 8 + 8 // version, checksum, flags, sequence, durable sequence
	logStartBytes       = 9 + 8 + 8     // version, checksum, index, term
)

// logHeadHasHardState is the flag of a head that carries a hard state, which may be empty.
const logHeadHasHardState = 1

// logChecksumPrime spreads an index over the checksum; odd, so that two indexes never give the same. The value is
// xxHash's first prime.
const logChecksumPrime = 11400714785074694791

// putLogEntryKey writes the key of the entry at index to dst, which is logEntryKeyBytes long.
func putLogEntryKey(dst []byte, index uint64) {
	dst[0] = logKeyEntry
	binary.BigEndian.PutUint64(dst[1:], index)
}

// logEntryKey returns the key of the entry at index.
func logEntryKey(index uint64) []byte {
	key := make([]byte, logEntryKeyBytes)
	putLogEntryKey(key, index)
	return key
}

// logEntryIndex returns the index that key is for, or false if it is no entry's key.
func logEntryIndex(key []byte) (uint64, bool) {
	if len(key) != logEntryKeyBytes || key[0] != logKeyEntry {
		return 0, false
	}
	return binary.BigEndian.Uint64(key[1:]), true
}

// sealLogValue fills version and checksum of a value whose body stands from logValueHeaderBytes on. salt ties the
// value to its key: the index of an entry, a hash of the name of a blob, 0 for keys there is one of.
func sealLogValue(value []byte, salt uint64) {
	value[0] = logFormatVersion
	binary.LittleEndian.PutUint64(value[1:], logChecksum(value, salt))
}

// logChecksum returns the checksum of a value under salt.
func logChecksum(value []byte, salt uint64) uint64 {
	return xxhash.Sum64(value[logValueHeaderBytes:]) ^ salt*logChecksumPrime
}

// openLogValue checks version, length and checksum of a value; a nil error means that its body is what was sealed
// under salt.
func openLogValue(value []byte, salt uint64, bytesMin int) error {
	if len(value) < max(bytesMin, logValueHeaderBytes) {
		return fmt.Errorf("value has %d bytes, want at least %d", len(value), bytesMin)
	}
	if value[0] != logFormatVersion {
		return fmt.Errorf("value has format version %d, this zkd knows %d", value[0], logFormatVersion)
	}
	want := binary.LittleEndian.Uint64(value[1:])
	if got := logChecksum(value, salt); got != want {
		return fmt.Errorf("checksum is %016x, want %016x", got, want)
	}
	return nil
}

// putLogEntry writes the value of entry to dst, which is logEntryHeaderBytes + len(entry.Data) long.
func putLogEntry(dst []byte, entry *LogEntry) {
	dst[9] = entry.Kind
	binary.LittleEndian.PutUint64(dst[10:], entry.Term)
	copy(dst[logEntryHeaderBytes:], entry.Data)
	sealLogValue(dst, entry.Index)
}

// decodeLogEntry reads the value stored for index. Data of the result points into value.
func decodeLogEntry(value []byte, index uint64) (LogEntry, error) {
	if err := openLogValue(value, index, logEntryHeaderBytes); err != nil {
		return LogEntry{}, err
	}
	return LogEntry{
		Index: index,
		Term:  binary.LittleEndian.Uint64(value[10:]),
		Kind:  value[9],
		Data:  value[logEntryHeaderBytes:len(value):len(value)],
	}, nil
}

// logHead is written by every batch. sequence counts the batches from 1; durable is the highest sequence whose fsync
// had finished when the batch was made, which is the evidence that everything up to it was once whole on disk.
type logHead struct {
	sequence     uint64
	durable      uint64
	hardState    []byte
	hasHardState bool
}

// bytes returns the length of the encoded head.
func (h *logHead) bytes() int { return logHeadHeaderBytes + len(h.hardState) }

// put writes the head to dst, which is h.bytes() long.
func (h *logHead) put(dst []byte) {
	dst[9] = 0
	if h.hasHardState {
		dst[9] = logHeadHasHardState
	}
	binary.LittleEndian.PutUint64(dst[10:], h.sequence)
	binary.LittleEndian.PutUint64(dst[18:], h.durable)
	copy(dst[logHeadHeaderBytes:], h.hardState)
	sealLogValue(dst, 0)
}

// decodeLogHead reads a head. Its hard state points into value.
func decodeLogHead(value []byte) (logHead, error) {
	if err := openLogValue(value, 0, logHeadHeaderBytes); err != nil {
		return logHead{}, err
	}
	head := logHead{
		sequence:     binary.LittleEndian.Uint64(value[10:]),
		durable:      binary.LittleEndian.Uint64(value[18:]),
		hardState:    value[logHeadHeaderBytes:],
		hasHardState: value[9]&logHeadHasHardState != 0,
	}
	if head.durable >= head.sequence {
		return logHead{}, fmt.Errorf("head claims %d durable before write %d", head.durable, head.sequence)
	}
	return head, nil
}

// putLogStart writes where the log starts to dst, which is logStartBytes long.
func putLogStart(dst []byte, index, term uint64) {
	binary.LittleEndian.PutUint64(dst[9:], index)
	binary.LittleEndian.PutUint64(dst[17:], term)
	sealLogValue(dst, 0)
}

// decodeLogStart reads what putLogStart wrote.
func decodeLogStart(value []byte) (index, term uint64, err error) {
	if err := openLogValue(value, 0, logStartBytes); err != nil {
		return 0, 0, err
	}
	if len(value) != logStartBytes {
		return 0, 0, fmt.Errorf("value has %d bytes, want %d", len(value), logStartBytes)
	}
	return binary.LittleEndian.Uint64(value[9:]), binary.LittleEndian.Uint64(value[17:]), nil
}

// logMetaKey returns the key of the blob named name.
func logMetaKey(name string) []byte { return append([]byte{logKeyMeta}, name...) }

// logMetaSalt ties a blob to its name.
func logMetaSalt(name string) uint64 { return xxhash.Sum64String(name) }
