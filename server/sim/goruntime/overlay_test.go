package goruntime

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestOverlay: the toolchain that runs the tests has all that is changed, and what comes of it is Go.
func TestOverlay(t *testing.T) {
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	const other = "/other/other.go"
	name, err := Overlay(strings.TrimSpace(string(root)), t.TempDir(), map[string]string{other: "package other\n"})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var overlay struct{ Replace map[string]string }
	if err := json.Unmarshal(data, &overlay); err != nil {
		t.Fatal(err)
	}
	changed := map[string]bool{other: true}
	for _, p := range patches {
		changed[p.file] = true
	}
	if len(overlay.Replace) != len(changed) {
		t.Errorf("%d files are replaced, want %d", len(overlay.Replace), len(changed))
	}
	for source, as := range overlay.Replace { // order: each for itself
		if _, err := parser.ParseFile(token.NewFileSet(), as, nil, 0); err != nil {
			t.Errorf("in the place of %s: %v", source, err)
		}
	}
}

// TestAnotherReleaseIsRefused: a runtime that reads otherwise is named, and not changed by half.
func TestAnotherReleaseIsRefused(t *testing.T) {
	p := patch{"proc.go", "const haveSysmon = true", "const haveSysmon = false"}
	for _, text := range []string{"const other = true", "const haveSysmon = true\nconst haveSysmon = true"} {
		if _, err := p.apply(text); err == nil || !strings.Contains(err.Error(), "runtime/proc.go") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
