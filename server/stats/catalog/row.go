package catalog

import "iter"

// Kind is how a metric behaves.
type Kind uint8

// The kinds, in the order in which mntr shows them.
const (
	Gauge       Kind = iota // goes up and down
	Counter                 // only grows, until the process ends or srst
	Summary                 // average, minimum, maximum, count and sum; the median for Prometheus (BASIC in ZooKeeper)
	Percentiles             // a Summary with percentiles (ADVANCED in ZooKeeper)
)

// String is the kind's name in docs/metrics.md.
func (k Kind) String() string {
	return [...]string{Gauge: "gauge", Counter: "counter", Summary: "summary", Percentiles: "summary, percentiles"}[k]
}

// Part says which servers show a metric.
type Part uint8

// The parts.
const (
	Everywhere Part = iota
	OnLeader        // of a server that leads an ensemble
	OnMember        // of any member of an ensemble
	OnDemand        // as soon as there is something to show: sets, and what only some servers measure
)

// String is the part in docs/metrics.md.
func (p Part) String() string {
	return [...]string{Everywhere: "all", OnLeader: "leader", OnMember: "members", OnDemand: "when there is any"}[p]
}

// Row is one metric.
type Row struct {
	Name string // without zk_
	Kind Kind
	Help string // one sentence: what it says here. For one that is always 0, what it says in ZooKeeper.
	// Absent says why it has no meaning here, and is always 0; "" for those that are measured.
	Absent string
	Label  string // of a set, one value for each value of the label; "" for a metric of one value
	Part   Part
	Float  bool // has decimals; a Gauge
	Own    bool // only zkd has it
	// Hidden is for a row that only mntr shows, as in ZooKeeper.
	Hidden bool
}

// rows are all metrics by kind, in mntr's order: ZooKeeper's, then ours.
var rows = build()

func build() map[Kind][]Row {
	all := map[Kind][]Row{}
	for _, part := range []struct {
		kind Kind
		own  bool
		rows []Row
	}{
		{Gauge, false, gauges}, {Counter, false, counters}, {Summary, false, summaries},
		{Percentiles, false, percentiles},
		{Gauge, true, ownGauges}, {Counter, true, ownCounters}, {Percentiles, true, ownSummaries},
	} {
		for _, r := range part.rows {
			r.Kind, r.Own = part.kind, part.own
			all[part.kind] = append(all[part.kind], r)
		}
	}
	return all
}

// index finds a row by its name.
var index = indexRows()

func indexRows() map[string]*Row {
	found := map[string]*Row{}
	for _, list := range rows { // any order: each name is there once
		for i := range list {
			found[list[i].Name] = &list[i]
		}
	}
	return found
}

// Rows yields the metrics of a kind in mntr's order: ZooKeeper's, then ours; those of one value before the sets.
func Rows(k Kind) iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		for i := range rows[k] {
			if !yield(&rows[k][i]) {
				return
			}
		}
	}
}

// All yields every metric, kind by kind.
func All() iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		for k := Gauge; k <= Percentiles; k++ {
			for r := range Rows(k) {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// Find returns the row of a name, nil if there is none.
func Find(name string) *Row { return index[name] }
