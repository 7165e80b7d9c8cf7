package terminal

import (
	"context"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

// TestClean: nothing of a stranger's text is left that a terminal would obey.
func TestClean(t *testing.T) {
	for in, want := range map[string]string{ // any order
		"/app/one":             "/app/one",
		"/äöü/漢字 x":            "/äöü/漢字 x",
		"a\x1b[2Jb":            `a\x1b[2Jb`,
		"a\u009b31m\r\n\t\x00": `a\x9b31m\x0d\x0a\x09\x00`,
		"a\xffb\x9b":           `a\xffb\x9b`,
		"abc\u202egpj.exe":     `abc\u202egpj.exe`,
		"\u200b\ufeff\u00a0":   `\u200b\ufeff\xa0`,
		"\U000e0041":           `\U000e0041`,
	} {
		if got := Clean(in); got != want {
			t.Errorf("%q is cleaned to %q, want %q", in, got, want)
		}
	}
}

// FuzzClean: what is cleaned shows, and is clean.
func FuzzClean(f *testing.F) {
	f.Add("a\x1b[2J\u202e\xff")
	f.Fuzz(func(t *testing.T, s string) {
		got := Clean(s)
		if Clean(got) != got || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q is cleaned to %q", s, got)
		}
	})
}

func TestCut(t *testing.T) {
	for _, tc := range []struct {
		in    string
		width int
		want  string
	}{{"abc", 3, "abc"}, {"abc", 2, "ab"}, {"äöü", 2, "äö"}, {"äöü", 3, "äöü"}, {"abc", 0, ""}} {
		if got := Cut(tc.in, tc.width); got != tc.want {
			t.Errorf("%q cut to %d is %q", tc.in, tc.width, got)
		}
	}
}

// pieces is a reader of what comes together.
type pieces []string

func (p *pieces) Read(b []byte) (int, error) {
	if len(*p) == 0 {
		return 0, context.Canceled
	}
	n := copy(b, (*p)[0])
	*p = (*p)[1:]
	return n, nil
}

func TestReadKeys(t *testing.T) {
	in := &pieces{"q\x1b[A\x1bOB", "\x1b", "é\n\b\x7f\x03", "\x1b[5~\x1b[6~\x1b[1;5C\x1b[Z", "\xff\x1b[",
		"\x1b[C\x1b[D"}
	keys := make(chan Key, 100)
	ReadKeys(context.Background(), in, keys)
	close(keys)
	var got []Key
	for k := range keys {
		got = append(got, k)
	}
	want := []Key{'q', KeyUp, KeyDown, KeyEscape, 'é', KeyEnter, KeyBackspace, KeyBackspace, KeyInterrupt, KeyPageUp,
		KeyPageDown, KeyUnknown, KeyBackTab, KeyUnknown, KeyEscape, '[', KeyRight, KeyLeft}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

// TestFrame: a frame is cut to the window, whatever is in it.
func TestFrame(t *testing.T) {
	lines := []Line{{"title", Inverse}, {"a long line", Plain}, {"third", Bold}, {"fourth", Plain}}
	got := frame(lines, 7, 3)
	want := "\x1b[H\x1b[7mtitle  \x1b[0m\x1b[K\r\na long \x1b[0m\x1b[K\r\n\x1b[1mthird\x1b[0m\x1b[K\x1b[J"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := frame(nil, 7, 3); got != "\x1b[H\x1b[J" {
		t.Errorf("of nothing: %q", got)
	}
}
