package traffic

import (
	"fmt"
	"math"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"zkd/compat-tests/leak"
	"zkd/jute"
	"zkd/quorum/clock"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

// somebody is a connection.
type somebody Client

func (s somebody) Client() Client { return Client(s) }

// client returns the n-th client.
func client(n int) somebody {
	addr := netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)})
	return somebody{Session: jute.SessionID(n + 1), Remote: netip.AddrPortFrom(addr, 1000),
		User: fmt.Sprintf("digest:user%d", n%100)}
}

// counting is a recorder whose seconds the test ends.
type counting struct {
	*Recorder
	now *clock.Manual
}

func newCounting() counting {
	now := clock.NewManual(time.Unix(1, 0))
	return counting{New(Options{Clock: now}), now}
}

// second ends the present one.
func (c counting) second() {
	c.now.Advance(second)
	c.collect()
}

// meter returns a meter of the n-th client.
func (c counting) meter(n int) *Meter {
	m := &Meter{}
	m.Init(c.Recorder, client(n))
	return m
}

// ask counts a request at path.
func ask(m *Meter, path string, a Answer) {
	if mark := m.Answered(&a); mark.Wanted() {
		m.Note(mark, &a, path, &Phases{Answer: a.Took})
	}
	m.Flush()
}

// requests finds the requests of a key.
func requests[K comparable](rows []Row[K], key K) (n, missed uint64) {
	for i := range rows {
		if rows[i].Key == key {
			return rows[i].Requests, rows[i].Missed
		}
	}
	return 0, 0
}

// TestSamplingIsRight: under load paths are sampled, and what comes of it is within five standard deviations of what
// was asked for, while operations and clients are exact. The random numbers are the same in each run.
func TestSamplingIsRight(t *testing.T) {
	c := newCounting()
	const all, hotPart = 400_000, 10
	var meters []*Meter
	for n := range 20 {
		meters = append(meters, c.meter(n))
	}
	load := func() {
		for i := range all {
			path := "/cold/" + fmt.Sprint(i%50)
			if i%hotPart == 0 {
				path = "/hot/one"
			}
			ask(meters[i%len(meters)], path, Answer{Op: jute.OpGetData, In: 40, Out: 100, Took: 30 * time.Microsecond})
		}
	}
	load() // the first second finds the load
	c.second()
	if samples := c.mu.samples; samples != 2*samplesPerSecond {
		t.Errorf("the next second begins with %d", samples)
	}
	load()
	c.second()
	w := c.Window(time.Second)
	if w.Every < all/samplesPerSecond || w.Every > 2*all/samplesPerSecond {
		t.Errorf("one in %d is sampled", w.Every)
	}
	hot, missed := requests(w.Znodes, "/hot/one")
	want := float64(all / hotPart)
	deviation := math.Sqrt(want * float64(w.Every-1))
	if off := math.Abs(float64(hot) - want); off > 5*deviation || missed != 0 {
		t.Errorf("%d requests at /hot/one, want %v, %v off, a deviation is %v; %d missed", hot, want, off, deviation,
			missed)
	}
	if got := w.Operations[0]; len(w.Operations) != 1 || got.Requests != all || got.BytesIn != all*40 {
		t.Errorf("operations: %+v", w.Operations)
	}
	for n := range meters {
		if got, _ := requests(w.Sessions, Client(client(n))); got != all/uint64(len(meters)) {
			t.Errorf("client %d: %d requests", n, got)
		}
	}
	if took := w.Operations[0].Latency.Quantile(0.99); took < 30*time.Microsecond || took > 38*time.Microsecond {
		t.Errorf("99 %% within %v", took)
	}
}

// TestFirstSecondOfALoad: a load that comes suddenly is sampled less and less at once.
func TestFirstSecondOfALoad(t *testing.T) {
	c := newCounting()
	m := c.meter(1)
	const all = 200_000
	for range all {
		ask(m, "/a", Answer{Op: jute.OpExists, In: 20, Out: 20, Took: time.Microsecond})
	}
	if n := c.mu.frame.samples; n > 12*samplesPerSecond {
		t.Errorf("%d samples of %d requests", n, all)
	}
	c.second()
	if got, _ := requests(c.Window(second).Znodes, "/a"); got < all*9/10 || got > all*11/10 {
		t.Errorf("%d requests, want about %d", got, all)
	}
}

