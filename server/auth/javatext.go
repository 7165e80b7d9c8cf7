package auth

import (
	"strings"
	"unicode/utf8"
)

// javaText decodes bytes as Java's String does with UTF-8: each longest run of bytes that could have begun a character
// becomes one U+FFFD, and so does an encoded surrogate, as a whole (measured on ZooKeeper: it decides which digest such
// bytes give).
func javaText(data []byte) string {
	if utf8.Valid(data) {
		return string(data)
	}
	var b strings.Builder
	b.Grow(len(data) + 8)
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		if r == utf8.RuneError && n == 1 {
			n = malformed(data)
		}
		b.WriteRune(r)
		data = data[n:]
	}
	return b.String()
}

// malformed returns how many bytes one U+FFFD stands for at the start of b, where no character is.
func malformed(b []byte) int {
	low, high := byte(0x80), byte(0xbf) // of the second byte
	length := 0
	switch first := b[0]; {
	case first >= 0xe0 && first <= 0xef:
		length = 3
		if first == 0xe0 {
			low = 0xa0
		}
	case first >= 0xf0 && first <= 0xf4:
		length = 4
		if first == 0xf0 {
			low = 0x90
		}
		if first == 0xf4 {
			high = 0x8f
		}
	}
	n := 1
	for n < length && n < len(b) && b[n] >= low && b[n] <= high {
		low, high = 0x80, 0xbf
		n++
	}
	return n
}
