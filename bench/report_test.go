package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"zkd/bench/internal/fakeserver"
	"zkd/jute"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// golden compares text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path) //nolint:gosec // the test's own file
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got, -rewrite writes it anew):\n%s", path, diff)
	}
}

var sample = []Result{
	{
		Name: "read:64x1", Requests: 250_000, Seconds: 10, PerSecond: 25_000, CPUMicros: 12.34, RSSBytes: 64 << 20,
		WrittenBytes: 4321.2,
		Latency:      &Latency{P50Micros: 250, P99Micros: 2_500, P999Micros: 25_000, MaxMicros: 2_500_000},
	},
	{
		Name: "write:64x1", Requests: 10, Seconds: 1, PerSecond: 10,
		Errors: map[string]int64{"noNode": 2, "connectionLoss": 1},
	},
	{Name: "idle#5000", Requests: 5000, UnitBytes: 7168.4, Unit: "session", RSSBytes: 100 << 20},
	{Name: "million#1000000 restart", RestartMillis: 87.6},
	{Name: "failover#3 kill -9, client of a follower", Requests: 3, GapMillis: 123.4, GapMaxMillis: 456.7},
}

func TestTables(t *testing.T) {
	var table, json strings.Builder
	if err := errors.Join(WriteTable(&table, sample), WriteJSON(&json, sample)); err != nil {
		t.Fatal(err)
	}
	golden(t, "table.txt", table.String())
	golden(t, "results.json", json.String())
}

func TestCompareRuns(t *testing.T) {
	run := func(perSecond, cpu float64, p99 int64) []Result {
		return []Result{{
			Name: "read:64x1", PerSecond: perSecond, CPUMicros: cpu,
			Latency: &Latency{P50Micros: 100, P99Micros: p99, P999Micros: 2 * p99},
		}}
	}
	c := Comparison{Sides: [2]string{"zkd", "zookeeper"}, Rounds: 3, Errors: [2]int64{0, 7}}
	c.Rows = compareRuns(
		[][]Result{run(300, 10, 400), run(200, 20, 500), run(100, 30, 600)},
		[][]Result{run(100, 40, 800), run(100, 40, 500), run(50, 40, 300)}, nil)
	var table, json strings.Builder
	if err := errors.Join(WriteComparison(&table, c), WriteJSON(&json, c)); err != nil {
		t.Fatal(err)
	}
	golden(t, "comparison.txt", table.String())
	golden(t, "comparison.json", json.String())
}

// TestMarkdown puts two comparisons together: of a load that both have the later one counts.
func TestMarkdown(t *testing.T) {
	row := func(load, figure string, first, second, ratio float64) Row {
		return Row{Load: load, Figure: figure, First: Spread{Median: first}, Second: Spread{Median: second},
			Ratio: Spread{Median: ratio}}
	}
	limited := row("write:64x1", throughput, 60_000, 75_000, 0.8)
	limited.Limit = &Spread{Median: 171_234}
	all := []Comparison{
		{
			Sides: [2]string{"zkd", "zookeeper"}, Notes: []string{"Rounds: 3."}, LoadProcessors: 0.7,
			Rows: []Row{
				row("read:64x1", throughput, 1, 2, 0.5), limited, row("write:64x1", "p50 (µs)", 630, 750, 0.84),
				row("write:64x1", "p99 (µs)", 8300, 2900, 2.86), row("write:64x1", "p99.9 (µs)", 12_345, 12_345, 1.004),
				row("write:64x1", "to disk (bytes/req)", 3700, 1300, 2.85),
			},
		},
		{
			Sides: [2]string{"zkd", "zookeeper"}, Notes: []string{"Rounds: 3.", "A sentence."}, Errors: [2]int64{1, 2},
			Rows: []Row{
				row("read:64x1", throughput, 266_000, 152_000, 1.75),
				row("million#1000 restart", "restart (ms)", 80, 6000, 0.013),
			},
		},
	}
	var table strings.Builder
	if err := errors.Join(WriteMarkdown(&table, all), WriteMarkdown(&table, nil)); err != nil {
		t.Fatal(err)
	}
	golden(t, "markdown.md", table.String())
}

