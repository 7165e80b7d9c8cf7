package invariants

import (
	"log/slog"
	"strings"
)

// Violation is the value that Violated panics with. Message is the constant phrase, Attrs the values in the order
// given.
type Violation struct {
	Message string
	Attrs   []slog.Attr
}

// Error makes a Violation readable where a panic is printed: "invariant violated: message: key=value key=value".
func (v Violation) Error() string {
	var text strings.Builder
	text.WriteString("invariant violated: ")
	text.WriteString(v.Message)
	for i, attr := range v.Attrs {
		if i == 0 {
			text.WriteByte(':')
		}
		text.WriteByte(' ')
		text.WriteString(attr.String())
	}
	return text.String()
}

// Violated panics with a Violation. msg is a constant lower-case phrase that says what must hold, attrs are the
// values that show it does not. It never returns.
func Violated(msg string, attrs ...slog.Attr) {
	panic(Violation{Message: msg, Attrs: attrs})
}
