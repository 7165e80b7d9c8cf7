package disk

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/disk/disktest"
)

// manifestWith opens the store in fs, flushes so often, and returns its MANIFEST.
func manifestWith(t *testing.T, fs vfs.FS, flushes int) (path string, content []byte) {
	t.Helper()
	fault, _, _ := testFault()
	db, err := pebble.Open("", &pebble.Options{
		FS: fs, FormatMajorVersion: Format, DisableAutomaticCompactions: true, Logger: Logger{Fault: fault},
	})
	if err != nil {
		t.Fatal(err)
	}
	for n := range flushes {
		if err := errors.Join(db.Set(key(n), nil, nil), db.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	desc, err := CheckManifest(fs, "")
	if err != nil {
		t.Fatal(err)
	}
	return desc.ManifestFilename, disktest.Read(t, fs, desc.ManifestFilename)
}

// TestCheckManifest alters a MANIFEST, which Pebble takes for its end, and cuts it, which a crash does.
func TestCheckManifest(t *testing.T) {
	for name, began := range map[string]bool{"of a new store": false, "of one opened again": true} { // any order
		t.Run(name, func(t *testing.T) {
			fs, least := vfs.NewMem(), 0
			if began {
				manifestWith(t, fs, 1)
				_, begin := manifestWith(t, vfs.NewMem(), 0)
				_, content := manifestWith(t, fs, 0)
				if least = len(content); least <= len(begin) {
					t.Fatalf("a MANIFEST begins with %d bytes, of a new store with %d", least, len(begin))
				}
			}
			path, content := manifestWith(t, fs, 4)
			if first := filepath.Base(path) == firstManifest; first == began || len(content) < least+200 {
				t.Fatalf("%s has %d bytes: this tests nothing", path, len(content))
			}
			check := func(content []byte) error {
				disktest.Alter(t, fs, path, func([]byte) []byte { return content })
				_, err := CheckManifest(fs, "")
				if err != nil && (!errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path+": it ")) {
					t.Fatal(err)
				}
				return err
			}
			for kept := range content {
				err := check(content[:kept])
				if whole := kept >= least; whole != (err == nil) {
					t.Fatalf("cut to %d bytes of %d: %v", kept, len(content), err)
				}
				err = check(append(slices.Clone(content[:kept]), make([]byte, 4096)...))
				if whole := kept >= least; whole != (err == nil) {
					t.Fatalf("blank from byte %d of %d on: %v", kept, len(content), err)
				}
			}
			for offset := range content {
				spoilt := slices.Clone(content)
				spoilt[offset] ^= 0x20
				// A longer length in the last chunk reads as a write cut short.
				inLength := len(content)-offset < 100
				if err := check(spoilt); err == nil && !inLength {
					t.Fatalf("byte %d of %d altered, and nothing said", offset, len(content))
				}
			}
		})
	}
}

func TestRecordChecksumIsPebbles(t *testing.T) {
	// CRC-32C of "123456789" is e3069283; masked as LevelDB does.
	crc := uint32(0xe3069283)
	if got, want := RecordChecksum([]byte("123456789")), (crc>>15|crc<<17)+0xa282ead8; got != want {
		t.Errorf("got %08x, want %08x", got, want)
	}
}
