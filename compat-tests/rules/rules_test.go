package rules_test

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// Limits on sizes.
const (
	fileLinesMax   = 900 // split a file by the owner of its state well before
	lineColumnsMax = 120
	tabColumns     = 4
	rootDocWords   = 150
)

// mayImport is the direction of imports: for each root folder the folders of this module that its production files
// may import besides itself.
var mayImport = map[string][]string{
	"jute":    {},
	"storage": {"jute"},
	"quorum":  {"jute", "storage"},
	"server":  {"jute", "storage", "quorum"},
	"conf":    {},
	"bench":   {"jute"},
	"cmd":     {"jute", "storage", "quorum", "server", "conf", "bench"},
	// Tests of the outside: zkd is a process to them.
	"compat-tests": {"jute", "bench"},
}

// mayAlso is what the files of a folder, and of those below it, may import besides what mayImport says of their root:
// the life of a server turns the configuration into the options of the rest, which must not know it, and so does the
// world in which servers are simulated; what plays in that world is handed none of it by a process of zkd's.
var mayAlso = map[string][]string{
	"server/instance": {"conf"}, "server/sim": {"conf"}, "compat-tests/simulation": {"server"},
}

// injected are the root folders whose production files get time, randomness and environment handed in.
var injected = []string{"jute", "storage", "quorum", "server", "conf"}

// realClock may call the real clock, since it is what hands it to the others.
const realClock = "quorum/clock"

// bubble is a world of its own: its time is that of a bubble of testing/synctest, which package time tells.
const bubble = "server/sim"

// panicAllowed may call panic, each for a reason. Everybody else calls invariants.Violated.
var panicAllowed = map[string]string{
	"storage/invariants/invariants.go": "it is how the others stop",
	"quorum/logger.go":                 "raft's Logger contract: Fatal and Panic must not return",
	"quorum/clock/manual.go":           "as time.NewTicker does; for tests",
}

// source is one parsed Go file of the module.
type source struct {
	name      string // slash-separated, from the root of the module
	text      []byte
	file      *ast.File
	set       *token.FileSet
	generated bool
}

func (s *source) folder() string { return path.Dir(s.name) }
func (s *source) root() string   { root, _, _ := strings.Cut(s.name, "/"); return root }
func (s *source) isTest() bool   { return strings.HasSuffix(s.name, "_test.go") }

func (s *source) line(pos token.Pos) int { return s.set.Position(pos).Line }

// imported returns the path that a file imports under a local name, or nothing.
func (s *source) imported(local string) string {
	for _, spec := range s.file.Imports {
		name, _ := strconv.Unquote(spec.Path.Value)
		called := path.Base(name)
		if called == "v2" {
			called = path.Base(path.Dir(name))
		}
		if spec.Name != nil {
			called = spec.Name.Name
		}
		if called == local {
			return name
		}
	}
	return ""
}

// mentions runs visit for each mention of a name of another package, as path and name ("time", "Now").
func (s *source) mentions(visit func(pos token.Pos, pkg, name string)) {
	ast.Inspect(s.file, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			if local, ok := selector.X.(*ast.Ident); ok && local.Obj == nil {
				if pkg := s.imported(local.Name); pkg != "" {
					visit(selector.Pos(), pkg, selector.Sel.Name)
				}
			}
		}
		return true
	})
}

// sources returns every Go file of the module, ascending by name.
func sources(t *testing.T) []*source {
	t.Helper()
	var all []*source
	for _, name := range files(t) {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		text := read(t, name)
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, text, parser.ParseComments)
		if err != nil {
			t.Fatalf("%v", err)
		}
		all = append(all, &source{name, text, file, set, ast.IsGenerated(file)})
	}
	if len(all) < 100 { // guards against a walk that finds nothing and so accepts everything
		t.Fatalf("only %d Go files found", len(all))
	}
	return all
}

// moduleRoot is where go.mod lies, seen from this package.
const moduleRoot = "../.."

// made are the folders at the root that hold nothing of the sources.
var made = []string{"bin", "dist", "zkd-data"}

// gitName is where the repository is: in a clone a folder, in a worktree a file that names one.
const gitName = ".git"