// TestCompareTakesTurns runs two cases on two fakes, each of them fresh.
func TestCompareTakesTurns(t *testing.T) {
	again(t, func(longer time.Duration) error { return compareTakesTurns(t, longer) })
	if _, err := Compare(t.Context(), [2]Side{}, CompareOptions{Cases: []Options{small("read")}}); err == nil {
		t.Error("no rounds are taken")
	}
}

// compareTakesTurns compares once. Its error says what was missing.
func compareTakesTurns(t *testing.T, longer time.Duration) error {
	t.Helper()
	var turns []string
	side := func(name string) Side {
		return Side{Name: name, Start: func(context.Context) (Target, func(), error) {
			server := fakeserver.Start(t, fakeserver.Faults{Codes: map[jute.Op]jute.Code{jute.OpSetData: jute.NoAuth}})
			return Target{Addr: server.Addr, Usage: growingUsage(), Disposable: true},
				func() { turns = append(turns, name) }, nil
		}}
	}
	o := CompareOptions{Cases: []Options{small("read"), small("write")}, Rounds: 2}
	for i := range o.Cases {
		o.Cases[i].Duration *= longer
	}
	o.Cases, o.Limit = append(o.Cases, small("idle")), side("limit") // which says nothing of idle sessions
	o.Cases[2].Count = 20
	c, err := Compare(t.Context(), [2]Side{side("a"), side("b")}, o)
	if err != nil {
		return err
	}
	if got := strings.Join(turns, " "); got != "a b limit a b limit a b b a limit b a limit b a" {
		t.Errorf("turns %s", got)
	}
	if c.Errors[0] == 0 || c.Errors[1] == 0 || len(c.Rows) != 15 {
		return fmt.Errorf("errors %v and %d rows, want errors on both and 15 rows", c.Errors, len(c.Rows))
	}
	return nil
}

// TestSlotsTakeTurns runs a load in slots on two fakes: while one is asked, the other is not, in the order A B B A, and
// whoever came first in one round comes second in the next.
func TestSlotsTakeTurns(t *testing.T) {
	var (
		mu    sync.Mutex
		turns []string
		fakes []*fakeserver.Server
	)
	side := func(name string) Side {
		return Side{Name: name, Start: func(context.Context) (Target, func(), error) {
			server := fakeserver.Start(t, fakeserver.Faults{Asked: func(op jute.Op) {
				mu.Lock()
				defer mu.Unlock()
				if n := len(turns); op == jute.OpSetData && (n == 0 || turns[n-1] != name) {
					turns = append(turns, name)
				}
			}})
			fakes = append(fakes, server)
			return Target{Addr: server.Addr, Usage: growingUsage(), Disposable: true}, func() {}, nil
		}}
	}
	load := small("write")
	load.Warmup, load.WarmRequests = 0, 1
	var last []Result
	o := CompareOptions{Cases: []Options{load}, Rounds: 2, Slots: 4,
		Progress: func(p Progress) { last = append(last, p.Results...) }}
	c, err := Compare(t.Context(), [2]Side{side("a"), side("b")}, o)
	if err != nil {
		t.Fatal(err)
	}
	// Both are warmed up, then come a b, b a, a b, b a; in the second round the other way round.
	if got := strings.Join(turns, " "); got != "a b a b a b a b a b a b a b" {
		t.Errorf("turns %s", got)
	}
	if len(c.Rows) == 0 || c.Errors != [2]int64{} || len(last) != 4 {
		t.Fatalf("%d rows, errors %v, %d results", len(c.Rows), c.Errors, len(last))
	}
	for i, of := range []int{0, 1, 3, 2} { // the results of a and b, of the servers in the order of their starts
		counted, came := last[i].Requests, int64(fakes[of].Count(jute.OpSetData))
		if counted == 0 || counted > came || last[i].Seconds < load.Duration.Seconds() {
			t.Errorf("result %d: %d requests of %d that came, in %v s", i, counted, came, last[i].Seconds)
		}
		if n := fakes[of].Sessions(); n != 0 {
			t.Errorf("%d sessions are left on server %d", n, of)
		}
	}
}

