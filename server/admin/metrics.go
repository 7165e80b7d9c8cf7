package admin

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"zkd/quorum/clock"
	"zkd/server/stats"
	"zkd/server/stats/catalog"
)

// PageOptions says what is on the page for Prometheus.
type PageOptions struct {
	Clock   clock.Clock
	Logger  *slog.Logger
	Metrics func(*catalog.Values)
	// Runtime adds go_* and process_*, as ZooKeeper adds jvm_* (metricsProvider.exportJvmInfo).
	Runtime bool
}

// NewPage returns the page for Prometheus: the catalog's metrics under ZooKeeper's names
// (org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider).
func NewPage(o PageOptions) (http.Handler, error) {
	registry := prometheus.NewRegistry()
	errs := []error{registry.Register(newCollector(o))}
	if o.Runtime {
		errs = append(errs, registry.Register(collectors.NewGoCollector()),
			registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("make the page of metrics: %w", err)
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelError), MaxRequestsInFlight: scrapesMax,
	}), nil
}

// scrapesMax is how many may ask for the page at once: a guess.
const scrapesMax = 8

// The window of the quantiles, as in the library that ZooKeeper uses: ten minutes, that go on by two.
const (
	windowParts = 5
	windowPart  = 2 * time.Minute
)

// collector turns Values into what Prometheus' library writes.
type collector struct {
	opts PageOptions

	mu struct {
		sync.Mutex
		turned time.Time
		past   []map[string]stats.Buckets // by metric, the oldest first; at most windowParts
	}
}

func newCollector(o PageOptions) *collector {
	c := &collector{opts: o}
	c.mu.turned = o.Clock.Now()
	return c
}

// Describe says nothing before: which metrics there are depends on the part that the server plays.
func (*collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	v := catalog.New()
	c.opts.Metrics(v)
	before := c.turn(v)
	for r := range catalog.All() {
		if r.Hidden {
			continue
		}
		if r.Label != "" {
			collectSet(to, r, v.Keyed(r.Name))
			collectLatencies(to, r, v.KeyedLatencies(r.Name))
		} else if v.Shown(r) {
			collectOne(to, r, v, before[r.Name])
		}
	}
}

// turn returns what the histograms were at the beginning of the window. It goes on at a scrape: if nobody asks, the
// window is longer.
func (c *collector) turn(v *catalog.Values) map[string]stats.Buckets {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.opts.Clock.Now(); now.Sub(c.mu.turned) >= windowPart {
		c.mu.turned = now
		present := map[string]stats.Buckets{}
		for r := range catalog.All() {
			if b := v.Distribution(r.Name).Buckets; len(b) > 0 {
				present[r.Name] = b
			}
		}
		c.mu.past = append(c.mu.past, present)
		if len(c.mu.past) > windowParts {
			c.mu.past = c.mu.past[1:]
		}
	}
	if len(c.mu.past) < windowParts {
		return nil // since the start
	}
	return c.mu.past[0]
}

// valueTypes are Prometheus' words for the kinds.
var valueTypes = map[catalog.Kind]prometheus.ValueType{
	catalog.Gauge: prometheus.GaugeValue, catalog.Counter: prometheus.CounterValue,
}

// collectSet gives the values of a set.
func collectSet(to chan<- prometheus.Metric, r *catalog.Row, set map[string]catalog.Number) {
	desc := prometheus.NewDesc(r.Name, r.Help, []string{r.Label}, nil)
	for _, key := range slices.Sorted(maps.Keys(set)) {
		to <- prometheus.MustNewConstMetric(desc, valueTypes[r.Kind], value(r, set[key]), strings.ToValidUTF8(key, "?"))
	}
}

// collectLatencies gives a set of summaries of ours.
func collectLatencies(to chan<- prometheus.Metric, r *catalog.Row, set map[string]catalog.Latency) {
	desc := prometheus.NewDesc(r.Name, r.Help, []string{r.Label}, nil)
	for _, key := range slices.Sorted(maps.Keys(set)) {
		l := set[key]
		to <- prometheus.MustNewConstHistogram(desc, l.Count, l.Total.Seconds(), secondsBelow(&l),
			strings.ToValidUTF8(key, "?"))
	}
}

// secondsBelow is Latency.Below in seconds.
func secondsBelow(l *catalog.Latency) map[float64]uint64 {
	below := make(map[float64]uint64, len(l.Below))
	for bound, n := range l.Below { // any order: a map again
		below[bound.Seconds()] = n
	}
	return below
}

// value is a number as Prometheus has it.
func value(r *catalog.Row, n catalog.Number) float64 {
	if r.Float {
		return n.Decimals
	}
	return float64(n.Whole)
}

// collectOne gives a metric of one value.
func collectOne(to chan<- prometheus.Metric, r *catalog.Row, v *catalog.Values, before stats.Buckets) {
	desc := prometheus.NewDesc(r.Name, help(r), nil, nil)
	switch r.Kind {
	case catalog.Gauge, catalog.Counter:
		n, _ := v.Number(r.Name)
		to <- prometheus.MustNewConstMetric(desc, valueTypes[r.Kind], value(r, n))
	case catalog.Summary, catalog.Percentiles:
		if l, ok := v.Latency(r.Name); ok {
			to <- prometheus.MustNewConstHistogram(desc, l.Count, l.Total.Seconds(), secondsBelow(&l))
			return
		}
		d := v.Distribution(r.Name)
		to <- prometheus.MustNewConstSummary(desc, uint64(max(d.Count, 0)), float64(d.Sum), quantiles(r, &d, before))
	}
}

// help is what the page says of a metric.
func help(r *catalog.Row) string {
	if r.Absent == "" {
		return r.Help
	}
	return r.Help + " Always 0: " + r.Absent + "."
}

// quantiles are those that ZooKeeper's page has: of the last ten minutes, NaN if there was nothing; of what the raft
// node measures, since the start.
func quantiles(r *catalog.Row, d *catalog.Distribution, before stats.Buckets) map[float64]float64 {
	known := []struct {
		q          float64
		sinceStart int64
	}{{0.5, d.P50}, {0.9, d.P95}, {0.99, d.P99}}
	if r.Kind == catalog.Summary {
		known = known[:1]
	}
	found := map[float64]float64{}
	for _, k := range known {
		found[k.q] = math.NaN()
		if v, ok := d.Buckets.QuantileSince(before, k.q); ok {
			found[k.q] = float64(min(v, cmp.Or(d.Max, v)))
		} else if d.Buckets == nil && d.Count > 0 {
			found[k.q] = float64(k.sinceStart)
		}
	}
	return found
}
