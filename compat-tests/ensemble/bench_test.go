package ensemble_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"zkd/compat-tests/target"
)

// benchTries is how often a load is run until it shows something, each time for four times as long: a machine that
// stands still for a moment spoils a short one.
const benchTries = 4

// benchResult is what is looked at of a result.
type benchResult struct {
	Name      string
	Requests  int64
	Errors    map[string]int64
	GapMillis float64
	CPU       float64 `json:"serverCpuMicrosPerRequest"`
}

// TestBench runs the loads of "zkd bench" that need several servers, on three of the kind under test.
func TestBench(t *testing.T) {
	kind := target.Selected(t)
	target.Require(t, target.ToolsOf(kind)...)
	server, _ := target.Command(t, kind, "{cfg}", nil)
	zkd, _ := target.Command(t, target.Zkd, "", nil)
	for _, load := range []struct {
		flags          string
		results        int
		warmup, millis int // the latter is 0 where nothing but the number of ends says how long it is
	}{
		{"failover --count 1", 4, 500, 0},
		{"beside --clients 6 --rate 100", 1, 100, 500},
		{"write --clients 6 --outstanding 2", 1, 100, 500},
	} {
		name, _, _ := strings.Cut(load.flags, " ")
		t.Run(name, func(t *testing.T) {
			var missing string
			longer := 1
			for range benchTries {
				argv := append([]string{zkd[0], "bench"}, strings.Fields(load.flags)...)
				argv = append(argv, "--warmup", fmt.Sprintf("%dms", load.warmup))
				if load.millis > 0 {
					argv = append(argv, "--duration", fmt.Sprintf("%dms", longer*load.millis))
				}
				argv = append(argv, "--servers", "3", "--json", "--start", strings.Join(server, " "))
				if missing = tryBench(t, argv, load.results); missing == "" {
					return
				}
				t.Logf("once more: %s", missing)
				longer *= 4
			}
			t.Error(missing)
		})
	}
}

// tryBench runs a load once and returns what is missing in what it shows.
func tryBench(t *testing.T, argv []string, results int) (missing string) {
	t.Helper()
	out, err := target.Client{Argv: argv, Within: 5 * time.Minute}.Run(t)
	if err != nil {
		return fmt.Sprintf("it ended with %v", err)
	}
	var got []benchResult
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got) != results {
		t.Fatalf("%d results, want %d; %v:\n%s", len(got), results, err, out)
	}
	for _, r := range got {
		if r.Requests == 0 || len(r.Errors) > 0 || r.GapMillis == 0 && r.CPU == 0 {
			missing += fmt.Sprintf("%+v", r)
		}
		t.Logf("%s: gap %.0f ms, %.0f µs of CPU a request", r.Name, r.GapMillis, r.CPU)
	}
	return missing
}
