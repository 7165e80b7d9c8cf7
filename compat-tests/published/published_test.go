package published_test

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"zkd/compat-tests/target"
)

func TestMain(m *testing.M) { os.Exit(target.Main(m, "published")) }

var (
	//go:embed pom.xml
	pom string
	//go:embed classes
	classes string
	//go:embed left-out
	leftOut string
	//go:embed logback.xml
	logback string
)

// classWithin is how long one class may take. The slowest take about a minute on a quiet machine.
const classWithin = 8 * time.Minute

// sample are classes that are run by default: what they need, and how results are read, is seen to work.
var sample = []string{"org.apache.zookeeper.test.CreateTest", "org.apache.zookeeper.test.ObserverLETest"}

// outcome is a line that the Java program prints for a method.
var outcome = regexp.MustCompile(`(?m)^(pass|fail|skip|begin) (\S+) ?(.*)$`)

// exception is a method, or a whole class, that is left out.
type exception struct {
	reason    string
	sometimes bool // it may pass as well
	used      bool
}

// exceptions reads left-out: a name, a colon and a reason on each line that is neither empty nor a comment. A reason
// that begins with "sometimes" is of a method that may pass.
func exceptions(t *testing.T) map[string]*exception {
	t.Helper()
	all := map[string]*exception{}
	for line := range strings.Lines(leftOut) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, reason, ok := strings.Cut(line, ": ")
		if !ok || reason == "" || all[name] != nil {
			t.Fatalf("left-out has a line without a reason, or twice: %q", line)
		}
		all[name] = &exception{reason: reason, sometimes: strings.HasPrefix(reason, "sometimes")}
	}
	return all
}

// named are the classes of the file.
func named() (all []string) {
	for line := range strings.Lines(classes) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			all = append(all, line)
		}
	}
	return all
}

// TestLists: what is left out is of a class that is run.
func TestLists(t *testing.T) {
	all := named()
	if !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) != len(all) {
		t.Error("classes are not sorted, or one is named twice")
	}
	for name := range exceptions(t) { // order: each for itself
		class, _, _ := strings.Cut(name, "#")
		if !slices.Contains(all, class) {
			t.Errorf("left-out names %s, which classes does not", name)
		}
	}
	for _, class := range sample {
		if !slices.Contains(all, class) {
			t.Errorf("classes does not name %s", class)
		}
	}
}

// suite runs classes.
type suite struct {
	t          *testing.T
	argv       []string
	exceptions map[string]*exception

	mu    sync.Mutex
	left  []string // guarded by mu, as is the rest
	table []string
	sum   tally
}

// tally is what came of methods.
type tally struct{ passed, leftOut, failed int }

// TestPublished runs a sample. ZKD_PUBLISHED is for others: all, or the names of classes, or their ends, with commas.
func TestPublished(t *testing.T) {
	target.Require(t, target.Java, target.Maven)
	s := suite{t: t, left: sample, exceptions: exceptions(t)}
	if which := os.Getenv("ZKD_PUBLISHED"); which == "all" {
		s.left = named()
	} else if which != "" {
		s.left = slices.DeleteFunc(named(), func(class string) bool {
			return !slices.ContainsFunc(strings.Split(which, ","), func(end string) bool {
				return strings.HasSuffix(class, end)
			})
		})
	}
	config := filepath.Join(t.TempDir(), "logback.xml")
	if err := os.WriteFile(config, []byte(logback), 0o600); err != nil {
		t.Fatal(err)
	}
	s.argv = []string{
		"java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djdk.attach.allowAttachSelf=true",
		"-Dlogback.configurationFile=" + config, "-Dzookeeper.admin.enableServer=false",
		"-Dstandin.server=" + target.ZkdBinary(t),
		"-cp", target.JavaClasses(t, "src", target.Classpath(t, pom)),
	}
	whole := len(s.left) == len(named())
	var working sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		working.Go(s.work)
	}
	working.Wait()
	slices.Sort(s.table)
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "passed\tleft out\tfailed\t  class")
	for _, line := range append(s.table, s.sum.row("together")) {
		fmt.Fprintln(w, line)
	}
	_ = w.Flush() // a builder takes all
	t.Logf("\n%s", b.String())
	if s.sum.passed == 0 {
		t.Error("nothing has run")
	}
	for name, e := range s.exceptions { // order: each for itself
		if whole && !e.used {
			t.Errorf("left-out names %s, which there is not", name)
		}
	}
}

