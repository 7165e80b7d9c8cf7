package subtree

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"zkd/jute"
)

// TestAnExportIsReadAsItWasWritten, whatever bytes values and names have.
func TestAnExportIsReadAsItWasWritten(t *testing.T) {
	var b bytes.Buffer
	nodes := []*Node{
		{Path: "/a", Data: []byte("text\n<b>"), ACL: []jute.ACL{{Perms: jute.PermRead | jute.PermAdmin,
			ID: jute.ID{Scheme: "digest", ID: "x:y"}}}},
		{Path: "/a/\"\u2028", Data: []byte{0xff, 0}, ACL: []jute.ACL{{Perms: jute.PermAll,
			ID: jute.ID{Scheme: "world", ID: "anyone"}}}},
		{Path: "/a/empty", Data: []byte{}, ACL: []jute.ACL{{Perms: jute.PermAll,
			ID: jute.ID{Scheme: "world", ID: "anyone"}}}},
		{Path: "/a/null", ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "world", ID: "anyone"}}}},
	}
	if err := WriteLine(&b, Header{Version, "/a"}); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if err := WriteLine(&b, NewEntry(n, "/a")); err != nil {
			t.Fatal(err)
		}
	}
	r, h, err := NewReader(&b)
	if err != nil || h.Root != "/a" {
		t.Fatalf("%+v, %v", h, err)
	}
	for _, want := range nodes {
		e, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		n, err := e.NewNode()
		if err != nil || Moved(e.Path, "/", "/a") != want.Path || !reflect.DeepEqual(n.Data, want.Data) ||
			!slices.Equal(n.ACL, want.ACL) {
			t.Errorf("%+v became %+v, %v", want, n, err)
		}
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	for text, want := range map[string]error{"": ErrNoExport, "{}": ErrNoExport, "hello": ErrNoExport,
		`{"zkdExport":2}`: ErrVersion} {
		if _, _, err := NewReader(strings.NewReader(text)); !errors.Is(err, want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestAWalkGoesOnWhereItHasEnded: what comes up to there is passed over, with all that is below it.
func TestAWalkGoesOnWhereItHasEnded(t *testing.T) {
	w := &Walker{After: "/a/b/c"}
	for path, want := range map[string][2]bool{
		"/": {true, false}, "/a": {true, false}, "/a/a": {true, true}, "/a/b": {true, false}, "/a/b/c": {true, false},
		"/a/b/c/d": {false, false}, "/a/b/d": {false, false}, "/a/b0": {false, false}, "/a-": {false, false},
		"/0": {true, true},
	} {
		if seen, whole := w.passed(path); seen != want[0] || whole != want[1] {
			t.Errorf("%s: %v, %v", path, seen, whole)
		}
	}
}
