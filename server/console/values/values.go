package values

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/golang/snappy"
)

// Bounds: guesses. A page of more than that is no page to read.
const (
	ShownMax    = 64 << 10 // of a value, in bytes
	HexMax      = 8 << 10  // of a value in hexadecimal, which takes five times the room
	UnpackedMax = 4 << 20  // of what is unpacked
)

// Kind is what bytes are.
type Kind string

// The kinds.
const (
	Null   Kind = "null"
	Empty  Kind = "empty"
	Text   Kind = "text"
	JSON   Kind = "JSON"
	Binary Kind = "binary"
	Gzip   Kind = "gzip"
	Snappy Kind = "snappy"
	Java   Kind = "Java object"
)

// View is a value as it is shown.
type View struct {
	Kind  Kind // of the value itself
	Inner Kind // of what was unpacked; "" if nothing was
	// Class is of a Java object, as far as it can be told.
	Class string
	// Text is what there is to read: of what was unpacked, if something was; JSON is indented. "" for what is none.
	Text string
	// Hex is a dump of the value itself.
	Hex string
	// Bytes is how long the value is, UnpackedBytes what was unpacked.
	Bytes, UnpackedBytes int
	// TextCut and HexCut say that not all is shown, and UnpackedCut that not all was unpacked.
	TextCut, HexCut, UnpackedCut bool
	Fault                        string // why something packed could not be unpacked
}

// Of looks at a value. null tells one that is not there from an empty one.
func Of(data []byte) *View {
	v := &View{Kind: kindOf(data), Bytes: len(data)}
	shown := data
	switch v.Kind {
	case Gzip, Snappy:
		unpacked, cut, err := unpack(v.Kind, data)
		if err != nil {
			v.Fault = err.Error()
		}
		if err == nil || len(unpacked) > 0 {
			v.Inner, v.UnpackedBytes, v.UnpackedCut = kindOf(unpacked), len(unpacked), cut
			shown = unpacked
		}
	case Java:
		v.Class = javaClass(data)
	case Null, Empty, Text, JSON, Binary:
	}
	v.Text, v.TextCut = textOf(shown)
	v.Hex, v.HexCut = dump(data)
	return v
}

// Magic numbers.
var (
	gzipMagic = []byte{0x1f, 0x8b, 0x08}
	javaMagic = []byte{0xac, 0xed, 0x00, 0x05}
	// xerialMagic begins what snappy-java's SnappyOutputStream writes, as Kafka and others do.
	xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}
	frameMagic  = []byte("\xff\x06\x00\x00sNaPpY")
)

// kindOf says what bytes are, by how they begin, or that they can be read.
func kindOf(b []byte) Kind {
	switch {
	case b == nil:
		return Null
	case len(b) == 0:
		return Empty
	case bytes.HasPrefix(b, gzipMagic):
		return Gzip
	case bytes.HasPrefix(b, xerialMagic), bytes.HasPrefix(b, frameMagic):
		return Snappy
	case bytes.HasPrefix(b, javaMagic):
		return Java
	case readable(b):
		if trimmed := bytes.TrimSpace(b); len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') &&
			json.Valid(trimmed) {
			return JSON
		}
		return Text
	case rawSnappy(b):
		return Snappy
	}
	return Binary
}

// readable reports whether bytes are text: UTF-8 without controls but those of lines.
func readable(b []byte) bool {
	if !utf8.Valid(b) {
		return false
	}
	return !bytes.ContainsFunc(b, func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t'
	})
}

// rawSnappy reports whether bytes are a block of snappy without a frame, which has no magic number: it must be right to
// its end, and be packed text.
func rawSnappy(b []byte) bool {
	n, err := snappy.DecodedLen(b)
	if err != nil || n < len(b)/2 || n > UnpackedMax {
		return false
	}
	unpacked, err := snappy.Decode(nil, b)
	return err == nil && len(unpacked) > 0 && readable(unpacked)
}

var errSnappyEnds = errors.New("snappy: the value ends within a block")

