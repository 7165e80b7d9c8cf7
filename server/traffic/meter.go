package traffic

import (
	"net/netip"
	"sync"
	"time"

	"zkd/jute"
)

// Client is who is at the other end of a connection.
type Client struct {
	Session jute.SessionID
	Remote  netip.AddrPort
	User    string // what it has proven to be besides its address, scheme:name with commas between; "" for nobody
}

// Owner is the connection that a Meter belongs to.
type Owner interface {
	// Client says who its client is. Any goroutine may call it, without a lock that is held while something is counted.
	Client() Client
}

// Answer is a request that was answered.
type Answer struct {
	Op      jute.Op
	In, Out int // bytes of the frames, with their lengths
	Failed  bool
	Took    time.Duration
	Watches int // that it has set
}

// Mark says that more is wanted to be known of a request: its path, or where its time went. The zero Mark wants
// nothing.
type Mark struct {
	weight uint32 // how many requests it stands for among the paths
	slow   bool   // it may be among the slowest
}

// Wanted reports whether Note is to be called.
func (m Mark) Wanted() bool { return m.weight > 0 || m.slow }

// Meter counts what one connection asks for. The zero Meter counts nothing.
type Meter struct {
	rec   *Recorder // nil: nothing is counted
	owner Owner

	// Owned by the connection's reader.
	random uint64
	run    run
	begun  uint64 // writes

	mu      sync.Mutex
	active  bool    // guarded by mu; the recorder will look
	sheet   *sheet  // guarded by mu; nil: nothing was answered since it has looked
	notices counted // guarded by mu
	ended   uint64  // guarded by mu; writes
	marked  []write // guarded by mu; writes under way whose paths are wanted, in order; at most markedMax
}

// counted are events that were sent.
type counted struct{ n, bytes uint64 }

// write is a write whose path is wanted.
type write struct {
	number uint64
	weight uint32
	path   string
}

// markedMax is how many writes of one connection may be under way whose paths are wanted. With the sampling, more are
// rare: their paths are not counted then.
const markedMax = 16

// run are answers that the meter's sheet does not have yet: of one operation, all in one bucket of latency.
type run struct {
	slot, bucket uint8
	requests     uint32
	failed       uint32
	in, out      uint64
	sum, longest time.Duration
	watches      uint64
}

// runMax is how many answers a run has at most: a slot holds more.
const runMax = 1 << 12

// Init sets a meter up. A nil Recorder counts nothing. Nothing was counted before.
func (m *Meter) Init(r *Recorder, owner Owner) {
	if r == nil {
		return
	}
	m.rec, m.owner, m.random = r, owner, r.seed()
}

// next draws a random number (Marsaglia's xorshift64).
func (m *Meter) next() uint64 {
	x := m.random
	x ^= x << 13
	x ^= x >> 7
	x ^= x << 17
	m.random = x
	return x
}

// Answered counts an answer. For the connection's reader, who calls Flush before it waits for its client. If more is
// wanted to be known of it, the caller tells it by Note.
func (m *Meter) Answered(a *Answer) Mark {
	r := m.rec
	if r == nil {
		return Mark{}
	}
	slot, bucket := slotOf(a.Op), bucketOf(a.Took)
	if n := &m.run; n.requests > 0 && (n.slot != slot || n.bucket != bucket || n.requests == runMax) {
		m.Flush()
	}
	n := &m.run
	n.slot, n.bucket = slot, bucket
	n.requests++
	n.in += uint64(a.In)
	n.out += uint64(a.Out)
	n.sum += a.Took
	n.longest = max(n.longest, a.Took)
	if a.Failed {
		n.failed++
	}
	if a.Watches > 0 {
		n.watches += uint64(a.Watches)
	}
	return Mark{weight: m.draw(a.In + a.Out), slow: int64(a.Took) > r.shared.slowest.Load()}
}

// draw draws whether the path of a request of so many bytes is counted, and for how many.
func (m *Meter) draw(bytes int) uint32 {
	mask := m.rec.shared.mask.Load()
	switch {
	case bytes >= largeBytes:
		return 1
	case uint32(m.next()>>32)&mask == 0:
		return mask + 1
	}
	return 0
}

// Flush hands over what Answered has counted. For the connection's reader.
func (m *Meter) Flush() {
	if m.run.requests == 0 {
		return
	}
	m.mu.Lock()
	m.takeLocked(&m.run)
	m.mu.Unlock()
	m.run = run{}
}

// takeLocked counts a run in the meter's sheet.
func (m *Meter) takeLocked(n *run) {
	m.wakeLocked()
	if m.sheet == nil {
		m.sheet = m.rec.takeSheet()
	}
	if full := m.sheet.add(n); full != nil {
		m.rec.overflow(full)
		m.sheet.empty(full)
		m.sheet.add(n) // there is room now
	}
}

// wakeLocked has the recorder look at the meter.
func (m *Meter) wakeLocked() {
	if !m.active {
		m.active = true
		m.rec.wake(m)
	}
}

// AnsweredAside counts an answer that the connection's reader does not know of. It samples nothing. Any goroutine may
// call it.
func (m *Meter) AnsweredAside(a *Answer) {
	if m.rec == nil {
		return
	}
	n := runOf(a)
	m.mu.Lock()
	m.takeLocked(&n)
	m.mu.Unlock()
}

