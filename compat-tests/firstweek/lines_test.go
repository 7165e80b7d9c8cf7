package firstweek

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// calledFor is a message from warning on that something calls for in the log of a server: at least and at most so
// often.
type calledFor struct {
	server      int
	message     string
	least, most int
}

// lines counts the lines from warning on in the logs of servers. What a step calls for may come late, in the next
// one: it is called for from then on.
type lines struct {
	read   map[string]int // bytes of each log
	seen   map[string]int // by server and message
	called map[string]int // likewise: how often in all it may have come
}

// warned finds the level and the message of a line of the log.
var warned = regexp.MustCompile(`^time=\S+ level=(\w+) msg=("(?:[^"\\]|\\.)*"|\S+)`)

// busy is what a server says when the machine does other things for long: no step calls for it, and none prevents it.
const busy = `"process paused: session timeouts extended"`

// look reads what is new in the log of a server, and returns what was not called for.
func (l *lines) look(server int, path, log string) (wrong []string) {
	fresh := log[l.read[path]:]
	fresh = fresh[:strings.LastIndexByte(fresh, '\n')+1]
	l.read[path] += len(fresh)
	for line := range strings.Lines(fresh) {
		found := warned.FindStringSubmatch(line)
		switch {
		case found == nil:
			wrong = append(wrong, fmt.Sprintf("server %d has written what is no line of a log: %s", server, line))
		case found[2] == busy:
		case found[1] == "WARN" || found[1] == "ERROR":
			key := fmt.Sprintf("%d %s", server, strings.Trim(found[2], `"`))
			l.seen[key]++
			if l.seen[key] > l.called[key] {
				wrong = append(wrong, fmt.Sprintf("server %d: not called for: %s", server, line))
			}
		}
	}
	return wrong
}

// skip passes over what is in a log.
func (l *lines) skip(path, log string) { l.read[path] = len(log) }

// call is told what the step that begins calls for. It returns what was seen of that before.
func (l *lines) call(list []calledFor) (before []int) {
	for _, c := range list {
		key := fmt.Sprintf("%d %s", c.server, c.message)
		before = append(before, l.seen[key])
		l.called[key] += c.most
	}
	return before
}

// missing returns what the step has called for, and did not come.
func (l *lines) missing(list []calledFor, before []int) (wrong []string) {
	for i, c := range list {
		if n := l.seen[fmt.Sprintf("%d %s", c.server, c.message)] - before[i]; n < c.least {
			wrong = append(wrong, fmt.Sprintf("server %d has said %d times %q, want %d", c.server, n, c.message,
				c.least))
		}
	}
	return wrong
}

func newLines() *lines {
	return &lines{read: map[string]int{}, seen: map[string]int{}, called: map[string]int{}}
}

// TestLinesThatNobodyCalledFor: a warning that is not on the list, one too many, one that is missing, and what is no
// line of a log are found; info is not.
func TestLinesThatNobodyCalledFor(t *testing.T) {
	const (
		info    = "time=1 level=INFO msg=\"server started\" client=x\n"
		low     = "time=1 level=WARN msg=\"disk space low\" path=/d\n"
		other   = "time=1 level=ERROR msg=stopped err=x\n"
		trouble = "panic: no\n"
		half    = "time=1 level=WARN msg=\"half a"
	)
	for _, c := range []struct {
		name, log string
		most      int
		want      int // lines and absences that are wrong
	}{
		{"called for", info + low + half, 1, 0}, {"once too often", low + info + low, 1, 1},
		{"missing", info, 1, 1}, {"another one", low + other, 1, 1}, {"no log", low + trouble, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, list := newLines(), []calledFor{{2, "disk space low", 1, c.most}}
			before := l.call(list)
			wrong := append(l.look(2, "log", c.log), l.missing(list, before)...)
			if len(wrong) != c.want {
				t.Errorf("found %q, want %d", wrong, c.want)
			}
			if again := l.look(2, "log", c.log); len(again) != 0 {
				t.Errorf("found again: %q", again)
			}
		})
	}
}
