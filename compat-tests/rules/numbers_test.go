package rules_test

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// idFolders hold ids of servers, which are not always their numbers (storage/serverid).
var idFolders = []string{"quorum", "server", "storage"}

// serverKeys are the keys of attributes that are numbers of servers.
var serverKeys = []string{"peer", "server", "leader", "member"}

// verb is one of a format, with what stands before it.
var verb = regexp.MustCompile(`(\w+[ .])?%[-+# 0-9.]*([a-zA-Z%])`)

// namedServer is what stands before the verb of a server's number.
var namedServer = regexp.MustCompile(`^(servers?|members?)[ .]$`)

// shownIDs returns where a file shows an id in place of a number: in an attribute of the log, or in a text.
func shownIDs(s *source) (found []string) {
	ast.Inspect(s.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) < 2 {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		from, _ := method.X.(*ast.Ident)
		text, isText := constantText(call.Args[0])
		switch {
		case from == nil || !isText:
		case from.Name == "slog" && method.Sel.Name == "Uint64" && slices.Contains(serverKeys, text):
			found = append(found, fmt.Sprintf("%s:%d: %q", s.name, s.line(call.Pos()), text))
		case from.Name == "fmt":
			for i, m := range verbs(text) {
				if i+1 < len(call.Args) && namedServer.MatchString(m) && namesID(call.Args[i+1]) {
					found = append(found, fmt.Sprintf("%s:%d: %q", s.name, s.line(call.Pos()), text))
				}
			}
		}
		return true
	})
	return found
}

// verbs returns what stands before each verb of a format that takes an argument.
func verbs(format string) (before []string) {
	for _, m := range verb.FindAllStringSubmatch(format, -1) {
		if m[2] != "%" {
			before = append(before, m[1])
		}
	}
	return before
}

// namesID tells whether an expression is, by its name, an id.
func namesID(e ast.Expr) bool {
	name := ""
	switch e := e.(type) {
	case *ast.Ident:
		name = e.Name
	case *ast.SelectorExpr:
		name = e.Sel.Name
	}
	return strings.HasSuffix(strings.ToLower(name), "id") && name != "MyID"
}

// TestServersAreShownByNumber: an operator knows a server by the number of its line, 0 too.
func TestServersAreShownByNumber(t *testing.T) {
	for _, s := range sources(t) {
		support := strings.HasPrefix(s.name, "server/sim/") || strings.HasSuffix(s.folder(), "test")
		if s.isTest() || support || !slices.Contains(idFolders, s.root()) {
			continue
		}
		for _, at := range shownIDs(s) {
			t.Errorf("%s: an id of a server is shown: show serverid.Number of it", at)
		}
	}
}

func TestShownIDsAreFound(t *testing.T) {
	planted := parse(t, "quorum/planted.go", `package quorum

func f() {
	slog.Uint64("peer", id)
	slog.Int64("peer", serverid.Number(id))
	fmt.Errorf("%d of 100 %% to server %d: %w", n, m.ID, err)
	fmt.Errorf("%d of server %d: %w", id, serverid.Number(m.ID), err)
	fmt.Sprintf("server.%d=%s", id, s)
	fmt.Sprintf("wait for the servers %v", serverid.Numbers(ids))
}
`)
	if got := shownIDs(planted); len(got) != 3 {
		t.Errorf("found %q", got)
	}
}
