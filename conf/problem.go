package conf

import (
	"fmt"
	"strings"
)

// Problem is one value that stops the start.
type Problem struct {
	Key     string // as docs/configuration.md names it
	Source  string // `zoo.cfg:12`, `environment variable ZKD_TICK_TIME`, `flag clientPort`; empty when nothing was set
	Value   string // what was found; empty when nothing was set, `(hidden)` for secrets
	Allowed string // what is wrong or what is allowed, as a phrase
	order   int    // place of the value among all that were given; 0 is none
}

// String is one line: where, key, value, and what is allowed.
func (p Problem) String() string {
	var b strings.Builder
	if p.Source != "" {
		b.WriteString(p.Source)
		b.WriteString(": ")
	}
	b.WriteString(p.Key)
	if p.Value != "" {
		fmt.Fprintf(&b, "=%s", printable(p.Value))
	}
	b.WriteString(": ")
	b.WriteString(p.Allowed)
	return b.String()
}

// Errors is every wrong value of a configuration at once, in the order of the sources, what is missing last; Load
// returns it as its error.
type Errors []Problem

// Error lists the problems, one a line.
func (e Errors) Error() string {
	if len(e) == 1 {
		return "configuration: " + e[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "configuration: %d problems", len(e))
	for _, p := range e {
		b.WriteString("\n  ")
		b.WriteString(p.String())
	}
	return b.String()
}

// NoticeKind says why a Notice was made.
type NoticeKind string

// The kinds of notices.
const (
	NoticeUnknown    NoticeKind = "unknown"      // the key is in no table: probably a typing mistake
	NoticeIgnored    NoticeKind = "ignored"      // the key or the variable has no effect in zkd; the message says why
	NoticeNotBuilt   NoticeKind = "not built"    // zkd has a meaning for the key, but this release does nothing with it
	NoticeDuplicate  NoticeKind = "duplicate"    // a later line of the same file wins
	NoticeOverridden NoticeKind = "overridden"   // a source of higher precedence has a different value
	NoticeAdjusted   NoticeKind = "adjusted"     // the value was changed to the nearest one allowed, as ZooKeeper does
	NoticeMismatch   NoticeKind = "disagreement" // two keys disagree and one of them wins, as in ZooKeeper
	NoticeUseless    NoticeKind = "useless"      // no client can ever use what the value is for
	NoticeAdvice     NoticeKind = "advice"       // works, and could be better
	NoticeMoved      NoticeKind = "moved"        // variables of the official image say where the data is kept
)

// Notice is something the operator should know that does not stop the start: one log line.
type Notice struct {
	Kind    NoticeKind
	Key     string
	Source  string // as in Problem
	Message string // a phrase; never holds a secret
	Nearest string // the known key that an unknown one resembles; empty when none does
	order   int    // as in Problem
}

// printable quotes a value that would break a one-line message.
func printable(s string) string {
	const shownMax = 200
	if len(s) > shownMax {
		s = s[:shownMax] + "…"
	}
	for _, r := range s {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return fmt.Sprintf("%q", s)
		}
	}
	return s
}
