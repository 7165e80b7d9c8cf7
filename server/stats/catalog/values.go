package catalog

import (
	"log/slog"
	"time"

	"zkd/server/stats"
	"zkd/storage/invariants"
)

// Values are the figures of a server at one moment, under the names of the table. What is not set is 0. They are used
// by one goroutine.
type Values struct {
	numbers       map[string]Number
	distributions map[string]Distribution
	latencies     map[string]Latency
	sets          map[string]map[string]Number
	latencySets   map[string]map[string]Latency
}

// Number is the value of a gauge or a counter.
type Number struct {
	Whole    int64
	Decimals float64 // instead of Whole, of a Row with Float
}

// Distribution is the value of a summary.
type Distribution struct {
	stats.Snapshot
	stats.Percentiles               // 0 where they are not known
	Buckets           stats.Buckets // nil where they are not known
}

// Latency is the value of a summary of ours: of durations since the start.
type Latency struct {
	Count          uint64
	Total, Max     time.Duration
	P50, P99, P999 time.Duration
	// Below counts the shorter ones than each of these.
	Below map[time.Duration]uint64
}

// New returns Values with nothing set.
func New() *Values {
	return &Values{
		numbers: map[string]Number{}, distributions: map[string]Distribution{}, latencies: map[string]Latency{},
		sets: map[string]map[string]Number{}, latencySets: map[string]map[string]Latency{},
	}
}

// row finds the row that a value is set for. One that is not in the table, or of another kind, is a mistake in the
// program.
func row(name string, kinds ...Kind) *Row {
	r := Find(name)
	if r != nil {
		for _, k := range kinds {
			if r.Kind == k {
				return r
			}
		}
	}
	invariants.Violated("a metric is set that the catalog does not have, or not as this kind",
		slog.String("name", name))
	return nil
}

// Set sets a gauge or a counter.
func (v *Values) Set(name string, n int64) {
	if row(name, Gauge, Counter).Float {
		v.numbers[name] = Number{Decimals: float64(n)}
		return
	}
	v.numbers[name] = Number{Whole: n}
}

// SetFloat sets a gauge that has decimals.
func (v *Values) SetFloat(name string, f float64) {
	if !row(name, Gauge).Float {
		invariants.Violated("a metric without decimals is set to a number with decimals", slog.String("name", name))
	}
	v.numbers[name] = Number{Decimals: f}
}

// SetKeyed sets the value of one key in a set.
func (v *Values) SetKeyed(name, key string, n int64) {
	row(name, Gauge, Counter)
	if v.sets[name] == nil {
		v.sets[name] = map[string]Number{}
	}
	v.sets[name][key] = Number{Whole: n}
}

// SetKeyedFloat sets the value of one key in a set of gauges that have decimals.
func (v *Values) SetKeyedFloat(name, key string, f float64) {
	if !row(name, Gauge).Float {
		invariants.Violated("a metric without decimals is set to a number with decimals", slog.String("name", name))
	}
	if v.sets[name] == nil {
		v.sets[name] = map[string]Number{}
	}
	v.sets[name][key] = Number{Decimals: f}
}

// SetHistogram sets a summary.
func (v *Values) SetHistogram(name string, h *stats.Histogram) {
	row(name, Summary, Percentiles)
	v.distributions[name] = Distribution{h.Load(), h.Percentiles(), h.Buckets()}
}

// SetDistribution sets a summary.
func (v *Values) SetDistribution(name string, d Distribution) {
	row(name, Summary, Percentiles)
	v.distributions[name] = d
}

// SetLatency sets a summary of ours.
func (v *Values) SetLatency(name string, l Latency) {
	row(name, Percentiles)
	v.latencies[name] = l
}

// SetKeyedLatency sets the value of one key in a set of summaries of ours.
func (v *Values) SetKeyedLatency(name, key string, l Latency) {
	row(name, Percentiles)
	if v.latencySets[name] == nil {
		v.latencySets[name] = map[string]Latency{}
	}
	v.latencySets[name][key] = l
}

// Number returns the value of a gauge or counter of one value; ok is false if nobody has set it.
func (v *Values) Number(name string) (n Number, ok bool) {
	n, ok = v.numbers[name]
	return n, ok
}

// Distribution returns the value of a summary of ZooKeeper's.
func (v *Values) Distribution(name string) Distribution { return v.distributions[name] }

// Latency returns the value of a summary of ours; ok is false if nobody has set it.
func (v *Values) Latency(name string) (l Latency, ok bool) {
	l, ok = v.latencies[name]
	return l, ok
}

// Keyed returns the values of a set; read it only.
func (v *Values) Keyed(name string) map[string]Number { return v.sets[name] }

// KeyedLatencies returns the values of a set of summaries; read it only.
func (v *Values) KeyedLatencies(name string) map[string]Latency { return v.latencySets[name] }

// Shown reports whether a metric of one value is on the pages: all of ZooKeeper's are, but those that only some servers
// have, and ours if they are set.
func (v *Values) Shown(r *Row) bool {
	if r.Label != "" {
		return false
	}
	if r.Part == Everywhere && !r.Own {
		return true
	}
	if _, ok := v.numbers[r.Name]; ok {
		return true
	}
	if _, ok := v.latencies[r.Name]; ok {
		return true
	}
	_, ok := v.distributions[r.Name]
	return ok
}
