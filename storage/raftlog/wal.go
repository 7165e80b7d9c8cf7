package raftlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/disk"
)

// Pebble's own replay of the last write-ahead log stops at the first chunk it cannot read and takes it for a torn
// write unless it happens on a later block with a synced offset beyond. That offset leaves out full blocks, the rest
// of the same block is not looked at, and a changed log number ends the file without a word (Pebble 2.1.7:
// record.Reader.readAheadForCorruption, LogWriter.flushLoop, Reader.nextChunk). So zkd reads the files itself before
// Pebble does, with evidence of its own: the head in front of every batch.

// Layout of a chunk of a write-ahead log (Pebble, package record).
const (
	walChunkHeaderBytes = 4 + 2 + 1 + 4 + 8 // checksum, length, kind, log number, synced offset
	walPlainHeaderBytes = 4 + 2 + 1 + 4     // without synced offset: a new store's first log, and trailers
	walNumberOffset     = 4 + 2 + 1

	walPlainFull = 5  // the first of the kinds without synced offset
	walSyncFull  = 9  // the first of the kinds with it
	walKindMax   = 12 // each has four: full, first, middle, last
)

// walPrefixBytes is how much of each record is looked at: enough for the head, unless the hard state is absurdly
// long.
const walPrefixBytes = 1024

// walTail is what a scan of one write-ahead log file found.
type walTail struct {
	path     string
	number   uint64
	sequence uint64 // of the last whole batch; 0 if there is none
	torn     bool   // the file ends in something unreadable, at offset
	offset   int64
}

// walVerifier reads one write-ahead log file.
type walVerifier struct {
	tail   walTail
	file   io.Reader
	block  [disk.RecordBlockBytes]byte
	n      int   // valid bytes of block
	start  int64 // offset of block in the file
	prefix []byte
	inside bool // between the first and the last chunk of a record
	ended  bool // the trailer was read
}

// scanWAL reads the file at path, log number, and returns how it ends. It fails with the offset if something in it is
// not what was written, though the writes after it prove that it was once whole.
func scanWAL(fs vfs.FS, path string, number uint64) (walTail, error) {
	file, err := fs.Open(path)
	if err != nil {
		return walTail{}, err
	}
	defer file.Close() //nolint:errcheck // opened for reading only
	s := &walVerifier{file: file, tail: walTail{path: path, number: number}, prefix: make([]byte, 0, walPrefixBytes)}
	for !s.tail.torn && !s.ended {
		more, err := s.readBlock()
		if err != nil {
			return walTail{}, fmt.Errorf("read %s: %w", path, err)
		}
		if !more {
			s.tail.torn = s.tail.torn || s.inside
			return s.tail, nil
		}
		if err := s.scanBlock(); err != nil {
			return walTail{}, err
		}
	}
	if s.tail.torn {
		return s.tail, s.lookForLoss()
	}
	return s.tail, nil
}

// readBlock reads the next block; false at the end of the file.
func (s *walVerifier) readBlock() (bool, error) {
	s.start += int64(s.n)
	n, err := io.ReadFull(s.file, s.block[:])
	s.n = n
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	return n > 0, nil
}

// scanBlock reads the chunks of the block until its end, the trailer, or a chunk that cannot be read.
func (s *walVerifier) scanBlock() error {
	for at := 0; at < s.n && !s.ended; {
		rest := disk.RecordBlockBytes - at
		if s.n == disk.RecordBlockBytes && rest < walChunkHeaderBytes && !disk.AnyNonZero(s.block[at:s.n]) {
			return nil
		}
		if rest < walPlainHeaderBytes {
			return nil
		}
		if s.isTrailer(at) {
			return s.endAt(at)
		}
		length, ok := s.chunkAt(at)
		if !ok || !s.takeChunk(at, length) {
			s.tail.torn, s.tail.offset = true, s.start+int64(at)
			return nil
		}
		if err := s.finishRecord(at); err != nil {
			return err
		}
		at += length
	}
	return nil
}

// isTrailer tells whether the bytes at a place claim the end of the log, as a reader takes them: any chunk with the
// next log number.
func (s *walVerifier) isTrailer(at int) bool {
	if at+walPlainHeaderBytes > s.n {
		return false
	}
	header := s.block[at:]
	return header[6] >= walPlainFull && header[6] <= walKindMax &&
		binary.LittleEndian.Uint32(header[7:]) == uint32(s.tail.number+1)
}

// endAt ends the scan at a trailer, which must be the bytes that closing a log writes: they have no checksum of their
// own.
func (s *walVerifier) endAt(at int) error {
	header := s.block[at:]
	if disk.AnyNonZero(header[:6]) || header[6] != walPlainFull || s.inside {
		return s.damage(s.start+int64(at), "a record carries the number of the next log")
	}
	s.ended = true
	return nil
}

