package traffic

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"zkd/jute"
	"zkd/quorum/clock"
)

// largeBytes is the request, with its answer, that is always counted by path. A guess: what it costs to send as much is
// many times what it costs to count it.
const largeBytes = 64 << 10

// samplesPerSecond is how many paths are sampled a second, about. A path that has a tenth of all requests is then
// known to a tenth of its own in one second, and to 3 % in ten (one standard deviation), for some 0.1 % of a processor.
const samplesPerSecond = 1024

// everyMax is how many requests a sample stands for at most.
const everyMax = 1 << 16

// second is how often the recorder collects what was counted.
const second = time.Second

// Recorder collects what meters have counted.
type Recorder struct {
	opts    Options   // immutable
	started time.Time // immutable
	seeds   atomic.Uint64

	// shared is what each request reads. It changes about once a second; the padding keeps it away from what does more
	// often.
	shared struct {
		_       [64]byte
		mask    atomic.Uint32 // a request is sampled if a random number has none of these bits
		slowest atomic.Int64  // what a request must take, more than this, to be among the slowest of this second
		_       [64]byte
	}

	mu struct {
		sync.Mutex
		frame   *frame
		samples int      // of paths at which the next ones in this second stand for twice as many
		free    []*sheet // at most freeMax
	}

	active struct {
		sync.Mutex
		meters []*Meter // that have counted something; each once
	}

	spare []*Meter // memory for active; owned by Run

	kept struct {
		sync.Mutex
		ring   ring
		totals [operationCount]Total
	}

	applied applied
}

// Options says what a Recorder consists of.
type Options struct {
	Clock clock.Clock
}

// freeMax is how many empty sheets are kept: some 1 MiB.
const freeMax = 1024

// New returns a recorder. Run is to be called.
func New(o Options) *Recorder {
	r := &Recorder{opts: o, started: o.Clock.Now()}
	r.mu.frame = newFrame(0)
	r.mu.samples = 2 * samplesPerSecond
	r.mu.frame.every = 1
	r.applied.random = r.seed()
	return r
}

// elapsed is the time since the recorder was made.
func (r *Recorder) elapsed() time.Duration { return r.opts.Clock.Since(r.started) }

// seed returns the first random number of a meter: another one for each, and the same ones again in another run
// (splitmix64, of Steele, Lea and Flood).
func (r *Recorder) seed() uint64 {
	x := r.seeds.Add(0x9e3779b97f4a7c15)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return max(x^x>>31, 1)
}

// Run collects every second what was counted, until stop is closed.
func (r *Recorder) Run(stop <-chan struct{}) {
	ticker := r.opts.Clock.NewTicker(second)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C():
			r.collect()
		}
	}
}

// wake has Run look at a meter.
func (r *Recorder) wake(m *Meter) {
	r.active.Lock()
	r.active.meters = append(r.active.meters, m)
	r.active.Unlock()
}

// takeSheet returns an empty sheet.
func (r *Recorder) takeSheet() *sheet {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.mu.free)
	if n == 0 {
		return &sheet{}
	}
	s := r.mu.free[n-1]
	r.mu.free[n-1] = nil
	r.mu.free = r.mu.free[:n-1]
	return s
}

// overflow counts a slot for which there is no room in its sheet.
func (r *Recorder) overflow(t *slot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.addTo(r.mu.frame.operation(t.op))
}

// notePath counts a request by its path, for as many as it stands for.
func (r *Recorder) notePath(path string, a *Answer, requests uint32) {
	n := uint64(requests)
	r.countPath(path, requests, weightOf(a, requests), func(c *Counts) {
		c.Requests += n
		c.BytesIn += n * uint64(a.In)
		c.BytesOut += n * uint64(a.Out)
		c.WatchesSet += n * uint64(a.Watches)
		if a.Failed {
			c.Failed += n
		}
		c.Latency.addOne(a.Took, requests)
	})
}

// countPath counts something of a path that stands for as much: for its znode, and for all subtrees that it is in.
func (r *Recorder) countPath(path string, every uint32, weight uint64, count func(c *Counts)) {
	if path == "" || path[0] != '/' {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.frame.path(path, weight, count)
	r.sampledLocked(every)
}

// sampledLocked has fewer paths sampled in this second, if there were too many.
func (r *Recorder) sampledLocked(every uint32) {
	f := r.mu.frame
	f.every = max(f.every, every)
	if f.samples < r.mu.samples {
		return
	}
	r.mu.samples += samplesPerSecond
	if mask := r.shared.mask.Load(); mask < everyMax-1 {
		r.shared.mask.Store(2*mask + 1)
	}
}

// collect ends the present second.
func (r *Recorder) collect() {
	r.active.Lock()
	meters := r.active.meters
	r.active.meters = r.spare[:0]
	r.active.Unlock()

	now := r.elapsed()
	f := newFrame(now)
	who := newClients()
	sheets := r.collectFrom(meters, f, who)
	clear(meters)
	r.spare = meters
	f = r.turn(f, sheets, now)
	r.applied.takeInto(f)
	requests := uint64(0)
	for _, c := range f.operations {
		if c != nil {
			requests += c.Requests
		}
	}
	if mask := maskFor(requests); mask != r.shared.mask.Load() {
		r.shared.mask.Store(mask)
	}
	r.keep(f, who, now)
}

// collectFrom takes what meters have counted: of operations to f, of clients to who. It returns the sheets, empty.
func (r *Recorder) collectFrom(meters []*Meter, f *frame, who *clients) (sheets []*sheet) {
	for _, m := range meters {
		s, notices := m.collect()
		all := Counts{Notices: notices.n, BytesOut: notices.bytes}
		if s != nil {
			s.addTo(&all, f)
			*s = sheet{}
			sheets = append(sheets, s)
		}
		if notices.n > 0 {
			c := f.operation(slotOf(jute.OpNotification))
			c.Notices += notices.n
			c.BytesOut += notices.bytes
		}
		who.add(m.owner.Client(), &all)
	}
	return sheets
}

// turn begins the next second and returns the frame of the one before, with the operations that f has.
func (r *Recorder) turn(f *frame, sheets []*sheet, now time.Duration) *frame {
	next := newFrame(now)
	r.mu.Lock()
	defer r.mu.Unlock()
	past := r.mu.frame
	for i, c := range f.operations {
		if c != nil {
			past.operation(uint8(i)).add(c)
		}
	}
	r.mu.frame, r.mu.samples = next, 2*samplesPerSecond
	r.mu.free = append(r.mu.free, sheets[:min(len(sheets), freeMax-len(r.mu.free))]...)
	r.shared.slowest.Store(0)
	return past
}

// keep seals a frame and keeps it.
func (r *Recorder) keep(f *frame, who *clients, now time.Duration) {
	p := f.seal(who, now)
	r.kept.Lock()
	defer r.kept.Unlock()
	for i, c := range f.operations {
		if c != nil {
			r.kept.totals[i].add(c)
		}
	}
	r.kept.ring.push(p)
}

// maskFor is the mask by which samplesPerSecond of so many requests are sampled, about.
func maskFor(requests uint64) uint32 {
	if requests <= samplesPerSecond {
		return 0
	}
	return min(uint32(1)<<bits.Len64((requests-1)/samplesPerSecond), everyMax) - 1
}
