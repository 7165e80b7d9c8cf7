package jute

import (
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"
)

// appendEcho is AppendUstring for replies that give back text that no path rule has looked at.
//
// Quirk: Java writes each half of a surrogate pair by itself (BinaryOutputArchive.stringToByteBuffer), so that a
// client gets a character outside the basic plane as two sequences of three bytes, which is not UTF-8: Java clients
// read two U+FFFD. Only replies do so: the Append of other records keeps such text whole, so that what is stored is
// what was sent. (ZooKeeper writes its own log in this way too, and has U+FFFD in its ACLs after a restart.)
func appendEcho(b []byte, v string, nulls Nulls, field uint) []byte {
	if !hasSupplementary(v) {
		return AppendUstring(b, v, nulls, field)
	}
	mark := len(b)
	b = AppendInt(b, 0)
	for _, r := range v {
		if high, low := utf16.EncodeRune(r); r > 0xffff {
			b = appendUnit(appendUnit(b, high), low)
		} else {
			b = utf8.AppendRune(b, r)
		}
	}
	binary.BigEndian.PutUint32(b[mark:], uint32(len(b)-mark-4))
	return b
}

// hasSupplementary reports whether v, which is UTF-8, holds a character outside the basic plane.
func hasSupplementary(v string) bool {
	for i := 0; i < len(v); i++ {
		if v[i] >= 0xf0 {
			return true
		}
	}
	return false
}

// appendUnit adds a surrogate as if it were a character of three bytes; utf8.AppendRune refuses to.
func appendUnit(b []byte, r rune) []byte {
	return append(b, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f)
}