// TestLargeRequestsAreSeen among many small ones.
func TestLargeRequestsAreSeen(t *testing.T) {
	c := newCounting()
	m := c.meter(1)
	for range 2 {
		for i := range 100_000 {
			ask(m, fmt.Sprintf("/small/%d", i%1000), Answer{Op: jute.OpExists, In: 20, Out: 20, Took: time.Microsecond})
		}
		for range 7 {
			ask(m, "/large", Answer{Op: jute.OpGetData, In: 20, Out: 1 << 20, Took: time.Millisecond})
		}
		c.second()
	}
	if got, _ := requests(c.Window(second).Znodes, "/large"); got != 7 {
		t.Errorf("%d large requests, want 7", got)
	}
}

// TestWindows: the last seconds, at least as many as are asked for, and no more than are kept.
func TestWindows(t *testing.T) {
	c := newCounting()
	m := c.meter(1)
	for n := range 100 {
		for range n {
			ask(m, "/a", Answer{Op: jute.OpExists})
		}
		c.second()
	}
	sum := func(from int) (n uint64) {
		for ; from < 100; from++ {
			n += uint64(from)
		}
		return n
	}
	for span, want := range map[time.Duration]int{ // any order
		time.Second: 1, 10 * time.Second: 10, 1500 * time.Millisecond: 2, 11 * time.Second: 20, time.Minute: 60,
		time.Hour: 60,
	} {
		w := c.Window(span)
		got, _ := requests(w.Subtrees, "/a")
		if w.Took != time.Duration(want)*time.Second || w.Total.Requests != sum(100-want) || got != sum(100-want) {
			t.Errorf("%v: %v with %d requests, %d at /a; want %d s with %d", span, w.Took, w.Total.Requests, got, want,
				sum(100-want))
		}
	}
	c.now.Advance(5 * time.Second) // the machine has stood still
	c.second()
	if w := c.Window(second); w.Took != 6*time.Second || w.Total.Requests != 0 {
		t.Errorf("%v with %d requests", w.Took, w.Total.Requests)
	}
	var total uint64
	c.Totals(func(op jute.Op, n *Total) { total += n.Requests })
	if total != sum(0) {
		t.Errorf("%d requests since the start, want %d", total, sum(0))
	}
}

// TestWritesAndNotices: paths of writes are those that they were sent with, in their order, failed ones too.
func TestWritesAndNotices(t *testing.T) {
	c := newCounting()
	m := c.meter(1)
	for n := range 5 {
		m.Begun(100, func() string { return fmt.Sprintf("/w/%d", n) })
	}
	for n := range 5 {
		a := Answer{Op: jute.OpSetData, In: 100, Out: 88, Failed: n == 3, Took: time.Millisecond}
		mark, path := m.Written(&a, 10*time.Microsecond)
		if want := fmt.Sprintf("/w/%d", n); path != want {
			t.Errorf("write %d is at %q", n, path)
		}
		m.Note(mark, &a, path, &Phases{Apply: a.Took})
		c.Applied(jute.OpSetData, 10*time.Microsecond, func() string { return path })
	}
	m.Noticed(1, 50)
	c.Noticed("/w/1", 3)
	m.AnsweredAside(&Answer{Op: jute.OpCreateSession, In: 49, Out: 41})
	c.second()
	w := c.Window(second)
	if got := w.Total; got.Requests != 6 || got.Failed != 1 || got.Applied != 5 || got.Apply != 50*time.Microsecond ||
		got.Notices != 1 || got.BytesOut != 5*88+50+41 {
		t.Errorf("all: %+v", got)
	}
	for i := range w.Znodes {
		if r := &w.Znodes[i]; r.Requests != 1 || r.Applied != 1 || r.Notices != 0 && r.Key != "/w/1" {
			t.Errorf("%s: %+v", r.Key, r.Counts)
		}
	}
	if len(w.Znodes) != 5 || len(w.Slowest) != 5 || w.Slowest[0].Phases.Apply != time.Millisecond {
		t.Errorf("%d znodes, slowest %+v", len(w.Znodes), w.Slowest)
	}
}