// row is a line of the table.
func (n *tally) row(what string) string {
	return fmt.Sprintf("%d\t%d\t%d\t  %s", n.passed, n.leftOut, n.failed, what)
}

// work runs classes until there are no more.
func (s *suite) work() {
	for {
		s.mu.Lock()
		if len(s.left) == 0 || s.t.Context().Err() != nil {
			s.mu.Unlock()
			return
		}
		class := s.left[0]
		s.left = s.left[1:]
		s.mu.Unlock()
		if e := s.exceptions[class]; e != nil {
			s.mu.Lock()
			e.used = true
			s.mu.Unlock()
			continue
		}
		out, log, err := s.run(class)
		s.judge(class, out, log, err)
	}
}

// run runs one class in a process and a directory of its own.
func (s *suite) run(class string) (out, log string, err error) {
	dir, err := os.MkdirTemp("", "zkd-published-")
	if err != nil {
		return "", "", err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is a temporary directory
	log = filepath.Join(dir, "log")
	ctx, cancel := context.WithTimeout(s.t.Context(), classWithin)
	defer cancel()
	argv := append(slices.Clone(s.argv), "-Dstandin.log="+log, "-Dbuild.test.dir="+dir, "-Dtest.data.dir="+dir,
		"zkd.standin.Main", class)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // our own
	cmd.Dir = dir
	// A group of its own, so that its servers end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	kill := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = kill
	cmd.WaitDelay = 10 * time.Second
	text, err := cmd.CombinedOutput()
	if cmd.Process != nil {
		_ = kill() // there is nobody left, mostly
	}
	return string(text), tail(log), err
}

// tailBytes is how much of a log is shown of a class that has failed.
const tailBytes = 8 << 10

// tail reads the end of a file.
func tail(name string) string {
	file, err := os.Open(name) //nolint:gosec // our own
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > tailBytes {
		_, _ = file.Seek(-tailBytes, io.SeekEnd) // else all of it is shown
	}
	text, _ := io.ReadAll(file) // what there is
	return string(text)
}

// judge compares what came of a class with what is left out.
func (s *suite) judge(class, out, log string, ended error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var n tally
	begun := map[string]bool{}
	fail := func(name, why string) {
		if e := s.exceptions[name]; e != nil {
			e.used = true
			n.leftOut++
			return
		}
		n.failed++
		s.t.Errorf("%s: %s", name, why)
	}
	for _, line := range outcome.FindAllStringSubmatch(out, -1) {
		what, name, why := line[1], line[2], line[3]
		delete(begun, name)
		switch what {
		case "begin":
			begun[name] = true
		case "pass":
			n.passed++
			if e := s.exceptions[name]; e != nil {
				e.used = true
				if !e.sometimes {
					s.t.Errorf("%s passes: strike it from left-out (%s)", name, e.reason)
				}
			}
		case "fail":
			fail(name, why)
		}
	}
	for name := range begun { // order: each for itself
		fail(name, "it did not come to its end")
	}
	if ended != nil || n == (tally{}) {
		n.failed++
		s.t.Errorf("%s: the process ended: %v: %s", class, ended, out[max(0, len(out)-tailBytes):])
	}
	if n.failed > 0 {
		s.t.Logf("the end of the log of %s:\n%s", class, log)
	}
	s.table = append(s.table, n.row(class))
	s.sum = tally{s.sum.passed + n.passed, s.sum.leftOut + n.leftOut, s.sum.failed + n.failed}
}
