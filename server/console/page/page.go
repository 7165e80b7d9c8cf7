package page

import "strings"

// markup is HTML that the program's sources have. In it, {} is the place of a text.
type markup string

// Page is HTML that is being written.
type Page struct{ text strings.Builder }

// Put writes markup with the texts in the places of its {}, in their order. That there are as many texts as places, and
// that each place is one for a text, the tests of package console find for every call in its sources.
func (p *Page) Put(m markup, texts ...string) {
	rest := string(m)
	for _, text := range texts {
		before, after, _ := strings.Cut(rest, "{}")
		p.text.WriteString(before)
		_, _ = escaped.WriteString(&p.text, text) // memory does not fail
		rest = after
	}
	p.text.WriteString(rest)
}

// PutIf writes markup if there is a reason to.
func (p *Page) PutIf(reason bool, m markup, texts ...string) {
	if reason {
		p.Put(m, texts...)
	}
}

// escaped are the characters that could end a text, or an attribute in quotes, and the one that no HTML may have.
var escaped = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;", "\x00", "\ufffd")

// String is what was written.
func (p *Page) String() string { return p.text.String() }
