package jaas

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// tokenKind tells tokens apart.
type tokenKind int

const (
	tokenEnd  tokenKind = iota // the end of the file
	tokenWord                  // a word, or a string in quotation marks
	tokenSign                  // one of { } ; =
)

// token is one token and the line where it begins.
type token struct {
	kind tokenKind
	text string
	line int
}

// tokenizer cuts a file into tokens as java.io.StreamTokenizer does with the settings of
// sun.security.provider.ConfigFile: words begin with a letter or one of $_* and go on with digits, dots and dashes,
// too; strings have double quotation marks and the escapes of C; comments are // and /* */.
type tokenizer struct {
	text string // what is left
	line int    // where text begins
}

// next returns the next token.
func (t *tokenizer) next() (token, error) {
	if err := t.skip(); err != nil {
		return token{}, err
	}
	at := token{line: t.line}
	if t.text == "" {
		return at, nil
	}
	switch c := t.text[0]; {
	case c == '"':
		return t.quoted()
	case c == '{', c == '}', c == ';', c == '=':
		at.kind, at.text, t.text = tokenSign, t.text[:1], t.text[1:]
		return at, nil
	case isWordStart(rune(c)) || c >= utf8.RuneSelf:
		return t.word()
	case c == '.' || '0' <= c && c <= '9':
		return at, t.wrong("a value that begins with a digit or a dot must be in quotation marks")
	case c == '\'':
		return at, t.wrong("a value must be in double quotation marks, not in single ones")
	case c == '/':
		return at, t.wrong("a single / must be in quotation marks; a comment begins with // or /*")
	default:
		return at, t.wrong(fmt.Sprintf("unexpected character %q; put the value in quotation marks", c))
	}
}

// wrong is an error in the line where the tokenizer is.
func (t *tokenizer) wrong(what string) error { return fmt.Errorf("line %d: %s", t.line, what) }

// skip passes over blanks and comments.
func (t *tokenizer) skip() error {
	for t.text != "" {
		switch {
		case t.text[0] <= ' ':
			if t.text[0] == '\n' || t.text[0] == '\r' && !strings.HasPrefix(t.text, "\r\n") {
				t.line++
			}
			t.text = t.text[1:]
		case strings.HasPrefix(t.text, "//"):
			end := strings.IndexAny(t.text, "\r\n")
			if end < 0 {
				end = len(t.text)
			}
			t.text = t.text[end:]
		case strings.HasPrefix(t.text, "/*"):
			end := strings.Index(t.text[2:], "*/")
			if end < 0 {
				return t.wrong("the comment that begins here has no end")
			}
			t.line += lines(t.text[:end])
			t.text = t.text[2+end+2:]
		default:
			return nil
		}
	}
	return nil
}

// lines counts the ends of lines.
func lines(s string) int {
	return strings.Count(s, "\n") + strings.Count(s, "\r") - strings.Count(s, "\r\n")
}

// isWordStart tells whether a word may begin with c.
func isWordStart(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || strings.ContainsRune("$_*", c) || c >= 0xa0
}

// isWordRest tells whether a word may go on with c.
func isWordRest(c rune) bool {
	return isWordStart(c) || c == '-' || c == '.' || '0' <= c && c <= '9'
}

// word takes a word.
func (t *tokenizer) word() (token, error) {
	end := len(t.text)
	for i, c := range t.text {
		if i == 0 && !isWordStart(c) || !isWordRest(c) {
			end = i
			break
		}
	}
	at := token{kind: tokenWord, text: t.text[:end], line: t.line}
	if end == 0 {
		return at, t.wrong("a control character; remove it")
	}
	t.text = t.text[end:]
	return at, nil
}

// escapes are those of StreamTokenizer, octal numbers apart.
var escapes = map[byte]byte{'a': 7, 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': 0xb}

// quoted takes a string. It must end in its line: Java takes one without an end for one that ends there.
func (t *tokenizer) quoted() (token, error) {
	at := token{kind: tokenWord, line: t.line}
	var b strings.Builder
	for s := t.text[1:]; s != ""; {
		switch c := s[0]; {
		case c == '"':
			at.text, t.text = b.String(), s[1:]
			return at, nil
		case c == '\n' || c == '\r':
			return at, t.wrong("the string that begins here does not end in its line")
		case c == '\\':
			n := appendEscaped(&b, s[1:])
			if n == 0 {
				return at, t.wrong("the string that begins here does not end in its line")
			}
			s = s[1+n:]
		default:
			b.WriteByte(c)
			s = s[1:]
		}
	}
	return at, t.wrong("the string that begins here has no end")
}

// appendEscaped adds what the escape after a backslash stands for, and returns how many bytes of s it is: 0 if the line
// ends there.
func appendEscaped(b *strings.Builder, s string) int {
	if s == "" || s[0] == '\n' || s[0] == '\r' {
		return 0
	}
	if c, ok := escapes[s[0]]; ok {
		b.WriteByte(c)
		return 1
	}
	if s[0] < '0' || '7' < s[0] {
		_, n := utf8.DecodeRuneInString(s)
		b.WriteString(s[:n])
		return n
	}
	longest := 2
	if s[0] <= '3' {
		longest = 3
	}
	n, code := 0, rune(0)
	for n < longest && n < len(s) && '0' <= s[n] && s[n] <= '7' {
		code = code*8 + rune(s[n]-'0')
		n++
	}
	b.WriteRune(code)
	return n
}
