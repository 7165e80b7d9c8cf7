package rules_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// logLevels are the methods that write a line of the log, by their names in any case, and the level of the line. Log
// takes the level as an argument: its lines may have any.
var logLevels = map[string]string{"error": "error", "warn": "warn", "info": "info", "log": "", "logattrs": ""}

// logFolders are where the lines come from that an operator of a server reads.
var logFolders = []string{"server", "quorum", "storage", "cmd"}

// logLine is one line of the log: its level, "" for any, and its message.
type logLine struct{ level, message string }

// logLines returns the lines with a constant message that a file can write, and where.
func logLines(s *source) map[logLine]string {
	found := map[logLine]string{}
	ast.Inspect(s.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		name := strings.ToLower(strings.TrimSuffix(method.Sel.Name, "Context"))
		level, writes := logLevels[name]
		if !writes {
			return true
		}
		for _, arg := range call.Args { // the message is the first constant text; before it is a context or a level
			if message, ok := constantText(arg); ok {
				found[logLine{level, message}] = fmt.Sprintf("%s:%d", s.name, s.line(call.Pos()))
				break
			}
			if level != "" {
				break
			}
		}
		return true
	})
	return found
}

// constantText is the value of a text or of texts with + between them.
func constantText(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, e.Kind == token.STRING && err == nil
	case *ast.BinaryExpr:
		left, okLeft := constantText(e.X)
		right, okRight := constantText(e.Y)
		return left + right, okLeft && okRight && e.Op == token.ADD
	}
	return "", false
}

// logRow finds a row of the table: level, message, why, what to do.
var logRow = regexp.MustCompile("^\\| (error|warn|info) \\| `([^`]+)` \\| ([^|]+) \\| ([^|]+) \\|$")

// logTable is where the lines are described.
const logTable = "docs/operations.md"

// logRows returns the rows of the table with their line numbers, and what is wrong with it.
func logRows(text string) (rows map[logLine]int, wrong []string) {
	rows = map[logLine]int{}
	_, after, ok := strings.Cut(text, "\n## Log lines\n")
	if !ok {
		return rows, []string{`there is no section "## Log lines"`}
	}
	first := strings.Count(text, "\n") - strings.Count(after, "\n")
	section, _, _ := strings.Cut(after, "\n## ")
	for i, line := range strings.Split(section, "\n") {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|-") || strings.HasPrefix(line, "| level |") {
			continue
		}
		match := logRow.FindStringSubmatch(line)
		if match == nil {
			wrong = append(wrong, fmt.Sprintf("line %d is not | level | `message` | why | what to do |", first+i+1))
			continue
		}
		row := logLine{match[1], match[2]}
		if at, twice := rows[row]; twice {
			wrong = append(wrong, fmt.Sprintf("line %d describes what line %d does", first+i+1, at))
		}
		rows[row] = first + i + 1
	}
	return rows, wrong
}

// TestLogLinesAreDescribed holds the table of log lines to the sources: whatever a server warns of has a row that says
// why and what to do, and no row is about a line that is gone.
func TestLogLinesAreDescribed(t *testing.T) {
	rows, wrong := logRows(string(read(t, logTable)))
	for _, w := range wrong {
		t.Errorf("%s: %s", logTable, w)
	}
	written := map[logLine]bool{}
	warnings := 0
	for _, s := range sources(t) {
		if s.isTest() || !slices.Contains(logFolders, s.root()) {
			continue
		}
		for line, where := range logLines(s) { // any order: each line by itself
			written[line] = true
			if line.level != "warn" && line.level != "error" {
				continue
			}
			warnings++
			if rows[line] == 0 {
				t.Errorf("%s: no operator is told what this line means: add a row | %s | `%s` | why | what to do | "+
					"to the table under Log lines in %s", where, line.level, line.message, logTable)
			}
		}
	}
	if warnings < 30 {
		t.Errorf("only %d warnings found in the sources: correct logLines", warnings)
	}
	for row, at := range rows { // any order: each row by itself
		if !written[row] && !written[logLine{"", row.message}] {
			t.Errorf("%s:%d: nothing writes %q at level %s: correct the row, or remove it", logTable, at, row.message,
				row.level)
		}
	}
}

func TestLogLinesAreFound(t *testing.T) {
	planted := parse(t, "server/planted.go", `package server

func f(l *slog.Logger) {
	l.Warn("one " +
		"and two", "k", 1)
	l.ErrorContext(ctx, "not constant first")
	l.Error(err.Error())
	l.Log(ctx, level, "three")
	s.bad.warn("four")
}
`)
	got := logLines(planted)
	for _, want := range []logLine{{"warn", "one and two"}, {"", "three"}, {"warn", "four"}} {
		if got[want] == "" {
			t.Errorf("%v is not found in %v", want, got)
		}
	}
	rows, wrong := logRows("x\n## Log lines\n\n| level | m |\n|---|---|\n| warn | `a b` | why | do |\n" +
		"| warn | a | b |\n| warn | `a b` | again | x |\n")
	if rows[logLine{"warn", "a b"}] != 8 || len(wrong) != 2 {
		t.Errorf("rows %v, wrong %q", rows, wrong)
	}
}
