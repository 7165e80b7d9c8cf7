package console

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// journalMax is how many lines are kept; a guess.
const journalMax = 100

// Journal is a handler of a log that keeps the last lines from warning on for the console, and hands all lines on.
type Journal struct {
	slog.Handler

	lines *journalLines
	attrs []slog.Attr
}

// journalLines are shared by a Journal and those made from it.
type journalLines struct {
	mu   sync.Mutex
	next int // where the next line goes
	all  []Line
}

// Line is one line of the log.
type Line struct {
	At            time.Time
	Level         slog.Level
	Message, More string
}

// NewJournal returns one that hands lines on to h.
func NewJournal(h slog.Handler) *Journal { return &Journal{Handler: h, lines: &journalLines{}} }

// Enabled reports whether somebody wants a line: the handler behind, or the console.
func (j *Journal) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn || j.Handler.Enabled(ctx, l)
}

// Handle keeps a line and hands it on.
func (j *Journal) Handle(ctx context.Context, r slog.Record) error { //nolint:gocritic // slog's interface
	if r.Level >= slog.LevelWarn {
		j.keep(&r)
	}
	if !j.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return j.Handler.Handle(ctx, r)
}

// keep keeps a line.
func (j *Journal) keep(r *slog.Record) {
	var more strings.Builder
	add := func(a slog.Attr) bool {
		if more.Len() > 0 {
			more.WriteByte(' ')
		}
		more.WriteString(a.String())
		return more.Len() < lineMax
	}
	for _, a := range j.attrs {
		add(a)
	}
	r.Attrs(add)
	line := Line{At: r.Time, Level: r.Level, Message: r.Message, More: cut(more.String(), lineMax)}
	j.lines.mu.Lock()
	defer j.lines.mu.Unlock()
	if len(j.lines.all) < journalMax {
		j.lines.all = append(j.lines.all, line)
		return
	}
	j.lines.all[j.lines.next] = line
	j.lines.next = (j.lines.next + 1) % journalMax
}

// lineMax bounds what is kept of a line; a guess.
const lineMax = 500

// cut cuts text that is too long.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// WithAttrs implements slog.Handler.
func (j *Journal) WithAttrs(attrs []slog.Attr) slog.Handler {
	all := append(append([]slog.Attr(nil), j.attrs...), attrs...)
	return &Journal{Handler: j.Handler.WithAttrs(attrs), lines: j.lines, attrs: all}
}

// WithGroup implements slog.Handler. The groups of what is kept do not show.
func (j *Journal) WithGroup(name string) slog.Handler {
	return &Journal{Handler: j.Handler.WithGroup(name), lines: j.lines, attrs: j.attrs}
}

// Latest are the last lines, the latest first.
func (j *Journal) Latest(most int) []Line {
	j.lines.mu.Lock()
	defer j.lines.mu.Unlock()
	var found []Line
	n := len(j.lines.all)
	for i := 1; i <= min(n, most); i++ {
		found = append(found, j.lines.all[(j.lines.next-i+2*n)%n])
	}
	return found
}
