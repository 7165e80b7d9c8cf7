package watch

import (
	"fmt"
	"runtime"
	"testing"

	"zkd/jute"
	"zkd/storage/acl"
)

// bytesPerWatchMax is the promise of the package.
const bytesPerWatchMax = 100

// shapes are the ways in which n watches can lie: watch i is of connection c and path p. The paths are as long as those
// of real use, 30 bytes.
var shapes = []struct {
	name        string
	connections int
	place       func(i, n int) (c, p int)
}{
	{"each its own path", 1000, func(i, _ int) (int, int) { return i % 1000, i }},
	{"ten per path", 1000, func(i, n int) (int, int) { return i % 1000, i / 10 % (n / 10) }},
	{"one path", 0, func(i, _ int) (int, int) { return i, 0 }},
	{"one connection", 1, func(i, _ int) (int, int) { return 0, i }},
}

func longPath(i int) string { return fmt.Sprintf("/services/web/instance/%07d", i) }

// heap returns the live bytes.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestMemoryPerWatch measures what a table of many watches holds, connections apart, and that it gives it all back.
func TestMemoryPerWatch(t *testing.T) {
	n := 250_000 // a million gives the same figures (2026-11-21)
	if testing.Short() || raceEnabled {
		n = 50_000
	}
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			connections := s.connections
			if connections == 0 {
				connections = n
			}
			clients := make([]client, connections)
			for i := range clients {
				clients[i].Init(&clients[i], jute.SessionID(i))
			}
			table := New()
			before := heap()
			for i := range n {
				c, p := s.place(i, n)
				table.AddData(&clients[c].Holder, longPath(p))
			}
			after := heap()
			if got := table.Counts().All; got != n {
				t.Fatalf("%d watches, want %d", got, n)
			}
			each := float64(after-before) / float64(n)
			t.Logf("%.1f bytes per watch", each)
			if each > bytesPerWatchMax {
				t.Errorf("a watch costs %.1f bytes, want at most %d", each, bytesPerWatchMax)
			}
			for i := range clients {
				table.RemoveAll(&clients[i].Holder)
			}
			if left := int64(heap()) - int64(before); left > 1<<17 {
				t.Errorf("%d bytes are kept after all watches are gone", left)
			}
			check(t, table)
			runtime.KeepAlive(clients)
		})
	}
}

// TestAllocations pins the hot paths: a change that nobody watches, one that a persistent watch hears of, and a
// registration that is there already allocate nothing.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	table := New()
	var quiet quietWatcher
	quiet.Init(&quiet, 1)
	table.AddWatch(&quiet.Holder, "/a", jute.WatchPersistent)
	table.AddWatch(&quiet.Holder, "/r", jute.WatchPersistentRecursive)
	unwatched := Event{Type: jute.EventNodeDataChanged, Path: "/services/web/instance/1"}
	watched := Event{Type: jute.EventNodeDataChanged, Path: "/a"}
	below := Event{Type: jute.EventNodeDataChanged, Path: "/r/x/y"}
	hot := map[string]func(){
		"unwatched":        func() { table.Fire(&unwatched) },
		"watched":          func() { table.Fire(&watched) },
		"below":            func() { table.Fire(&below) },
		"registered again": func() { table.AddWatch(&quiet.Holder, "/a", jute.WatchPersistent) },
	}
	for name, f := range hot {
		if got := testing.AllocsPerRun(1000, f); got != 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
	if quiet.fired == 0 {
		t.Error("the watcher was never told")
	}
}

// quietWatcher only counts.
type quietWatcher struct {
	Holder
	who   *acl.Proven
	fired int
}

func (q *quietWatcher) Proven() *acl.Proven       { return q.who }
func (q *quietWatcher) WatchFired(*Event, []byte) { q.fired++ }

func BenchmarkFire(b *testing.B) {
	for _, n := range []int{0, 1_000_000} {
		for _, recursive := range []bool{false, true} {
			b.Run(fmt.Sprintf("unwatched/watches=%d/recursive=%v", n, recursive), func(b *testing.B) {
				table := New()
				var q quietWatcher
				q.Init(&q, 1)
				for i := range n {
					table.AddData(&q.Holder, longPath(i))
				}
				if recursive {
					table.AddWatch(&q.Holder, "/other", jute.WatchPersistentRecursive)
				}
				events := make([]Event, 1024)
				for i := range events {
					events[i] = Event{Type: jute.EventNodeDataChanged, Path: fmt.Sprintf("/jobs/queue/task/%07d", i)}
				}
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					table.Fire(&events[i&1023])
					i++
				}
			})
		}
	}
}

// BenchmarkRegisterAndFire is the life of a one-shot watch.
func BenchmarkRegisterAndFire(b *testing.B) {
	table := New()
	var q quietWatcher
	q.Init(&q, 1)
	events := make([]Event, 1024)
	for i := range events {
		events[i] = Event{Type: jute.EventNodeDataChanged, Path: longPath(i)}
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		table.AddData(&q.Holder, events[i&1023].Path)
		table.Fire(&events[i&1023])
		i++
	}
}

// BenchmarkFanOut tells 10,000 connections of one change.
func BenchmarkFanOut(b *testing.B) {
	const n = 10_000
	table := New()
	clients := make([]quietWatcher, n)
	for i := range clients {
		clients[i].Init(&clients[i], jute.SessionID(i))
		table.AddWatch(&clients[i].Holder, "/a", jute.WatchPersistent)
	}
	ev := Event{Type: jute.EventNodeDataChanged, Path: "/a"}
	b.ReportAllocs()
	for b.Loop() {
		table.Fire(&ev)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/watcher")
}

// BenchmarkRegisterParallel has every processor register and remove, against the one lock.
func BenchmarkRegisterParallel(b *testing.B) {
	table := New()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		var q quietWatcher
		q.Init(&q, 1)
		paths := make([]string, 256)
		for i := range paths {
			paths[i] = longPath(i)
		}
		for i := 0; pb.Next(); i++ {
			table.AddData(&q.Holder, paths[i&255])
			table.Remove(&q.Holder, paths[i&255], jute.WatcherData)
		}
	})
}
