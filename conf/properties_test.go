package conf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"zkd/compat-tests/target"
)

func TestMain(m *testing.M) { os.Exit(target.Main(m, "conf")) }

// propertiesCorpus holds texts with every rule of the format and the quirks of its reader.
var propertiesCorpus = []string{
	"",
	"a=b",
	"a=b\n",
	"a:b\nc d\ne\tf\ng\fh\n",
	"a = b\na : b \n",
	"  a==b\nc=:d\ne :=f\ng = = h\n",
	"a\n",
	"a=\n",
	"=b\n",
	":b\n",
	"# comment\n! comment\n  # comment\na=1\n",
	"# comment \\\na=1\n",
	"a=1\nb=2\na=3\n",
	"a=1\\\n   2\\\n\t3\n",
	"a=1\\\\\nb=2\n",
	"a=1\\\\\\\nb=2\n",
	"a=1\\\n\nb=2\n",
	"a=1\\\n#b=2\n",
	"\\\n#a=1\nb=2",
	"\\",
	"\\\n",
	"a\\",
	"a=\\",
	"a=b\\\n",
	"\\\n\\\n\\\n",
	"\\\n  \\\n x=y\n",
	"a=1\r\nb=2\rc=3\n\rd=4",
	"a=1\\\r\n  2\r\nb=3\\\r 4\n",
	"a\\=b=c\na\\:b:c\na\\ b c\n",
	"\\#a=b\n\\!c=d\n",
	"tab=\\t\nnl=\\n\ncr=\\r\nff=\\f\nother=\\q\\\"\\'\n",
	"u=\\u0041\\u00e9\\u20ac\n",
	"u=\\uD83D\\uDE00\n",
	"u=\\uD83D\n",
	"u=\\uDE00\\uD83D\n",
	"u=\\u12\n",
	"u=\\u12g4\n",
	"u=\\u+123\n",
	"u=\\u",
	"\\u0061=1\n\\u003d=2\n",
	"latin=\xe9\xff\n",
	"utf8=\xc3\xa9\n",
	"a=${b}\nb=x\n",
	"a=\x00\x1a\x7f\n",
	"\x00=1\n",
	" \t\f\n \t\f# c\na\f=\f1\f\n",
	"server.1=host:2888:3888;2181\nserver.2 = [::1]:2888:3888:observer;[::1]:2181\n",
	"dataDir=C:\\zookeeper\\data\n",
	"superDigest=super:D/InIHSb7yEEbrWz8b9l71RjZJU=\n",
	"key with blanks = value with blanks  \n",
	"a=b # not a comment\n",
	"\\\r\n!x\r\ny=1",
}

// TestPropertiesMatchesJava compares the reader with the real one on the corpus and on 20,000 random texts.
func TestPropertiesMatchesJava(t *testing.T) {
	target.Require(t, target.Java)
	texts := slices.Clone(propertiesCorpus)
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		texts = append(texts, randomText(random))
	}
	var input bytes.Buffer
	for _, text := range texts {
		var length [4]byte
		binary.BigEndian.PutUint32(length[:], uint32(len(text)))
		input.Write(length[:])
		input.WriteString(text)
	}
	command := exec.CommandContext(t.Context(), "java", "-Xmx256m", "testdata/PrintProperties.java")
	command.Stdin = &input
	var stderr strings.Builder
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		t.Fatalf("java: %v\n%s", err, stderr.String())
	}
	want := strings.Split(strings.TrimSuffix(string(output), "\n"), "\n")
	if len(want) != len(texts) {
		t.Fatalf("java answered %d of %d texts", len(want), len(texts))
	}
	for i, text := range texts {
		if got := printProperties(text); got != want[i] {
			t.Errorf("text %q\n go   %s\n java %s", text, got, want[i])
		}
	}
}

// randomText makes a short text of the characters that matter to the format.
func randomText(random *rand.Rand) string {
	const alphabet = "abu0041D8=: \t\f\\\\\\\\\n\n\r\r#!\xe9"
	text := make([]byte, random.IntN(24))
	for i := range text {
		text[i] = alphabet[random.IntN(len(alphabet))]
	}
	return string(text)
}

// printProperties prints as PrintProperties.java does.
func printProperties(text string) string {
	entries, broken := parseProperties([]byte(text))
	if len(broken) > 0 {
		return "error"
	}
	byKey := map[string]string{}
	for _, e := range entries {
		byKey[e.key] = e.value
	}
	printed := map[string]string{}
	for key, val := range byKey {
		printed[key] = hexUnits(key) + "=" + hexUnits(val)
	}
	keys := slices.SortedFunc(maps.Keys(byKey), func(a, b string) int {
		return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
	})
	parts := make([]string, 0, len(keys))
	for _, key := range keys {
		parts = append(parts, printed[key])
	}
	return strings.Join(parts, ",")
}

func hexUnits(s string) string {
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune(s)) {
		fmt.Fprintf(&b, "%04x", unit)
	}
	return b.String()
}

func TestPropertiesLineNumbers(t *testing.T) {
	const text = "# one\n\na=1\r\nb=2\\\n  3\n\n! c\rc=4\n  d\\\n=5\n\\\n\\\ne=6\na=7"
	got, broken := parseProperties([]byte(text))
	if len(broken) > 0 {
		t.Fatal(broken)
	}
	want := []entry{
		{"a", "1", 3, 7, 12}, {"b", "23", 4, 12, 21}, {"c", "4", 8, 26, 30}, {"d", "5", 9, 30, 38},
		{"e", "6", 13, 42, 46}, {"a", "7", 14, 46, 49},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(entry{})); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestPropertiesErrorsNameTheirLines(t *testing.T) {
	entries, broken := parseProperties([]byte("a=1\n\nb=\\u00zz\nc=2\n\\u=3\n"))
	if len(broken) != 2 || broken[0].line != 3 || broken[1].line != 5 {
		t.Errorf("got errors %v, want them for lines 3 and 5", broken)
	}
	if len(entries) != 2 || entries[1] != (entry{"c", "2", 4, 14, 18}) {
		t.Errorf("got entries %v, want a and c", entries)
	}
}

// FuzzProperties checks that any text is read without a panic, that entries are within it and in order, and that
// writing them and reading them again gives the same.
func FuzzProperties(f *testing.F) {
	for _, text := range propertiesCorpus {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		entries, broken := parseProperties(text)
		lines := 1 + bytes.Count(text, []byte("\n")) + bytes.Count(text, []byte("\r"))
		last := 0
		for _, e := range entries {
			if e.line < last || e.line > lines {
				t.Fatalf("entry %+v after line %d of %d lines", e, last, lines)
			}
			last = e.line
		}
		for _, b := range broken {
			if b.line < 1 || b.line > lines {
				t.Fatalf("error %+v of %d lines", b, lines)
			}
		}
		again, broken := parseProperties(storeProperties(entries))
		if len(broken) > 0 {
			t.Fatal(broken)
		}
		if len(again) != len(entries) {
			t.Fatalf("%d entries, %d after writing them: %q", len(entries), len(again), storeProperties(entries))
		}
		for i := range entries {
			if again[i].key != entries[i].key || again[i].value != entries[i].value {
				t.Fatalf("%+v became %+v", entries[i], again[i])
			}
		}
	})
}

// storeProperties writes entries with every character as an escape.
func storeProperties(entries []entry) []byte {
	var b strings.Builder
	write := func(s string) {
		for _, unit := range utf16.Encode([]rune(s)) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	for _, e := range entries {
		write(e.key)
		b.WriteByte('=')
		write(e.value)
		b.WriteByte('\n')
	}
	return []byte(b.String())
}
