package ensemble_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"zkd/compat-tests/target"
)

// TestBench runs the loads of "zkd bench" that need several servers, on three of the kind under test.
func TestBench(t *testing.T) {
	kind := target.Selected(t)
	target.Require(t, target.ToolsOf(kind)...)
	server, _ := target.Command(t, kind, "{cfg}", nil)
	zkd, _ := target.Command(t, target.Zkd, "", nil)
	for load, results := range map[string]int{
		"failover --count 1 --warmup 500ms":                                 4,
		"beside --clients 6 --rate 100 --warmup 100ms --duration 500ms":     1,
		"write --clients 6 --outstanding 2 --warmup 100ms --duration 500ms": 1,
	} {
		name, _, _ := strings.Cut(load, " ")
		t.Run(name, func(t *testing.T) {
			argv := append([]string{zkd[0], "bench"}, strings.Fields(load)...)
			argv = append(argv, "--servers", "3", "--json", "--start", strings.Join(server, " "))
			out, err := target.Client{Argv: argv, Within: 3 * time.Minute}.Run(t)
			if err != nil {
				t.Fatal(err)
			}
			var got []struct {
				Name      string
				Requests  int64
				Errors    map[string]int64
				GapMillis float64
				CPU       float64 `json:"serverCpuMicrosPerRequest"`
			}
			if err := json.Unmarshal([]byte(out), &got); err != nil || len(got) != results {
				t.Fatalf("%d results, want %d; %v:\n%s", len(got), results, err, out)
			}
			for _, r := range got {
				if r.Requests == 0 || len(r.Errors) > 0 || r.GapMillis == 0 && r.CPU == 0 {
					t.Errorf("%+v", r)
				}
				t.Logf("%s: gap %.0f ms, %.0f µs of CPU a request", r.Name, r.GapMillis, r.CPU)
			}
		})
	}
}