// TestMoreOperationsThanSlots: a connection that uses many operations loses none.
func TestMoreOperationsThanSlots(t *testing.T) {
	c := newCounting()
	m := c.meter(1)
	const rounds = 50
	for range rounds {
		for _, op := range operations {
			ask(m, "/", Answer{Op: op, In: 1, Out: 1})
		}
	}
	ask(m, "/", Answer{Op: 999})
	c.second()
	w := c.Window(second)
	for _, o := range w.Operations {
		if want := rounds; o.Op != Other && o.Requests != uint64(want) || o.Op == Other && o.Requests != rounds+1 {
			t.Errorf("%s: %d", Name(o.Op), o.Requests)
		}
	}
	if got, _ := requests(w.Sessions, Client(client(1))); got != rounds*uint64(operationCount)+1 {
		t.Errorf("the client has %d requests", got)
	}
}

// TestSlowest keeps the slowest, the slowest first.
func TestSlowest(t *testing.T) {
	c := newCounting()
	m := c.meter(1)
	for n := range 100 {
		took := time.Duration((n*37)%100) * time.Millisecond
		ask(m, fmt.Sprintf("/%v", took), Answer{Op: jute.OpGetData, Took: took})
	}
	c.second()
	w := c.Window(second)
	if len(w.Slowest) != slowestMax {
		t.Fatalf("%d", len(w.Slowest))
	}
	for n, s := range w.Slowest {
		if want := time.Duration(99-n) * time.Millisecond; s.Took != want || s.Path != fmt.Sprintf("/%v", want) {
			t.Errorf("%d: %v at %s, want %v", n, s.Took, s.Path, want)
		}
	}
}

// TestRisingLatencies: when each request is slower than those before, most of them are not looked at.
func TestRisingLatencies(t *testing.T) {
	c := newCounting()
	m := c.meter(1)
	wanted := 0
	for range 2 {
		for n := range 10 * slowNotesMax {
			a := Answer{Op: jute.OpGetData, Took: time.Duration(n) * time.Microsecond}
			mark := m.Answered(&a)
			if mark.slow {
				wanted++
			}
			m.Note(mark, &a, "/a", &Phases{})
		}
		c.second()
		if w := c.Window(second); len(w.Slowest) != slowestMax || w.Slowest[0].Took == 0 {
			t.Errorf("the slowest: %+v", w.Slowest)
		}
	}
	if wanted != 2*slowNotesMax {
		t.Errorf("%d requests were looked at, want %d a second", wanted, slowNotesMax)
	}
}

// TestMemoryIsBounded whatever clients ask for, and however many they are.
func TestMemoryIsBounded(t *testing.T) {
	c := newCounting()
	long := strings.Repeat("/long-name-of-a-znode", 100)
	heap := func() uint64 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	before := heap()
	for n := range 65 {
		for i := range 600 {
			m := c.meter(i)
			ask(m, fmt.Sprintf("/%d/%d/%d%s", i%7, n, i, long), Answer{Op: operations[i%operationCount], Out: 100})
		}
		c.second()
	}
	const most = 12 << 20
	if grown := heap() - before; int64(grown) > most {
		t.Errorf("%d bytes are held", grown)
	}
	w := c.Window(WindowMax)
	if len(w.Znodes) > znodesMax || len(w.Subtrees) > subtreesMax || len(w.Sessions) > clientsMax {
		t.Errorf("%d znodes, %d subtrees, %d sessions", len(w.Znodes), len(w.Subtrees), len(w.Sessions))
	}
	for i := range w.Znodes {
		if len(w.Znodes[i].Key) > pathBytesMax {
			t.Errorf("a path of %d bytes", len(w.Znodes[i].Key))
		}
	}
	if w.Subtrees[0].Requests+w.Subtrees[0].Missed < 60*600/7 {
		t.Errorf("the first subtree: %+v", w.Subtrees[0])
	}
}

