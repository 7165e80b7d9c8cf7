package values

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/golang/snappy"
)

func gzipped(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func framed(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := snappy.NewBufferedWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// xerial packs as snappy-java's SnappyOutputStream does.
func xerial(blocks ...[]byte) []byte {
	out := append(bytes.Clone(xerialMagic), 0, 0, 0, 1, 0, 0, 0, 1)
	for _, b := range blocks {
		packed := snappy.Encode(nil, b)
		out = binary.BigEndian.AppendUint32(out, uint32(len(packed)))
		out = append(out, packed...)
	}
	return out
}

func TestKinds(t *testing.T) {
	long := []byte(strings.Repeat("all work and no play ", 40))
	// An ArrayList and a String that JDK 17 has written.
	list, err := base64.StdEncoding.DecodeString(
		"rO0ABXNyABNqYXZhLnV0aWwuQXJyYXlMaXN0eIHSHZnHYZ0DAAFJAARzaXpleHAAAAAAdwQAAAAAeA==")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data        []byte
		kind, inner Kind
		text        string
		class       string
	}{
		"null":         {nil, Null, "", "", ""},
		"empty":        {[]byte{}, Empty, "", "", ""},
		"text":         {[]byte("a\tb\nc"), Text, "", "a\tb\nc", ""},
		"JSON":         {[]byte(`{"a":[1,2]}`), JSON, "", "{\n  \"a\": [\n    1,\n    2\n  ]\n}", ""},
		"half of JSON": {[]byte(`{"a":`), Text, "", `{"a":`, ""},
		"binary":       {[]byte{0, 1, 2, 0xff}, Binary, "", "", ""},
		"gzip":         {gzipped(t, []byte("hello")), Gzip, Text, "hello", ""},
		"gzip of JSON": {gzipped(t, []byte(`[]`)), Gzip, JSON, "[]", ""},
		"framed":       {framed(t, []byte("hello")), Snappy, Text, "hello", ""},
		"a block":      {snappy.Encode(nil, long), Snappy, Text, string(long), ""},
		"xerial":       {xerial([]byte("hel"), []byte("lo")), Snappy, Text, "hello", ""},
		"a Java list":  {list, Java, "", "", "java.util.ArrayList"},
		"a Java text":  {append(bytes.Clone(javaMagic), 0x74, 0, 1, 'x'), Java, "", "", "java.lang.String"},
	} {
		v := Of(c.data)
		if v.Kind != c.kind || v.Inner != c.inner || v.Text != c.text || v.Class != c.class || v.Fault != "" {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestBadPacksAreSaidToBeBad(t *testing.T) {
	good := gzipped(t, []byte(strings.Repeat("x", 1000)))
	for name, data := range map[string][]byte{
		"gzip cut":       good[:len(good)-6],
		"gzip header":    good[:5],
		"xerial cut":     xerial([]byte("hello"))[:22],
		"xerial length":  append(xerial(), 0xff, 0xff, 0xff, 0xff),
		"framed garbage": append(bytes.Clone(frameMagic), 0, 3, 0, 0, 1, 2, 3),
	} {
		if v := Of(data); v.Fault == "" {
			t.Errorf("%s: no fault in %+v", name, v)
		}
	}
}

func TestMuchIsCut(t *testing.T) {
	v := Of([]byte(strings.Repeat("ü", ShownMax)))
	if !v.TextCut || !v.HexCut || len(v.Text) > ShownMax || !utf8.ValidString(v.Text) {
		t.Errorf("%v %v, %d bytes", v.TextCut, v.HexCut, len(v.Text))
	}
	bomb := Of(gzipped(t, make([]byte, 3*UnpackedMax)))
	if !bomb.UnpackedCut || bomb.UnpackedBytes != UnpackedMax {
		t.Errorf("%v, %d bytes", bomb.UnpackedCut, bomb.UnpackedBytes)
	}
	blocks := Of(xerial(make([]byte, UnpackedMax), make([]byte, 10)))
	if !blocks.UnpackedCut || blocks.UnpackedBytes != UnpackedMax {
		t.Errorf("%v, %d bytes", blocks.UnpackedCut, blocks.UnpackedBytes)
	}
}

func TestEveryCharacterShows(t *testing.T) {
	for in, want := range map[string]string{
		"plain ü 世": "plain ü 世", "a\u202eb": `a\u{202e}b`, "\x1b[31m": `\u{1b}[31m`, "a\u200bb": `a\u{200b}b`,
		"a\u00a0b": `a\u{a0}b`, "a\nb": `a\u{a}b`, "<script>": "<script>",
	} {
		if got := Plain(in, false); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := Plain("a\r\n\tb\x00", true); got != "a␍\n\tb\\u{0}" {
		t.Errorf("%q", got)
	}
}

func FuzzOf(f *testing.F) {
	f.Add([]byte("text"))
	f.Add([]byte{0x1f, 0x8b, 8, 0})
	f.Add(xerial([]byte("a")))
	f.Add(append(bytes.Clone(javaMagic), tcObject, tcClassDesc, 0, 1, 'X'))
	f.Fuzz(func(t *testing.T, data []byte) {
		v := Of(data)
		if v.UnpackedBytes > UnpackedMax || len(v.Text) > 16*ShownMax || !utf8.ValidString(v.Text) {
			t.Errorf("%+v", v)
		}
	})
}