func TestSlotsAreForClosedLoads(t *testing.T) {
	for name, o := range map[string]CompareOptions{
		"idle cannot be run":     {Cases: []Options{small("idle")}, Slots: 4},
		"slots is -1":            {Cases: []Options{small("read")}, Slots: -1},
		"slots is 10001":         {Cases: []Options{small("read")}, Slots: slotsMax + 1},
		"without a state cannot": {Cases: []Options{small("read")}, Slots: 4, Limit: Side{Start: noServer}},
	} {
		o.Rounds = 1
		if _, err := Compare(t.Context(), [2]Side{}, o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want one with %q", err, name)
		}
	}
}

// noServer starts none.
func noServer(context.Context) (Target, func(), error) { return Target{}, nil, errNoServer }

var errNoServer = errors.New("no server")

func TestParseCase(t *testing.T) {
	tests := map[string]struct {
		want string // String of the result
		err  string
	}{
		"read:64x1":         {want: "read:64x1"},
		"mixed:250x100@50":  {want: "mixed:250x100@50"},
		"write":             {want: "write:250x100"},
		"million#1000":      {want: "million#1000"},
		"fanout:10":         {want: "fanout:10"},
		"beside:64x1/500":   {want: "beside:64x1/500"},
		"failover#5":        {want: "failover#5"},
		"failover#1001":     {err: "count is 1001"},
		"beside/0":          {err: "rate is 0"},
		"idle#50":           {want: "idle#50"},
		"listing:2x1#50":    {want: "listing:2#50"},
		"latency":           {want: "latency"},
		"paced":             {want: "paced:64@0/8000"},
		"paced:8@100/500":   {want: "paced:8@100/500"},
		"raed":              {err: `no load is named "raed"`},
		"read:ax1":          {err: `"a" is not a number`},
		"read:0x1":          {err: "clients is 0"},
		"read:1x100000":     {err: "outstanding is 100000"},
		"mixed@101":         {err: "read percent is 101"},
		"million#0":         {err: "count is 0"},
		"watches:100x1#10":  {err: "count is 10"},
		"create:64x1=100":   {want: "create:64x1=100"},
		"create:64x1=1024":  {want: "create:64x1"},
		"create=x":          {err: `"x" is not a number`},
		"delete":            {want: "delete:64x1"},
		"delete:8x2#100":    {want: "delete:8x2#100"},
		"delete#10":         {err: "count is 10"},
		"ephemeral:16":      {want: "ephemeral:16x1"},
		"children#10":       {want: "children:64x1#10"},
		"children:1x1@95#9": {want: "children:1x1@95#9"},
		"children#2000000":  {err: "count is 2000000"},
		"multi:1x1000":      {err: "size times outstanding"},
		"million#999999999": {err: "count is 999999999"},
	}
	for text, test := range tests {
		o, err := ParseCase(text)
		switch {
		case test.err == "" && (err != nil || o.String() != test.want):
			t.Errorf("%s: %v and %v, want %s", text, o, err, test.want)
		case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
			t.Errorf("%s: error %v, want one with %q", text, err, test.err)
		}
	}
	o := small("read")
	o.Duration = 2 * time.Hour
	if o.Validate() == nil {
		t.Error("two hours are taken")
	}
}

func TestRandomBytesDependOnSeed(t *testing.T) {
	if diff := cmp.Diff(randomBytes(100, 1), randomBytes(100, 1)); diff != "" {
		t.Errorf("the same seed gives other bytes: %s", diff)
	}
	if cmp.Equal(randomBytes(100, 1), randomBytes(100, 2)) {
		t.Error("two seeds give the same bytes")
	}
	if n := len(randomBytes(101, 1)); n != 101 {
		t.Errorf("%d bytes, want 101", n)
	}
}
