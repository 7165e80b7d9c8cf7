package disk

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"zkd/storage/disk/disktest"
)

// blobFiles are the names of those that are there.
func blobFiles(t *testing.T, fs vfs.FS) []string {
	t.Helper()
	names, err := fs.List("")
	if err != nil {
		t.Fatal(err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !isBlobs(name) })
	slices.Sort(names)
	return names
}

// TestMissingBlobFiles: whatever a store has done with its blob files, its MANIFEST is understood to name those that
// are there, and a store that lacks one is refused. Pebble would panic over its first value.
func TestMissingBlobFiles(t *testing.T) {
	fs := vfs.NewMem()
	for _, step := range []struct {
		what string
		do   func(s *blobStore) error
	}{
		{"nothing", func(*blobStore) error { return nil }},
		{"values", func(s *blobStore) error { s.set(0, 100); return nil }},
		{"another file", func(s *blobStore) error { s.set(50, 60); return nil }},
		{"compacted", func(s *blobStore) error { return s.db.Compact(t.Context(), key(0), key(1000), false) }},
		{"a range removed", func(s *blobStore) error {
			return errors.Join(s.db.DeleteRange(key(200), key(300), nil), s.db.Flush())
		}},
		{"a range key", func(s *blobStore) error { // which changes how a table is described
			return errors.Join(s.db.RangeKeySet(key(10), key(20), nil, nil, nil), s.db.Flush(),
				s.db.Set(key(11), make([]byte, 1000), nil),
				s.db.RangeKeySet(key(10), key(30), nil, nil, nil), s.db.Flush())
		}},
		{"an excise, which makes virtual tables", func(s *blobStore) error {
			s.set(400, 500)
			return s.db.Excise(t.Context(), pebble.KeyRange{Start: key(430), End: key(440)})
		}},
		{"rewritten", func(s *blobStore) error {
			for n := range 90 {
				if err := s.db.Delete(key(n), nil); err != nil {
					return err
				}
			}
			if err := s.db.Compact(t.Context(), key(0), key(1000), false); err != nil {
				return err
			}
			select {
			case <-s.rewritten:
				return nil
			case <-time.After(time.Minute):
				return errors.New("nothing is rewritten")
			}
		}},
	} {
		s := openBlobStore(t, fs, step.what == "rewritten")
		if err := errors.Join(step.do(s), s.close()); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		desc, err := CheckManifest(fs, "")
		if err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		there := blobFiles(t, fs)
		named, ok := blobsOf(disktest.Read(t, fs, desc.ManifestFilename))
		if got := slices.Sorted(maps.Keys(named)); !ok || !slices.Equal(got, there) {
			t.Fatalf("%s: the MANIFEST is read as naming %v, %v; there are %v", step.what, got, ok, there)
		}
		for _, name := range there {
			moved := name + ".moved"
			if err := fs.Rename(name, moved); err != nil {
				t.Fatal(err)
			}
			if _, err := CheckManifest(fs, ""); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: without %s: %v", step.what, name, err)
			}
			if err := fs.Rename(moved, name); err != nil {
				t.Fatal(err)
			}
		}
		if (len(there) == 0) != (step.what == "nothing") {
			t.Fatalf("%s: %d blob files: this tests nothing", step.what, len(there))
		}
	}
}

// TestUnknownFieldOfAManifest: what this program does not know of is Pebble's to judge.
func TestUnknownFieldOfAManifest(t *testing.T) {
	for content, want := range map[string]bool{ // any order
		"": true, "\x02\x05": true, "\x6b\x01\x07\x01\x01\x01": true,
		"\x08\x05": false, "\x02": false, "\x01\x05abc": false, "\x68\x01\x01\x01": false,
		"\x67\x01\x01\x01\x00\x00\x01\x01\x45\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01": false,
	} {
		e := edit{rest: []byte(content)}
		for len(e.rest) > 0 {
			e.field(map[string]bool{})
		}
		if e.bad == want {
			t.Error(fmt.Sprintf("%q", content), "read:", !e.bad)
		}
	}
}
