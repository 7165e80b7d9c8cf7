package conf

import (
	"fmt"
	"unicode/utf16"
)

// entry is one key of a Java properties text with the line it begins on.
type entry struct {
	key   string
	value string
	line  int // 1-based; the natural line that holds the first character of the key
	// the bytes from the beginning of that line up to the beginning of the line behind the entry
	begin, end int
}

// brokenLine is a line of a properties text that cannot be read.
type brokenLine struct {
	line   int
	reason string
}

// parseProperties reads text as java.util.Properties.load(InputStream) does and returns its entries in the order of the
// text, duplicates included (the last one is the one that counts).
//
// The bytes are ISO-8859-1. Nothing is expanded: `${x}` stays as it is. The one thing that cannot be read is a `\u`
// without four hexadecimal digits: Java stops there, this reader names the line and goes on, so that all are named.
func parseProperties(text []byte) (entries []entry, broken []brokenLine) {
	lines := logicalLines{text: text, line: 1}
	for {
		chars, line, ok := lines.next()
		if !ok {
			return entries, broken
		}
		rawKey, rawValue := splitEntry(chars)
		key, keyReads := unescape(rawKey)
		value, valueReads := unescape(rawValue)
		if !keyReads || !valueReads {
			broken = append(broken, brokenLine{line: line, reason: `\u needs four hexadecimal digits after it`})
			continue
		}
		entries = append(entries, entry{key: key, value: value, line: line, begin: lines.begin, end: lines.off})
	}
}

// logicalLines cuts a properties text into lines: comments and blank lines left out, lines that end in an odd number of
// backslashes joined with the next one. It behaves as the LineReader inside java.util.Properties, its quirks included.
type logicalLines struct {
	text []byte
	off  int
	line int // 1-based number of the natural line that off is on
	// where the natural line that off is on begins, and the one on which the last logical line began
	lineBegin, begin int
}

// next returns the next logical line and the number of the natural line on which it begins; ok is false at the end.
//
// Quirk: a line that holds nothing but a backslash leaves the logical line empty, so the line after it may still be a
// comment.
func (l *logicalLines) next() (chars []byte, line int, ok bool) {
	skipBlank := true
	continued := false
	escaped := false
	for l.off < len(l.text) {
		c := l.text[l.off]
		here, begin := l.line, l.lineBegin
		l.advance()
		if skipBlank {
			if isBlank(c) || (!continued && isLineEnd(c)) {
				continue
			}
			skipBlank, continued = false, false
		}
		if len(chars) == 0 && (c == '#' || c == '!') {
			l.skipComment()
			skipBlank = true
			continue
		}
		if !isLineEnd(c) {
			if len(chars) == 0 {
				line, l.begin = here, begin
			}
			chars = append(chars, c)
			escaped = c == '\\' && !escaped
			continue
		}
		if len(chars) == 0 {
			skipBlank = true
			continue
		}
		if !escaped {
			return chars, line, true
		}
		chars = chars[:len(chars)-1]
		if l.endedBy(c) {
			return chars, line, true
		}
		skipBlank, continued, escaped = true, true, false
	}
	if len(chars) == 0 {
		return nil, 0, false
	}
	if escaped {
		chars = chars[:len(chars)-1]
	}
	return chars, line, true
}

// advance moves over one character, or over both of a CR LF pair, and counts lines.
func (l *logicalLines) advance() {
	c := l.text[l.off]
	l.off++
	if c == '\r' && l.off < len(l.text) && l.text[l.off] == '\n' {
		l.off++
	}
	if isLineEnd(c) {
		l.line++
		l.lineBegin = l.off
	}
}

// endedBy tells whether the text ended with c, which was just read. A backslash and then a single CR or LF at the very
// end make a logical line even if it is empty, and so an entry with an empty key.
func (l *logicalLines) endedBy(c byte) bool {
	return l.off == len(l.text) && l.text[l.off-1] == c
}

// skipComment moves to the end of the natural line. A backslash at its end does not continue it.
func (l *logicalLines) skipComment() {
	for l.off < len(l.text) && !isLineEnd(l.text[l.off]) {
		l.off++
	}
}

func isBlank(c byte) bool   { return c == ' ' || c == '\t' || c == '\f' }
func isLineEnd(c byte) bool { return c == '\n' || c == '\r' }

// splitEntry cuts a logical line at the first separator that is not escaped: `=`, `:` or a blank; blanks around one `=`
// or `:` belong to it. Both halves are still escaped.
func splitEntry(chars []byte) (key, value []byte) {
	end := 0
	escaped := false
	for end < len(chars) {
		c := chars[end]
		if !escaped && (c == '=' || c == ':' || isBlank(c)) {
			break
		}
		escaped = c == '\\' && !escaped
		end++
	}
	start := end
	seen := false
	for start < len(chars) {
		c := chars[start]
		if !isBlank(c) {
			if seen || (c != '=' && c != ':') {
				break
			}
			seen = true
		}
		start++
	}
	return chars[:end], chars[start:]
}

// unescape turns the escapes of a key or value into characters and the ISO-8859-1 bytes into a UTF-8 string. A
// surrogate without its other half becomes U+FFFD.
func unescape(chars []byte) (s string, ok bool) {
	units := make([]uint16, 0, len(chars))
	for i := 0; i < len(chars); i++ {
		c := chars[i]
		if c != '\\' {
			units = append(units, uint16(c))
			continue
		}
		i++
		if i == len(chars) {
			break
		}
		switch chars[i] {
		case 'u':
			unit, ok := hexUnit(chars[i+1:])
			if !ok {
				return "", false
			}
			units = append(units, unit)
			i += 4
		case 't':
			units = append(units, '\t')
		case 'r':
			units = append(units, '\r')
		case 'n':
			units = append(units, '\n')
		case 'f':
			units = append(units, '\f')
		default:
			units = append(units, uint16(chars[i]))
		}
	}
	return string(utf16.Decode(units)), true
}

// hexUnit reads the four hexadecimal digits that chars begins with.
func hexUnit(chars []byte) (uint16, bool) {
	if len(chars) < 4 {
		return 0, false
	}
	var unit uint16
	for _, c := range chars[:4] {
		switch {
		case c >= '0' && c <= '9':
			unit = unit<<4 | uint16(c-'0')
		case c >= 'a' && c <= 'f':
			unit = unit<<4 | uint16(c-'a'+10)
		case c >= 'A' && c <= 'F':
			unit = unit<<4 | uint16(c-'A'+10)
		default:
			return 0, false
		}
	}
	return unit, true
}

// Property is one key of a Java properties text.
type Property struct{ Key, Value string }

// ParseProperties reads text as java.util.Properties does, for those who have such a file that is no zoo.cfg. They are
// in the order of the text; of one that comes twice the last one counts.
func ParseProperties(text []byte) ([]Property, error) {
	entries, broken := parseProperties(text)
	if len(broken) > 0 {
		return nil, fmt.Errorf("line %d: %s", broken[0].line, broken[0].reason)
	}
	all := make([]Property, 0, len(entries))
	for _, e := range entries {
		all = append(all, Property{e.key, e.value})
	}
	return all, nil
}
