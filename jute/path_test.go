package jute

import (
	"strings"
	"testing"
	"unicode/utf16"
)

func TestValidPath(t *testing.T) {
	tests := []struct {
		path string
		want bool
	}{
		{"/", true},
		{"/a", true},
		{"/a/b", true},
		{"/a b/ ", true},
		{"/zookeeper/quota", true},
		{"/...", true},
		{"/a/...", true},
		{"/a.", true},
		{"/a..", true},
		{"/.a", true},
		{"/..a", true},
		{"/a..b/c.d", true},
		{"/-/+/*/%/\\/:", true},
		{"/\u00e4\u4e2d\u2028", true},
		{"", false},
		{"a", false},
		{"a/b", false},
		{"//", false},
		{"//a", false},
		{"/a//b", false},
		{"/a/", false},
		{"/a/b/", false},
		{"/.", false},
		{"/..", false},
		{"/./a", false},
		{"/../a", false},
		{"/a/.", false},
		{"/a/..", false},
		{"/a/./b", false},
		{"/a/../b", false},
		{"/a\x00", false},
		{"/\U0001F600", false},
		{"/\U00010000", false},
		{"/\U0010FFFF", false},
		{"/\xff", false},
		{"/\xed\xa0\xbd\xed\xb8\x80", false},
		{"/\ufffd", false},
	}
	for _, test := range tests {
		if got := ValidPath(test.path); got != test.want {
			t.Errorf("ValidPath(%q) = %t", test.path, got)
		}
	}
}

// TestPathCharacters asks for every character there is, at both ends of a name, and holds the answer against the
// ranges of ZooKeeper's rule as they stand for UTF-16 units.
func TestPathCharacters(t *testing.T) {
	allowed := func(unit uint16) bool {
		return !(unit <= 0x1f || unit >= 0x7f && unit <= 0x9f || unit >= 0xd800 && unit <= 0xf8ff || unit >= 0xfff0)
	}
	for r := rune(0); r <= 0x10ffff; r++ {
		if r >= 0xd800 && r <= 0xdfff || r == '/' {
			continue // no character; not in a name
		}
		want := true
		for _, unit := range utf16.Encode([]rune{r}) {
			want = want && allowed(unit)
		}
		c := string(r)
		if ValidPath("/"+c+"x") != want || ValidPath("/a/x"+c) != want || ValidPath("/x"+c+"/a") != want {
			t.Fatalf("U+%04X: want %t", r, want)
		}
	}
}

func TestParentAndName(t *testing.T) {
	tests := []struct{ path, parent, name string }{
		{"/", "", ""},
		{"/a", "/", "a"},
		{"/a/b", "/a", "b"},
		{"/a/b/c", "/a/b", "c"},
		{"/a/", "/a", ""},
		{"//", "/", ""},
		{"a/b", "a", "b"},
		{"a", "", "a"},
		{"", "", ""},
	}
	for _, test := range tests {
		if parent, name := ParentPath(test.path), BaseName(test.path); parent != test.parent || name != test.name {
			t.Errorf("%q: parent %q, name %q; want %q, %q", test.path, parent, name, test.parent, test.name)
		}
	}
}

func TestHasNUL(t *testing.T) {
	if HasNUL("/a") || HasNUL("") || !HasNUL("/a\x00b") || !HasNUL("\x00") {
		t.Error("HasNUL is wrong")
	}
}

// FuzzPath holds ValidPath against ZooKeeper's own loop over UTF-16 units.
func FuzzPath(f *testing.F) {
	for _, path := range strings.Fields(`/ /a/b // /. /a/.. /... /a/ a /a.b/.c`) {
		f.Add(path)
	}
	for _, path := range []string{"", "/\U0001F600", "/\xff"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		text := textOf([]byte(path))
		if got, want := ValidPath(text), javaValidPath(text); got != want {
			t.Errorf("ValidPath(%q) = %t, ZooKeeper says %t", text, got, want)
		}
		if ValidPath(text) && text != "/" && strings.TrimSuffix(ParentPath(text), "/")+"/"+BaseName(text) != text {
			t.Errorf("%q is not its parent %q and its name %q", text, ParentPath(text), BaseName(text))
		}
	})
}

// javaValidPath is PathUtils.validatePath, unit by unit.
func javaValidPath(path string) bool {
	units := utf16.Encode([]rune(path))
	if len(units) == 0 || units[0] != '/' {
		return false
	}
	if len(units) > 1 && units[len(units)-1] == '/' {
		return false
	}
	ends := func(i int) bool { return i == len(units) || units[i] == '/' }
	for i := 1; i < len(units); i++ {
		c, last := units[i], units[i-1]
		switch {
		case c == '/' && last == '/':
			return false
		case c == '.' && last == '.' && units[i-2] == '/' && ends(i+1):
			return false
		case c == '.' && last == '/' && ends(i+1):
			return false
		case c <= 0x1f || c >= 0x7f && c <= 0x9f || c >= 0xd800 && c <= 0xf8ff || c >= 0xfff0:
			return false
		}
	}
	return true
}
