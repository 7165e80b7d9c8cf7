package traffic

import (
	"math"
	"math/bits"
	"time"
)

// Counts are what has come about in some time: of an operation, a path, a client, or of all.
type Counts struct {
	Requests, Failed uint64 // that were answered; Failed with a code that is not OK
	// BytesIn and BytesOut are those of frames, with their lengths; of notices, too.
	BytesIn, BytesOut uint64
	WatchesSet        uint64
	Notices           uint64 // watch events that were sent
	// Applied are writes that this server has applied, those of other servers' clients too, except by client; Apply is
	// how long that has taken: of an entry with several writes each has an equal part.
	Applied uint64
	Apply   time.Duration
	Latency Latency
}

// add takes in others.
func (c *Counts) add(o *Counts) {
	c.Requests += o.Requests
	c.Failed += o.Failed
	c.BytesIn += o.BytesIn
	c.BytesOut += o.BytesOut
	c.WatchesSet += o.WatchesSet
	c.Notices += o.Notices
	c.Applied += o.Applied
	c.Apply += o.Apply
	c.Latency.add(&o.Latency)
}

// Buckets of a Latency, in microseconds: those below exactBelow have one each; above, each power of two is cut into
// subBuckets equal parts, so that a quantile is at most a quarter too high. What takes longer than 33 s is in the last.
const (
	subBits    = 2
	subBuckets = 1 << subBits
	exactBelow = 2 * subBuckets
	octavesMax = 22
	buckets    = exactBelow + octavesMax*subBuckets
)

// Latency is how long requests took, from when they came until their answers were ready to be sent.
type Latency struct {
	Sum, Max time.Duration
	counts   [buckets]uint32
}

// add takes in another's.
func (l *Latency) add(o *Latency) {
	l.Sum += o.Sum
	l.Max = max(l.Max, o.Max)
	for i, n := range o.counts {
		l.counts[i] += n
	}
}

// addOne takes in one duration, as often as weight says.
func (l *Latency) addOne(took time.Duration, weight uint32) {
	l.Sum += took * time.Duration(weight)
	l.Max = max(l.Max, took)
	l.counts[bucketOf(took)] += weight
}

// Quantile returns the duration that a part q of the requests, 0 to 1, did not exceed: the highest of its bucket, but
// never above the longest; 0 if there were none.
func (l *Latency) Quantile(q float64) time.Duration { return quantileOf(&l.counts, q, l.Max) }

// quantileOf is Quantile of what is in buckets.
func quantileOf[N uint32 | uint64](counts *[buckets]N, q float64, longest time.Duration) time.Duration {
	var total uint64
	for _, n := range counts {
		total += uint64(n)
	}
	if total == 0 {
		return 0
	}
	rank := max(int64(math.Ceil(float64(total)*q)), 1)
	for i, n := range counts {
		if rank -= int64(n); rank <= 0 && i < buckets-1 {
			return min(highestOf(i), longest)
		}
	}
	return longest
}

// Mean returns the mean of so many requests.
func (l *Latency) Mean(requests uint64) time.Duration {
	if requests == 0 {
		return 0
	}
	return l.Sum / time.Duration(requests)
}

// bucketOf returns the bucket of a duration.
func bucketOf(took time.Duration) uint8 {
	us := uint64(max(took, 0)) / uint64(time.Microsecond)
	if us < exactBelow {
		return uint8(us)
	}
	shift := bits.Len64(us) - subBits - 1
	if shift > octavesMax {
		return buckets - 1
	}
	return uint8(exactBelow + (shift-1)*subBuckets + int(us>>shift) - subBuckets)
}

// highestOf returns the duration below which all of bucket i are.
func highestOf(i int) time.Duration {
	if i < exactBelow {
		return time.Duration(i+1) * time.Microsecond
	}
	i -= exactBelow
	shift := i/subBuckets + 1
	return time.Duration(uint64(i%subBuckets+subBuckets+1)<<shift) * time.Microsecond
}
