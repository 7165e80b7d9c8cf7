package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// field is one field of a record.
type field struct {
	name     string
	wire     string // bool, int, long, buffer, ustring, or a record's name
	goType   string // "" for the wire type's own
	vector   bool
	optional bool
	nullBit  int // number of the ustring field in its record, or -1
}

// record is one record of the schema.
type record struct {
	name, comment string
	fields        []field
	ustrings      int  // fields that are one string
	text          bool // holds a string at any depth
	optional      bool // has an optional field
	minBytes      int  // the smallest encoding
	echo          bool // writes text as Java does
	inEcho        bool // is a field of a record that does
	inVector      bool // is an element of a vector
}

// schema is a parsed schema: the records in order.
type schema struct {
	records []*record
}

// wireGo maps primitive wire types to Go.
var wireGo = map[string]string{"bool": "bool", "int": "int32", "long": "int64", "buffer": "[]byte", "ustring": "string"}

// wireMin is the smallest encoding of each primitive, in bytes.
var wireMin = map[string]int{"bool": 1, "int": 4, "long": 8, "buffer": 4, "ustring": 4}

// nullsBits is the number of ustring fields that a jute.Nulls can tell apart.
const nullsBits = 8

// headLine and fieldLine are the two kinds of lines.
var (
	headLine  = regexp.MustCompile(`^(record|echo) ([A-Z]\w*): (\S.*)$`)
	fieldLine = regexp.MustCompile(`^\s+([A-Z]\w*) (\[)?(\w+)(\])?(?::([A-Z]\w*))?(\?)?$`)
)

// parse reads the schema's records. The error names the line.
func parse(text string) (*schema, error) {
	s := &schema{}
	for i, line := range strings.Split(text, "\n") {
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := s.addLine(line); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	if len(s.records) == 0 {
		return nil, errors.New("no records")
	}
	return s, nil
}

// addLine adds a record, or a field to the last one.
func (s *schema) addLine(line string) error {
	if m := headLine.FindStringSubmatch(line); m != nil {
		if s.lookup(m[2]) != nil {
			return fmt.Errorf("record %s is there already", m[2])
		}
		s.records = append(s.records, &record{name: m[2], comment: m[3], echo: m[1] == "echo"})
		return nil
	}
	m := fieldLine.FindStringSubmatch(line)
	switch {
	case m == nil || (m[2] == "") != (m[4] == ""):
		return fmt.Errorf("want a record's head or a field's name and type, have %q", line)
	case len(s.records) == 0:
		return errors.New("field before any record")
	}
	f := field{name: m[1], wire: m[3], goType: m[5], vector: m[2] != "", optional: m[6] != "", nullBit: -1}
	return s.addField(s.records[len(s.records)-1], f)
}

// addField adds f to r.
func (s *schema) addField(r *record, f field) error {
	nested := s.lookup(f.wire)
	minBytes, primitive := wireMin[f.wire]
	same := func(other field) bool { return other.name == f.name }
	switch {
	case !primitive && (nested == nil || nested == r):
		return fmt.Errorf("unknown type %q", f.wire)
	case slices.ContainsFunc(r.fields, same) || f.name == "Nulls":
		return fmt.Errorf("field %s is there already", f.name)
	case r.optional:
		return fmt.Errorf("field %s follows an optional one", f.name)
	case f.optional && (f.wire != "bool" || f.vector):
		return fmt.Errorf("optional field %s is not a bool", f.name)
	case f.vector && primitive && (f.wire != "ustring" || r.echo):
		return fmt.Errorf("vector of %s", f.wire)
	case nested != nil && (nested.optional || nested.minBytes == 0):
		return fmt.Errorf("%s has no end or no bytes of its own", f.wire)
	}
	if nested != nil {
		minBytes = nested.minBytes
		nested.inVector = nested.inVector || f.vector
		r.text = r.text || nested.text
	}
	if f.wire == "ustring" {
		r.text = true
		if !f.vector {
			f.nullBit = r.ustrings
			r.ustrings++
		}
	}
	switch {
	case r.ustrings > nullsBits:
		return fmt.Errorf("field %s is string %d of its record, only %d have a null bit", f.name, r.ustrings, nullsBits)
	case f.vector:
		r.minBytes += 4
	case f.optional:
		r.optional = true
	default:
		r.minBytes += minBytes
	}
	r.fields = append(r.fields, f)
	return nil
}

// lookup returns the record of that name, or nil.
func (s *schema) lookup(name string) *record {
	for _, r := range s.records {
		if r.name == name {
			return r
		}
	}
	return nil
}

// finish hands the echo mark down to the records inside echo records. Records only hold earlier ones: last to first
// does it.
func (s *schema) finish() {
	for _, r := range slices.Backward(s.records) {
		for _, f := range r.fields {
			if nested := s.lookup(f.wire); nested != nil && (r.echo || r.inEcho) {
				nested.inEcho = true
			}
		}
	}
}

// primitive reports whether the field's wire type is not a record.
func (f field) primitive() bool { _, ok := wireGo[f.wire]; return ok }

// typ returns the field's Go type.
func (f field) typ() string {
	t := f.goType
	if t == "" {
		t = f.wire
		if g, ok := wireGo[f.wire]; ok {
			t = g
		}
	}
	if f.vector {
		return "[]" + t
	}
	return t
}

// convert returns value as the wire's Go type.
func (f field) convert(value string) string {
	if f.goType == "" {
		return value
	}
	return wireGo[f.wire] + "(" + value + ")"
}
