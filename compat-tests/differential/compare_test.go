package differential_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"zkd/compat-tests/target"
)

func TestMain(m *testing.M) { os.Exit(target.Main(m, "differential")) }

// pair is the real server and the one under test.
type pair struct {
	real, under *target.Server
	roots       atomic.Int64 // numbers the roots of scripts
}

// startPair starts both servers with the same settings. Nothing is forced to disk: neither is killed here.
func startPair(t *testing.T, conf map[string]string, jvm []string) *pair {
	t.Helper()
	settings := map[string]string{"forceSync": "no", "maxSessionTimeout": "120000"}
	for key, value := range conf { // the order does not matter: it becomes a map again
		settings[key] = value
	}
	jvm = append([]string{"-Dznode.container.checkIntervalMs=3600000"}, jvm...)
	p := &pair{real: target.Start(t, target.Options{Kind: target.Zookeeper, Config: settings, JVMFlags: jvm})}
	p.under = target.Start(t, target.Options{Config: settings, JVMFlags: jvm})
	return p
}

// reportedMax bounds the differences that are printed of one script: later ones mostly follow from earlier ones.
const reportedMax = 30

// wordLines is the length of an answer from which on only what differs is printed.
const wordLines = 15

// difference is a step of a script at which the servers differ.
type difference struct {
	lines       []line
	real, under string
}

// compare runs lines on both servers and returns the differences.
func (p *pair) compare(lines []line) ([]*difference, error) {
	both, err := p.run(lines)
	if err != nil {
		return nil, err
	}
	return both.differences(), nil
}

// compareAgain is compare, but what the real server alone does once and not again is no difference: a race of its own.
func (p *pair) compareAgain(t *testing.T, lines []line) []*difference {
	t.Helper()
	both, err := p.run(lines)
	if err != nil {
		t.Fatal(err)
	}
	found := both.differences()
	if len(found) == 0 {
		return nil
	}
	again, err := p.compare(lines)
	if err != nil {
		t.Fatal(err)
	}
	if len(again) == 0 && p.steady(t, both) {
		t.Logf("the real server differed once, a race of its own, first %v", found[0])
		return nil
	}
	return found
}

// transcripts is what both servers answered to the same lines.
type transcripts struct {
	lines       []line
	root        string // of the znodes
	real, under []step
	underErr    error // why the server under test could not run them to the end
}

// run runs lines on both servers at once.
func (p *pair) run(lines []line) (*transcripts, error) {
	both := &transcripts{lines: lines, root: "/diff" + strconv.FormatInt(p.roots.Add(1), 10)}
	done := make(chan error, 1) // one run is reported
	go func() {
		var err error
		both.real, err = run(p.real.Addr, both.root, lines)
		done <- err
	}()
	both.under, both.underErr = run(p.under.Addr, both.root, lines)
	if err := <-done; err != nil {
		return nil, fmt.Errorf("the real server: %w", err)
	}
	return both, nil
}

// differences returns where the servers differ.
func (b *transcripts) differences() []*difference {
	if b.underErr != nil {
		return []*difference{{lines: b.lines, under: b.underErr.Error(), real: "the script could be run"}}
	}
	return differences(b.real, b.under)
}

// answers is all that the server under test has answered, without the name of the root.
func (b *transcripts) answers() string {
	var all strings.Builder
	for _, s := range b.under {
		all.WriteString(strings.ReplaceAll(strings.Join(s.answers, "\n"), b.root, "~") + "\n")
	}
	return all.String()
}

// differences compares two transcripts step by step. The tree that is left is not compared where a line deviates.
func differences(reference, under []step) []*difference {
	var found []*difference
	deviates := false
	for i := range max(len(reference), len(under)) {
		var a, b step
		if i < len(reference) {
			a = reference[i]
		}
		if i < len(under) {
			b = under[i]
		}
		lines := a.lines
		if lines == nil {
			lines = b.lines
		}
		excused := slices.ContainsFunc(lines, func(l line) bool { return l.deviation != "" })
		deviates = deviates || excused
		end := len(lines) == 0 || lines[0].conn == ""
		if excused || end && deviates || slices.Equal(a.answers, b.answers) {
			continue
		}
		found = append(found, &difference{lines, strings.Join(a.answers, "\n  "), strings.Join(b.answers, "\n  ")})
	}
	return found
}

func (d *difference) String() string {
	if reference := strings.Split(d.real, "\n"); len(reference) > wordLines {
		diff := cmp.Diff(reference, strings.Split(d.under, "\n"))
		return fmt.Sprintf("at\n%s -real server +under test:\n%s", format(d.lines), diff)
	}
	return fmt.Sprintf("at\n%s real server:\n  %s\n under test:\n  %s", format(d.lines), d.real, d.under)
}

// TestScripts runs the scripts of testdata on both servers.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.script")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".script"), func(t *testing.T) {
			s, err := parseSuite(file)
			if err != nil {
				t.Fatal(err)
			}
			p := startPair(t, s.conf, s.jvm)
			for _, script := range s.scripts {
				t.Run(script.name, func(t *testing.T) {
					found := p.compareAgain(t, script.lines)
					for _, d := range found[:min(len(found), reportedMax)] {
						t.Errorf("the servers differ %v", d)
					}
				})
			}
		})
	}
}

func quote(s string) string { return strconv.Quote(s) }

// TestScriptLists checks that scripts can be read, print as they are written, and mark only deviations that are listed.
func TestScriptLists(t *testing.T) {
	deviations := namedReasons(t, "testdata/deviations.txt")
	used := map[string]bool{}
	files, err := filepath.Glob("testdata/*.script")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		s, err := parseSuite(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, script := range s.scripts {
			for _, l := range script.lines {
				again, err := parseLine(l.String())
				if err != nil || again.String() != l.String() {
					t.Errorf("%s: %q reads back as %q, %v", file, l, again, err)
				}
				if used[l.deviation] = true; l.deviation != "" && deviations[l.deviation] == "" {
					t.Errorf("%s: %q is not in testdata/deviations.txt", file, l.deviation)
				}
			}
		}
	}
	for name := range deviations { // the order does not matter
		if !strings.HasPrefix(name, "capture:") && !used[name] {
			t.Errorf("testdata/deviations.txt names %q, which no script marks", name)
		}
	}
}
