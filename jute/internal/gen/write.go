package main

import (
	"bytes"
	"fmt"
	"go/format"
	"strings"
)

// Generate returns the formatted Go source for a schema.
func Generate(text string) ([]byte, error) {
	s, err := parse(text)
	if err != nil {
		return nil, err
	}
	s.finish()
	var b bytes.Buffer
	b.WriteString("// Code generated from schema.txt by internal/gen; DO NOT EDIT.\n\npackage jute\n")
	for _, r := range s.records {
		writeType(&b, r)
		fmt.Fprintf(&b, "\n// Append adds the encoding of r to b.\nfunc (r *%s) Append(b []byte) []byte {\n", r.name)
		s.writeAppendBody(&b, r, r.echo)
		if r.inEcho && r.text && !r.echo {
			fmt.Fprintf(&b, "\n// appendEcho is Append with text as Java writes it.\n")
			fmt.Fprintf(&b, "func (r *%s) appendEcho(b []byte) []byte {\n", r.name)
			s.writeAppendBody(&b, r, true)
		}
		writeDecode(&b, r)
	}
	source, err := format.Source(b.Bytes())
	if err != nil {
		return nil, fmt.Errorf("format what was generated: %w", err)
	}
	return source, nil
}

// writeType writes the struct, and its smallest size if a vector's decoder asks for it.
func writeType(b *bytes.Buffer, r *record) {
	fmt.Fprintf(b, "\n// %s %s\ntype %s struct {\n", r.name, r.comment, r.name)
	for _, f := range r.fields {
		fmt.Fprintf(b, "%s %s\n", f.name, f.typ())
		if f.optional {
			fmt.Fprintf(b, "Has%s bool // the frame holds %s\n", f.name, f.name)
		}
	}
	if r.ustrings > 0 {
		b.WriteString("Nulls Nulls\n")
	}
	b.WriteString("}\n")
	if r.inVector {
		fmt.Fprintf(b, "\n// min%[1]sBytes is the size of the smallest encoding of %[2]s %[1]s.\n"+
			"const min%[1]sBytes = %[3]d\n", r.name, article(r.name), r.minBytes)
	}
}

// article returns the indefinite article of a name.
func article(name string) string {
	if strings.ContainsRune("AEIO", rune(name[0])) {
		return "an"
	}
	return "a"
}

// writeAppendBody writes the rest of an encoder; echo chooses how it writes text.
func (s *schema) writeAppendBody(b *bytes.Buffer, r *record, echo bool) {
	for _, f := range r.fields {
		v := "r." + f.name
		appendNested, appendString := "Append", "AppendUstring"
		if nested := s.lookup(f.wire); echo && nested != nil && nested.text && !nested.echo {
			appendNested = "appendEcho"
		}
		if echo {
			appendString = "appendEcho"
		}
		switch {
		case f.optional:
			fmt.Fprintf(b, "if r.Has%s {\nb = AppendBool(b, %s)\n}\n", f.name, v)
		case f.vector && f.wire == "ustring":
			fmt.Fprintf(b, "b = AppendUstrings(b, %s)\n", v)
		case f.vector:
			fmt.Fprintf(b, "if %[1]s == nil {\nb = AppendInt(b, -1)\n} else {\n"+
				"b = AppendInt(b, int32(len(%[1]s)))\n}\n"+
				"for i := range %[1]s {\nb = %[1]s[i].%[2]s(b)\n}\n", v, appendNested)
		case !f.primitive():
			fmt.Fprintf(b, "b = %s.%s(b)\n", v, appendNested)
		case f.wire == "ustring":
			fmt.Fprintf(b, "b = %s(b, %s, r.Nulls, %d)\n", appendString, v, f.nullBit)
		default:
			fmt.Fprintf(b, "b = Append%s(b, %s)\n", title(f.wire), f.convert(v))
		}
	}
	b.WriteString("return b\n}\n")
}

// writeDecode writes the decoder.
func writeDecode(b *bytes.Buffer, r *record) {
	fmt.Fprintf(b, "\n// Decode reads r from d, reusing the memory of its vectors; d.Err says whether it could.\n")
	fmt.Fprintf(b, "func (r *%s) Decode(d *Decoder) {\n", r.name)
	if r.ustrings > 0 {
		b.WriteString("r.Nulls = 0\n")
	}
	for _, f := range r.fields {
		v := "r." + f.name
		switch {
		case f.optional:
			fmt.Fprintf(b, "r.Has%[1]s = d.err == nil && d.pos < len(d.buf)\n"+
				"%[2]s = r.Has%[1]s && d.Bool()\n", f.name, v)
		case f.vector && f.wire == "ustring":
			fmt.Fprintf(b, "%s = d.Ustrings(%s)\n", v, v)
		case f.vector:
			fmt.Fprintf(b, "if n := d.count(min%[2]sBytes); n < 0 {\n%[1]s = nil\n} else {\n%[1]s = reuse(%[1]s, n)\n"+
				"for i := range %[1]s {\n%[1]s[i].Decode(d)\n}\n}\n", v, f.wire)
		case !f.primitive():
			fmt.Fprintf(b, "%s.Decode(d)\n", v)
		case f.wire == "ustring":
			fmt.Fprintf(b, "%s = d.Ustring(&r.Nulls, %d)\n", v, f.nullBit)
		case f.goType != "":
			fmt.Fprintf(b, "%s = %s(d.%s())\n", v, f.goType, title(f.wire))
		default:
			fmt.Fprintf(b, "%s = d.%s()\n", v, title(f.wire))
		}
	}
	b.WriteString("}\n")
}

// title returns a wire type's name as it stands in Append and Decoder methods.
func title(wire string) string { return strings.ToUpper(wire[:1]) + wire[1:] }
