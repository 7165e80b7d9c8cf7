package target

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Tool is something that must be installed on the machine before a part can run.
type Tool struct {
	Name    string   // as it is named to the reader
	Probe   []string // a command that succeeds where the tool is usable
	Install string   // what to install
}

// The tools that the parts need.
var (
	Java   = Tool{"Java 17 or later (JDK)", []string{"javac", "--release", "17", "-version"}, "openjdk-17-jdk"}
	Maven  = Tool{"Maven", []string{"mvn", "-v"}, "maven"}
	Python = Tool{"Python 3 with venv", []string{"python3", "-c", "import venv, ensurepip"}, "python3-venv"}
	CZk    = Tool{
		"a C compiler with libzookeeper-mt",
		[]string{"sh", "-c", "echo '#include <zookeeper/zookeeper.h>' | cc -E -x c - >/dev/null"},
		"gcc libc6-dev libzookeeper-mt-dev",
	}
)

// probeWithin bounds the look at a tool. A guess: Maven and Java take about a second.
const probeWithin = 60 * time.Second

// probed remembers the outcome for each tool: guarded by mu, as parts is.
var probed = struct {
	mu    sync.Mutex
	ok    map[string]bool
	parts map[string]string // part → why it was left out
}{ok: map[string]bool{}, parts: map[string]string{}}

// Require skips the test where one of the tools is missing and records it as left out under the test's name. With
// CI=true nothing may be left out, so it fails there. With -short every part is left out, since each takes seconds.
func Require(tb testing.TB, tools ...Tool) {
	tb.Helper()
	if testing.Short() {
		LeaveOut(tb, "-short was given")
	}
	for _, tool := range tools {
		if !tool.usable() {
			LeaveOut(tb, fmt.Sprintf("needs %s: install %s", tool.Name, tool.Install))
		}
	}
}

// LeaveOut records that the test is left out and why, and ends it: skipped, or failed where CI=true.
func LeaveOut(tb testing.TB, why string) {
	tb.Helper()
	recordPart(tb, why)
	if os.Getenv("CI") == "true" && !testing.Short() {
		tb.Fatalf("%s, and with CI=true nothing may be left out", why)
	}
	tb.Skip(why)
}

// LeavePartOut records that a part of the test is left out and why. The test goes on, but fails where CI=true.
func LeavePartOut(tb testing.TB, why string) {
	tb.Helper()
	recordPart(tb, why)
	if os.Getenv("CI") == "true" {
		tb.Errorf("%s, and with CI=true nothing may be left out", why)
	}
}

// recordPart adds to what was left out of a test.
func recordPart(tb testing.TB, why string) {
	probed.mu.Lock()
	defer probed.mu.Unlock()
	if before := probed.parts[tb.Name()]; before != "" && before != why {
		why = before + "; " + why
	}
	probed.parts[tb.Name()] = why
}

// Main runs the tests of a part's package and then prints what was left out. part is the folder's name. The list is
// also kept in the cache directory, where LeftOut finds it, since go test hides the output of a package that passes.
func Main(m *testing.M, part string) int {
	code := m.Run()
	probed.mu.Lock()
	defer probed.mu.Unlock()
	var lines []string
	for name, why := range probed.parts { // the order does not matter: sorted below
		lines = append(lines, fmt.Sprintf("%s/%s: %s", part, name, why))
	}
	slices.Sort(lines)
	for _, line := range lines {
		fmt.Fprintln(os.Stderr, "left out:", line)
	}
	if err := recordLeftOut(part, lines); err != nil {
		fmt.Fprintln(os.Stderr, "record what was left out:", err)
		return max(code, 1)
	}
	return code
}

// LeftOut returns one line for each part that the last runs of the parts left out.
func LeftOut() ([]string, error) {
	dir, err := cacheDir()
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "left-out", "*"))
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // our own cache
		if err != nil {
			return nil, err
		}
		lines = append(lines, strings.Split(strings.TrimSpace(string(text)), "\n")...)
	}
	return lines, nil
}

func recordLeftOut(part string, lines []string) error {
	dir, err := cacheDir()
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "left-out", part)
	if len(lines) == 0 {
		if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
			return err
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), fs.FileMode(0o600))
}

func (t Tool) usable() bool {
	probed.mu.Lock()
	defer probed.mu.Unlock()
	ok, known := probed.ok[t.Name]
	if !known {
		ctx, cancel := context.WithTimeout(context.Background(), probeWithin)
		defer cancel()
		ok = exec.CommandContext(ctx, t.Probe[0], t.Probe[1:]...).Run() == nil //nolint:gosec // the table above
		probed.ok[t.Name] = ok
	}
	return ok
}