// runOf is the run of one answer.
func runOf(a *Answer) run {
	n := run{slot: slotOf(a.Op), bucket: bucketOf(a.Took), requests: 1, in: uint64(a.In), out: uint64(a.Out),
		sum: a.Took, longest: a.Took, watches: uint64(a.Watches)}
	if a.Failed {
		n.failed = 1
	}
	return n
}

// Begun says that a write has begun, of so many bytes. Written ends it, or the connection. path finds its path, if that
// is wanted; what it returns is copied. For the connection's reader.
func (m *Meter) Begun(bytes int, path func() string) {
	if m.rec == nil {
		return
	}
	m.begun++
	weight := m.draw(bytes)
	if weight == 0 {
		return
	}
	w := write{number: m.begun, weight: weight, path: kept(path())}
	m.mu.Lock()
	if len(m.marked) < markedMax {
		m.marked = append(m.marked, w)
	}
	m.mu.Unlock()
}

// Written counts the answer to the write that has begun before all others under way, and says what more is wanted to be
// known of it. path is that of the request, if it was kept. apply is how long the write took to be applied. For one
// goroutine at a time.
func (m *Meter) Written(a *Answer, apply time.Duration) (mark Mark, path string) {
	if m.rec == nil {
		return Mark{}, ""
	}
	n := runOf(a)
	m.mu.Lock()
	m.takeLocked(&n)
	m.sheet.applied++
	m.sheet.apply += apply
	m.ended++
	if len(m.marked) > 0 && m.marked[0].number == m.ended {
		mark.weight, path = m.marked[0].weight, m.marked[0].path
		m.marked = append(m.marked[:0], m.marked[1:]...)
		if len(m.marked) == 0 {
			m.marked = nil
		}
	}
	m.mu.Unlock()
	mark.slow = int64(a.Took) > m.rec.shared.slowest.Load()
	return mark, path
}

// Noticed counts watch events that were sent, of so many bytes together. Any goroutine may call it.
func (m *Meter) Noticed(events, bytes int) {
	if m.rec == nil {
		return
	}
	m.mu.Lock()
	m.wakeLocked()
	m.notices.n += uint64(events)
	m.notices.bytes += uint64(bytes)
	m.mu.Unlock()
}

// Note takes what was wanted to be known of an answer. path and phases are copied as far as they are kept. Any
// goroutine may call it.
func (m *Meter) Note(mark Mark, a *Answer, path string, phases *Phases) {
	if mark.weight > 0 {
		m.rec.notePath(path, a, mark.weight)
	}
	if mark.slow {
		m.rec.noteSlow(m.owner, a, path, phases)
	}
}

// collect returns what was counted since it was called last. For the recorder.
func (m *Meter) collect() (*sheet, counted) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, n := m.sheet, m.notices
	m.sheet, m.notices, m.active = nil, counted{}, false
	return s, n
}

// sheetSlots is how many operations of one connection are counted between two looks of the recorder without its lock:
// few clients use more in a second.
const sheetSlots = 4

// sheet is what a connection has counted since the recorder has looked.
type sheet struct {
	slots   [sheetSlots]slot
	rest    *Counts // of slots that had to be emptied; nil for none
	applied uint64
	apply   time.Duration
}

// slot is what was counted of one operation.
type slot struct {
	used     bool
	op       uint8
	requests uint32
	failed   uint32
	watches  uint64
	in, out  uint64
	sum      time.Duration
	longest  time.Duration
	counts   [buckets]uint16
}

// slotMax is how many requests a slot holds.
const slotMax = 1<<16 - 1

// add counts a run, or returns the slot that has to be emptied before.
func (s *sheet) add(n *run) (full *slot) {
	for i := range s.slots {
		t := &s.slots[i]
		if t.used && t.op != n.slot {
			continue
		}
		if t.requests+n.requests > slotMax {
			return t
		}
		t.used, t.op = true, n.slot
		t.requests += n.requests
		t.failed += n.failed
		t.watches += n.watches
		t.in += n.in
		t.out += n.out
		t.sum += n.sum
		t.longest = max(t.longest, n.longest)
		t.counts[n.bucket] += uint16(n.requests)
		return nil
	}
	return &s.slots[sheetSlots-1]
}

// empty empties a slot whose operation the recorder has counted. The client's counts stay.
func (s *sheet) empty(full *slot) {
	if s.rest == nil {
		s.rest = &Counts{}
	}
	full.addTo(s.rest)
	*full = slot{}
}

// addTo adds what the sheet has: all of it to all, and by operation to f.
func (s *sheet) addTo(all *Counts, f *frame) {
	for i := range s.slots {
		if t := &s.slots[i]; t.used {
			t.addTo(all)
			t.addTo(f.operation(t.op))
		}
	}
	if s.rest != nil {
		all.add(s.rest)
	}
	all.Applied += s.applied
	all.Apply += s.apply
}

// addTo adds what the slot has.
func (t *slot) addTo(c *Counts) {
	c.Requests += uint64(t.requests)
	c.Failed += uint64(t.failed)
	c.WatchesSet += t.watches
	c.BytesIn += t.in
	c.BytesOut += t.out
	c.Latency.Sum += t.sum
	c.Latency.Max = max(c.Latency.Max, t.longest)
	for i, n := range t.counts {
		c.Latency.counts[i] += uint32(n)
	}
}