// chunkAt returns the length of the chunk at a place of the block, header included, if it is whole and of this log.
func (s *walVerifier) chunkAt(at int) (length int, ok bool) {
	if at+walPlainHeaderBytes > s.n {
		return 0, false
	}
	header := s.block[at:s.n]
	number := binary.LittleEndian.Uint32(header[7:])
	if header[6] < walPlainFull || header[6] > walKindMax || number != uint32(s.tail.number) {
		return 0, false
	}
	length = walHeaderBytes(header[6]) + int(binary.LittleEndian.Uint16(header[4:]))
	if length > len(header) {
		return 0, false
	}
	return length, binary.LittleEndian.Uint32(header) == disk.RecordChecksum(header[6:length])
}

// takeChunk adds a whole chunk to the record under way; false if it does not belong there.
func (s *walVerifier) takeChunk(at, length int) bool {
	kind := s.block[at+6]
	begins, ends := walPosition(kind)
	if begins == s.inside {
		return false
	}
	if begins {
		s.prefix = s.prefix[:0]
	}
	payload := s.block[at+walHeaderBytes(kind) : at+length]
	s.prefix = append(s.prefix, payload[:min(len(payload), walPrefixBytes-len(s.prefix))]...)
	s.inside = !ends
	return true
}

// walHeaderBytes returns the length of the header of a chunk of a kind.
func walHeaderBytes(kind byte) int {
	if kind >= walSyncFull {
		return walChunkHeaderBytes
	}
	return walPlainHeaderBytes
}

// walPosition tells whether a chunk of a kind begins and ends its record.
func walPosition(kind byte) (begins, ends bool) {
	switch (kind - walPlainFull) % 4 {
	case 0:
		return true, true
	case 1:
		return true, false
	case 2:
		return false, false
	}
	return false, true
}

// finishRecord looks at the head of a record that is whole. Sequences in one file have no gap.
func (s *walVerifier) finishRecord(at int) error {
	if s.inside {
		return nil
	}
	head, ok := headOfBatch(s.prefix)
	if !ok {
		return nil
	}
	if s.tail.sequence != 0 && head.sequence != s.tail.sequence+1 {
		return s.damage(s.start+int64(at), fmt.Sprintf("write %d follows write %d", head.sequence, s.tail.sequence))
	}
	s.tail.sequence = head.sequence
	return nil
}

// lookForLoss searches what follows an unreadable place for a chunk that was written after the fsync of what
// stood there. A torn write has none: the next batch is begun only after the fsync before it has finished, or claims
// nothing about it. Most of what follows is what the file held before it was written over, so it is searched for the
// number of the log that every chunk carries.
func (s *walVerifier) lookForLoss() error {
	number := binary.LittleEndian.AppendUint32(nil, uint32(s.tail.number))
	for at := int(s.tail.offset-s.start) + 1; ; at = 0 {
		for at+walPlainHeaderBytes <= s.n {
			skip := bytes.Index(s.block[at+walNumberOffset:s.n], number)
			if skip < 0 {
				break
			}
			at += skip
			if length, ok := s.chunkAt(at); ok && s.provesLoss(at, length) {
				return s.damage(s.tail.offset, fmt.Sprintf(
					"a write at offset %d was made after what stood there had reached the disk", s.start+int64(at)))
			}
			at++
		}
		more, err := s.readBlock()
		if err != nil {
			return fmt.Errorf("read %s: %w", s.tail.path, err)
		}
		if !more {
			return nil
		}
	}
}

// provesLoss tells whether the chunk at a place says that the unreadable offset was durable.
func (s *walVerifier) provesLoss(at, length int) bool {
	chunk := s.block[at : at+length]
	if chunk[6] >= walSyncFull && binary.LittleEndian.Uint64(chunk[11:]) > uint64(s.tail.offset) {
		return true
	}
	if begins, _ := walPosition(chunk[6]); !begins {
		return false
	}
	head, ok := headOfBatch(chunk[walHeaderBytes(chunk[6]):])
	if !ok {
		return false
	}
	lost := s.tail.sequence + 1
	if s.tail.sequence == 0 {
		lost = head.sequence - 1
	}
	return head.durable >= lost
}

// damage words damage of this file.
func (s *walVerifier) damage(offset int64, cause string) error {
	return fmt.Errorf("write-ahead log %s is unreadable at offset %d: %s", s.tail.path, offset, cause)
}

// headOfBatch reads the head, which is the first record of every batch: 12 bytes of batch header, then a SET of the
// key 'h'.
func headOfBatch(batch []byte) (logHead, bool) {
	const batchHeaderBytes, kindSet = 12, 1
	if len(batch) < batchHeaderBytes+3 || batch[12] != kindSet || batch[13] != 1 || batch[14] != logKeyHead {
		return logHead{}, false
	}
	valueBytes, n := binary.Uvarint(batch[15:])
	value := batch[15+max(n, 0):]
	if n <= 0 || valueBytes > uint64(len(value)) {
		return logHead{}, false
	}
	head, err := decodeLogHead(value[:valueBytes])
	return head, err == nil
}
