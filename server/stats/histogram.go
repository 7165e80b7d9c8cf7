package stats

import (
	"math"
	"math/bits"
	"sync/atomic"
)

// Buckets of a Histogram: values below exactBelow have one each; above, each power of two is cut into subBuckets equal
// parts, so that a percentile is at most 1/subBuckets too high.
const (
	subBits    = 4
	subBuckets = 1 << subBits
	exactBelow = 2 * subBuckets
	buckets    = exactBelow + (63-subBits-1)*subBuckets
)

// Histogram is a Summary with percentiles (ZooKeeper's AvgMinMaxPercentileCounter). The zero Histogram is ready; it
// holds 7.5 KiB. Where ZooKeeper samples 4,096 values, it counts all of them, each to within a sixteenth of its size.
type Histogram struct {
	Summary
	counts [buckets]atomic.Int64
}

// Add takes one value in. A negative value counts as 0 in the percentiles.
func (h *Histogram) Add(v int64) {
	h.Summary.Add(v)
	h.counts[bucketOf(v)].Add(1)
}

// AddMany takes in v, count times, which is one at least.
func (h *Histogram) AddMany(v, count int64) {
	h.Summary.AddMany(count, v*count, v, v)
	h.counts[bucketOf(v)].Add(count)
}

// AddNonZero takes v in unless it is 0.
func (h *Histogram) AddNonZero(v int64) {
	if v != 0 {
		h.Add(v)
	}
}

// Reset forgets everything.
func (h *Histogram) Reset() {
	h.Summary.Reset()
	for i := range h.counts {
		h.counts[i].Store(0)
	}
}

// Percentiles are the values that 50, 95, 99 and 99.9 % of all values do not exceed; 0 when there are none.
type Percentiles struct{ P50, P95, P99, P999 int64 }

// Percentiles returns the percentiles of now: each the highest value of its bucket, but never above the maximum.
func (h *Histogram) Percentiles() Percentiles {
	var total int64
	var counts [buckets]int64
	for i := range h.counts {
		counts[i] = h.counts[i].Load()
		total += counts[i]
	}
	if total == 0 {
		return Percentiles{}
	}
	limit := h.Load().Max
	at := func(perMille int64) int64 {
		rank := max((total*perMille+999)/1000, 1)
		for i, n := range counts {
			if rank -= n; rank <= 0 {
				return min(highestOf(i), limit)
			}
		}
		return limit
	}
	return Percentiles{P50: at(500), P95: at(950), P99: at(990), P999: at(999)}
}

// Buckets are the counts of a Histogram at one moment, by bucket, up to the last that is not 0.
type Buckets []int64

// Buckets returns the counts of now.
func (h *Histogram) Buckets() Buckets {
	used := len(h.counts)
	for used > 0 && h.counts[used-1].Load() == 0 {
		used--
	}
	b := make(Buckets, used)
	for i := range b {
		b[i] = h.counts[i].Load()
	}
	return b
}

// QuantileSince returns the value that a share q of the values, 0 to 1, does not exceed, of those that came after
// before was taken; ok is false if none did. A histogram that was reset meanwhile counts from its reset. The value is
// the highest of its bucket.
func (b Buckets) QuantileSince(before Buckets, q float64) (v int64, ok bool) {
	for i, n := range before {
		if i >= len(b) || b[i] < n {
			before = nil
			break
		}
	}
	fresh := func(i int) int64 {
		if i < len(before) {
			return b[i] - before[i]
		}
		return b[i]
	}
	var total int64
	for i := range b {
		total += fresh(i)
	}
	if total == 0 {
		return 0, false
	}
	rank := max(int64(math.Ceil(float64(total)*q)), 1)
	for i := range b {
		if rank -= fresh(i); rank <= 0 {
			return highestOf(i), true
		}
	}
	return highestOf(len(b) - 1), true
}

// bucketOf returns the bucket that counts v.
func bucketOf(v int64) int {
	if v < exactBelow {
		return int(max(v, 0))
	}
	shift := bits.Len64(uint64(v)) - subBits - 1
	return exactBelow + (shift-1)*subBuckets + int(v>>shift) - subBuckets
}

// highestOf returns the highest value that bucket i counts.
func highestOf(i int) int64 {
	if i < exactBelow {
		return int64(i)
	}
	i -= exactBelow
	shift := i/subBuckets + 1
	return int64(uint64(i%subBuckets+subBuckets+1)<<shift - 1)
}
