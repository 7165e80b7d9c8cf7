package traffic

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawAdds draws what is added: keys of a few, some of them often, as paths are.
func drawAdds(rt *rapid.T, name string) []int {
	return rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) int {
		return rapid.IntRange(0, rapid.IntRange(0, 40).Draw(rt, "spread")).Draw(rt, "key")
	}), 0, 400).Draw(rt, name)
}

// wantBounds compares what a sketch says of each key with what was added: exact is the weight of each key, counted
// request by request, and total their sum.
func wantBounds(rt *rapid.T, rows []Row[int], floor uint64, entries int, sketches int, exact map[int]uint64) {
	total, found := uint64(0), map[int]bool{}
	for _, n := range exact { // any order: a sum
		total += n
	}
	for i := range rows {
		r := &rows[i]
		found[r.Key] = true
		if r.weight < exact[r.Key] || r.weight-r.Missed > exact[r.Key] {
			rt.Errorf("key %d weighs %d, of which %d may not be its own; exactly %d", r.Key, r.weight, r.Missed,
				exact[r.Key])
		}
		if r.Requests > exact[r.Key] || r.Requests+r.Missed < exact[r.Key] {
			rt.Errorf("key %d: %d requests, at most %d missed; exactly %d", r.Key, r.Requests, r.Missed, exact[r.Key])
		}
		if bound := total / uint64(entries); sketches == 1 && r.Missed > bound {
			rt.Errorf("key %d: %d missed, above %d of %d", r.Key, r.Missed, bound, total)
		}
		if i > 0 && rows[i-1].weight < r.weight {
			rt.Errorf("row %d is heavier than the one before", i)
		}
	}
	for key, n := range exact { // any order
		if !found[key] && n > floor {
			rt.Errorf("key %d with %d is not there, though the floor is %d", key, n, floor)
		}
		if bound := total / uint64(entries); !found[key] && sketches == 1 && n > bound {
			rt.Errorf("key %d with %d of %d is not there", key, n, total)
		}
	}
}

// fill adds keys to a sketch and to the exact count.
func fill(s *sketch[int], keys []int, weight func(i int) uint64, exact map[int]uint64) {
	for i, key := range keys {
		n := weight(i)
		s.add(key, n).Requests += n
		exact[key] += n
	}
}

// TestSketchAgainstExactCounting: whatever is added, a sketch's bounds hold, and who has more than a share is there.
func TestSketchAgainstExactCounting(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		entries := rapid.IntRange(1, 12).Draw(rt, "entries")
		s := newSketch(entries, same[int])
		exact := map[int]uint64{}
		weights := rapid.SliceOfN(rapid.Uint64Range(1, 9), 1, 20).Draw(rt, "weights")
		fill(&s, drawAdds(rt, "keys"), func(i int) uint64 { return weights[i%len(weights)] }, exact)
		if len(s.entries) > entries || len(s.index) != len(s.entries) {
			rt.Fatalf("%d entries, %d in the index, of %d", len(s.entries), len(s.index), entries)
		}
		sealed := s.seal()
		var m merged[int]
		m.add(&sealed)
		rows, floor := m.sorted(entries, cmp.Compare[int])
		wantBounds(rt, rows, floor, entries, 1, exact)
	})
}

// TestMergedSketchesAgainstExactCounting: so do those of sketches that are put together, once and again.
func TestMergedSketchesAgainstExactCounting(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		entries := rapid.IntRange(1, 12).Draw(rt, "entries")
		exact := map[int]uint64{}
		one := func() sealed[int] {
			s := newSketch(entries, same[int])
			fill(&s, drawAdds(rt, "keys"), func(int) uint64 { return 1 }, exact)
			return s.seal()
		}
		var upper merged[int]
		for range rapid.IntRange(1, 3).Draw(rt, "long") {
			var lower merged[int]
			for range rapid.IntRange(1, 4).Draw(rt, "short") {
				s := one()
				lower.add(&s)
			}
			s := lower.sealAgain(entries, cmp.Compare[int])
			upper.add(&s)
		}
		rows, floor := upper.sorted(entries, cmp.Compare[int])
		wantBounds(rt, rows, floor, entries, 2, exact)
	})
}

// TestSketchKeepsNoRequest: a key that is kept is copied, of one that is known nothing is.
func TestSketchKeepsNoRequest(t *testing.T) {
	s := newSketch(2, strings.Clone)
	buffer := []byte("/a")
	s.add(string(buffer), 1)
	if got := testing.AllocsPerRun(100, func() { s.add("/a", 1) }); got != 0 {
		t.Errorf("a key that is known allocates %v times", got)
	}
}

// TestQuantiles: each is at least the exact one and at most a quarter above it.
func TestQuantiles(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		micros := rapid.SliceOfN(rapid.Int64Range(0, 20_000_000), 1, 200).Draw(rt, "micros")
		shift := rapid.IntRange(0, 20).Draw(rt, "shift")
		var l Latency
		sorted := make([]int64, 0, len(micros))
		for _, us := range micros {
			us >>= shift
			sorted = append(sorted, us)
			l.addOne(time.Duration(us)*time.Microsecond, 1)
		}
		slices.Sort(sorted)
		for _, q := range []float64{0, 0.5, 0.99, 1} {
			rank := max(int(float64(len(sorted))*q+0.999999), 1)
			exact := time.Duration(sorted[min(rank, len(sorted))-1]) * time.Microsecond
			if got := l.Quantile(q); got < exact || got > exact+exact/4+time.Microsecond {
				rt.Errorf("quantile %v is %v, exactly %v", q, got, exact)
			}
		}
	})
}

// TestBucketsFollow: each bucket begins where the one before ends.
func TestBucketsFollow(t *testing.T) {
	for i := range buckets - 1 {
		end := highestOf(i)
		if got, next := bucketOf(end-1), bucketOf(end); int(got) != i || int(next) != i+1 {
			t.Fatalf("bucket %d ends at %v: %d, then %d", i, end, got, next)
		}
	}
	if got := bucketOf(1 << 62); got != buckets-1 {
		t.Errorf("the longest is in bucket %d", got)
	}
	if got := bucketOf(-1); got != 0 {
		t.Errorf("a negative one is in bucket %d", got)
	}
}
