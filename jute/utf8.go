package jute

import (
	"strings"
	"unicode/utf8"
)

// replaceInvalid returns b with each malformed sequence replaced by U+FFFD, as Java's new String(b, UTF_8) does it
// (held against Java 17 in testdata/utf8_java.txt). The result is at most three times as long as b, and all that is
// allocated.
func replaceInvalid(b []byte) string {
	size := 0
	for rest := b; len(rest) > 0; {
		r, n := decodeChar(rest)
		size += utf8.RuneLen(r)
		rest = rest[n:]
	}
	var out strings.Builder
	out.Grow(size)
	for len(b) > 0 {
		r, n := decodeChar(b)
		out.WriteRune(r)
		b = b[n:]
	}
	return out.String()
}

// decodeChar returns the first character of b, or U+FFFD, and how many bytes it stands for.
func decodeChar(b []byte) (r rune, n int) {
	r, n = utf8.DecodeRune(b)
	if r == utf8.RuneError && n == 1 {
		n = malformedLen(b)
	}
	return r, n
}

// malformedLen returns how many of the malformed bytes at the start of b one replacement stands for: the longest
// start of a character that could have been (Unicode's maximal subpart).
//
// Quirk: Java takes the three bytes of an encoded surrogate (ED A0 80 … ED BF BF) as one character, where Unicode
// sees three errors.
func malformedLen(b []byte) int {
	size, low, high := 0, byte(0x80), byte(0xbf) // of the character; the range of its second byte
	switch lead := b[0]; {
	case lead >= 0xc2 && lead <= 0xdf:
		size = 2
	case lead >= 0xe0 && lead <= 0xef:
		size = 3
		if lead == 0xe0 {
			low = 0xa0
		}
	case lead >= 0xf0 && lead <= 0xf4:
		size = 4
		switch lead {
		case 0xf0:
			low = 0x90
		case 0xf4:
			high = 0x8f
		}
	}
	n := 1
	for n < size && n < len(b) && b[n] >= low && b[n] <= high {
		low, high = 0x80, 0xbf
		n++
	}
	return n
}
