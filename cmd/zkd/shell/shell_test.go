package shell

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"zkd/jute"
)

func TestWords(t *testing.T) {
	for line, want := range map[string][]string{
		`get /a`:                  {"get", "/a"},
		`  set   /a "b  c" 'd e'`: {"set", "/a", "b  c", "d e"},
		`set /a ""`:               {"set", "/a", ""},
		`set /a "b`:               {"set", "/a", "b"}, // the quote has no end
		`set /a b"c d"`:           {"set", "/a", `b"c`, `d"`},
		`set /a {"k":"v"}`:        {"set", "/a", `{"k":"v"}`},
		"":                        nil,
	} {
		if got := words(line); !slices.Equal(got, want) {
			t.Errorf("words(%q) = %q, want %q", line, got, want)
		}
	}
}

func TestOptions(t *testing.T) {
	set := flags("s", "stats", "v:", "version", "file:", "a file")
	for line, want := range map[string]string{
		"x -s /a":       "s= x /a",
		"x -sv5 /a":     "s= v=5 x /a",
		"x -v -1 /a":    "v=-1 x /a",
		"x -v=7 /a":     "v=7 x /a",
		"x -file -y /a": "file=-y x /a",
		"x -- -s":       "x -s",
		"x -":           "x -",
		"x -z":          unrecognizedOption + "-z",
		"x -5":          unrecognizedOption + "-5",
		"x -sz":         unrecognizedOption + "-sz",
		"x -file=a":     unrecognizedOption + "-file=a",
		"x --stats":     unrecognizedOption + "--stats",
		"x -v":          missingArgument + "v",
		"x -v -s":       missingArgument + "v",
	} {
		got := ""
		p, err := set.parse(strings.Fields(line))
		if err != nil {
			got = err.Error()
		} else {
			var parts []string
			for name, value := range p.values {
				parts = append(parts, name+"="+value)
			}
			slices.Sort(parts)
			got = strings.Join(append(parts, p.args...), " ")
		}
		if got != want {
			t.Errorf("%q is read as %q, want %q", line, got, want)
		}
	}
}

func TestParseConnect(t *testing.T) {
	for text, want := range map[string]string{
		"a":                   "a:2181",
		"a:1,b:2, c:3 /app":   "a:1 b:2 c:3 /app",
		"a:1/":                "a:1",
		"a:":                  "a:2181",
		"[::1]:5/x/y":         "[::1]:5 /x/y",
		"::1":                 "[::1]:2181",
		"":                    "names no server",
		"/app":                "names no server",
		"a:x":                 "is no port",
		"a:0":                 "is no port",
		"a:1/app/":            "must not end with /",
		":2181":               "has no host",
		"[::1":                "want [address]:port",
		"a:1/app//b":          "empty node name",
		"a:1,,b:2":            "a:1 b:2",
		"zk.example.org:2181": "zk.example.org:2181",
	} {
		servers, chroot, err := ParseConnect(text)
		got := strings.TrimSpace(strings.Join(servers, " ") + " " + chroot)
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// TestNothingSteersATerminal: whatever a stranger has put into a value or a name, what is shown of it moves no cursor,
// rings no bell and turns no line around.
func TestNothingSteersATerminal(t *testing.T) {
	for text, want := range map[string]string{
		"plain":            "plain",
		"\x1b]0;title\x07": `\x1b]0;title\x07`,
		"a\nb\tc\r":        "a\nb\tc" + `\x0d`,
		"\u202eevil":       `\u202eevil`,
		"\u009b31m":        `\u009b31m`,
		"\xff\xfe":         `\xff\xfe`,
		"zwj\u200d":        `zwj\u200d`,
		"käse 日本":          "käse 日本",
	} {
		if got := escaped(text, true); got != want {
			t.Errorf("escaped(%q) = %q, want %q", text, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.Byte()).Draw(t, "text"))
		for _, r := range escaped(text, false) {
			if !unicode.IsPrint(r) {
				t.Errorf("escaped(%q) has %q", text, r)
			}
		}
	})
	s := &Shell{o: Options{Terminal: true}}
	if got := s.value(strings.Repeat("é", valueBytesMax)); len(got) > valueBytesMax+200 ||
		!strings.Contains(got, "cut: 32768 bytes in all") || strings.Contains(got, `\x`) {
		t.Errorf("a long value is shown in %d bytes, to the end %q", len(got), got[len(got)-100:])
	}
	if raw := (&Shell{}).value("\x1b[m"); raw != "\x1b[m" {
		t.Errorf("in a pipe: %q", raw)
	}
}

func TestPathsAreCheckedAsJavaDoes(t *testing.T) {
	for path, want := range map[string]string{
		"/": "", "/a/b": "", "/a..b": "", "/...": "", "/ä": "",
		"":         "Path length must be > 0",
		"a":        "Path must start with / character",
		"/a/":      "Path must not end with / character",
		"//":       "Path must not end with / character",
		"/a//b":    `Invalid path string "/a//b" caused by empty node name specified @3`,
		"/a/./b":   `Invalid path string "/a/./b" caused by relative paths not allowed @3`,
		"/a/../b":  `Invalid path string "/a/../b" caused by relative paths not allowed @4`,
		"/..":      `Invalid path string "/.." caused by relative paths not allowed @2`,
		"/a\x00":   "Invalid path string \"/a\x00\" caused by null character not allowed @2",
		"/a\x01":   "Invalid path string \"/a\x01\" caused by invalid character @2",
		"/\ufff1x": "Invalid path string \"/\ufff1x\" caused by invalid character @1",
		"/😀":       "Invalid path string \"/😀\" caused by invalid character @1", // a surrogate to Java
	} {
		got := ""
		if err := checkPath(path); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("checkPath(%q): %s, want %s", path, got, want)
		}
	}
}

