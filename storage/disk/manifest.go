package disk

import (
	"encoding/binary"
	"fmt"
	"io"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ManifestBytes is how long a MANIFEST gets before Pebble begins another one, or twice what the list of all tables
// takes if that is more. It bounds what a start reads, and what a checkpoint copies: record by record, with a buffer of
// 32 KiB for each.
const ManifestBytes = 64 << 10

// firstManifest is what an empty store begins with.
const firstManifest = "MANIFEST-000001"

// manifestLeast is how many records any later MANIFEST had when it came into use: the tables, and then the last
// sequence number.
const manifestLeast = 2

// Layout of a chunk of a MANIFEST (Pebble, package record, the format without log numbers).
const (
	manifestChunkHeaderBytes = 4 + 2 + 1 // checksum, length, kind

	manifestKindFull = 1 // kinds run from full, by first and middle, to last
	manifestKindLast = 4
)

// CheckManifest reads the MANIFEST of the store in dir and returns what there is of a store. It fails with ErrDamaged
// if a part is unreadable that is no torn write: Pebble (versionSet.load) would stop there, take the older list of
// files for the present one, and delete the files that it does not know. It does so, too, if less can be read than
// there was when the MANIFEST came into use: Pebble would give the sequence numbers of what its tables hold away again,
// older values would hide newer ones, and the next compaction panic. It does if a blob file is missing.
func CheckManifest(fs vfs.FS, dir string) (*pebble.DBDesc, error) {
	desc, err := pebble.Peek(dir, fs)
	if err != nil || !desc.Exists {
		return desc, err
	}
	file, err := fs.Open(desc.ManifestFilename)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // opened for reading only
	content, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", desc.ManifestFilename, err)
	}
	records, end := manifestRecords(content)
	if end < len(content) && !tornManifest(content, end) {
		return nil, fmt.Errorf("%w file %s: it is unreadable at offset %d", ErrDamaged, desc.ManifestFilename, end)
	}
	if records < manifestLeast && filepath.Base(desc.ManifestFilename) != firstManifest {
		return nil, fmt.Errorf("%w file %s: it ends at offset %d, before the last sequence number", ErrDamaged,
			desc.ManifestFilename, end)
	}
	return desc, checkBlobsThere(fs, dir, content[:end])
}

// manifestRecords counts the records that a MANIFEST begins with, and returns where they end: at the end of the file,
// or at a chunk that is unreadable.
func manifestRecords(content []byte) (records, end int) {
	for end < len(content) {
		if rest := RecordBlockBytes - end%RecordBlockBytes; rest < manifestChunkHeaderBytes {
			end += rest
			continue
		}
		bytes, ok := manifestChunk(content, end)
		if !ok {
			break
		}
		if kind := content[end+6]; kind == manifestKindFull || kind == manifestKindLast {
			records++
		}
		end += bytes
	}
	return records, end
}

// manifestChunk returns the length of the chunk at a place, if it is whole.
func manifestChunk(content []byte, at int) (bytes int, ok bool) {
	block := content[at:min(len(content), at+RecordBlockBytes-at%RecordBlockBytes)]
	if len(block) < manifestChunkHeaderBytes || block[6] < manifestKindFull || block[6] > manifestKindLast {
		return 0, false
	}
	bytes = manifestChunkHeaderBytes + int(binary.LittleEndian.Uint16(block[4:]))
	if bytes > len(block) {
		return 0, false
	}
	return bytes, binary.LittleEndian.Uint32(block) == RecordChecksum(block[6:bytes])
}

// tornManifest tells whether an unreadable chunk can be what a crash leaves of a last write: the file ends inside it,
// or a sector of what follows was never written. A MANIFEST is only ever extended, and never reused, so such a sector
// is all zeros.
func tornManifest(content []byte, at int) bool {
	for from := at; from < len(content); {
		to := min(len(content), from+SectorBytes-from%SectorBytes)
		if !AnyNonZero(content[from:to]) {
			return true
		}
		from = to
	}
	rest := content[at:]
	if len(rest) >= manifestChunkHeaderBytes {
		ends := at + manifestChunkHeaderBytes + int(binary.LittleEndian.Uint16(rest[4:]))
		if ends <= len(content) || ends > at-at%RecordBlockBytes+RecordBlockBytes {
			return false
		}
	}
	for later := at + 1; later+manifestChunkHeaderBytes <= len(content); later++ {
		if _, ok := manifestChunk(content, later); ok {
			return false
		}
	}
	return true
}
