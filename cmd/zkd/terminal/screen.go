package terminal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Style is how a line looks.
type Style int

// The styles.
const (
	Plain Style = iota
	Bold
	Inverse
	Dim
)

// begin are the escape sequences of the styles.
var begin = [...]string{Plain: "", Bold: "\x1b[1m", Inverse: "\x1b[7m", Dim: "\x1b[2m"}

// Line is one line of a screen, whose text is clean.
type Line struct {
	Text  string
	Style Style
}

// Screen is a terminal that shows full screens.
type Screen struct {
	in     *os.File
	out    *os.File
	before *term.State
}

// Open takes a terminal. Close gives it back as it was.
func Open(in, out *os.File) (*Screen, error) {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, fmt.Errorf("the terminal cannot be read key by key: %w", err)
	}
	s := &Screen{in: in, out: out, before: before}
	// The alternate screen, no cursor, and lines that are too long are cut.
	if _, err := io.WriteString(out, "\x1b[?1049h\x1b[?25l\x1b[?7l"); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close gives the terminal back.
func (s *Screen) Close() error {
	_, err := io.WriteString(s.out, "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l")
	return errors.Join(err, term.Restore(int(s.in.Fd()), s.before))
}

// Bounds of a window whose size nobody tells, or tells wrong.
const (
	usualColumns, usualRows = 80, 24
	columnsMax, rowsMax     = 1000, 1000
)

// Size is how large the window is.
func (s *Screen) Size() (columns, rows int) {
	columns, rows, err := term.GetSize(int(s.out.Fd()))
	if err != nil || columns <= 0 || rows <= 0 {
		return usualColumns, usualRows
	}
	return min(columns, columnsMax), min(rows, rowsMax)
}

// Draw shows lines, those that fit.
func (s *Screen) Draw(lines []Line) error {
	columns, rows := s.Size()
	_, err := io.WriteString(s.out, frame(lines, columns, rows))
	return err
}

// frame is what shows lines in a window.
func frame(lines []Line, columns, rows int) string {
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i := range min(len(lines), rows) {
		if i > 0 {
			b.WriteString("\r\n")
		}
		l := &lines[i]
		text := Cut(l.Text, columns)
		b.WriteString(begin[l.Style])
		b.WriteString(text)
		if l.Style == Inverse {
			if pad := columns - len([]rune(text)); pad > 0 {
				b.WriteString(strings.Repeat(" ", pad))
			}
		}
		b.WriteString("\x1b[0m\x1b[K") // and the rest of the line is empty
	}
	b.WriteString("\x1b[J") // and what is below
	return b.String()
}
