package rules_test

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// namedTest finds a test that a document names, as `folder.TestName`.
var namedTest = regexp.MustCompile("`([a-z0-9/-]+)\\.(Test[A-Za-z0-9_]+)`")

func TestDocumentsNameTestsThatExist(t *testing.T) {
	exists := map[string]bool{}
	for _, s := range sources(t) {
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && s.isTest() {
				exists[s.folder()+"."+f.Name.Name] = true
			}
		}
	}
	found := 0
	for _, name := range files(t) {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		for i, line := range strings.Split(string(read(t, name)), "\n") {
			for _, match := range namedTest.FindAllStringSubmatch(line, -1) {
				found++
				if !exists[match[1]+"."+match[2]] {
					t.Errorf("%s:%d: there is no %s in %s: name the test that proves it", name, i+1, match[2], match[1])
				}
			}
		}
	}
	if found == 0 {
		t.Error("no document names a test: correct the pattern")
	}
}

// link finds a relative link of a document.
var link = regexp.MustCompile(`\]\(([^)#:\s]+)[^):]*\)`)

func TestDocumentsLinkToFilesThatExist(t *testing.T) {
	for _, name := range files(t) {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		for i, line := range strings.Split(string(read(t, name)), "\n") {
			for _, match := range link.FindAllStringSubmatch(line, -1) {
				target := filepath.Join(moduleRoot, filepath.FromSlash(path.Join(path.Dir(name), match[1])))
				if _, err := os.Stat(target); err != nil {
					t.Errorf("%s:%d: the link to %s leads nowhere: correct it", name, i+1, match[1])
				}
			}
		}
	}
}

// deviations is where the comparison with the real server keeps what zkd does otherwise on purpose.
const deviations = "compat-tests/differential/testdata/deviations.txt"

func TestDeviationsAreDocumented(t *testing.T) {
	document := string(read(t, "docs/compatibility.md"))
	for i, line := range strings.Split(string(read(t, deviations)), "\n") {
		name, _, _ := strings.Cut(line, " ")
		if name == "" || strings.HasPrefix(name, "#") || strings.HasPrefix(name, "capture:") {
			continue
		}
		if !strings.Contains(document, "`"+name+"`") {
			t.Errorf("%s:%d: docs/compatibility.md does not name %s: add a row with what both do, and why",
				deviations, i+1, name)
		}
	}
}

// TestExamplesOfTheReadmeShareNothing: each can be run before the others, after them and again.
func TestExamplesOfTheReadmeShareNothing(t *testing.T) {
	_, using, found := strings.Cut(string(read(t, "README.md")), "\n## Using it\n")
	using, _, ends := strings.Cut(using, "\n## ")
	if !found || !ends {
		t.Fatal("README.md has no chapter Using it that another one follows")
	}
	paths := regexp.MustCompile(`[ "](/[a-z]+)`)
	owner := map[string]string{} // of the first part of a path: the example that uses it
	for i, example := range strings.Split(using, "\n**")[1:] {
		name, _, _ := strings.Cut(example, "**")
		for _, match := range paths.FindAllStringSubmatch(example, -1) {
			if other := owner[match[1]]; other != "" && other != name && match[1] != "/locks" {
				t.Errorf("README.md: example %d (%s) uses %s as %s does: give it another", i+1, name, match[1], other)
			}
			owner[match[1]] = name
		}
	}
	if len(owner) < 4 {
		t.Errorf("README.md: the examples use %v", owner)
	}
}
