package bench

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// Side is one of the servers of a comparison. Start starts a fresh one and returns it with what ends it.
type Side struct {
	Name  string
	Start func(ctx context.Context) (target Target, stop func(), err error)
}

// CompareOptions say what is compared.
type CompareOptions struct {
	Cases []Options
	// Limit is a server without a state, which runs the loads that it can answer beside both sides. Its Start may be
	// nil: then there is none.
	Limit  Side
	Rounds int // at least 1
	// Slots runs both servers of a round at the same time, and has the load go to them in turn in so many slots each,
	// which are the load's duration together; 0: one after the other.
	Slots    int
	Progress func(Progress) // called after each run; may be nil
}

// roundsMax bounds a comparison.
const roundsMax = 100

// Progress is one run of a comparison that is over.
type Progress struct {
	Round   int // from 1
	Side    string
	Results []Result
}

// Spread is a figure over the rounds.
type Spread struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
}

// Row compares one figure of one load: Ratio is the first side's to the second's, taken round by round.
type Row struct {
	Load   string `json:"load"`
	Figure string `json:"figure"`
	First  Spread `json:"first"`
	Second Spread `json:"second"`
	Ratio  Spread `json:"ratio"`
	// Limit is the figure of the server without a state; nil if there is none.
	Limit *Spread `json:"limit,omitempty"`
}

// Comparison is the outcome of Compare.
type Comparison struct {
	Sides  [2]string `json:"sides"`
	Rounds int       `json:"rounds"`
	Rows   []Row     `json:"rows"`
	// Errors are the failed requests of each side over all rounds.
	Errors [2]int64 `json:"errors"`
	// LoadProcessors is how many processors the load generator kept busy at the most.
	LoadProcessors float64 `json:"loadProcessors,omitempty"`
	// Notes say under which conditions it was made, a sentence each.
	Notes []string `json:"notes,omitempty"`
}

// throughput is the one figure of which more is better.
const throughput = "throughput (req/s)"

// figures are what is compared, as far as both sides have it.
var figures = []struct {
	name string
	of   func(*Result) float64
}{
	{throughput, func(r *Result) float64 { return r.PerSecond }},
	{"server cpu (µs/req)", func(r *Result) float64 { return r.CPUMicros }},
	{"p50 (µs)", func(r *Result) float64 { return latencyOf(r, func(l *Latency) int64 { return l.P50Micros }) }},
	{"p99 (µs)", func(r *Result) float64 { return latencyOf(r, func(l *Latency) int64 { return l.P99Micros }) }},
	{"p99.9 (µs)", func(r *Result) float64 { return latencyOf(r, func(l *Latency) int64 { return l.P999Micros }) }},
	{"to disk (bytes/req)", func(r *Result) float64 { return r.WrittenBytes }},
	{"memory (MiB)", func(r *Result) float64 { return float64(r.RSSBytes) / (1 << 20) }},
	{"memory each (bytes)", func(r *Result) float64 { return r.UnitBytes }},
	{"restart (ms)", func(r *Result) float64 { return r.RestartMillis }},
	{"gap (ms)", func(r *Result) float64 { return r.GapMillis }},
	{"longest gap (ms)", func(r *Result) float64 { return r.GapMaxMillis }},
}

func latencyOf(r *Result, of func(*Latency) int64) float64 {
	if r.Latency == nil {
		return 0
	}
	return float64(of(r.Latency))
}

// Compare runs every case on a fresh server of each side in turn, Rounds times: A B, B A, A B, …, so that whatever else
// the machine does falls on both, and whoever comes first has no advantage. Where there is a limit it comes after them.
func Compare(ctx context.Context, sides [2]Side, o CompareOptions) (Comparison, error) {
	outcome := Comparison{Sides: [2]string{sides[0].Name, sides[1].Name}, Rounds: o.Rounds}
	if o.Rounds < 1 || o.Rounds > roundsMax {
		return outcome, fmt.Errorf("rounds is %d: it must be 1 to %d", o.Rounds, roundsMax)
	}
	if err := o.checkSlots(); err != nil {
		return outcome, err
	}
	runs := make([][3][][]Result, len(o.Cases)) // by case, side and round
	for round := range o.Rounds {
		for c := range o.Cases {
			if err := o.compare(ctx, sides, c, round, func(side int, name string, results []Result) {
				runs[c][side] = append(runs[c][side], results)
				outcome.take(side, results)
				if o.Progress != nil {
					o.Progress(Progress{Round: round + 1, Side: name, Results: results})
				}
			}); err != nil {
				return outcome, err
			}
		}
	}
	for c := range runs {
		outcome.Rows = append(outcome.Rows, compareRuns(runs[c][0], runs[c][1], runs[c][2])...)
	}
	return outcome, nil
}