func TestNamesSortAsJavaSorts(t *testing.T) {
	names := []string{"b", "a", "ab", "😀", "\uffee", "é", ""}
	slices.SortFunc(names, javaCompare)
	if want := []string{"", "a", "ab", "b", "é", "😀", "\uffee"}; !slices.Equal(names, want) {
		t.Errorf("sorted %q, want %q", names, want)
	}
}

func TestJavaForms(t *testing.T) {
	if got := javaDate(1_795_519_347_123, time.UTC); got != "Tue Nov 24 11:22:27 UTC 2026" {
		t.Error(got)
	}
	for text, want := range map[string]string{
		"count=1,bytes=2":                      "count=1,bytes=2",
		"count=5,bytes=-1=;countHardLimit=9":   "count=5,bytes=-1=;countHardLimit=9",
		"count=,bytes=3;byteHardLimit=4;":      "count=-1,bytes=3=;byteHardLimit=4",
		"byteHardLimit=4,countHardLimit=3,x=1": "count=-1,bytes=-1=;byteHardLimit=4;countHardLimit=3;x=1",
		"nonsense":                             "!", "count=x": "!",
	} {
		got, err := parseTrack([]byte(text))
		if (err != nil) != (want == "!") || err == nil && got.String() != want {
			t.Errorf("%q is %v (%v), want %s", text, got, err, want)
		}
	}
	if got := idText(jute.ID{Scheme: "a,b", ID: "c%\n}"}); got != "'a%2Cb,'c%25%0A%7D\n" {
		t.Errorf("%q", got)
	}
	const dump = "         +-------------------------------------------------+\n" +
		"         |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |\n" +
		"+--------+-------------------------------------------------+----------------+\n" +
		"|00000000| 61 1b                                           |a.              |\n" +
		"+--------+-------------------------------------------------+----------------+"
	if got := hexDump([]byte("a\x1b")); got != dump || hexDump(nil) != "" {
		t.Errorf("\n%s", got)
	}
}

func TestClientsOfAConfiguration(t *testing.T) {
	const config = "server.10=h:1:2:participant;1.2.3.4:5\nserver.2=a:1:2;3|b:1:2;3\nserver.3=c:1:2\nversion=f00\n"
	if got, want := clientsOf(config), "f00 0.0.0.0:3,,1.2.3.4:5"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