// files returns every file of the module but those of dot folders and made.
func files(t *testing.T) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(moduleRoot, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(moduleRoot, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		switch {
		case entry.IsDir() && name != "." && (strings.HasPrefix(name, ".") || slices.Contains(made, name)):
			if name == ".ci" {
				return nil
			}
			return filepath.SkipDir
		case entry.Type().IsRegular() && name != gitName:
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(moduleRoot, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestImportsPointOneWay(t *testing.T) {
	for _, s := range sources(t) {
		allowed, known := mayImport[s.root()]
		if !known {
			t.Errorf("%s:1: the folder %s has no rule: add it to mayImport, or move the file", s.name, s.root())
			continue
		}
		if s.isTest() {
			continue
		}
		for folder, more := range mayAlso { // any order
			if s.folder() == folder || strings.HasPrefix(s.folder(), folder+"/") {
				allowed = slices.Concat(allowed, more)
			}
		}
		for _, edge := range badImports(s, allowed) {
			t.Errorf("%s may import only %v: declare an interface here and let the caller hand it in", edge, allowed)
		}
	}
}

// badImports returns "file:line: imports x" for each import that points the wrong way.
func badImports(s *source, allowed []string) []string {
	var bad []string
	for _, spec := range s.file.Imports {
		name, _ := strconv.Unquote(spec.Path.Value)
		rest, own := strings.CutPrefix(name, "zkd/")
		root, _, _ := strings.Cut(rest, "/")
		if own && root != s.root() && !slices.Contains(allowed, root) {
			bad = append(bad, fmt.Sprintf("%s:%d: imports %s, but %s", s.name, s.line(spec.Pos()), name, s.root()))
		}
	}
	return bad
}

func TestPackagesAreDocumented(t *testing.T) {
	words := map[string]int{}
	for _, s := range sources(t) {
		words[s.folder()] += len(strings.Fields(s.file.Doc.Text())) // a folder without any counts 0
	}
	for folder, n := range words { // the order does not matter: each folder is judged alone
		switch {
		case n == 0:
			t.Errorf("%s: no package comment: add a doc.go that says what it is for, owns, and must never know", folder)
		case !strings.Contains(folder, "/") && n < rootDocWords:
			t.Errorf("%s: package comment of %d words, want %d: say what it owns and its invariants",
				folder, n, rootDocWords)
		}
	}
}

// forbidden are names that production files of the injected folders must not mention: pkg → name → what to do.
var forbidden = map[string]map[string]string{
	"time": {
		"Now": "take a clock.Clock", "Since": "take a clock.Clock", "Until": "take a clock.Clock",
		"Sleep": "wait on a clock.Timer", "After": "use a clock.Timer", "AfterFunc": "use a clock.Timer",
		"NewTimer": "use a clock.Timer", "NewTicker": "use a clock.Ticker", "Tick": "use a clock.Ticker",
	},
	"os": {
		"Getenv": "take the value as an option", "LookupEnv": "take the value as an option",
		"Environ": "take the environment as an option", "Exit": "return an error",
	},
	"math/rand": {"": "take a *rand.Rand of math/rand/v2"},
	"net": {
		"Dial": "be handed it", "DialTimeout": "be handed a Dial", "Dialer": "be handed a Dial",
		"Listen": "be handed a net.Listener", "ListenConfig": "be handed a net.Listener",
		"DefaultResolver": "be handed a lookup",
	},
	"crypto/rand":                          {"": "take an io.Reader"},
	"zkd/quorum/clock":                     {"Real": "take a clock.Clock"},
	"github.com/cockroachdb/pebble/v2/vfs": {"Default": "take a vfs.FS"},
	"log/slog": {
		"Default": "take a *slog.Logger", "Info": "take a *slog.Logger", "Warn": "take a *slog.Logger",
		"Error": "take a *slog.Logger", "Debug": "take a *slog.Logger",
	},
	"log": {"": "take a *slog.Logger"},
}

// randTypes are what may be mentioned of math/rand/v2: everything else draws from the global source.
var randTypes = []string{"Rand", "Source", "New", "NewPCG", "NewChaCha8", "PCG", "ChaCha8"}

// worldDefaults take the real file system if they are handed none. One of them is planned to move. The list may only
// become shorter.
var worldDefaults = []string{"quorum/options.go", "storage/state/machine.go"}

func TestNothingReachesForTheWorld(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() || !slices.Contains(injected, s.root()) || s.folder() == realClock || isTool(s) ||
			s.folder() == bubble || strings.HasPrefix(s.folder(), bubble+"/") ||
			slices.Contains(worldDefaults, s.name) {
			continue
		}
		s.mentions(func(pos token.Pos, pkg, name string) {
			remedy, bad := forbidden[pkg][name]
			if all, whole := forbidden[pkg][""]; whole {
				remedy, bad = all, true
			}
			if pkg == "math/rand/v2" && !slices.Contains(randTypes, name) {
				remedy, bad = "take a *rand.Rand", true
			}
			if bad {
				t.Errorf("%s:%d: %s.%s: %s", s.name, s.line(pos), pkg, name, remedy)
			}
		})
	}
}

// isTool says whether a file belongs to a command that the build runs, not to the server.
func isTool(s *source) bool { return s.file.Name.Name == "main" }

func TestTestsDoNotSleep(t *testing.T) {
	for _, s := range sources(t) {
		if !s.isTest() || s.imported("synctest") != "" {
			continue
		}
		s.mentions(func(pos token.Pos, pkg, name string) {
			if pkg == "time" && name == "Sleep" {
				t.Errorf("%s:%d: time.Sleep: wait for the condition with a deadline, or use testing/synctest",
					s.name, s.line(pos))
			}
		})
	}
}

// impurePackages must not be imported by what is pure.
var impurePackages = []string{
	"time", "os", "math/rand", "math/rand/v2", "crypto/rand", "net", "reflect", "unsafe", "sync", "sync/atomic",
	"github.com/cockroachdb/pebble/v2", "github.com/cockroachdb/pebble/v2/vfs",
}

// impure returns what in a file may come out differently on two servers, as "file:line: what".
func impure(s *source) []string {
	var found []string
	add := func(pos token.Pos, what string) {
		found = append(found, fmt.Sprintf("%s:%d: %s", s.name, s.line(pos), what))
	}
	for _, spec := range s.file.Imports {
		if name, _ := strconv.Unquote(spec.Path.Value); slices.Contains(impurePackages, name) {
			add(spec.Pos(), "import of "+name)
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			add(n.Pos(), "go statement")
		case *ast.SelectStmt:
			add(n.Pos(), "select statement")
		case *ast.Ident:
			if n.Name == "float64" || n.Name == "float32" {
				add(n.Pos(), "floating point")
			}
		}
		return true
	})
	s.mentions(func(pos token.Pos, pkg, name string) {
		if pkg == "sync" && name == "Pool" {
			add(pos, "sync.Pool")
		}
	})
	return found
}

func TestPanicStandsInInvariants(t *testing.T) {
	needed := map[string]bool{}
	for _, s := range sources(t) {
		if s.isTest() || s.root() == "compat-tests" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if name, ok := call.Fun.(*ast.Ident); !ok || name.Name != "panic" {
				return true
			}
			if needed[s.name] = true; panicAllowed[s.name] == "" {
				t.Errorf("%s:%d: panic: return an error, or call invariants.Violated with the values that contradict",
					s.name, s.line(call.Pos()))
			}
			return true
		})
	}
	for name := range panicAllowed { // any order
		if !needed[name] {
			t.Errorf("%s calls panic nowhere: take it off panicAllowed", name)
		}
	}
}

