package firstweek

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what commands print to testdata")

// commandWithin bounds one command. A guess for a busy machine: building the archive takes a minute there.
const commandWithin = 5 * time.Minute

// transcript is what the commands of a step have printed, and how each has ended.
type transcript struct {
	names map[string]string // for what differs from run to run: places and ports
	text  strings.Builder
}

// run runs a command and writes it down. The status is part of the transcript.
func (s *transcript) run(t *testing.T, program string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // it is ours
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "ZKD_") // of the tests: zkd would tell of keys that it does not know
	})
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("%s %q: %v", program, args, err)
	}
	fmt.Fprintf(&s.text, "$ %s %s\n%s", filepath.Base(program), strings.Join(args, " "), &stdout)
	for line := range strings.Lines(stderr.String()) {
		fmt.Fprintf(&s.text, "stderr: %s\n", strings.TrimSuffix(line, "\n"))
	}
	fmt.Fprintf(&s.text, "status %d\n\n", cmd.ProcessState.ExitCode())
}

// masks are what differs between runs besides places and ports: times, sizes of files and disks, what counts up. The
// order counts.
var masks = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`), "TIME"},
	{regexp.MustCompile(`-?\b(\d+h)?(\d+m)?\d+(\.\d+)?(s|ms|µs) `), "TIME "},
	{regexp.MustCompile(`-?\b\d+(\.\d+)? s\b`), "TIME"},
	{regexp.MustCompile(`\b\d+(\.\d+)? (B|KiB|MiB|GiB|TiB)\b`), "SIZE"},
	{regexp.MustCompile(`\b\d+ bytes\b( of paths)?`), "SIZE$1"},
	{regexp.MustCompile(`\bzxid 0x[0-9a-f]+`), "zxid ZXID"},
	{regexp.MustCompile(`\b0x[0-9a-f]+\b`), "ZXID"},
	{regexp.MustCompile(`\b\d+/\d+\.\d+/\d+\b`), "LATENCY"},
	{regexp.MustCompile(` {2,}`), "  "}, // columns
	// A server in the table of status: who leads, how far, how many clients.
	{regexp.MustCompile(`(CLIENT\d?)  (?:leader|follower)  \d+  ZXID  \d+  \d+`),
		"$1  MEMBER  TERM  ZXID  LAG  CLIENTS"},
	{regexp.MustCompile(`(CLIENT\d?)  (observer|standalone)  \d+  ZXID  \d+  \d+`),
		"$1  $2  TERM  ZXID  LAG  CLIENTS"},
	{regexp.MustCompile(`(MEMBER .* LATENCY)  -  `), "$1  TIME  "}, // the leader does not know its clock yet
	{regexp.MustCompile(`TIME  \d+%`), "TIME  FREE"},
	{regexp.MustCompile(`\b\d+ % of`), "N % of"},
	{regexp.MustCompile(`SIZE \(\d+ %\)`), "SIZE (N %)"},
	// What the log has, and what ends with the sessions that were imported.
	{regexp.MustCompile(`entries \d+ to \d+`), "entries N to N"},
	{regexp.MustCompile(`\b(committed|applied) to \d+`), "$1 to N"},
	{regexp.MustCompile(`\bterm \d+`), "term N"},
	{regexp.MustCompile(`applies again: \d+`), "applies again: N"},
	{regexp.MustCompile(`learners \[4?\]`), "learners LEARNERS"}, // the one that was removed last
	{regexp.MustCompile(`process \d+`), "process PID"},
	{regexp.MustCompile(`cluster  [0-9a-f]{32}`), "cluster  ID"},
}

// masked is the transcript without what differs between runs.
func (s *transcript) masked() string {
	text := s.text.String()
	names := make([]string, 0, len(s.names))
	for name := range s.names { // any order: sorted below
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return len(b) - len(a) }) // a place before the one it is below
	for _, name := range names {
		text = strings.ReplaceAll(text, name, s.names[name])
	}
	for _, m := range masks {
		text = m.what.ReplaceAllString(text, m.with)
	}
	return text
}

// compare holds the transcript to the one of testdata with a name.
func (s *transcript) compare(t *testing.T, name string) {
	t.Helper()
	if s.text.Len() == 0 {
		return
	}
	got := s.masked()
	s.text.Reset()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path) //nolint:gosec // a test's own file
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("commands print something else than %s has (-want +got; -update writes it):\n%s", path, diff)
	}
}
