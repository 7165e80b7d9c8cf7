package gozk_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"zkd/compat-tests/target"
)

func TestMain(m *testing.M) { os.Exit(target.Main(m, "gozk")) }

const clientModule = "github.com/go-zookeeper/zk"

// The suite waits for its servers with the client's FLWSrvr, which cannot parse what any ZooKeeper since 3.5.6
// answers to srvr (the build date became an ISO date), so no such server ever counts as started. This call is
// replaced by one that looks for the mode.
const (
	startedCall    = "_, ok := FLWSrvr(serverAddrs, time.Second)"
	startedInstead = "ok := serversStarted(serverAddrs, time.Second)"
	startedFile    = "server_help_test.go"
	startedFunc    = `package zk

import (
	"strings"
	"time"
)

func serversStarted(addrs []string, timeout time.Duration) bool {
	for _, addr := range addrs {
		answer, err := fourLetterWord(addr, "srvr", timeout)
		if err != nil || !strings.Contains(string(answer), "Mode:") {
			return false
		}
	}
	return true
}
`
)

// suiteWithin bounds the whole suite, which takes 30 s on an idle machine against the real ZooKeeper (2026-11, 2
// cores).
const suiteWithin = 5 * time.Minute

var result = regexp.MustCompile(`(?m)^--- (PASS|FAIL|SKIP): (\w+) \(([0-9.]+)s\)`)

// againMax bounds the tests that are run once more: if more fail, the machine is not the reason. triesMax is how often
// one is run at most.
const (
	againMax = 4
	triesMax = 3
)

// TestUpstreamSuite runs the client's own tests. Each becomes a subtest here, so -run finds it by name in the output.
// One that fails is run again, alone: some give a server a second, which a busy machine does not always have.
func TestUpstreamSuite(t *testing.T) {
	kind := target.Selected(t)
	target.Require(t, append(target.ToolsOf(kind), target.Shell)...)
	binary := buildSuite(t)
	ran, err := runSuite(t, kind, binary)
	failed := failures(ran)
	passed := map[string]bool{} // at a later try
	left := failed
	for try := 2; try <= triesMax && len(left) > 0 && len(failed) <= againMax; try++ {
		var again [][]string
		again, err = runSuite(t, kind, binary, "-test.run=^("+strings.Join(left, "|")+")$")
		for _, test := range again {
			passed[test[2]] = test[1] == "PASS"
		}
		left = slices.DeleteFunc(slices.Clone(left), func(name string) bool { return passed[name] })
	}
	for _, test := range ran {
		t.Run(test[2], func(t *testing.T) {
			switch {
			case test[1] == "FAIL" && passed[test[2]]:
				t.Log("passed at a later try")
			case test[1] == "FAIL":
				t.Errorf("failed after %s s; the output of the suite is below", test[3])
			case test[1] == "SKIP":
				t.Errorf("skipped itself; give it what it needs")
			}
		})
	}
	if err != nil || len(ran) == 0 {
		t.Errorf("the suite ended with %v after %d tests", err, len(ran))
	}
	t.Logf("%d tests of the client's suite ran against %s, %d of them again", len(ran), kind, len(failed))
}

// failures are the names of the tests that failed, of matches of result.
func failures(ran [][]string) (names []string) {
	for _, test := range ran {
		if test[1] == "FAIL" {
			names = append(names, test[2])
		}
	}
	return names
}

// runSuite runs the client's tests, and returns the matches of result and the error of the end.
func runSuite(t *testing.T, kind target.Kind, binary string, args ...string) ([][]string, error) {
	t.Helper()
	argv := []string{binary, "-test.v", "-test.timeout=" + suiteWithin.String()}
	out, err := target.Client{
		Argv:   append(argv, args...),
		Dir:    filepath.Dir(binary),
		Env:    []string{"ZOOKEEPER_BIN_PATH=" + serverScript(t, kind), "ZK_VERSION=" + target.ServerVersion},
		Within: suiteWithin + time.Minute,
	}.Run(t)
	return result.FindAllStringSubmatch(out, -1), err
}

// buildSuite copies the client's module, replaces the one call and compiles its tests.
func buildSuite(t *testing.T) string {
	t.Helper()
	source, dir := moduleDir(t), t.TempDir()
	files, err := filepath.Glob(filepath.Join(source, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	replaced := false
	for _, file := range append(files, filepath.Join(source, "go.mod")) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		content := string(text)
		if filepath.Base(file) == startedFile {
			replaced = strings.Count(content, startedCall) == 1
			content = strings.Replace(content, startedCall, startedInstead, 1)
		}
		write(t, filepath.Join(dir, filepath.Base(file)), content, 0o600)
	}
	if !replaced {
		t.Fatalf("%s of the client no longer calls %q exactly once", startedFile, startedCall)
	}
	write(t, filepath.Join(dir, "servers_started_test.go"), startedFunc, 0o600)
	binary := filepath.Join(dir, "suite")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-mod=mod", "-o", binary, ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("compile the client's tests: %v\n%s", err, out)
	}
	return binary
}

// serverScript writes the zkServer.sh that the suite runs as "zkServer.sh start-foreground zoo.cfg" and returns its
// folder. The suite kills it with SIGKILL, so it must become the server, not its parent.
func serverScript(t *testing.T, kind target.Kind) string {
	t.Helper()
	target.Uses(t, "sh")
	argv, _ := target.Command(t, kind, `"$2"`, []string{"$SERVER_JVMFLAGS"}) // zkd reads the variable itself
	for i, arg := range argv {
		if !strings.ContainsAny(arg, `"$`) {
			argv[i] = fmt.Sprintf("'%s'", arg)
		}
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "zkServer.sh"), "#!/bin/sh\nexec "+strings.Join(argv, " ")+"\n", 0o700)
	return dir
}

func moduleDir(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", clientModule).Output()
	if err != nil || strings.TrimSpace(string(out)) == "" {
		t.Fatalf("find %s: %v (go mod download fetches it)", clientModule, err)
	}
	return strings.TrimSpace(string(out))
}

func write(t *testing.T, path, content string, mode fs.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}
