package bench

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"zkd/jute"
)

// Histogram bounds: microseconds up to ten minutes, in steps of 1 %, which is 24 KiB each.
const (
	latencyMaxMicros = int64(10 * time.Minute / time.Microsecond)
	latencyDigits    = 2
)

// recorderShards keeps the connections' goroutines from waiting for each other: one that loses its processor while it
// records would hold up all who record into the same shard for a tick of the kernel's.
const recorderShards = 128

// recorder takes what the connections of a load see.
type recorder struct {
	counting atomic.Bool  // replies count now
	stopping atomic.Bool  // no new requests
	warmed   atomic.Int64 // replies before they counted
	shards   [recorderShards]shard

	dryOnce sync.Once
	dry     chan struct{} // closed when a connection has nothing left to send
}

type shard struct {
	mu struct {
		sync.Mutex
		hist     *hdrhistogram.Histogram
		requests int64
		errors   map[string]int64
	}
}

func newRecorder() *recorder {
	r := &recorder{dry: make(chan struct{})}
	for i := range r.shards {
		r.shards[i].mu.hist = hdrhistogram.New(1, latencyMaxMicros, latencyDigits)
		r.shards[i].mu.errors = map[string]int64{}
	}
	return r
}

// reply is one reply as a connection saw it.
type reply struct {
	took int64 // nanoseconds
	code jute.Code
}

// runDry says that there is nothing left to send on a connection.
func (r *recorder) runDry() { r.dryOnce.Do(func() { close(r.dry) }) }

// see takes replies of connection i: they count, or warm up.
func (r *recorder) see(i int, replies []reply) {
	if r.counting.Load() {
		r.add(i, replies)
	} else {
		r.warmed.Add(int64(len(replies)))
	}
}

// add counts replies of connection i.
func (r *recorder) add(i int, replies []reply) {
	s := &r.shards[i%recorderShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.requests += int64(len(replies))
	for _, one := range replies {
		micros := min(max(one.took/int64(time.Microsecond), 1), latencyMaxMicros)
		_ = s.mu.hist.RecordValue(micros) // in range, see above
		if one.code != jute.OK {
			s.mu.errors[one.code.String()]++
		}
	}
}

// fail counts n requests of connection i that will have no reply.
func (r *recorder) fail(i int, name string, n int64) {
	if n == 0 {
		return
	}
	s := &r.shards[i%recorderShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.errors[name] += n
}

// fill puts what was counted into a result.
func (r *recorder) fill(result *Result) {
	all := hdrhistogram.New(1, latencyMaxMicros, latencyDigits)
	errors := map[string]int64{}
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		all.Merge(s.mu.hist)
		result.Requests += s.mu.requests
		for name, n := range s.mu.errors { // a sum for each name, so the order does not matter
			errors[name] += n
		}
		s.mu.Unlock()
	}
	if len(errors) > 0 {
		result.Errors = errors
	}
	if result.Requests > 0 {
		result.Latency = &Latency{
			P50Micros: all.ValueAtQuantile(50), P99Micros: all.ValueAtQuantile(99),
			P999Micros: all.ValueAtQuantile(99.9), MaxMicros: all.Max(),
		}
	}
	if result.Seconds > 0 {
		result.PerSecond = float64(result.Requests) / result.Seconds
	}
}
