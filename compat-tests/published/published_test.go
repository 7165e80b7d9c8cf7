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
	"time"

	"zkd/compat-tests/target"
)

func TestMain(m *testing.M) { os.Exit(target.Main(m, "published")) }

var (
	//go:embed pom.xml
	pom string
	//go:embed logback.xml
	logback string
)

// classWithin is how long one class may take. Most take less than a minute; ServerIdTest, which starts five hundred
// servers, takes some minutes.
const classWithin = 12 * time.Minute

// sample are classes that are run by default: what they need, and how results are read, is seen to work.
var sample = []string{
	"org.apache.curator.framework.recipes.cache.TestCuratorCacheBridge",
	"org.apache.zookeeper.test.CreateTest", "org.apache.zookeeper.test.ObserverLETest",
}

// outcome is a line that the Java program prints for a method, or for a server that it starts.
var outcome = regexp.MustCompile(`(?m)^(pass|fail|skip|begin) (\S+) ?(.*)$|^(server)$`)

// suite runs classes.
type suite struct {
	t      *testing.T
	argv   []string // of the Java program, but for what is each worker's and class's own
	data   string   // a directory with files that tests look for
	reason map[string]string
	keep   bool // the results of those that do not fail, at once

	mu      sync.Mutex
	left    []string // guarded by mu, as is the rest
	again   []string // failed once
	results map[string]result
	seen    map[string]bool // methods that came to an end
}

// TestPublished runs a sample. ZKD_PUBLISHED is for others: all, or the names of classes, or their ends, with commas.
// With -update, or if all are run, docs/published.md is brought up to date with what came of them.
func TestPublished(t *testing.T) {
	target.Require(t, target.Java, target.Maven)
	s := newSuite(t)
	all := classNames(t)
	if which := os.Getenv("ZKD_PUBLISHED"); which == "all" {
		s.left = all
	} else if which != "" {
		s.left = slices.DeleteFunc(slices.Clone(all), func(class string) bool {
			return !slices.ContainsFunc(strings.Split(which, ","), func(end string) bool {
				return strings.HasSuffix(class, end)
			})
		})
	}
	s.keep = *update || len(s.left) == len(all)
	s.runAll(runtime.GOMAXPROCS(0))
	s.left, s.again = s.again, nil
	s.runAll(1) // their waits are as published, for a machine that has nothing else to do
	if len(s.results) == 0 {
		t.Error("nothing has run")
	}
	for name := range s.reason { // order: each for itself
		if class, _, _ := strings.Cut(name, "#"); s.results[class] != (result{}) && !s.seen[name] {
			t.Errorf("left-out names %s, which there is not", name)
		}
	}
	t.Logf("\n%s", table(s.results))
}

func newSuite(t *testing.T) *suite {
	t.Helper()
	s := &suite{t: t, left: sample, reason: leftOut(t), results: map[string]result{}, seen: map[string]bool{}}
	config := filepath.Join(t.TempDir(), "logback.xml")
	if err := os.WriteFile(config, []byte(logback), 0o600); err != nil {
		t.Fatal(err)
	}
	s.data = keyStores(t)
	s.argv = []string{
		"java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djdk.attach.allowAttachSelf=true",
		"-Dlogback.configurationFile=" + config, "-Dzookeeper.admin.enableServer=false",
		// As ZooKeeper's and Curator's own build runs them.
		"-Dzookeeper.DigestAuthenticationProvider.superDigest=super:D/InIHSb7yEEbrWz8b9l71RjZJU=",
		"-Dzookeeper.4lw.commands.whitelist=*",
		"-Dstandin.server=" + target.ZkdBinary(t),
		"-cp", target.JavaClasses(t, "src", target.Classpath(t, pom)),
	}
	return s
}

// runAll runs what is left with some workers.
func (s *suite) runAll(workers int) {
	var working sync.WaitGroup
	for number := range workers {
		working.Go(func() { s.work(number+1, workers) })
	}
	working.Wait()
}

