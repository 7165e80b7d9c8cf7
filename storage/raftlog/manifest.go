package raftlog

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/disk"
)

// Layout of a chunk of a MANIFEST (Pebble, package record, the format without log numbers).
const (
	manifestChunkHeaderBytes = 4 + 2 + 1 // checksum, length, kind
	manifestKindLast         = 4         // kinds run from 1 (full) to 4 (last)
)

// checkManifest reads the MANIFEST at path and fails if a part of it is unreadable that is no torn write. Pebble
// (versionSet.load) would stop there, take the older list of files for the present one, and delete the files it does
// not know.
func checkManifest(fs vfs.FS, path string) error {
	file, err := fs.Open(path)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // opened for reading only
	content, err := io.ReadAll(file)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	for at := 0; at < len(content); {
		if rest := walBlockBytes - at%walBlockBytes; rest < manifestChunkHeaderBytes {
			at += rest
			continue
		}
		bytes, ok := manifestChunk(content, at)
		if ok {
			at += bytes
			continue
		}
		if tornManifest(content, at) {
			return nil
		}
		return fmt.Errorf("manifest %s is unreadable at offset %d", path, at)
	}
	return nil
}

// manifestChunk returns the length of the chunk at a place, if it is whole.
func manifestChunk(content []byte, at int) (bytes int, ok bool) {
	block := content[at:min(len(content), at+walBlockBytes-at%walBlockBytes)]
	if len(block) < manifestChunkHeaderBytes || block[6] == 0 || block[6] > manifestKindLast {
		return 0, false
	}
	bytes = manifestChunkHeaderBytes + int(binary.LittleEndian.Uint16(block[4:]))
	if bytes > len(block) {
		return 0, false
	}
	return bytes, binary.LittleEndian.Uint32(block) == walCRC(block[6:bytes])
}

// tornManifest tells whether an unreadable chunk can be what a crash leaves of a last write: the file ends inside it,
// or a sector of what follows was never written. A MANIFEST is only ever extended, and never reused, so such a sector
// is all zeros.
func tornManifest(content []byte, at int) bool {
	for from := at; from < len(content); {
		to := min(len(content), from+disk.SectorBytes-from%disk.SectorBytes)
		if !disk.AnyNonZero(content[from:to]) {
			return true
		}
		from = to
	}
	rest := content[at:]
	if len(rest) >= manifestChunkHeaderBytes {
		ends := at + manifestChunkHeaderBytes + int(binary.LittleEndian.Uint16(rest[4:]))
		if ends <= len(content) || ends > at-at%walBlockBytes+walBlockBytes {
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
