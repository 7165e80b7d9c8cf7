package fourletter

import (
	"maps"
	"slices"

	"zkd/server/stats"
)

// Metrics are values under the names of ZooKeeper's metrics, without zk_. What is not set is shown as 0. A name that
// ZooKeeper does not have is shown after those of its kind that it has.
type Metrics struct {
	gauges      map[string]number
	counters    map[string]number
	summaries   map[string]stats.Snapshot
	histograms  map[string]histogram
	gaugeSets   map[string]map[string]number
	counterSets map[string]map[string]number
	summarySets map[string]map[string]stats.Snapshot
}

// number is a value with or without decimals.
type number struct {
	whole    int64
	decimals float64
	float    bool
}

type histogram struct {
	stats.Snapshot
	stats.Percentiles
}

func newMetrics() *Metrics {
	m := &Metrics{
		gauges:      map[string]number{},
		counters:    map[string]number{},
		summaries:   map[string]stats.Snapshot{},
		histograms:  map[string]histogram{},
		gaugeSets:   map[string]map[string]number{},
		counterSets: map[string]map[string]number{},
		summarySets: map[string]map[string]stats.Snapshot{},
	}
	for _, name := range floatGauges {
		m.SetFloatGauge(name, 0)
	}
	return m
}

// SetGauge sets a value that goes up and down.
func (m *Metrics) SetGauge(name string, v int64) { m.gauges[name] = number{whole: v} }

// SetFloatGauge sets a gauge that is shown with decimals: avg_latency and connection_drop_probability.
func (m *Metrics) SetFloatGauge(name string, v float64) {
	m.gauges[name] = number{decimals: v, float: true}
}

// SetCounter sets a value that only grows.
func (m *Metrics) SetCounter(name string, v int64) { m.counters[name] = number{whole: v} }

// SetSummary sets a summary.
func (m *Metrics) SetSummary(name string, s *stats.Summary) { m.summaries[name] = s.Load() }

// SetHistogram sets a summary with percentiles.
func (m *Metrics) SetHistogram(name string, h *stats.Histogram) {
	m.histograms[name] = histogram{h.Load(), h.Percentiles()}
}

// SetKeyedGauge sets the gauge of one key in a set: one of the quota_*_per_namespace, by the namespace.
func (m *Metrics) SetKeyedGauge(name, key string, v int64) {
	put(m.gaugeSets, name, key, number{whole: v})
}

// SetKeyedCounter sets the counter of one key in a set: quota_exceeded_error_per_namespace, by the namespace.
func (m *Metrics) SetKeyedCounter(name, key string, v int64) {
	put(m.counterSets, name, key, number{whole: v})
}

// SetKeyedSummary sets the summary of one key in a set: read_per_namespace or write_per_namespace, by the namespace.
func (m *Metrics) SetKeyedSummary(name, key string, s *stats.Summary) {
	put(m.summarySets, name, key, s.Load())
}

// put sets one key of a set.
func put[V any](sets map[string]map[string]V, name, key string, v V) {
	if sets[name] == nil {
		sets[name] = map[string]V{}
	}
	sets[name][key] = v
}

// order returns ZooKeeper's names, then those that only zkd has, sorted.
func order[V any](known []string, have map[string]V) []string {
	all := slices.Clone(known)
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if !slices.Contains(known, name) {
			all = append(all, name)
		}
	}
	return all
}

// mntr: MonitorCommand, ZooKeeperServer.dumpMonitorValues and DefaultMetricsProvider.dump.
func (c *Commands) mntr(p *page, info *Info) {
	m := newMetrics()
	if info.Metrics != nil {
		info.Metrics(m)
	}
	p.str("zk_version\t", c.version, "\nzk_server_state\t", info.Mode, "\n")
	if info.PeerState != "" {
		p.str("zk_peer_state\t", info.PeerState, "\n")
	}
	if info.ObserverMaster != 0 {
		p.line("zk_observer_master_id\t", int64(info.ObserverMaster))
	}
	for _, name := range order(gauges, m.gauges) {
		if _, ok := m.gauges[name]; !ok && slices.Contains(memberGauges, name) {
			continue
		}
		p.metric("", name, m.gauges[name])
	}
	p.sets(m.gaugeSets)
	for _, name := range order(counters, m.counters) {
		p.metric("", name, m.counters[name])
	}
	p.sets(m.counterSets)
	for _, name := range order(summaries, m.summaries) {
		p.summary(name, m.summaries[name])
	}
	for _, name := range order(histograms, m.histograms) {
		h := m.histograms[name]
		p.summary(name, h.Snapshot)
		p.metric("p50_", name, number{whole: h.P50})
		p.metric("p95_", name, number{whole: h.P95})
		p.metric("p99_", name, number{whole: h.P99})
		p.metric("p999_", name, number{whole: h.P999})
	}
	for _, name := range slices.Sorted(maps.Keys(m.summarySets)) {
		for _, key := range slices.Sorted(maps.Keys(m.summarySets[name])) {
			p.summary(key+"_"+name, m.summarySets[name][key])
		}
	}
}

// sets writes the metrics that have one value per key, the key before the name.
func (p *page) sets(sets map[string]map[string]number) {
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		for _, key := range slices.Sorted(maps.Keys(sets[name])) {
			p.metric(key+"_", name, sets[name][key])
		}
	}
}

// metric writes one line.
func (p *page) metric(prefix, name string, v number) {
	p.str("zk_", prefix, name, "\t")
	if v.float {
		p.float(v.decimals)
	} else {
		p.num(v.whole)
	}
	p.str("\n")
}

// summary writes the five lines of a summary (AvgMinMaxCounter.values).
func (p *page) summary(name string, s stats.Snapshot) {
	p.metric("avg_", name, number{decimals: s.Avg, float: true})
	p.metric("min_", name, number{whole: s.Min})
	p.metric("max_", name, number{whole: s.Max})
	p.metric("cnt_", name, number{whole: s.Count})
	p.metric("sum_", name, number{whole: s.Sum})
}
