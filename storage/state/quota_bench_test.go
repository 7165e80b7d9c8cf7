package state

import (
	"fmt"
	"testing"
	"time"

	"zkd/storage/entry"
	"zkd/storage/entry/entrytest"
	"zkd/storage/schema"
)

// wideTree makes n znodes below /w, a tenth of them its children.
func wideTree(tb testing.TB, m *Machine, n int) {
	tb.Helper()
	proposals := []*entry.Proposal{entrytest.Create("/w", nil, 0)}
	for i := range n / 10 {
		proposals = append(proposals, entrytest.Create(fmt.Sprintf("/w/%06d", i), []byte("data"), 0))
		for k := range 9 {
			proposals = append(proposals, entrytest.Create(fmt.Sprintf("/w/%06d/%d", i, k), []byte("data"), 0))
		}
	}
	for _, e := range entrytest.Entries(256, proposals) {
		if err := m.Apply(m.AppliedIndex()+1, 1, e, discard{}); err != nil {
			tb.Fatal(err)
		}
	}
}

// BenchmarkQuotaOfManyZnodes makes the quota of a path with 300,000 znodes below it and applies the entries that count
// it, at both feature levels; an op is one quota, ms-longest its longest entry.
func BenchmarkQuotaOfManyZnodes(b *testing.B) {
	for _, level := range []entry.Level{entry.LevelOldest, entry.LevelCounting} {
		b.Run(fmt.Sprintf("level=%d", level), func(b *testing.B) {
			m := benchMachine(b, MachineOptions{})
			wideTree(b, m, 300_000)
			var longest time.Duration
			entries := 0
			apply := func(p *entry.Proposal) {
				entry := entrytest.Entries(1, []*entry.Proposal{p})[0]
				began := time.Now()
				if err := m.Apply(m.AppliedIndex()+1, 1, entry, discard{}); err != nil {
					b.Fatal(err)
				}
				longest = max(longest, time.Since(began))
				entries++
			}
			if level > entry.LevelOldest {
				apply(&entry.Proposal{Op: entry.OpRaiseLevel, Body: (&entry.RaiseTxn{Level: level}).Append(nil)})
			}
			apply(entrytest.Create("/zookeeper/quota/w", nil, 0))
			longest, entries = 0, 0
			for b.Loop() {
				apply(entrytest.Create("/zookeeper/quota/w"+schema.StatsName, nil, 0))
				for m.CountingQuotas() > 0 {
					apply(&entry.Proposal{Op: entry.OpCountQuota})
				}
				apply(entrytest.Delete("/zookeeper/quota/w" + schema.StatsName))
			}
			b.ReportMetric(float64(longest.Microseconds())/1000, "ms-longest")
			b.ReportMetric(float64(entries)/float64(b.N), "entries/op")
		})
	}
}
