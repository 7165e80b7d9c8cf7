package fourletter

import (
	"maps"
	"slices"

	"zkd/server/stats"
	"zkd/server/stats/catalog"
	"zkd/storage/serverid"
)

// Figure is one line of mntr, or one field of the admin command monitor.
type Figure struct {
	Name  string // without zk_
	Text  string // instead of a number; "" for none
	Whole int64
	// Decimals is instead of Whole if Float. Java is for one that ZooKeeper has: it is written as Java writes a double.
	Decimals    float64
	Float, Java bool
}

// String is the value as mntr writes it.
func (f *Figure) String() string { return string(appendFigure(nil, f)) }

// Figures yields what mntr shows, in its order: the version, the server's part, and the metrics by kind, ZooKeeper's
// before ours, those of one value before the sets (MonitorCommand, ZooKeeperServer.dumpMonitorValues and
// DefaultMetricsProvider.dump). The Figure is valid until the next one.
func (c *Commands) Figures(info *Info, yield func(*Figure)) {
	yield(&Figure{Name: "version", Text: c.version})
	yield(&Figure{Name: "server_state", Text: info.Mode})
	if info.PeerState != "" {
		yield(&Figure{Name: "peer_state", Text: info.PeerState})
	}
	if info.ObserverMaster != serverid.None {
		yield(&Figure{Name: "observer_master_id", Whole: serverid.Number(info.ObserverMaster)})
	}
	v := catalog.New()
	if info.Metrics != nil {
		info.Metrics(v)
	}
	f := figures{values: v, yield: yield}
	for _, k := range []catalog.Kind{catalog.Gauge, catalog.Counter} {
		for r := range catalog.Rows(k) {
			if v.Shown(r) {
				n, _ := v.Number(r.Name)
				f.number(r, r.Name, n)
			}
		}
		for r := range catalog.Rows(k) {
			f.set(r)
		}
	}
	for _, k := range []catalog.Kind{catalog.Summary, catalog.Percentiles} {
		for r := range catalog.Rows(k) {
			if v.Shown(r) {
				f.distribution(r)
			}
			set := v.KeyedLatencies(r.Name)
			for _, key := range slices.Sorted(maps.Keys(set)) {
				f.latency(key+"_"+r.Name, set[key])
			}
		}
	}
}

// figures writes metrics as figures.
type figures struct {
	values *catalog.Values
	yield  func(*Figure)
}

// number yields a gauge or a counter.
func (f *figures) number(r *catalog.Row, name string, n catalog.Number) {
	f.yield(&Figure{Name: name, Whole: n.Whole, Decimals: n.Decimals, Float: r.Float, Java: !r.Own})
}

// set yields the values of a set, the key before the name.
func (f *figures) set(r *catalog.Row) {
	set := f.values.Keyed(r.Name)
	for _, key := range slices.Sorted(maps.Keys(set)) {
		f.number(r, key+"_"+r.Name, set[key])
	}
}

// distribution yields the lines of a summary (AvgMinMaxCounter.values, AvgMinMaxPercentileCounter.values).
func (f *figures) distribution(r *catalog.Row) {
	if r.Own {
		if l, ok := f.values.Latency(r.Name); ok {
			f.latency(r.Name, l)
		}
		return
	}
	d := f.values.Distribution(r.Name)
	f.summary(r.Name, d.Snapshot)
	if r.Kind != catalog.Percentiles {
		return
	}
	for _, p := range []struct {
		prefix string
		value  int64
	}{{"p50_", d.P50}, {"p95_", d.P95}, {"p99_", d.P99}, {"p999_", d.P999}} {
		f.yield(&Figure{Name: p.prefix + r.Name, Whole: p.value})
	}
}

// summary yields the five lines of a summary.
func (f *figures) summary(name string, s stats.Snapshot) {
	f.yield(&Figure{Name: "avg_" + name, Decimals: s.Avg, Float: true, Java: true})
	f.yield(&Figure{Name: "min_" + name, Whole: s.Min})
	f.yield(&Figure{Name: "max_" + name, Whole: s.Max})
	f.yield(&Figure{Name: "cnt_" + name, Whole: s.Count})
	f.yield(&Figure{Name: "sum_" + name, Whole: s.Sum})
}

// latency yields the lines of a summary of ours, in seconds.
func (f *figures) latency(name string, l catalog.Latency) {
	f.yield(&Figure{Name: "cnt_" + name, Whole: int64(l.Count)})
	for _, p := range []struct {
		prefix  string
		seconds float64
	}{
		{"sum_", l.Total.Seconds()}, {"max_", l.Max.Seconds()}, {"p50_", l.P50.Seconds()}, {"p99_", l.P99.Seconds()},
		{"p999_", l.P999.Seconds()},
	} {
		f.yield(&Figure{Name: p.prefix + name, Decimals: p.seconds, Float: true})
	}
}

// mntr writes the figures as lines.
func (c *Commands) mntr(p *page, info *Info) {
	c.Figures(info, func(f *Figure) {
		p.str("zk_", f.Name, "\t")
		p.bytes(appendFigure(p.scratch, f))
		p.str("\n")
	})
}
