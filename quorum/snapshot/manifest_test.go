package snapshot

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func TestManifestComesBackAsItWas(t *testing.T) {
	fs := vfs.NewMem()
	writeFiles(t, fs, "dir", content())
	m, err := scan(context.Background(), fs, "dir", []byte("head"), newHashes(), atOnce)
	if err != nil {
		t.Fatal(err)
	}
	again, err := parseManifest(encodeManifest(m.header, m.files))
	if err != nil || !reflect.DeepEqual(m, again) {
		t.Errorf("%+v came back as %+v, %v", m, again, err)
	}
	total := int64(0)
	for _, text := range content() { // order: a sum
		total += int64(len(text))
	}
	if m.bytes != total || len(m.files) != len(content()) {
		t.Errorf("%d files of %d bytes", len(m.files), m.bytes)
	}
	other, err := scan(context.Background(), fs, "dir", []byte("neck"), newHashes(), atOnce)
	if err != nil || other.id == m.id {
		t.Errorf("another header makes no other snapshot: %v", err)
	}
}

func TestHostileManifests(t *testing.T) {
	one := func(name string, size int64) []byte { return encodeManifest(nil, []file{{name, size, 1}}) }
	whole := one("a", 1)
	for name, raw := range map[string][]byte{ // order: each is parsed alone
		"parent":           one("..", 1),
		"this":             one(".", 1),
		"hidden":           one(".bashrc", 1),
		"path":             one("../../etc/passwd", 1),
		"absolute":         one("/etc/passwd", 1),
		"windows path":     one(`..\x`, 1),
		"windows drive":    one("c:x", 1),
		"zero byte":        one("a\x00b", 1),
		"no name":          one("", 1),
		"the mark":         one(completeName, 1),
		"the record":       one(transferName, 1),
		"negative size":    one("a", -1),
		"huge size":        one("a", totalBytesMax+1),
		"huge sum":         encodeManifest(nil, []file{{"a", totalBytesMax, 1}, {"b", 1, 1}}),
		"twice":            encodeManifest(nil, []file{{"a", 1, 1}, {"a", 1, 1}}),
		"not sorted":       encodeManifest(nil, []file{{"b", 1, 1}, {"a", 1, 1}}),
		"other version":    append([]byte{0, 2}, whole[2:]...),
		"more behind":      append(bytes.Clone(whole), 0),
		"huge header":      append([]byte{0, 1, 0xff, 0xff, 0xff, 0xff}, whole[6:]...),
		"long header":      encodeManifest(make([]byte, headerBytesMax+1), nil),
		"many files":       append([]byte{0, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, whole[10:]...),
		"files that lack":  append([]byte{0, 1, 0, 0, 0, 0, 0, 0, 0, 2}, whole[10:]...),
		"an entry cut off": whole[:len(whole)-1],
	} {
		if m, err := parseManifest(raw); !errors.Is(err, errManifest) {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
}

func TestWhatCannotBeShipped(t *testing.T) {
	fs := vfs.NewMem()
	writeFiles(t, fs, "nested/below", nil)
	writeFiles(t, fs, "odd", map[string]string{"a b": ""})
	writeFiles(t, fs, "fine", map[string]string{"a": ""})
	for dir, want := range map[string]string{ // order: each alone
		"nested": "a directory", "odd": `"a b"`, "none": "none",
	} {
		_, err := scan(context.Background(), fs, dir, nil, newHashes(), atOnce)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", dir, err)
		}
	}
	large := make([]byte, headerBytesMax+1)
	if _, err := scan(context.Background(), fs, "fine", large, newHashes(), atOnce); err == nil {
		t.Error("a header beyond the bound is taken")
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := scan(ended, fs, "fine", nil, newHashes(), atOnce); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func FuzzManifest(f *testing.F) {
	f.Add(encodeManifest([]byte("header"), []file{{"000001.sst", 12, 1}, {"b", 0, 2}}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := parseManifest(raw)
		if err != nil {
			return
		}
		if again := encodeManifest(m.header, m.files); !bytes.Equal(again, raw) {
			t.Errorf("%x was read as %x", raw, again)
		}
		for _, f := range m.files {
			if strings.ContainsAny(f.name, "/\\\x00:") || f.name == ".." || f.name == "." || f.size < 0 {
				t.Errorf("%+v is taken", f)
			}
		}
	})
}