// work runs classes until there are no more. Each worker has a range of ports of its own.
func (s *suite) work(number, workers int) {
	for {
		s.mu.Lock()
		if len(s.left) == 0 || s.t.Context().Err() != nil {
			s.mu.Unlock()
			return
		}
		class := s.left[0]
		s.left = s.left[1:]
		s.mu.Unlock()
		out, log, err := s.run(class, fmt.Sprintf("-Dtest.junit.threads=%d", workers),
			fmt.Sprintf("-Dzookeeper.junit.threadid=%d", number))
		s.judge(class, out, log, err)
	}
}

// run runs one class in a process and a directory of its own.
func (s *suite) run(class string, flags ...string) (out, log string, err error) {
	dir, err := os.MkdirTemp("", "zkd-published-")
	if err != nil {
		return "", "", err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is a temporary directory
	log = filepath.Join(dir, "log")
	if err := os.CopyFS(dir, os.DirFS(s.data)); err != nil {
		return "", "", err
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), classWithin)
	defer cancel()
	argv := slices.Insert(slices.Clone(s.argv), 1, flags...)
	argv = append(argv, "zkd.standin.Main", class)
	argv = slices.Insert(argv, 1, "-Dstandin.log="+log, "-Dbuild.test.dir="+dir, "-Dtest.data.dir="+dir)
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

// report is what a class has printed, read.
type report struct {
	result   result
	servers  int
	ended    map[string]string   // method to outcome
	failures map[string][]string // method to why, of those that are not left out
	strike   []string            // methods that are left out and pass
}

// read reads what a class has printed.
func (s *suite) read(out string) report {
	r := report{ended: map[string]string{}, failures: map[string][]string{}}
	for _, line := range outcome.FindAllStringSubmatch(out, -1) {
		what, name, why := line[1], line[2], line[3]
		switch {
		case line[4] != "":
			r.servers++
			continue
		case what == "begin" && r.ended[name] == "":
			why = "it did not come to its end"
		}
		r.ended[name] = what
		if what == "begin" || what == "fail" {
			r.failures[name] = append(r.failures[name], why)
		} else if what == "pass" || what == "skip" {
			delete(r.failures, name)
		}
	}
	for name, what := range r.ended { // order: each for itself
		reason := s.reason[name]
		switch {
		case what == "pass":
			r.result.passed++
			if reason != "" && !sometimes(reason) {
				r.strike = append(r.strike, name)
			}
		case reason != "":
			r.result.leftOut++
			delete(r.failures, name)
		case what == "skip":
			r.result.skipped++
		}
	}
	return r
}

// judge compares what came of a class with what is left out. A class that fails is run once more.
func (s *suite) judge(class, out, log string, ended error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.read(out)
	failed := len(r.failures) > 0 || ended != nil
	second := s.results[class].again
	if failed && !second {
		s.again = append(s.again, class)
		s.results[class] = result{again: true}
		s.t.Logf("%s is run once more: %v %v", class, r.failures, ended)
		return
	}
	for name, why := range r.failures { // order: each for itself
		s.t.Errorf("%s: %s", name, why[len(why)-1])
	}
	for _, name := range r.strike {
		s.t.Errorf("%s passes: strike it from left-out (%s)", name, s.reason[name])
	}
	if ended != nil || len(r.ended) == 0 {
		s.t.Errorf("%s: the process ended: %v: %s", class, ended, out[max(0, len(out)-tailBytes):])
	}
	if r.servers == 0 {
		s.t.Errorf("%s has started no server: it belongs in not-run", class)
	}
	if failed {
		s.t.Logf("the end of the log of %s:\n%s", class, log)
	}
	for name := range r.ended { // order: each for itself
		s.seen[name] = true
	}
	r.result.failed, r.result.again = len(r.failures), second
	s.results[class] = r.result
	if s.keep && r.result.failed == 0 {
		keepResults(s.t, map[string]result{class: r.result})
	}
}
