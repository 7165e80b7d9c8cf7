package disk

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// firstManifest is what an empty store begins with.
const firstManifest = "MANIFEST-000001"

// CheckManifest fails with ErrDamaged if the store in dir has a MANIFEST of which less can be read than there was when
// it came into use: its tables, and then the last sequence number. Pebble takes what it cannot read for the torn end of
// the file, and without that number gives those of what its tables hold away again: older values hide newer ones, and
// the next compaction panics. It returns what there is of a store.
func CheckManifest(fs vfs.FS, dir string) (*pebble.DBDesc, error) {
	desc, err := pebble.Peek(dir, fs)
	if err != nil {
		return nil, err
	}
	if !desc.Exists || filepath.Base(desc.ManifestFilename) == firstManifest {
		return desc, nil
	}
	file, err := fs.Open(desc.ManifestFilename)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // opened for reading only
	records := record.NewReader(file, 0)
	for range 2 {
		r, err := records.Next()
		if err == nil {
			_, err = io.Copy(io.Discard, r)
		}
		if errors.Is(err, io.EOF) || record.IsInvalidRecord(err) {
			return nil, fmt.Errorf("%w file %s: it ends before the last sequence number: %w", ErrDamaged,
				desc.ManifestFilename, err)
		}
		if err != nil {
			return nil, err
		}
	}
	return desc, nil
}
