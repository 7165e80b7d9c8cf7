package state

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"zkd/jute"
	"zkd/storage/acl"
	"zkd/storage/entry"
	"zkd/storage/entry/entrytest"
)

// BenchmarkWaits applies an entry and reads a cached znode in turn while others read much: nothing, 300,000 children in
// a loop, or through 200,000 containers that were never used. An op is one entry and one read; beside it are the p99.9
// and the longest of both, and how often the others came to their end.
func BenchmarkWaits(b *testing.B) {
	m := benchMachine(b, MachineOptions{})
	fill(b, m, 1000, 100)
	makeMany(b, m, "/big", 300000, jute.ModePersistent)
	makeMany(b, m, "/containers", 200000, jute.ModeContainer)
	for name, other := range map[string]func(){ // any order
		"nothing": nil,
		"listing": func() {
			v := m.View()
			defer v.Close()
			v.Children("/big", nil)
		},
		"search": func() {
			v := m.View()
			defer v.Close()
			v.Expiring(1<<50, ExpiryLimits{Max: 10}, "", func(string) {})
		},
	} {
		b.Run(name, func(b *testing.B) { benchWaits(b, m, other) })
	}
}

// makeMany makes a parent and its children.
func makeMany(b *testing.B, m *Machine, parent string, n int, mode jute.CreateMode) {
	b.Helper()
	proposals := []*entry.Proposal{entrytest.Create(parent, nil, jute.ModePersistent)}
	for i := range n {
		r := jute.CreateRequest{Path: fmt.Sprintf("%s/child-%07d", parent, i), ACL: acl.Open, Flags: mode}
		proposals = append(proposals, &entry.Proposal{Op: jute.OpCreate, Session: 1, Identities: entrytest.Identities,
			Flags: entry.FlagExtendedTypes, Body: r.Append(nil)})
	}
	for _, e := range entrytest.Entries(256, proposals) {
		if err := m.Apply(m.AppliedIndex()+1, 1, e, discard{}); err != nil {
			b.Fatal(err)
		}
	}
}

func benchWaits(b *testing.B, m *Machine, other func()) {
	var stop atomic.Bool
	done := make(chan int, 1)
	go func() {
		n := 0
		for other != nil && !stop.Load() {
			other()
			n++
		}
		done <- n
	}()
	path := benchPath(500)
	entry := entrytest.Entries(1, []*entry.Proposal{entrytest.SetData(path, make([]byte, 100))})[0]
	var applies, reads []time.Duration
	for b.Loop() {
		began := time.Now()
		if err := m.Apply(m.AppliedIndex()+1, 1, entry, discard{}); err != nil {
			b.Fatal(err)
		}
		applied := time.Now()
		readOne(b, m, path)
		applies = append(applies, applied.Sub(began))
		reads = append(reads, time.Since(applied))
	}
	stop.Store(true)
	b.ReportMetric(float64(<-done), "others")
	for name, all := range map[string][]time.Duration{"apply": applies, "read": reads} { // any order
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)*999/1000].Microseconds()), name+"-p99.9-µs")
		b.ReportMetric(float64(all[len(all)-1].Microseconds()), name+"-max-µs")
	}
}

// readOne reads a znode as a server does.
func readOne(b *testing.B, m *Machine, path string) {
	v, _, ok := m.LookData(path)
	defer v.Close()
	if !ok {
		b.Fatal("no znode")
	}
}
