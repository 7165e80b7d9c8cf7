package admin

import (
	"bufio"
	"strconv"
	"unicode/utf8"

	"zkd/server/fourletter"
)

// page writes JSON as ZooKeeper's Jackson does with INDENT_OUTPUT: objects over several lines, arrays in one. The
// writer below keeps the first error.
type page struct {
	out     *bufio.Writer
	depth   int // of objects
	entries int // of the object or array that is written
	scratch []byte
}

func (p *page) raw(s string) {
	_, _ = p.out.WriteString(s) // the writer keeps the error
}

// object writes an object; fill writes its fields.
func (p *page) object(fill func()) {
	outer := p.entries
	p.entries = 0
	p.depth++
	p.raw("{")
	fill()
	p.depth--
	if p.entries > 0 {
		p.line()
	} else {
		p.raw(" ")
	}
	p.raw("}")
	p.entries = outer
}

// line begins a line at the depth of the present object.
func (p *page) line() {
	p.raw("\n")
	for range p.depth {
		p.raw("  ")
	}
}

// array writes an array; fill calls item before each element.
func (p *page) array(fill func()) {
	outer := p.entries
	p.entries = 0
	p.raw("[")
	fill()
	p.raw(" ]")
	p.entries = outer
}

// item begins an element of an array.
func (p *page) item() {
	if p.entries > 0 {
		p.raw(",")
	}
	p.entries++
	p.raw(" ")
}

// field begins a field of an object.
func (p *page) field(name string) {
	if p.entries > 0 {
		p.raw(",")
	}
	p.entries++
	p.line()
	p.quoted(name)
	p.raw(" : ")
}

func (p *page) str(name, value string) {
	p.field(name)
	p.quoted(value)
}

func (p *page) num(name string, value int64) {
	p.field(name)
	p.number(value)
}

func (p *page) number(value int64) {
	p.scratch = strconv.AppendInt(p.scratch[:0], value, 10)
	_, _ = p.out.Write(p.scratch) // the writer keeps the error
}

// double writes a number as Java does.
func (p *page) double(name string, value float64) {
	p.field(name)
	p.raw(fourletter.JavaDouble(value))
}

func (p *page) flag(name string, value bool) {
	p.field(name)
	p.raw(strconv.FormatBool(value))
}

func (p *page) null(name string) {
	p.field(name)
	p.raw("null")
}

// strs writes an array of strings.
func (p *page) strs(name string, values ...string) {
	p.field(name)
	p.array(func() {
		for _, v := range values {
			p.item()
			p.quoted(v)
		}
	})
}

// escapes are the characters that have a short form.
var escapes = map[byte]string{
	'"': `\"`, '\\': `\\`, '\b': `\b`, '\t': `\t`, '\n': `\n`, '\f': `\f`, '\r': `\r`,
}

// quoted writes a string. What is no UTF-8 is written as the replacement character: JSON has nothing else for it.
func (p *page) quoted(s string) {
	p.raw(`"`)
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			p.character(c)
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		_, _ = p.out.WriteRune(r) // the writer keeps the error
		i += n
	}
	p.raw(`"`)
}

// character writes one of ASCII.
func (p *page) character(c byte) {
	const hex = "0123456789ABCDEF"
	switch short, ok := escapes[c]; {
	case ok:
		p.raw(short)
	case c < ' ':
		p.raw(`\u00`)
		_ = p.out.WriteByte(hex[c>>4])  // the writer keeps the error
		_ = p.out.WriteByte(hex[c&0xf]) // likewise
	default:
		_ = p.out.WriteByte(c) // likewise
	}
}
