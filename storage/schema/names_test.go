package schema

import (
	"strings"
	"testing"
)

// TestNearest: the nearest path that is there is found, and of a deep path few are asked for.
func TestNearest(t *testing.T) {
	deep := strings.Repeat("/d", 10000)
	long := "/a/" + strings.Repeat("n", 1000) + "/b/c"
	for _, tc := range []struct{ path, last string }{
		{"/", "/"}, {"/a", "/"}, {"/a", "/a"}, {"/a/b", "/"}, {"/a/b", "/a"}, {"/a/b/c/d", "/a/b"}, {"/a/b/c/d", "/"},
		{"/a/b/c/d", "/a/b/c"}, {"/long/b", "/long"}, {"/a/long", "/a"}, {deep, "/d/d"}, {deep, "/"}, {deep, deep},
		{deep, deep[:len(deep)-2]}, {long, "/"}, {long, "/a"}, {long, long[:len(long)-4]}, {long, long[:len(long)-2]},
	} {
		asked := 0
		got := Nearest(tc.path, func(path string) bool {
			asked++
			return len(path) <= len(tc.last)
		})
		if got != tc.last || asked > 24 {
			t.Errorf("%.20s: found %.20s, want %.20s, after %d questions", tc.path, got, tc.last, asked)
		}
	}
}
