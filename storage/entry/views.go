package entry

import (
	"encoding/binary"
	"unsafe"
)

// CutString takes a length-prefixed string off b, as a view of it.
func CutString(b []byte) (s string, rest []byte, ok bool) {
	if len(b) < 4 {
		return "", b, false
	}
	n := int(binary.BigEndian.Uint32(b))
	b = b[4:]
	if n > len(b) {
		return "", b, false
	}
	return ViewString(b[:n]), b[n:], true
}

// ViewString is b as a string without a copy: it lives and changes as b does.
func ViewString(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return unsafe.String(&b[0], len(b))
}

// ViewBytes is s as bytes without a copy; they must not be changed.
func ViewBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
