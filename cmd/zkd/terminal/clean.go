package terminal

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean is s without anything that a terminal takes for a command: characters that do not show (control characters,
// those that turn the direction of writing, and bytes that are no UTF-8) are replaced by what they are called.
func Clean(s string) string {
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			b.WriteString(escaped(rune(s[i]), "x", 2))
		case hidden(r) && r < 1<<8:
			b.WriteString(escaped(r, "x", 2))
		case hidden(r):
			b.WriteString(escaped(r, "u", 4))
		default:
			b.WriteRune(r)
		}
		i += n
	}
	return b.String()
}

// hidden reports whether a character does not show by itself.
func hidden(r rune) bool {
	return r == utf8.RuneError || !unicode.IsPrint(r) || unicode.Is(unicode.Bidi_Control, r)
}

// escaped is a character's number as Go writes it: \x1b or \u202e.
func escaped(r rune, kind string, digits int) string {
	const hex = "0123456789abcdef"
	b := []byte(`\` + kind)
	if r >= 1<<16 {
		b, digits = []byte(`\U`), 8
	}
	for shift := 4 * (digits - 1); shift >= 0; shift -= 4 {
		b = append(b, hex[r>>shift&0xf])
	}
	return string(b)
}

// Cut is the beginning of a clean text of at most so many characters.
func Cut(s string, width int) string {
	if len(s) <= width {
		return s
	}
	count := 0
	for i := range s {
		if count == width {
			return s[:i]
		}
		count++
	}
	return s
}
