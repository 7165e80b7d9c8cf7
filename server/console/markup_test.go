package console

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestTextsStandWhereTheyAreEscapedFor looks at each call of Page.Put in the sources: it has as many texts as places,
// each place is in a text or in an attribute's double quotes, and what follows "=" in an address is written for a
// query.
func TestTextsStandWhereTheyAreEscapedFor(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for _, name := range names {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if markup, texts, ok := putCall(call); ok {
					calls++
					for _, wrong := range wrongPlaces(markup, texts) {
						t.Errorf("%v: %s", set.Position(call.Pos()), wrong)
					}
				}
			}
			return true
		})
	}
	if calls < 100 {
		t.Errorf("only %d calls: the test does not find them", calls)
	}
}

// putCall takes a call of Put or PutIf apart.
func putCall(call *ast.CallExpr) (markup string, texts []ast.Expr, ok bool) {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || f.Sel.Name != "Put" && f.Sel.Name != "PutIf" {
		return "", nil, false
	}
	args := call.Args
	if f.Sel.Name == "PutIf" {
		args = args[1:]
	}
	if literal, isLiteral := args[0].(*ast.BasicLit); isLiteral {
		markup, _ = strconv.Unquote(literal.Value) // the parser has read it
	}
	return markup, args[1:], true
}

var (
	inAttribute = regexp.MustCompile(`([a-z-]+)="([^"]*)$`)
	notForTexts = regexp.MustCompile(`^(on|style|src|srcset|srcdoc)`)
	isAddress   = regexp.MustCompile(`^(href|action|data-refresh-url)$`)
)

// wrongPlaces says what is wrong with a call.
func wrongPlaces(markup string, texts []ast.Expr) (wrong []string) {
	if n := strings.Count(markup, "{}"); n != len(texts) {
		return []string{fmt.Sprintf("%d texts for %d places", len(texts), n)}
	}
	at := 0
	for i := range texts {
		at += strings.Index(markup[at:], "{}")
		before := markup[:at]
		at += len("{}")
		if attribute := inAttribute.FindStringSubmatch(before); attribute != nil {
			name, value := attribute[1], attribute[2]
			switch {
			case notForTexts.MatchString(name):
				wrong = append(wrong, "a text in the attribute "+name)
			case !isAddress.MatchString(name):
			case value != "" && !strings.HasPrefix(value, "{}/") && !strings.HasPrefix(value, Path):
				wrong = append(wrong, "an address that begins with "+value)
			case value == "" && !strings.HasPrefix(markup[at:], "/"):
				wrong = append(wrong, "an address that is a text alone")
			case (strings.HasSuffix(value, "=") || strings.HasSuffix(value, "?")) && !writtenForQuery(texts[i]):
				wrong = append(wrong, fmt.Sprintf("text %d is not written for a query", i+1))
			}
		} else if strings.LastIndexByte(before, '<') > strings.LastIndexByte(before, '>') {
			wrong = append(wrong, fmt.Sprintf("text %d stands in a tag, not in quotes", i+1))
		}
	}
	return wrong
}

// writtenForQuery reports whether an expression can be nothing but a part of a query.
func writtenForQuery(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name == "query"
	case *ast.SelectorExpr:
		pkg, ok := f.X.(*ast.Ident)
		return f.Sel.Name == "with" || ok && pkg.Name == "strconv" // topPage.with writes a whole query
	}
	return false
}

// TestWrongPlacesAreFound: the rule sees what it is there for.
func TestWrongPlacesAreFound(t *testing.T) {
	for call, wrong := range map[string]bool{
		"p.Put(`<p>{}</p>`, x)":                           false,
		"p.Put(`<a href=\"{}/x?path={}\">`, x, query(y))": false,
		"p.Put(`<p>{}</p>`)":                              true,
		"p.Put(`<p title={}>`, x)":                        true,
		"p.Put(`<p {}>`, x)":                              true,
		"p.Put(`<p onclick=\"{}\">`, x)":                  true,
		"p.Put(`<a href=\"{}\">`, x)":                     true,
		"p.Put(`<a href=\"{}/x?path={}\">`, x, y)":        true,
		"p.PutIf(ok, `<a href=\"x{}\">`, x)":              true,
	} {
		e, err := parser.ParseExpr(call)
		if err != nil {
			t.Fatal(err)
		}
		markup, texts, ok := putCall(e.(*ast.CallExpr))
		if got := wrongPlaces(markup, texts); !ok || len(got) > 0 != wrong {
			t.Errorf("%s: %v", call, got)
		}
	}
}
