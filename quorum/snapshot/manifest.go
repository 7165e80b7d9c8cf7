package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Bounds of a snapshot. A checkpoint of Pebble has a file per 2 to 64 MiB.
const (
	headerBytesMax = 1 << 20
	filesMax       = 1 << 16
	nameBytesMax   = 255
	totalBytesMax  = 1 << 46
	// formatVersion begins a manifest. An unknown one is refused.
	formatVersion = 1
	// manifestBytesMax bounds a manifest of what the other bounds allow.
	manifestBytesMax = headerBytesMax + filesMax*(nameBytesMax+17) + 64
)

// The receiver's own files in the staging directory.
const (
	transferName = "zkd-transfer" // the manifest of the snapshot that is put together
	completeName = "zkd-complete" // the id of that snapshot, once all of it is there
)

// snapshotID tells snapshots apart: the SHA-256 of a manifest's bytes.
type snapshotID [sha256.Size]byte

// file is one file of a snapshot.
type file struct {
	name string
	size int64
	hash uint64 // xxhash of all bytes
}

// manifest says what a snapshot consists of.
type manifest struct {
	id     snapshotID
	header []byte
	files  []file // ascending by name
	bytes  int64  // of all files
	raw    []byte // as it is sent
}

// pacer is told how many bytes are about to be read, at most chunkBytes, and waits until they may be.
type pacer func(n int) error

// scan makes the manifest of a directory: it reads every file whose hash is not known once, at pace. ctx ends it early.
// It needs the turn of known.
func scan(ctx context.Context, fs vfs.FS, dir string, header []byte, known *hashes, pace pacer) (*manifest, error) {
	if len(header) > headerBytesMax {
		return nil, fmt.Errorf("snapshot header of %d bytes, at most %d", len(header), headerBytesMax)
	}
	names, err := fs.List(dir)
	if err != nil {
		return nil, fmt.Errorf("list snapshot %s: %w", dir, err)
	}
	slices.Sort(names)
	files := make([]file, 0, len(names))
	found := make(map[identity]uint64, len(names))
	buf := make([]byte, chunkBytes)
	for _, name := range names {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		info, err := fs.Stat(fs.PathJoin(dir, name))
		if err != nil {
			return nil, fmt.Errorf("read snapshot %s: %w", dir, err)
		}
		if info.IsDir() {
			return nil, fmt.Errorf("snapshot %s has a directory, %s: only files can be sent", dir, name)
		}
		id := identify(dir, info)
		hash, ok := known.known[id]
		if !ok {
			if hash, err = hashOf(fs, fs.PathJoin(dir, name), id.size, buf, pace); err != nil {
				return nil, fmt.Errorf("read snapshot %s: %w", dir, err)
			}
		}
		found[id] = hash
		files = append(files, file{name, id.size, hash})
	}
	known.known = found
	return parseManifest(encodeManifest(header, files))
}

// hashOf returns the hash of the first size bytes of a file; it is an error if there are fewer.
func hashOf(fs vfs.FS, name string, size int64, buf []byte, pace pacer) (uint64, error) {
	d := xxhash.New()
	if err := hashInto(d, fs, name, size, buf, pace); err != nil {
		return 0, err
	}
	return d.Sum64(), nil
}

// hashInto adds the first size bytes of a file to d.
func hashInto(d *xxhash.Digest, fs vfs.FS, name string, size int64, buf []byte, pace pacer) error {
	f, err := fs.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // of a file that was read
	for size > 0 {
		b := buf[:min(int64(len(buf)), size)]
		if err := pace(len(b)); err != nil {
			return err
		}
		if _, err := io.ReadFull(f, b); err != nil {
			return fmt.Errorf("%s: %d bytes are missing: %w", name, size, err)
		}
		_, _ = d.Write(b) // cannot fail
		size -= int64(len(b))
	}
	return nil
}

// atOnce is the pace of who need not wait.
func atOnce(int) error { return nil }

// encodeManifest returns a manifest's bytes.
func encodeManifest(header []byte, files []file) []byte {
	b := binary.BigEndian.AppendUint16(nil, formatVersion)
	b = binary.BigEndian.AppendUint32(b, uint32(len(header)))
	b = append(b, header...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(files)))
	for _, f := range files {
		b = append(b, byte(len(f.name)))
		b = append(b, f.name...)
		b = binary.BigEndian.AppendUint64(b, uint64(f.size))
		b = binary.BigEndian.AppendUint64(b, f.hash)
	}
	return b
}

// errManifest is in every error of a manifest that is refused.
var errManifest = errors.New("bad manifest")

// parseManifest reads and checks a manifest, which it keeps.
func parseManifest(raw []byte) (*manifest, error) {
	m := &manifest{id: sha256.Sum256(raw), raw: raw}
	rest := raw
	take := func(n int) []byte {
		if n < 0 || n > len(rest) {
			rest = nil
			return nil
		}
		taken := rest[:n:n]
		rest = rest[n:]
		return taken
	}
	const fixedBytes = 2 + 4
	head := take(fixedBytes)
	if head == nil {
		return nil, fmt.Errorf("%w: %d bytes", errManifest, len(raw))
	}
	if v := binary.BigEndian.Uint16(head); v != formatVersion {
		return nil, fmt.Errorf("%w: version %d, want %d: upgrade the older server", errManifest, v, formatVersion)
	}
	length := binary.BigEndian.Uint32(head[2:])
	m.header = take(int(length))
	count := take(4)
	if length > headerBytesMax || count == nil {
		return nil, fmt.Errorf("%w: header of %d bytes in %d", errManifest, length, len(raw))
	}
	for n := binary.BigEndian.Uint32(count); n > 0; n-- {
		if err := m.addFile(take); err != nil {
			return nil, err
		}
	}
	if len(rest) > 0 || len(m.files) > filesMax {
		return nil, fmt.Errorf("%w: %d files and %d bytes behind them", errManifest, len(m.files), len(rest))
	}
	return m, nil
}

// addFile reads one file's entry.
func (m *manifest) addFile(take func(int) []byte) error {
	length := take(1)
	if length == nil {
		return fmt.Errorf("%w: it ends after %d files", errManifest, len(m.files))
	}
	name, numbers := take(int(length[0])), take(16)
	if numbers == nil {
		return fmt.Errorf("%w: it ends after %d files", errManifest, len(m.files))
	}
	f := file{string(name), int64(binary.BigEndian.Uint64(numbers)), binary.BigEndian.Uint64(numbers[8:])}
	if !validName(f.name) {
		return fmt.Errorf("%w: file name %q", errManifest, f.name)
	}
	if n := len(m.files); n > 0 && m.files[n-1].name >= f.name {
		return fmt.Errorf("%w: file %q after %q", errManifest, f.name, m.files[n-1].name)
	}
	if f.size < 0 || f.size > totalBytesMax-m.bytes {
		return fmt.Errorf("%w: file %q of %d bytes", errManifest, f.name, f.size)
	}
	m.bytes += f.size
	m.files = append(m.files, f)
	return nil
}

// validName says whether a name is that of a file in the directory itself, on any system, and none of the receiver's
// own: letters, digits, and ". _ - +", not beginning with a dot.
func validName(name string) bool {
	if name == "" || name[0] == '.' || name == transferName || name == completeName {
		return false
	}
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '.', c == '_', c == '-', c == '+':
		default:
			return false
		}
	}
	return true
}
