package rules_test

import (
	"fmt"
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

// What docs/walk.md consists of: rows of a goroutine's file and its functions, rows of a hand-over, and what is
// counted.
var (
	walkRow      = regexp.MustCompile("^\\| [^|→]*\\| `([a-z/_0-9]+\\.go)` \\| (`[^|]*`) \\|$")
	walkHandOver = regexp.MustCompile(`^\| → .* \| \| \|$`)
	walkCounts   = regexp.MustCompile(`^(\d+) functions in (\d+) files, and (\d+) hand-overs`)
)

// walked is what the rows of one table name.
type walked struct {
	functions, files map[string]bool
	handOvers        int
}

// TestWalk holds docs/walk.md to the code: what it names is there, and what it counts is what its tables name.
func TestWalk(t *testing.T) {
	there := map[string]bool{}
	for _, s := range sources(t) {
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok {
				there[s.name+" "+strings.TrimPrefix(receiver(f)+"."+f.Name.Name, ".")] = true
			}
		}
	}
	missing, wrong, tables := walk(string(read(t, "docs/walk.md")), there)
	for _, m := range missing {
		t.Errorf("docs/walk.md:%s is not there: follow what has moved or is called otherwise", m)
	}
	for _, w := range wrong {
		t.Errorf("docs/walk.md:%s", w)
	}
	if tables != 2 {
		t.Errorf("docs/walk.md has %d tables with their counts, want 2", tables)
	}
}

// walk reads the document: what it names and is not there, by line, and where its counts are not those of the table
// before them.
func walk(text string, there map[string]bool) (missing, wrong []string, tables int) {
	now := walked{functions: map[string]bool{}, files: map[string]bool{}}
	for i, line := range strings.Split(text, "\n") {
		switch {
		case walkRow.MatchString(line):
			row := walkRow.FindStringSubmatch(line)
			now.files[row[1]] = true
			for name := range strings.SplitSeq(row[2], ", ") {
				function := row[1] + " " + strings.Trim(name, "`")
				now.functions[function] = true
				if !there[function] {
					missing = append(missing, fmt.Sprintf("%d: %s", i+1, function))
				}
			}
		case walkHandOver.MatchString(line):
			now.handOvers++
		case walkCounts.MatchString(line):
			tables++
			is := fmt.Sprintf("%d functions in %d files, and %d hand-overs", len(now.functions), len(now.files),
				now.handOvers)
			if !strings.HasPrefix(line, is) {
				wrong = append(wrong, fmt.Sprintf("%d: the table says: %s", i+1, is))
			}
			now = walked{functions: map[string]bool{}, files: map[string]bool{}}
		case strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| goroutine |"):
			wrong = append(wrong, fmt.Sprintf("%d: a row that cannot be read", i+1))
		}
	}
	return missing, wrong, tables
}

func TestAWrongWalkIsFound(t *testing.T) {
	const planted = "| goroutine | file | functions |\n|---|---|---|\n" +
		"| one | `a/b.go` | `t.here`, `gone` |\n| → the next | | |\n| | `a/c.go` | `also` |\n" +
		"3 functions in 2 files, and 0 hand-overs.\n"
	missing, wrong, tables := walk(planted, map[string]bool{"a/b.go t.here": true, "a/c.go also": true})
	if len(missing) != 1 || missing[0] != "3: a/b.go gone" || len(wrong) != 1 || tables != 1 ||
		wrong[0] != "6: the table says: 3 functions in 2 files, and 1 hand-overs" {
		t.Errorf("missing %q, wrong %q in %d tables", missing, wrong, tables)
	}
}
