package sim

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// Story is what has happened in a world, a line each, in order: what befell it, and what its servers have logged.
type Story struct {
	began time.Time
	told  io.Writer // has each line, too; nil: nobody
	mu    sync.Mutex
	lines []string // guarded by mu
}

// newStory begins one.
func newStory(told io.Writer) *Story { return &Story{began: time.Now(), told: told} }

// Tell adds a line, and returns it.
func (s *Story) Tell(who, format string, args ...any) (line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line = fmt.Sprintf("%11.6f %-4s %s", time.Since(s.began).Seconds(), who, fmt.Sprintf(format, args...))
	s.lines = append(s.lines, line)
	if s.told != nil {
		_, _ = io.WriteString(s.told, line+"\n") // it is for who looks into what has gone wrong
	}
	return line
}

// Since returns the lines from a number on, 0 being the first.
func (s *Story) Since(n int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.lines[n:])
}

// Hash is that of all lines: equal runs have equal ones.
func (s *Story) Hash() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := fnv.New64a()
	for _, line := range s.lines {
		_, _ = h.Write([]byte(line + "\n")) // it does not fail
	}
	return h.Sum64()
}

// count is how many lines of one server hold a text.
func (s *Story) count(who, text string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.lines {
		if holds(line, who, text) {
			n++
		}
	}
	return n
}

// holds tells whether a line is of one server, and holds a text.
func holds(line, who, text string) bool {
	_, rest, _ := strings.Cut(strings.TrimLeft(line, " "), " ")
	return strings.HasPrefix(rest, who+" ") && strings.Contains(rest, text)
}

// logger is where one process of a server logs. logged keeps what it has.
func (s *Story) logger(who string, level slog.Level, logged *lastLines) *slog.Logger {
	return slog.New(&teller{story: s, who: who, level: level, logged: logged})
}

// lastLines are the last lines of one process, by their messages.
type lastLines struct{ lines sync.Map }

// last is the last line with a message, "" if there is none.
func (l *lastLines) last(message string) string {
	line, _ := l.lines.Load(message)
	text, _ := line.(string)
	return text
}

// teller is a slog.Handler that tells a story.
type teller struct {
	story  *Story
	who    string
	level  slog.Level
	attrs  string
	logged *lastLines
}

// Enabled implements slog.Handler.
func (t *teller) Enabled(_ context.Context, level slog.Level) bool { return level >= t.level }

// Handle implements slog.Handler.
func (t *teller) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		return true
	})
	t.logged.lines.Store(r.Message, t.story.Tell(t.who, "%s %s%s%s", r.Level, r.Message, t.attrs, b.String()))
	return nil
}

// WithAttrs implements slog.Handler.
func (t *teller) WithAttrs(attrs []slog.Attr) slog.Handler {
	other := *t
	for _, a := range attrs {
		other.attrs += fmt.Sprintf(" %s=%v", a.Key, a.Value)
	}
	return &other
}

// WithGroup implements slog.Handler: zkd has no groups.
func (t *teller) WithGroup(string) slog.Handler { return t }
