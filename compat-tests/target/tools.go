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
	Name     string   // as it is named to the reader
	Programs []string // that a part which requires it may run; all of them must be in the PATH
	Probe    []string // a command that succeeds, in a folder of its own, if the tool is usable; nil: Programs suffice
	Install  string   // what to install
}

// The tools that the parts need.
var (
	Java = Tool{
		"Java 17 or later (JDK)", []string{"java", "javac", "keytool"},
		[]string{"javac", "--release", "17", "-version"}, "openjdk-17-jdk",
	}
	Maven  = Tool{"Maven", []string{"mvn"}, []string{"mvn", "-v"}, "maven"}
	Python = Tool{
		"Python 3 with venv", []string{"python3"}, []string{"python3", "-c", "import venv, ensurepip"},
		"python3-venv",
	}
	CZk = Linkable("a C compiler with libzookeeper-mt", "libzookeeper-mt-dev", "zookeeper/zookeeper.h",
		"-lzookeeper_mt")
	Chromium = Tool{"Chromium", []string{"chromium"}, nil, "chromium"}
	Shell    = Tool{"a shell", []string{"sh", "dirname"}, nil, "dash coreutils"}
)

// Linkable is a library that C programs can be compiled with and linked to: a header without its library is none.
func Linkable(name, install, header string, link ...string) Tool {
	probe := []string{
		"cc", "-shared", "-fPIC", "-o", "probe.so", "-include", header, "-x", "c", os.DevNull, "-x", "none",
	}
	return Tool{name, []string{"cc"}, append(probe, link...), "gcc libc6-dev " + install}
}

// probeWithin bounds the look at a tool. A guess: Maven and Java take about a second.
const probeWithin = 60 * time.Second

// DecideVariable is set where tests are only to decide whether they would be left out: none starts a server or a
// client.
const DecideVariable = "ZKD_COMPAT_DECIDE"

// probed remembers the outcome for each tool: guarded by mu, as parts and required are.
var probed = struct {
	mu       sync.Mutex
	why      map[string]string   // tool → why it is not usable, "" if it is
	parts    map[string]string   // part → why it was left out
	required map[string][]string // test → programs of the tools that it has required
}{why: map[string]string{}, parts: map[string]string{}, required: map[string][]string{}}

// Require skips the test where one of the tools is missing and records it as left out under the test's name. With
// CI=true nothing may be left out, so it fails there. With -short every part is left out, since each takes seconds.
func Require(tb testing.TB, tools ...Tool) {
	tb.Helper()
	if testing.Short() {
		LeaveOut(tb, "-short was given")
	}
	for _, tool := range tools {
		if why := tool.unusable(); why != "" {
			LeaveOut(tb, fmt.Sprintf("needs %s: install %s (%s)", tool.Name, tool.Install, why))
		}
		probed.mu.Lock()
		probed.required[tb.Name()] = append(probed.required[tb.Name()], tool.Programs...)
		probed.mu.Unlock()
	}
	decided(tb)
}

// decided ends a test that would run now, where tests are only to decide whether they are left out.
func decided(tb testing.TB) {
	tb.Helper()
	if os.Getenv(DecideVariable) != "" {
		tb.Skip("it would run")
	}
}

// Uses fails the test if it is about to run a program that no tool has which it has required: where that is missing the
// test would fail, not be left out. What has a path was made by a test; Go and git are on every machine.
func Uses(tb testing.TB, program string) {
	tb.Helper()
	if strings.ContainsRune(program, filepath.Separator) || program == "go" || program == "git" {
		return
	}
	probed.mu.Lock()
	defer probed.mu.Unlock()
	for test, programs := range probed.required { // any order
		if (test == tb.Name() || strings.HasPrefix(tb.Name(), test+"/")) && slices.Contains(programs, program) {
			return
		}
	}
	tb.Errorf("the test runs %s and has required no tool with it: call target.Require before", program)
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

// unusable says why a tool cannot be used, "" if it can.
func (t Tool) unusable() string {
	probed.mu.Lock()
	defer probed.mu.Unlock()
	why, known := probed.why[t.Name]
	if !known {
		if err := t.try(); err != nil {
			why = err.Error()
		}
		probed.why[t.Name] = why
	}
	return why
}

// try looks for the programs of a tool and runs its probe.
func (t Tool) try() error {
	for _, program := range t.Programs {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("no %s in the PATH", program)
		}
	}
	if t.Probe == nil {
		return nil
	}
	dir, err := os.MkdirTemp("", "zkd-probe-") //nolint:usetesting // it outlives no test, and no test has it
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // at worst a file is left
	ctx, cancel := context.WithTimeout(context.Background(), probeWithin)
	defer cancel()
	probe := exec.CommandContext(ctx, t.Probe[0], t.Probe[1:]...) //nolint:gosec // the table above
	probe.Dir = dir
	out, err := probe.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", t.Probe[0], err, lastLine(out))
	}
	return nil
}

// lastLine is where most programs say what went wrong.
func lastLine(out []byte) string {
	text := strings.TrimSpace(string(out))
	return text[strings.LastIndexByte(text, '\n')+1:]
}
