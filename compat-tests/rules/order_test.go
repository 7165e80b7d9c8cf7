package rules_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"
	"testing"
)

// orderFolders are where an iteration over a map has to say why its order does not matter.
var orderFolders = []string{"jute", "storage"}

func TestMapIterationSaysWhyOrderDoesNotMatter(t *testing.T) {
	packages := map[string][]*source{}
	for _, s := range sources(t) {
		if !s.isTest() && slices.Contains(orderFolders, s.root()) && !isTool(s) {
			packages[s.folder()] = append(packages[s.folder()], s)
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(packages)) {
		for _, finding := range unordered(packages[folder]) {
			t.Errorf("%s: iterates over a map: sort (slices.Sorted(maps.Keys(m))), or say on the line or above it "+
				"why the order does not matter", finding)
		}
	}
}

// unordered returns "file:line" of each range over a map in one package that has no comment with the word order. It
// knows the types that the package declares; those of other packages are left out.
func unordered(files []*source) []string {
	set := token.NewFileSet()
	var parsed []*ast.File
	for _, s := range files {
		file, err := parser.ParseFile(set, s.name, s.text, parser.ParseComments)
		if err != nil {
			return []string{err.Error()}
		}
		parsed = append(parsed, file)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	// What is imported is not known, so there are many errors, and they mean nothing.
	config := types.Config{Importer: empty{}, Error: func(error) {}}
	_, _ = config.Check(files[0].folder(), set, parsed, info)
	var found []string
	for i, file := range parsed {
		lines := strings.Split(string(files[i].text), "\n")
		ast.Inspect(file, func(n ast.Node) bool {
			loop, ok := n.(*ast.RangeStmt)
			if !ok || !rangesOverMap(loop, info) {
				return true
			}
			line := set.Position(loop.Pos()).Line
			if !saysOrder(lines[line-1]) && (line < 2 || !saysOrder(lines[line-2])) {
				found = append(found, fmt.Sprintf("%s:%d", files[i].name, line))
			}
			return true
		})
	}
	return found
}

// rangesOverMap says whether a loop goes over a map, or over what package maps makes of one.
func rangesOverMap(loop *ast.RangeStmt, info *types.Info) bool {
	if call, ok := loop.X.(*ast.CallExpr); ok {
		if f, ok := call.Fun.(*ast.SelectorExpr); ok {
			pkg, ok := f.X.(*ast.Ident)
			return ok && pkg.Name == "maps"
		}
	}
	known, ok := info.Types[loop.X]
	if !ok || known.Type == nil {
		return false
	}
	_, isMap := known.Type.Underlying().(*types.Map)
	return isMap
}

func saysOrder(line string) bool {
	_, comment, ok := strings.Cut(line, "//")
	return ok && strings.Contains(comment, "order")
}

// empty imports every package as one without names.
type empty struct{}

// Import implements types.Importer.
func (empty) Import(name string) (*types.Package, error) {
	elements := strings.Split(name, "/")
	pkg := types.NewPackage(name, elements[len(elements)-1])
	pkg.MarkComplete()
	return pkg, nil
}

// TestRulesFindWhatTheyForbid plants one of each offence and sees it found.
func TestRulesFindWhatTheyForbid(t *testing.T) {
	planted := parse(t, "storage/apply/planted.go", `package apply

import (
	"sync"
	"time"
	"zkd/quorum"
)

var pool sync.Pool

type set map[string]int

type holder struct{ names set }

func f(h *holder, c chan int) float64 {
	go f(h, c)
	select {}
	for range h.names {
	}
	for range h.names { // the order does not matter: a sum
	}
	quorum.Start(time.Now())
	return 0
}
`)
	if got := badImports(planted, mayImport["storage"]); len(got) != 1 || !strings.Contains(got[0], ":6:") {
		t.Errorf("bad imports: got %q, want that of zkd/quorum in line 6", got)
	}
	if got, want := unordered([]*source{planted}), "storage/apply/planted.go:18"; len(got) != 1 || got[0] != want {
		t.Errorf("unordered: got %q, want %q", got, want)
	}
	if got := impure(planted); len(got) != 6 {
		t.Errorf("impure: got %q, want the imports of sync and time, floating point, go, select and sync.Pool", got)
	}
	var clocks int
	planted.mentions(func(_ token.Pos, pkg, name string) {
		if _, bad := forbidden[pkg][name]; bad {
			clocks++
		}
	})
	if clocks != 1 {
		t.Errorf("mentions: got %d of the clock, want 1", clocks)
	}
	if got := width("\tä"); got != 5 {
		t.Errorf("width: got %d, want 5", got)
	}
}

func parse(t *testing.T, name, text string) *source {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return &source{name: name, text: []byte(text), file: file, set: set}
}
