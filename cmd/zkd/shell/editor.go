package shell

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ergochat/readline"

	"zkd/jute"
	"zkd/jute/client/session"
)

// errGivenUp means a line that was given up by Ctrl-C.
var errGivenUp = errors.New("line given up")

// Bounds of the editor. Guesses.
const (
	historyLines   = 2000
	completeWithin = time.Second // for the children of a path
	completionsMax = 200         // that are listed
)

// editor reads lines from a person.
type editor struct {
	shell    *Shell
	ctx      context.Context //nolint:containedctx // of the completer, which is called without one
	instance *readline.Instance
}

// newEditor takes the terminal over: what the shell prints goes through the editor, which draws the line that is being
// typed again.
func newEditor(ctx context.Context, s *Shell) (*editor, error) {
	e := &editor{shell: s, ctx: ctx}
	instance, err := readline.NewFromConfig(&readline.Config{HistoryFile: s.historyFile(), HistoryLimit: historyLines,
		AutoComplete: e, DisableAutoSaveHistory: true, Undo: true, InterruptPrompt: "^C", EOFPrompt: "quit",
		Painter: e.colored})
	if err != nil {
		return nil, err
	}
	e.instance = instance
	s.out.flush()
	s.out.lock.Lock()
	defer s.out.lock.Unlock()
	s.out.w = bufio.NewWriterSize(instance.Stdout(), outBytes)
	s.err.w = bufio.NewWriter(instance.Stderr())
	return e, nil
}

// historyFile is where lines are kept; "" for nowhere.
func (s *Shell) historyFile() string {
	name := s.o.Getenv("ZKD_CLI_HISTORY")
	switch {
	case name == "-":
		return ""
	case name != "":
		return name
	}
	home := s.o.Getenv("HOME")
	if home == "" {
		return ""
	}
	name = filepath.Join(home, ".zkd_history")
	// Lines may hold data: they are the user's alone. If it cannot be made there is no history.
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the user's own
	if err != nil {
		return ""
	}
	_ = f.Close() // nothing was written
	return name
}

// secretCommands are not kept in the history: they hold passwords.
var secretCommands = []string{"addauth"}

// line reads one.
func (e *editor) line() (string, error) {
	e.instance.SetPrompt(e.shell.paint(colorPrompt, e.shell.prompt()))
	line, err := e.instance.ReadLine()
	switch {
	case errors.Is(err, readline.ErrInterrupt):
		return "", errGivenUp
	case err != nil:
		return "", io.EOF
	}
	first, _, _ := strings.Cut(strings.TrimSpace(line), " ")
	if first != "" && !slices.Contains(secretCommands, first) {
		_ = e.instance.SaveToHistory(line) // a history that cannot be written is none
	}
	return line, nil
}

func (e *editor) close() { _ = e.instance.Close() } // the terminal is as it was, or gone

// colored paints the command as it is typed.
func (e *editor) colored(line []rune, _ int) []rune {
	if !e.shell.o.Color {
		return line
	}
	text := string(line)
	name, _, _ := strings.Cut(text, " ")
	if rest := text[len(name):]; e.shell.commands[name] != nil {
		return []rune(e.shell.paint(colorGood, name) + rest)
	}
	return line
}

// Do implements readline.AutoCompleter: what may follow the words before the cursor.
func (e *editor) Do(line []rune, pos int) ([][]rune, int) {
	before := string(line[:pos])
	start := before[strings.LastIndexByte(before, ' ')+1:]
	var found [][]rune
	for _, whole := range e.shell.complete(e.ctx, before, start) {
		if rest, ok := strings.CutPrefix(whole, start); ok && len(found) < completionsMax {
			found = append(found, []rune(rest))
		}
	}
	return found, utf8.RuneCountInString(start)
}

// complete returns what the last word of a line may become: a command, an option of one, or a path; a blank behind says
// that the word is whole.
func (s *Shell) complete(ctx context.Context, before, start string) []string {
	name, _, further := strings.Cut(strings.TrimLeft(before, " "), " ")
	var found []string
	switch {
	case !further:
		for _, each := range s.names() {
			if strings.HasPrefix(each, start) {
				found = append(found, each+" ")
			}
		}
	case strings.HasPrefix(start, "/"):
		found = s.completePath(ctx, start)
	case strings.HasPrefix(start, "-") && s.commands[name] != nil:
		for _, o := range s.commands[name].options.options {
			if each := "-" + o.name; strings.HasPrefix(each, start) {
				found = append(found, each+" ")
			}
		}
		slices.Sort(found)
	}
	return found
}

// completePath returns the children that a path may go on with. One with a character that a line cannot have is left
// out.
func (s *Shell) completePath(ctx context.Context, start string) []string {
	ctx, cancel := context.WithTimeout(ctx, completeWithin)
	defer cancel()
	at := strings.LastIndexByte(start, '/')
	parent := start[:at]
	if parent == "" {
		parent = "/"
	}
	if checkPath(parent) != nil || s.session.State() == session.Connecting || s.session.State().Ended() {
		return nil
	}
	children, _, err := s.session.Children(ctx, parent, false)
	if err != nil {
		return nil
	}
	slices.Sort(children)
	var found []string
	for _, child := range children {
		if strings.HasPrefix(child, start[at+1:]) && escaped(child, false) == child &&
			!strings.ContainsAny(child, ` "'`) {
			found = append(found, jute.ChildPath(parent, child))
		}
	}
	if len(found) == 1 {
		if _, stat, err := s.session.Children(ctx, found[0], false); err == nil && stat.NumChildren > 0 {
			found[0] += "/"
		} else {
			found[0] += " "
		}
	}
	return found
}