func TestInitIsNotUsed(t *testing.T) {
	for _, s := range sources(t) {
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s:%d: func init: build it in the constructor", s.name, s.line(f.Pos()))
			}
		}
	}
}

func TestSizes(t *testing.T) {
	for _, s := range sources(t) {
		if s.generated {
			continue
		}
		if n := bytes.Count(s.text, []byte("\n")); n > fileLinesMax {
			t.Errorf("%s:%d: %d lines, at most %d: split it by the owner of its state", s.name, n, n, fileLinesMax)
		}
		lines := bufio.NewScanner(bytes.NewReader(s.text))
		lines.Buffer(nil, len(s.text)+1)
		for n := 1; lines.Scan(); n++ {
			if columns := width(lines.Text()); columns > lineColumnsMax {
				t.Errorf("%s:%d: %d columns, at most %d: break the line", s.name, n, columns, lineColumnsMax)
			}
		}
	}
}

// width counts columns, a tab as tabColumns.
func width(line string) int {
	return utf8.RuneCountInString(line) + (tabColumns-1)*strings.Count(line, "\t")
}

// machinePath finds folders of one particular machine, which mean nothing on another.
var machinePath = regexp.MustCompile(`(^|[^\w.])(/work/|/home/\w|/Users/\w|/root/(go|\.cache|\.m2)|\.\./shared/)`)

func TestNoMachinePaths(t *testing.T) {
	for _, name := range files(t) {
		text := read(t, name)
		if bytes.IndexByte(text, 0) >= 0 || strings.HasPrefix(name, "compat-tests/rules/") {
			continue
		}
		for i, line := range strings.Split(string(text), "\n") {
			if machinePath.MatchString(line) {
				t.Errorf("%s:%d: a path of one machine: %q: make it relative or a parameter",
					name, i+1, strings.TrimSpace(line))
			}
		}
	}
}