// TestCountersRace: all at once, and nothing is lost. For the race detector.
func TestCountersRace(t *testing.T) {
	now := clock.NewManual(time.Unix(1, 0))
	r := New(Options{Clock: now})
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		r.Run(stop)
	}()
	const goroutines, each = 4, 3000
	var all sync.WaitGroup
	for n := range goroutines {
		m := &Meter{}
		m.Init(r, client(n))
		all.Go(func() { // the reader
			for i := range each {
				ask(m, fmt.Sprintf("/%d", i%9), Answer{Op: operations[i%5], Took: time.Duration(i) * time.Microsecond})
			}
		})
		all.Go(func() { // who tells of events
			for range each {
				m.Noticed(1, 10)
			}
		})
	}
	all.Go(func() { // the apply goroutine
		for range each {
			r.Applied(jute.OpSetData, time.Microsecond, func() string { return "/0" })
			r.Noticed("/0", 2)
		}
	})
	all.Go(func() {
		for range 50 {
			now.Advance(second / 4)
			_ = r.Window(WindowMax)
		}
	})
	all.Wait()
	close(stop)
	<-done
	now.Advance(second)
	r.collect()
	var n, notices uint64
	r.Totals(func(_ jute.Op, t *Total) { n += t.Requests })
	w := r.Window(WindowMax)
	notices = w.Total.Notices
	if n != goroutines*each || notices != goroutines*each || w.Total.Applied != each {
		t.Errorf("%d requests, %d notices, %d applied", n, notices, w.Total.Applied)
	}
}

// TestAllocations: nothing is allocated for an answer, and for one of a path that is known.
func TestAllocations(t *testing.T) {
	c := newCounting()
	m := c.meter(1)
	a := Answer{Op: jute.OpGetData, In: 40, Out: 100, Took: 30 * time.Microsecond}
	for range slowestMax {
		ask(m, "/a/b", a)
	}
	if got := testing.AllocsPerRun(1000, func() {
		m.Answered(&a)
		m.Flush()
	}); got != 0 {
		t.Errorf("an answer allocates %v times", got)
	}
	if got := testing.AllocsPerRun(100, func() { c.notePath("/a/b", &a, 1) }); got != 0 {
		t.Errorf("a sample allocates %v times", got)
	}
}

// TestNoRecorder counts nothing, and breaks nothing.
func TestNoRecorder(t *testing.T) {
	var m Meter
	m.Init(nil, nil)
	a := Answer{Op: jute.OpGetData}
	if mark := m.Answered(&a); mark.Wanted() {
		t.Error("more is wanted")
	}
	m.Flush()
	m.Begun(10, nil)
	m.Written(&a, 0)
	m.Noticed(1, 1)
	m.AnsweredAside(&a)
	var r *Recorder
	r.Applied(jute.OpCreate, 0, nil)
	r.Noticed("/", 1)
	r.Totals(nil)
	if w := r.Window(second); w.Took != 0 || len(w.Operations) != 0 {
		t.Errorf("%+v", w)
	}
}

// BenchmarkAnswered counts an answer of a request that came alone, and of one in a batch, with its share of samples.
func BenchmarkAnswered(b *testing.B) {
	for _, batch := range []int{1, 100} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			c := newCounting()
			m := c.meter(1)
			c.shared.mask.Store(map[int]uint32{1: 63, 100: 1023}[batch]) // as many are sampled of what a server can do
			c.shared.slowest.Store(math.MaxInt64)
			c.mu.samples = math.MaxInt
			a := Answer{Op: jute.OpGetData, In: 40, Out: 100}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				a.Took = 20*time.Microsecond + time.Duration(n%batch)*time.Microsecond
				if mark := m.Answered(&a); mark.Wanted() {
					m.Note(mark, &a, "/app/config/one", &Phases{})
				}
				if n%batch == 0 {
					m.Flush()
				}
			}
		})
	}
}
