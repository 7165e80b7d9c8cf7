package published_test

import (
	"archive/zip"
	_ "embed"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"zkd/compat-tests/target"
)

var update = flag.Bool("update", false, "write the results of those that are run, and docs/published.md")

var (
	//go:embed classes
	classesText string
	//go:embed left-out
	leftOutText string
	//go:embed not-run
	notRunText string
)

// classNames are the classes that are run.
func classNames(t *testing.T) []string {
	t.Helper()
	all := slices.Collect(lines(classesText))
	if !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) != len(all) {
		t.Fatal("classes are not sorted, or one is named twice")
	}
	return all
}

// leftOut reads why methods of classes that are run are left out.
func leftOut(t *testing.T) map[string]string {
	t.Helper()
	return reasons(t, "left-out", leftOutText)
}

// notRun reads why whole classes are.
func notRun(t *testing.T) map[string]string {
	t.Helper()
	return reasons(t, "not-run", notRunText)
}

// sometimes tells whether a method that is left out for a reason may pass as well.
func sometimes(reason string) bool { return strings.HasPrefix(reason, "sometimes") }

// lines yields the lines of a list that are neither empty nor a comment.
func lines(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if line != "" && !strings.HasPrefix(line, "#") && !yield(line) {
				return
			}
		}
	}
}

// reasons reads a list of names, each with a colon and a reason.
func reasons(t *testing.T, file, text string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for line := range lines(text) {
		name, reason, ok := strings.Cut(line, ": ")
		if !ok || reason == "" || all[name] != "" {
			t.Fatalf("%s has a line without a reason, or twice: %q", file, line)
		}
		all[name] = reason
	}
	return all
}

// TestLists: what is left out is of a class that is run, and no class is on both lists.
func TestLists(t *testing.T) {
	all, not := classNames(t), notRun(t)
	for name := range leftOut(t) { // order: each for itself
		class, method, _ := strings.Cut(name, "#")
		if !slices.Contains(all, class) || method == "" {
			t.Errorf("left-out names %s, which is no method of what is run", name)
		}
	}
	for _, class := range sample {
		if !slices.Contains(all, class) {
			t.Errorf("classes does not name %s", class)
		}
	}
	for _, class := range all {
		if not[class] != "" {
			t.Errorf("%s is run, and not run", class)
		}
	}
}

// jars are those with the tests that are published.
var jars = []string{
	"zookeeper-3.9.5-tests.jar", "curator-recipes-5.9.0-tests.jar", "curator-framework-5.9.0-tests.jar",
	"curator-client-5.9.0-tests.jar",
}

// TestJars: each class of the jars is run, or there is a reason why not.
func TestJars(t *testing.T) {
	target.Require(t, target.Java, target.Maven)
	var want []string
	found := 0
	for _, path := range filepath.SplitList(target.Classpath(t, pom)) {
		if slices.Contains(jars, filepath.Base(path)) {
			found++
			want = append(want, classesOf(t, path)...)
		}
	}
	if found != len(jars) {
		t.Fatalf("of the jars %v there are %d", jars, found)
	}
	got := slices.AppendSeq(classNames(t), maps.Keys(notRun(t)))
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("classes and not-run do not name each class of the jars once (-jars +lists):\n%s", diff)
	}
}

// classesOf lists the classes of a jar that are in no other class.
func classesOf(t *testing.T, jar string) (all []string) {
	t.Helper()
	r, err := zip.OpenReader(jar)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, file := range r.File {
		if name, ok := strings.CutSuffix(file.Name, ".class"); ok && !strings.Contains(name, "$") {
			all = append(all, strings.ReplaceAll(name, "/", "."))
		}
	}
	return all
}

// result is what came of the methods of a class.
type result struct {
	passed, leftOut, skipped, failed int
	again                            bool // it failed once
}

// Where results are kept between runs, and shown.
const (
	resultsFile = "results"
	document    = "../../docs/published.md"
	marker      = "<!-- What follows is written by make published. -->\n"
)

