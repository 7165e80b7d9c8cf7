package stats

import (
	"math"
	"sync/atomic"
)

// Counter is a number that only grows, until it is reset. The zero Counter is ready.
type Counter struct{ n atomic.Int64 }

// Add adds n, which is not negative.
func (c *Counter) Add(n int64) { c.n.Add(n) }

// Inc adds one.
func (c *Counter) Inc() { c.n.Add(1) }

// Load returns the count.
func (c *Counter) Load() int64 { return c.n.Load() }

// Reset sets the count to 0.
func (c *Counter) Reset() { c.n.Store(0) }

// Summary is the average, minimum, maximum, count and sum of what was added (ZooKeeper's AvgMinMaxCounter). The zero
// Summary is ready. Costs two atomic additions and two loads for a value inside the known range.
type Summary struct {
	sum   atomic.Int64
	count atomic.Int64
	// min and max hold the value xor a constant, so that their zero value is the value that everything replaces.
	min atomic.Int64
	max atomic.Int64
}

// Add takes one value in.
func (s *Summary) Add(v int64) { s.AddMany(1, v, v, v) }

// AddMany takes in count values, one at least, of which the sum and the extremes are known.
func (s *Summary) AddMany(count, sum, least, greatest int64) {
	for {
		old := s.min.Load()
		if least >= old^math.MaxInt64 || s.min.CompareAndSwap(old, least^math.MaxInt64) {
			break
		}
	}
	for {
		old := s.max.Load()
		if greatest <= old^math.MinInt64 || s.max.CompareAndSwap(old, greatest^math.MinInt64) {
			break
		}
	}
	s.sum.Add(sum)
	s.count.Add(count)
}

// AddNonZero takes v in unless it is 0.
func (s *Summary) AddNonZero(v int64) {
	if v != 0 {
		s.Add(v)
	}
}

// Reset forgets everything.
func (s *Summary) Reset() {
	s.count.Store(0)
	s.sum.Store(0)
	s.min.Store(0)
	s.max.Store(0)
}

// Snapshot is a Summary at one moment. All of an empty one is 0.
type Snapshot struct {
	Count, Sum, Min, Max int64
	// Avg has at most four decimals, as ZooKeeper rounds it (AvgMinMaxCounter.getAvg).
	Avg float64
}

// Load returns the values of now.
func (s *Summary) Load() Snapshot {
	snap := Snapshot{Count: s.count.Load(), Sum: s.sum.Load()}
	if snap.Count == 0 {
		return Snapshot{}
	}
	snap.Min = s.min.Load() ^ math.MaxInt64
	snap.Max = s.max.Load() ^ math.MinInt64
	snap.Avg = Mean(float64(snap.Sum), snap.Count)
	return snap
}

// Mean is the average of count values that add up to sum, with at most four decimals, as ZooKeeper rounds it.
func Mean(sum float64, count int64) float64 { return round4(sum / float64(count)) }

// round4 rounds to four decimals, halves up (BigDecimal.setScale(4, HALF_UP) in AvgMinMaxCounter).
func round4(v float64) float64 { return math.Round(v*1e4) / 1e4 }
