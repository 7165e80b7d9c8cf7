package terminal

import (
	"context"
	"io"
	"unicode/utf8"
)

// Key is a key that was pressed: a character, or one of the constants.
type Key rune

// Keys that are no characters.
const (
	KeyUp Key = -1 - iota
	KeyDown
	KeyLeft
	KeyRight
	KeyPageUp
	KeyPageDown
	KeyHome
	KeyEnd
	KeyBackTab
	KeyUnknown
)

// Keys that are characters.
const (
	KeyInterrupt Key = 3 // Ctrl-C
	KeyTab       Key = '\t'
	KeyEnter     Key = '\r'
	KeyEscape    Key = 0x1b
	KeyBackspace Key = 0x7f
)

// sequences are the ends of the escape sequences of keys, behind ESC [ or ESC O.
var sequences = map[string]Key{
	"A": KeyUp, "B": KeyDown, "C": KeyRight, "D": KeyLeft, "5~": KeyPageUp, "6~": KeyPageDown, "H": KeyHome,
	"F": KeyEnd, "1~": KeyHome, "4~": KeyEnd, "7~": KeyHome, "8~": KeyEnd, "Z": KeyBackTab,
}

// ReadKeys reads keys from r and sends them to keys, until r ends or ctx does. What a terminal sends for one key comes
// in one read: so ESC alone is that key, and not the beginning of another one.
func ReadKeys(ctx context.Context, r io.Reader, keys chan<- Key) {
	var b [256]byte
	for {
		n, err := r.Read(b[:])
		for rest := b[:n]; len(rest) > 0; {
			var k Key
			k, rest = decode(rest)
			select {
			case keys <- k:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// decode takes the first key from what was read.
func decode(b []byte) (Key, []byte) {
	if b[0] == byte(KeyEscape) && len(b) > 2 && (b[1] == '[' || b[1] == 'O') {
		end := 2
		for end < len(b)-1 && (b[end] < '@' || b[end] > '~') {
			end++
		}
		if k, known := sequences[string(b[2:end+1])]; known {
			return k, b[end+1:]
		}
		return KeyUnknown, b[end+1:]
	}
	switch b[0] {
	case '\n':
		return KeyEnter, b[1:]
	case 8:
		return KeyBackspace, b[1:]
	}
	r, n := utf8.DecodeRune(b)
	if r == utf8.RuneError {
		return KeyUnknown, b[n:]
	}
	return Key(r), b[n:]
}