// readResults reads those that are kept.
func readResults(t *testing.T) map[string]result {
	t.Helper()
	text, err := os.ReadFile(resultsFile)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]result{}
	for line := range lines(string(text)) {
		var class string
		var r result
		if _, err := fmt.Sscan(line, &class, &r.passed, &r.leftOut, &r.skipped); err != nil {
			t.Fatalf("%s: %q: %v", resultsFile, line, err)
		}
		all[class] = r
	}
	return all
}

// keepResults writes those of this run among those that are kept, and the document.
func keepResults(t *testing.T, ran map[string]result) {
	t.Helper()
	all := readResults(t)
	for class, r := range ran { // order: each for itself
		if r.failed == 0 {
			all[class] = r
		}
	}
	maps.DeleteFunc(all, func(class string, _ result) bool { return !slices.Contains(classNames(t), class) })
	var b strings.Builder
	b.WriteString("# class, methods that passed, are left out, leave themselves out; written by make published\n")
	for _, class := range slices.Sorted(maps.Keys(all)) {
		r := all[class]
		fmt.Fprintln(&b, class, r.passed, r.leftOut, r.skipped)
	}
	if err := os.WriteFile(resultsFile, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	head, _ := splitDocument(t)
	if err := os.WriteFile(document, []byte(head+rendered(t)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// splitDocument returns what is written by hand in the document, and the rest.
func splitDocument(t *testing.T) (head, rest string) {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), marker)
	if !ok {
		t.Fatalf("%s has no line %q", document, marker)
	}
	return head + marker, rest
}

// TestDocument: the document shows the lists, and what came of each class. -update writes it.
func TestDocument(t *testing.T) {
	if *update && !testing.Short() {
		keepResults(t, nil)
	}
	kept := slices.Sorted(maps.Keys(readResults(t)))
	if diff := cmp.Diff(classNames(t), kept); diff != "" {
		t.Errorf("results are not those of the classes (-classes +results):\n%s", diff)
	}
	_, rest := splitDocument(t)
	if diff := cmp.Diff(rendered(t), rest); diff != "" {
		t.Errorf("%s is not what the lists and results say; -update writes it (-want +document):\n%s", document, diff)
	}
}

// TestResults: as many methods are left out as the list has.
func TestResults(t *testing.T) {
	listed, maybe := map[string]int{}, map[string]int{}
	for name, reason := range leftOut(t) { // order: counted
		class, _, _ := strings.Cut(name, "#")
		listed[class]++
		if sometimes(reason) {
			maybe[class]++
		}
	}
	for class, r := range readResults(t) { // order: each for itself
		if r.leftOut > listed[class] || r.leftOut < listed[class]-maybe[class] {
			t.Errorf("%s: %d methods were left out, %d are listed, %d of them fail sometimes", class, r.leftOut,
				listed[class], maybe[class])
		}
	}
}

// rendered is the part of the document that is written by the tests.
func rendered(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	results, left, not := readResults(t), leftOut(t), notRun(t)
	b.WriteString("\n## Classes that are run\n\n" + table(results) + "\n## Methods that are left out\n\n")
	b.WriteString(list("method", left) + "\n## Classes that are not run\n\n" + list("class", not))
	return b.String()
}

// table shows results.
func table(results map[string]result) string {
	var b strings.Builder
	b.WriteString("| class | passed | left out | leave themselves out |\n|---|---|---|---|\n")
	row := func(name string, r result) {
		fmt.Fprintf(&b, "| %s | %d | %d | %d |\n", name, r.passed, r.leftOut, r.skipped)
	}
	var sum result
	for _, class := range slices.Sorted(maps.Keys(results)) {
		r := results[class]
		row(short(class), r)
		sum.passed, sum.leftOut, sum.skipped = sum.passed+r.passed, sum.leftOut+r.leftOut, sum.skipped+r.skipped
	}
	row(fmt.Sprintf("%d classes", len(results)), sum)
	return b.String()
}

// list shows names with their reasons.
func list(what string, reasons map[string]string) string {
	var b strings.Builder
	b.WriteString("| " + what + " | why |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(reasons)) {
		fmt.Fprintf(&b, "| %s | %s |\n", short(name), reasons[name])
	}
	return b.String()
}

// short is the name of a class without what all have in common.
func short(name string) string { return strings.TrimPrefix(name, "org.apache.") }
