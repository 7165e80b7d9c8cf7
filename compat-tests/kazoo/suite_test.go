package kazoo_test

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"zkd/compat-tests/target"
)

func TestMain(m *testing.M) { os.Exit(target.Main(m, "kazoo")) }

// suiteWithin bounds Kazoo's own suite, testWithin each of its tests, which Kazoo's own project bounds with 180 s.
const (
	suiteWithin = 16 * time.Minute
	testWithin  = 60 * time.Second
)

// result matches a line of pytest's report: outcome and test.
var result = regexp.MustCompile(`(?m)^(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) (\S+)`)

// shards is into how many parts the suite is split that run at once, each on servers of its own: most of it waits.
const shards = 2

// TestUpstreamSuite runs Kazoo's own tests, on three servers. Each becomes a subtest here. One that fails is run again,
// alone: some give a server a tenth of a second, which a busy machine does not always have.
func TestUpstreamSuite(t *testing.T) {
	kind := target.Selected(t)
	target.Require(t, append(target.ToolsOf(kind), target.Python, target.Shell)...)
	env := environment(t)
	// pytest names tests by their real paths.
	packages, err := filepath.EvalSymlinks(filepath.Join(env, "lib", "python3", "site-packages"))
	if err != nil {
		t.Fatal(err)
	}
	var deselected []string
	for _, test := range excluded(t) {
		deselected = append(deselected, "--deselect=kazoo/tests/"+test)
	}
	files, err := filepath.Glob(filepath.Join(packages, "kazoo", "tests", "test_*.py"))
	if err != nil {
		t.Fatal(err)
	}
	suite := suite{t: t, python: filepath.Join(env, "bin", "python"), packages: packages, java: javaScript(t, kind)}
	var parts [shards][]outcome
	var running sync.WaitGroup
	for shard := range parts {
		args := slices.Clone(deselected)
		for i := shard; i < len(files); i += shards {
			args = append(args, filepath.Join("kazoo", "tests", filepath.Base(files[i])))
		}
		ports := target.FreePorts(t, kazooPorts)
		running.Go(func() { parts[shard] = suite.run(ports[0], args) })
	}
	running.Wait()
	ran := slices.Concat(parts[:]...)
	failed := slices.DeleteFunc(slices.Clone(ran), func(test outcome) bool { return !test.failed() })
	last := map[string]bool{} // whether a test that was run again failed the last time, too
	for _, test := range failed {
		last[test.id] = true
	}
	for try := 2; try <= triesMax && len(failed) <= againMax; try++ {
		ids := slices.DeleteFunc(slices.Sorted(maps.Keys(last)), func(id string) bool { return !last[id] })
		if len(ids) == 0 {
			break
		}
		again := suite.run(target.FreePorts(t, kazooPorts)[0], ids)
		for _, test := range again {
			last[test.id] = false
		}
		for _, test := range again { // one that passes may yet fail when it cleans up
			last[test.id] = last[test.id] || test.failed()
		}
	}
	for _, test := range ran {
		t.Run(strings.TrimPrefix(test.id, "kazoo/tests/"), func(t *testing.T) {
			switch {
			case test.failed() && last[test.id]:
				t.Error(test.word, "see the output of the suite below")
			case test.failed():
				t.Log("passed at a later try")
			}
		})
	}
	if len(ran) == 0 {
		t.Error("the suite ran no test")
	}
	t.Logf("%d tests of Kazoo's suite ran against %s, %d of them again", len(ran), kind, len(failed))
}

// againMax bounds the tests that are run once more: if more fail, the machine is not the reason. triesMax is how often
// one is run at most.
const (
	againMax = 6
	triesMax = 3
)

// kazooPorts is what Kazoo's harness takes for three servers: ten each.
const kazooPorts = 40

// outcome is what pytest says of one test.
type outcome struct{ word, id string }

func (o outcome) failed() bool { return o.word == "FAILED" || o.word == "ERROR" }

// suite runs Kazoo's tests.
type suite struct {
	t        *testing.T
	python   string
	packages string // the folder that holds kazoo
	java     string // the folder of javaScript
}

// run runs what args of pytest name, on servers of its own, whose ports begin at port. An end of pytest that no test
// explains fails the test.
func (s *suite) run(port int, args []string) []outcome {
	s.t.Helper()
	plugins, err := filepath.Abs(filepath.Join("testdata", "pytest"))
	if err != nil {
		s.t.Fatal(err)
	}
	argv := []string{
		s.python, "-m", "pytest", "-rA", "-q", "--color=no", "--tb=short", "--show-capture=no",
		"-p", "no:cacheprovider", "-p", "no:logging", "-p", "repeated_timeout",
		fmt.Sprintf("--timeout=%d", int(testWithin.Seconds())),
		"-W", "ignore", "--durations=15", "--rootdir=" + s.packages,
	}
	out, err := target.Client{
		Argv: append(argv, args...),
		Dir:  s.packages,
		Env: []string{
			"PATH=" + s.java + string(os.PathListSeparator) + os.Getenv("PATH"),
			"PYTHONPATH=" + plugins,
			"ZOOKEEPER_VERSION=" + target.ServerVersion,
			"ZOOKEEPER_CLASSPATH=unused",
			"ZOOKEEPER_CLUSTER_SIZE=3",
			fmt.Sprintf("ZOOKEEPER_PORT_OFFSET=%d", port),
			"CI=", // Kazoo's tests read it as the Kazoo project's CI
		},
		Within: suiteWithin,
	}.Run(s.t)
	var ran []outcome
	explained := err == nil
	for _, match := range result.FindAllStringSubmatch(out, -1) {
		test := outcome{match[1], match[2]}
		ran = append(ran, test)
		explained = explained || test.failed()
	}
	if !explained {
		s.t.Errorf("the suite ended with %v after %d tests", err, len(ran))
	}
	return ran
}

