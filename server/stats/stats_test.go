package stats

import (
	"math"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func TestSummary(t *testing.T) {
	cases := []struct {
		name   string
		values []int64
		want   Snapshot
	}{
		{"empty", nil, Snapshot{}},
		{"zero", []int64{0}, Snapshot{Count: 1}},
		{"one", []int64{7}, Snapshot{Count: 1, Sum: 7, Min: 7, Max: 7, Avg: 7}},
		{"four decimals", []int64{1, 1, 2}, Snapshot{Count: 3, Sum: 4, Min: 1, Max: 2, Avg: 1.3333}},
		{"halves go up", []int64{6, 7, 7}, Snapshot{Count: 3, Sum: 20, Min: 6, Max: 7, Avg: 6.6667}},
		{"negative", []int64{-5, -3}, Snapshot{Count: 2, Sum: -8, Min: -5, Max: -3, Avg: -4}},
		{"extremes", []int64{math.MaxInt64, math.MinInt64}, Snapshot{
			Count: 2, Sum: -1, Min: math.MinInt64, Max: math.MaxInt64, Avg: -0.5,
		}},
	}
	for _, tc := range cases {
		var s Summary
		for _, v := range tc.values {
			s.Add(v)
		}
		if got := s.Load(); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
		s.Reset()
		if got := s.Load(); got != (Snapshot{}) {
			t.Errorf("%s: %+v after Reset", tc.name, got)
		}
		s.Add(-9)
		if got, want := s.Load(), (Snapshot{Count: 1, Sum: -9, Min: -9, Max: -9, Avg: -9}); got != want {
			t.Errorf("%s: %+v after Reset, want %+v", tc.name, got, want)
		}
	}
}

func TestAddNonZero(t *testing.T) {
	var s Summary
	s.AddNonZero(0)
	s.AddNonZero(3)
	if got := s.Load().Count; got != 1 {
		t.Errorf("%d values, want 1", got)
	}
}

func TestCounter(t *testing.T) {
	var c Counter
	c.Inc()
	c.Add(4)
	if got := c.Load(); got != 5 {
		t.Errorf("%d, want 5", got)
	}
	c.Reset()
	if got := c.Load(); got != 0 {
		t.Errorf("%d after Reset", got)
	}
}

// TestConcurrentAdds: nothing is lost.
func TestConcurrentAdds(t *testing.T) {
	const goroutines, each = 4, 1000
	var h Histogram
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range each {
				h.Add(int64(g*each + i))
			}
		})
	}
	wg.Wait()
	const n = goroutines * each
	want := Snapshot{Count: n, Sum: n * (n - 1) / 2, Max: n - 1, Avg: (n - 1) / 2.0}
	if got := h.Load(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestPercentiles: each is at least the exact one, at most a sixteenth above it, and never above the maximum.
func TestPercentiles(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, math.MaxInt64), 1, 300).Draw(rt, "values")
		shift := rapid.IntRange(0, 62).Draw(rt, "shift")
		var h Histogram
		for i := range values {
			values[i] >>= shift
			h.Add(values[i])
		}
		slices.Sort(values)
		got := h.Percentiles()
		for perMille, v := range map[int]int64{500: got.P50, 950: got.P95, 990: got.P99, 999: got.P999} {
			exact := values[max((len(values)*perMille+999)/1000, 1)-1]
			if v < exact || v-exact > exact/subBuckets || v > values[len(values)-1] {
				rt.Fatalf("percentile %d is %d, exactly %d", perMille, v, exact)
			}
		}
	})
	var h Histogram
	if got := h.Percentiles(); got != (Percentiles{}) {
		t.Errorf("of nothing: %+v", got)
	}
	h.Add(-4)
	h.Add(9)
	h.Reset()
	if got := h.Percentiles(); got != (Percentiles{}) {
		t.Errorf("after Reset: %+v", got)
	}
}

// TestBuckets: the buckets follow one another without a gap.
func TestBuckets(t *testing.T) {
	for i := range buckets {
		top := highestOf(i)
		if got := bucketOf(top); got != i {
			t.Fatalf("bucket of %d is %d, want %d", top, got, i)
		}
		if i == buckets-1 {
			if top != math.MaxInt64 {
				t.Errorf("the last bucket ends at %d", top)
			}
			break
		}
		if got := bucketOf(top + 1); got != i+1 {
			t.Fatalf("bucket of %d is %d, want %d", top+1, got, i+1)
		}
	}
}

// TestQuantileSince counts what came after, and from a reset on.
func TestQuantileSince(t *testing.T) {
	var h Histogram
	if _, ok := h.Buckets().QuantileSince(nil, 0.5); ok || len(h.Buckets()) != 0 {
		t.Error("a quantile of nothing")
	}
	for range 9 {
		h.Add(100)
	}
	before := h.Buckets()
	if v, ok := before.QuantileSince(nil, 0.5); !ok || v < 100 || v > 106 {
		t.Errorf("of all: %d, %v", v, ok)
	}
	if _, ok := h.Buckets().QuantileSince(before, 0.5); ok {
		t.Error("a quantile of nothing new")
	}
	h.Add(3)
	h.Add(7)
	for q, want := range map[float64]int64{0: 3, 0.5: 3, 0.51: 7, 1: 7} { // any order
		if v, ok := h.Buckets().QuantileSince(before, q); !ok || v != want {
			t.Errorf("%v of the new: %d, %v, want %d", q, v, ok, want)
		}
	}
	h.Reset()
	h.AddNonZero(0)
	h.AddNonZero(5)
	if v, ok := h.Buckets().QuantileSince(before, 1); !ok || v != 5 {
		t.Errorf("after a reset: %d, %v, want 5", v, ok)
	}
	if Mean(1, 3) != 0.3333 {
		t.Errorf("a mean of %v", Mean(1, 3))
	}
}

// TestAddMany: it is as good as adding each.
func TestAddMany(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var each, many Histogram
		var one, all Summary
		for range rapid.IntRange(1, 5).Draw(rt, "runs") {
			v, n := rapid.Int64Range(-3, 1000).Draw(rt, "value"), rapid.Int64Range(1, 9).Draw(rt, "count")
			w := rapid.Int64Range(-3, 1000).Draw(rt, "other")
			for range n {
				each.Add(v)
			}
			many.AddMany(v, n)
			one.Add(v)
			one.Add(w)
			all.AddMany(2, v+w, min(v, w), max(v, w))
		}
		if each.Load() != many.Load() || each.Percentiles() != many.Percentiles() || one.Load() != all.Load() {
			rt.Errorf("%+v %+v, want %+v %+v", many.Load(), all.Load(), each.Load(), one.Load())
		}
	})
}

func TestAllocations(t *testing.T) {
	var h Histogram
	if got := testing.AllocsPerRun(100, func() { h.Add(17) }); got != 0 {
		t.Errorf("Add allocates %v times", got)
	}
}

func BenchmarkHistogramAdd(b *testing.B) {
	var h Histogram
	b.ReportAllocs()
	for b.Loop() {
		h.Add(3)
	}
}
