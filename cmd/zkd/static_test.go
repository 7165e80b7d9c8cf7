package main

import (
	"debug/buildinfo"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// guides are the pages that say how to build or run zkd.
var guides = []string{"README.md", "CONTRIBUTING.md", "Makefile", "docs/performance.md"}

// TestBuildsOfTheGuidesAreStatic runs the README's command to build zkd where cgo is on, as it is by default on a
// machine with a C compiler, and looks for what C would bring; all pages have the same variable in such commands.
func TestBuildsOfTheGuidesAreStatic(t *testing.T) {
	var command string
	for _, guide := range guides {
		text, err := os.ReadFile(filepath.Join("..", "..", guide))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for line := range strings.Lines(string(text)) {
			if !strings.Contains(line, "./cmd/zkd") ||
				!strings.Contains(line, "go build ") && !strings.Contains(line, "go run ") {
				continue
			}
			found = true
			if !strings.Contains(line, "CGO_ENABLED=0 go ") {
				t.Errorf("%s: %q links C code where there is a compiler: begin it with CGO_ENABLED=0", guide, line)
			}
			if guide == "README.md" && strings.Contains(line, "go build") {
				command = strings.TrimSpace(line)
			}
		}
		if !found {
			t.Errorf("%s has no command that builds zkd", guide)
		}
	}
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("builds zkd for Linux")
	}
	out := filepath.Join(t.TempDir(), "zkd")
	words := strings.Fields(strings.Replace(command, "-o zkd", "-o "+out, 1))
	build := exec.CommandContext(t.Context(), words[1], words[2:]...) //nolint:gosec // the README's
	build.Dir, build.Env = filepath.Join("..", ".."), append(os.Environ(), "CGO_ENABLED=1", words[0])
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, said)
	}
	listed(t, out)
	binary, err := elf.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = binary.Close() }() // it was read
	if libraries, err := binary.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("%s: needs %v, %v", command, libraries, err)
	}
	for _, p := range binary.Progs {
		if p.Type == elf.PT_INTERP {
			t.Errorf("%s: has an interpreter", command)
		}
	}
}

// strippedBytesMax is how large a binary without symbols may be that is built without the flags of a release, which has
// a bound of its own in conf/package. Measured 2026-11: 26.1 MB. With one call of text/template or html/template
// anywhere it would be 31: those look methods up by name, and a linker that sees that keeps all. Each kind of struct
// that slices.SortFunc sorts is 17 KB; sort.Slice is one function for all.
const strippedBytesMax = 26_400_000

// TestBinaryIsSmall builds zkd as the README does, but without symbols.
func TestBinaryIsSmall(t *testing.T) {
	if testing.Short() || runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("builds zkd for Linux on amd64")
	}
	out := filepath.Join(t.TempDir(), "zkd")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	info, err := os.Stat(out)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > strippedBytesMax {
		t.Errorf("the binary has %d bytes, more than %d", info.Size(), strippedBytesMax)
	}
}

// listed checks that docs/dependencies.md has a row for each module of a binary, in its version, and no others.
func listed(t *testing.T, binary string) {
	t.Helper()
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, m := range info.Deps {
		if !strings.Contains(page, "\n| `"+m.Path+"` | "+m.Version+" | ") {
			t.Errorf("docs/dependencies.md: no row for %s %s", m.Path, m.Version)
		}
	}
	if rows := strings.Count(page, "\n| `"); rows != len(info.Deps) {
		t.Errorf("docs/dependencies.md: %d rows for %d modules", rows, len(info.Deps))
	}
}