// TestExcludedExist keeps the list honest: a name that no longer exists excludes nothing.
func TestExcludedExist(t *testing.T) {
	target.Require(t, target.Python)
	tests := filepath.Join(environment(t), "lib", "python3", "site-packages", "kazoo", "tests")
	var all strings.Builder
	sources, err := filepath.Glob(filepath.Join(tests, "test_*.py"))
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range sources {
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	for _, test := range excluded(t) {
		names := strings.Split(test, "::")
		if _, err := os.Stat(filepath.Join(tests, names[0])); err != nil {
			t.Errorf("excluded.txt names %s: %v", test, err)
		}
		for _, name := range names[1:] {
			if !strings.Contains(all.String(), "class "+name+"(") && !strings.Contains(all.String(), "def "+name+"(") {
				t.Errorf("excluded.txt names %s, which the suite does not have", name)
			}
		}
	}
}

// TestScripts runs our own Python scripts, each against a server of its own.
func TestScripts(t *testing.T) {
	scripts, err := filepath.Glob(filepath.Join("testdata", "*.py"))
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".py"), func(t *testing.T) {
			target.Require(t, target.Python)
			env := environment(t)
			server := target.Start(t, target.Options{JVMFlags: []string{"-Dznode.container.checkIntervalMs=500"}})
			out, err := target.Client{
				Argv:   []string{filepath.Join(env, "bin", "python"), script, server.Addr},
				Within: 6 * time.Minute,
			}.Run(t)
			if err != nil {
				t.Fatalf("%s: %v", script, err)
			}
			t.Logf("%d checks passed", strings.Count(out, "ok "))
		})
	}
}

// environment returns a Python environment that holds requirements.txt. lib/python3 in it is a link to the version's
// own folder.
func environment(t *testing.T) string {
	t.Helper()
	requirements, err := os.ReadFile("requirements.txt")
	if err != nil {
		t.Fatal(err)
	}
	file, err := filepath.Abs("requirements.txt")
	if err != nil {
		t.Fatal(err)
	}
	return target.Cached(t, "python", []string{string(requirements)}, func(ctx context.Context, dir string) error {
		if err := target.PythonEnvironment(ctx, dir, "-r", file); err != nil {
			return err
		}
		versions, err := filepath.Glob(filepath.Join(dir, "lib", "python3.*"))
		if err != nil || len(versions) != 1 {
			return fmt.Errorf("environment has %d library folders, %w", len(versions), err)
		}
		return os.Symlink(filepath.Base(versions[0]), filepath.Join(dir, "lib", "python3"))
	})
}

// javaScript writes the java that Kazoo's harness runs as "java [options] QuorumPeerMain zoo.cfg" and returns its
// folder. It becomes the server, with the options that are about the server and not about Java.
func javaScript(t *testing.T, kind target.Kind) string {
	t.Helper()
	target.Uses(t, "sh")
	argv, _ := target.Command(t, kind, `"$cfg"`, []string{"$SERVER_JVMFLAGS"}) // zkd reads the variable itself
	if java, err := exec.LookPath(argv[0]); err == nil {                       // zkd has a path
		argv[0] = java // not the script itself
	}
	for i, arg := range argv {
		if !strings.ContainsAny(arg, `"$`) {
			argv[i] = fmt.Sprintf("'%s'", arg)
		}
	}
	script := `#!/bin/sh
for arg in "$@"; do
	case $arg in
	-Dreadonlymode.*|-Dzookeeper.Digest*|-Djava.security.auth.*) SERVER_JVMFLAGS="$SERVER_JVMFLAGS $arg" ;;
	esac
	cfg=$arg
done
export SERVER_JVMFLAGS
exec ` + strings.Join(argv, " ") + ` 2>"$(dirname "$cfg")/zookeeper.log"
`
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "java"), []byte(script), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	return dir
}

func excluded(t *testing.T) []string {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "excluded.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // read only
	var tests []string
	for lines := bufio.NewScanner(file); lines.Scan(); {
		test, reason, _ := strings.Cut(lines.Text(), " ")
		if strings.HasPrefix(test, "#") || test == "" {
			continue
		}
		if strings.TrimSpace(reason) == "" {
			t.Fatalf("excluded.txt gives no reason for %s", test)
		}
		tests = append(tests, test)
	}
	return tests
}
