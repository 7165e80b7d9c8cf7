package jaas

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Config is what a file holds: its sections in the order of the file.
type Config struct {
	Sections []Section
}

// Section is the login of one application, `Name { modules };`.
type Section struct {
	Name    string
	Line    int // of its name
	Modules []Module
}

// Module is one login module of a section, `class flag options;`.
type Module struct {
	Class   string
	Flag    string // required, requisite, sufficient or optional
	Line    int    // of its class
	Options []Option
}

// Option is one `key=value` of a module. The value may be a secret.
type Option struct {
	Key, Value string
}

// Section returns the section of a name, which is compared exactly; ok is false if there is none.
func (c *Config) Section(name string) (s Section, ok bool) {
	for _, s := range c.Sections {
		if s.Name == name {
			return s, true
		}
	}
	return Section{}, false
}

// Option returns the value of an option, "" if it is not there.
func (m *Module) Option(key string) string {
	for _, o := range m.Options {
		if o.Key == key {
			return o.Value
		}
	}
	return ""
}

// errNotText means a file that is not UTF-8.
var errNotText = errors.New("is not text in UTF-8")

// Parse reads a JAAS file. Its error names the first line that is wrong, without the name of the file.
func Parse(text []byte) (*Config, error) {
	if !utf8.Valid(text) {
		return nil, errNotText
	}
	p := &parser{tokens: tokenizer{text: string(text), line: 1}}
	if err := p.advance(); err != nil {
		return nil, err
	}
	c := &Config{}
	for p.at.kind != tokenEnd {
		s, err := p.section()
		if err != nil {
			return nil, err
		}
		if earlier, twice := c.Section(s.Name); twice {
			return nil, fmt.Errorf("line %d: section %q was there already in line %d; remove one of the two",
				s.Line, s.Name, earlier.Line)
		}
		c.Sections = append(c.Sections, s)
	}
	return c, nil
}

// parser reads the grammar of sun.security.provider.ConfigFile with one token of lookahead.
type parser struct {
	tokens tokenizer
	at     token
}

// advance takes the next token.
func (p *parser) advance() (err error) {
	p.at, err = p.tokens.next()
	return err
}

// section reads `name { modules };`.
func (p *parser) section() (Section, error) {
	s := Section{Line: p.at.line}
	var err error
	if s.Name, err = p.word("the name of a section"); err != nil {
		return s, err
	}
	if err := p.sign('{'); err != nil {
		return s, err
	}
	for !p.isSign('}') {
		m, err := p.module()
		if err != nil {
			return s, err
		}
		s.Modules = append(s.Modules, m)
	}
	if err := p.sign('}'); err != nil {
		return s, err
	}
	return s, p.sign(';')
}

// module reads `class flag options;`.
func (p *parser) module() (Module, error) {
	m := Module{Line: p.at.line}
	var err error
	if m.Class, err = p.word("the class of a login module"); err != nil {
		return m, err
	}
	line := p.at.line
	if m.Flag, err = p.word("required, requisite, sufficient or optional"); err != nil {
		return m, err
	}
	m.Flag = strings.ToLower(m.Flag)
	switch m.Flag {
	case "required", "requisite", "sufficient", "optional":
	default:
		return m, fmt.Errorf("line %d: expected required, requisite, sufficient or optional after the class", line)
	}
	seen := map[string]bool{}
	for !p.isSign(';') {
		line := p.at.line
		o, err := p.option()
		if err != nil {
			return m, err
		}
		if seen[o.Key] {
			return m, fmt.Errorf("line %d: the module has the option %q twice; remove one of the two", line, o.Key)
		}
		seen[o.Key] = true
		m.Options = append(m.Options, o)
	}
	return m, p.sign(';')
}

// option reads `key=value`.
func (p *parser) option() (o Option, err error) {
	if o.Key, err = p.word("an option or ';'"); err != nil {
		return o, err
	}
	if err := p.sign('='); err != nil {
		return o, err
	}
	line := p.at.line
	if o.Value, err = p.word("the value of the option, in quotation marks"); err != nil {
		return o, err
	}
	if strings.Contains(o.Value, "${") {
		return o, fmt.Errorf("line %d: the value of the option %q has ${, where Java puts in a property of its own; "+
			"write the value out", line, o.Key)
	}
	return o, nil
}

// word takes a word or a string.
func (p *parser) word(expected string) (string, error) {
	if p.at.kind != tokenWord {
		return "", p.unexpected(expected)
	}
	text := p.at.text
	return text, p.advance()
}

// sign takes one of the signs.
func (p *parser) sign(c byte) error {
	if !p.isSign(c) {
		return p.unexpected("'" + string(c) + "'")
	}
	return p.advance()
}

// isSign tells whether the next token is this sign.
func (p *parser) isSign(c byte) bool { return p.at.kind == tokenSign && p.at.text[0] == c }

// unexpected says what should be where the parser is. Words are not shown: they could be half of a password.
func (p *parser) unexpected(expected string) error {
	found := "a word"
	switch p.at.kind {
	case tokenEnd:
		found = "the end of the file"
	case tokenSign:
		found = "'" + p.at.text + "'"
	case tokenWord:
	}
	return fmt.Errorf("line %d: expected %s, found %s", p.at.line, expected, found)
}
