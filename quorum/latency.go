package quorum

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// latencyBuckets covers up to 2^40 microseconds with four buckets to each power of two.
const latencyBuckets = 40 * 4

// LatencySummary describes durations since the start. The quantiles are upper bounds that are at most a quarter too
// large.
type LatencySummary struct {
	Count           uint64
	Total, Min, Max time.Duration
	P50, P99, P999  time.Duration
	// Below counts those that are shorter than LatencyBound of its index, exactly.
	Below [latencyBounds]uint64
}

// Of LatencySummary.Below: from 64 µs to 16.8 s, each bound twice the one before.
const (
	latencyBounds     = 19
	latencyFirstPower = 6
)

// LatencyBound is the i-th bound of LatencySummary.Below.
func LatencyBound(i int) time.Duration { return time.Microsecond << (latencyFirstPower + i) }

// latency counts durations in buckets. Any goroutine may add and summarize.
type latency struct {
	count, total, max atomic.Uint64 // durations in nanoseconds
	shortest          atomic.Uint64 // one more than the shortest, so that 0 is none
	buckets           [latencyBuckets]atomic.Uint64
}

// add counts one duration.
func (l *latency) add(d time.Duration) {
	d = max(d, 0)
	l.count.Add(1)
	l.total.Add(uint64(d))
	for {
		old := l.max.Load()
		if uint64(d) <= old || l.max.CompareAndSwap(old, uint64(d)) {
			break
		}
	}
	for {
		old := l.shortest.Load()
		if old != 0 && old <= uint64(d)+1 || l.shortest.CompareAndSwap(old, uint64(d)+1) {
			break
		}
	}
	l.buckets[latencyBucket(d)].Add(1)
}

// latencyBucket is the bucket of d: exact below 4 µs, then the highest bit and the two behind it.
func latencyBucket(d time.Duration) int {
	micros := uint64(d / time.Microsecond)
	if micros < 4 {
		return int(micros)
	}
	exp := bits.Len64(micros) - 1 // ≥ 2
	return min((exp-1)*4+int(micros>>(exp-2)&3), latencyBuckets-1)
}

// latencyBound is the largest duration of a bucket, rounded up.
func latencyBound(bucket int) time.Duration {
	if bucket < 4 {
		return time.Duration(bucket+1) * time.Microsecond
	}
	exp := bucket/4 + 1
	return time.Duration(uint64(5+bucket%4)<<(exp-2)) * time.Microsecond
}

// summary describes what was added so far.
func (l *latency) summary() LatencySummary {
	s := LatencySummary{
		Count: l.count.Load(), Total: time.Duration(l.total.Load()), Max: time.Duration(l.max.Load()),
	}
	if shortest := l.shortest.Load(); shortest > 0 {
		s.Min = time.Duration(shortest - 1)
	}
	var counts [latencyBuckets]uint64
	var all uint64
	for i := range counts {
		counts[i] = l.buckets[i].Load()
		all += counts[i]
		// A power of two ends every fourth bucket.
		if power := i/4 + 2; i%4 == 3 && power >= latencyFirstPower && power < latencyFirstPower+latencyBounds {
			s.Below[power-latencyFirstPower] = all
		}
	}
	quantile := func(perMille uint64) time.Duration {
		need, seen := (all*perMille+999)/1000, uint64(0)
		for i, n := range counts {
			if seen += n; n > 0 && seen >= need {
				return min(latencyBound(i), s.Max)
			}
		}
		return 0
	}
	s.P50, s.P99, s.P999 = quantile(500), quantile(990), quantile(999)
	return s
}