// limitSide is the number of the limit, after those of the sides.
const limitSide = 2

// compare runs a case on all sides once, and has each run taken.
func (o *CompareOptions) compare(
	ctx context.Context, sides [2]Side, number, round int, take func(side int, name string, results []Result),
) error {
	first, load := round%len(sides), o.Cases[number]
	if o.Slots > 0 {
		results, err := compareInSlots(ctx, sides, first, load, o.Slots)
		if err != nil {
			return fmt.Errorf("round %d: %w", round+1, err)
		}
		for s := range sides {
			take(s, sides[s].Name, results[s])
		}
		return nil
	}
	all := [...]Side{sides[0], sides[1], o.Limit}
	for _, s := range [...]int{first, 1 - first, limitSide} {
		if s == limitSide && (o.Limit.Start == nil || !stateless(load.Load)) {
			continue
		}
		results, err := runOn(ctx, all[s], load)
		if err != nil {
			return fmt.Errorf("round %d on %s: %w", round+1, all[s].Name, err)
		}
		take(s, all[s].Name, results)
	}
	return nil
}

// take counts what a run on a side has shown beside its figures.
func (c *Comparison) take(side int, results []Result) {
	for i := range results {
		if side < len(c.Errors) {
			c.Errors[side] += results[i].ErrorCount()
		}
		c.LoadProcessors = max(c.LoadProcessors, results[i].LoadProcessors)
	}
}

// stateless reports whether a server without a state can answer a load.
func stateless(name string) bool {
	switch name {
	case "read", "write", "create", "delete", "ephemeral", "children", "multi", "mixed", "latency", "paced":
		return true
	default:
		return false
	}
}

func runOn(ctx context.Context, side Side, o Options) ([]Result, error) {
	target, stop, err := side.Start(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	return Run(ctx, target, o)
}

// compareRuns compares the rounds of one case: stage by stage, figure by figure. There may be none of the limit.
func compareRuns(first, second, limit [][]Result) []Row {
	var rows []Row
	for stage := range first[0] {
		for _, figure := range figures {
			a, b := make([]float64, len(first)), make([]float64, len(first))
			ratios := make([]float64, 0, len(first))
			for round := range first {
				if stage >= len(first[round]) || stage >= len(second[round]) {
					continue // a stage that one side could not run
				}
				a[round], b[round] = figure.of(&first[round][stage]), figure.of(&second[round][stage])
				if a[round] != 0 && b[round] != 0 {
					ratios = append(ratios, a[round]/b[round])
				}
			}
			if len(ratios) == len(first) {
				rows = append(rows, Row{
					Load: first[0][stage].Name, Figure: figure.name,
					First: spreadOf(a), Second: spreadOf(b), Ratio: spreadOf(ratios),
					Limit: limitOf(limit, stage, figure.of),
				})
			}
		}
	}
	return rows
}

// limitOf is a figure of the rounds on the limit; nil if there are none.
func limitOf(rounds [][]Result, stage int, of func(*Result) float64) *Spread {
	var values []float64
	for _, results := range rounds {
		if stage < len(results) && of(&results[stage]) != 0 {
			values = append(values, of(&results[stage]))
		}
	}
	if len(values) == 0 {
		return nil
	}
	spread := spreadOf(values)
	return &spread
}

// spreadOf sorts values, which are at least one.
func spreadOf(values []float64) Spread {
	slices.Sort(values)
	n := len(values)
	return Spread{Min: values[0], Median: (values[(n-1)/2] + values[n/2]) / 2, Max: values[n-1]}
}

// WriteComparison writes a comparison for people: the medians of both sides, and the ratio's median, least and most.
func WriteComparison(w io.Writer, c Comparison) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	line(table, "load", "figure", c.Sides[0], c.Sides[1], "ratio", "min", "max")
	for _, row := range c.Rows {
		line(table, row.Load, row.Figure, figure(row.First.Median), figure(row.Second.Median),
			fmt.Sprintf("%.3f", row.Ratio.Median), fmt.Sprintf("%.3f", row.Ratio.Min),
			fmt.Sprintf("%.3f", row.Ratio.Max))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	_, err := fmt.Fprintf(w, "%d rounds; failed requests: %s %d, %s %d\n",
		c.Rounds, c.Sides[0], c.Errors[0], c.Sides[1], c.Errors[1])
	return err
}

// figure formats a number with a decimal if it is small.
func figure(v float64) string {
	if v < 100 {
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}