// unpack unpacks as much as is shown. With an error it returns what came before.
func unpack(k Kind, b []byte) (unpacked []byte, cut bool, err error) {
	var r io.Reader
	switch {
	case k == Gzip:
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, false, err
		}
		r = z
	case bytes.HasPrefix(b, frameMagic):
		r = snappy.NewReader(bytes.NewReader(b))
	case bytes.HasPrefix(b, xerialMagic):
		return unpackXerial(b)
	default:
		unpacked, err = snappy.Decode(nil, b) // rawSnappy has bounded its length
		return unpacked, false, err
	}
	unpacked, err = io.ReadAll(io.LimitReader(r, UnpackedMax+1))
	if len(unpacked) > UnpackedMax {
		return unpacked[:UnpackedMax], true, nil
	}
	return unpacked, false, err
}

// unpackXerial unpacks the blocks that snappy-java writes: a header of 16 bytes, then blocks behind their lengths.
func unpackXerial(b []byte) (unpacked []byte, cut bool, err error) {
	const header = 16
	if len(b) < header {
		return nil, false, errSnappyEnds
	}
	for b = b[header:]; len(b) > 0; {
		if len(b) < 4 {
			return unpacked, false, errSnappyEnds
		}
		n := binary.BigEndian.Uint32(b)
		if uint64(n) > uint64(len(b)-4) {
			return unpacked, false, errSnappyEnds
		}
		block := b[4 : 4+n]
		b = b[4+n:]
		size, err := snappy.DecodedLen(block)
		if err != nil {
			return unpacked, false, err
		}
		if len(unpacked)+size > UnpackedMax {
			return unpacked, true, nil
		}
		plain, err := snappy.Decode(nil, block)
		if err != nil {
			return unpacked, false, err
		}
		unpacked = append(unpacked, plain...)
	}
	return unpacked, false, nil
}

// Tokens of Java's serialization (java.io.ObjectStreamConstants).
const (
	tcString    = 0x74
	tcObject    = 0x73
	tcClassDesc = 0x72
	tcArray     = 0x75
)

// javaClass names the class of a serialized object, as far as its first bytes tell.
func javaClass(b []byte) string {
	b = b[len(javaMagic):]
	if len(b) == 0 {
		return ""
	}
	switch {
	case b[0] == tcString:
		return "java.lang.String"
	case len(b) > 4 && (b[0] == tcObject || b[0] == tcArray) && b[1] == tcClassDesc:
		n := int(binary.BigEndian.Uint16(b[2:]))
		if n > len(b)-4 || !readable(b[4:4+n]) {
			return ""
		}
		return string(b[4 : 4+n])
	}
	return ""
}

// textOf is what can be read of bytes, cut at ShownMax; JSON is indented.
func textOf(b []byte) (text string, cut bool) {
	switch kindOf(b) {
	case JSON:
		var indented bytes.Buffer
		if len(b) <= ShownMax && json.Indent(&indented, bytes.TrimSpace(b), "", "  ") == nil {
			b = indented.Bytes()
		}
	case Text:
	default:
		return "", false
	}
	if len(b) > ShownMax {
		b, cut = b[:ShownMax], true
		for len(b) > 0 && !utf8.RuneStart(b[len(b)-1]) {
			b = b[:len(b)-1]
		}
		if r, n := utf8.DecodeLastRune(b); r == utf8.RuneError && n == 1 { // the first byte of a character
			b = b[:len(b)-1]
		}
	}
	return Plain(string(b), true), cut
}

// dump is a value in hexadecimal, with what can be read beside it.
func dump(b []byte) (text string, cut bool) {
	if len(b) > HexMax {
		b, cut = b[:HexMax], true
	}
	return hex.Dump(b), cut
}

// Plain is text in which every character shows: those that control, have no form of their own, or turn the direction of
// what stands beside them, are written as \u{…}. lines leaves the ends of lines and tabs as they are.
func Plain(text string, lines bool) string {
	hidden := func(r rune) bool {
		switch {
		case r == '\n' || r == '\t':
			return !lines
		case r == utf8.RuneError:
			return false
		case r == '\u00a0': // a space of fixed width
			return true
		}
		return !unicode.IsGraphic(r) || unicode.Is(unicode.Zs, r) && r != ' '
	}
	if !strings.ContainsFunc(text, hidden) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if r == '\r' && lines {
			b.WriteString("␍")
		} else if hidden(r) {
			fmt.Fprintf(&b, `\u{%x}`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
