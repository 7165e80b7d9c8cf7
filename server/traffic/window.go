package traffic

import (
	"cmp"
	"net/netip"
	"time"

	"zkd/jute"
)

// Window is what has come about in the last seconds.
type Window struct {
	Took time.Duration // how long it is: whole seconds, if the clock was not held up
	// Every is how many requests each sample of the paths has stood for, at most. 1 says that all were counted.
	Every uint32
	Total Counts

	Operations []Operation // that there were, by their slots
	// The rest has the rows that weigh most first: requests, notices, applied writes and units of bytes together.
	// Subtrees and Znodes are sampled. A subtree is a path with all that is below it.
	Subtrees, Znodes []Row[string]
	Sessions         []Row[Client]
	Addresses        []Row[netip.Addr]
	Users            []Row[string]
	Slowest          []Slow // first
}

// Operation is what is known of one operation.
type Operation struct {
	Op jute.Op
	Counts
}

// Window returns what has come about in the last seconds, of those that are over: in at least span, if so much is kept,
// and in at most ten seconds more. Any goroutine may call it; a nil Recorder knows nothing.
func (r *Recorder) Window(span time.Duration) *Window {
	var all joining
	if r != nil {
		r.kept.Lock()
		found := r.kept.ring.last(span)
		r.kept.Unlock()
		for _, p := range found {
			all.add(p)
		}
	}
	w := &Window{Took: all.took, Every: max(all.every, 1), Slowest: all.slowest}
	for i, c := range all.operations {
		if c != nil {
			w.Total.add(c)
			w.Operations = append(w.Operations, Operation{operations[i], *c})
		}
	}
	w.Subtrees, _ = all.subtrees.sorted(subtreesMax, cmp.Compare[string])
	w.Znodes, _ = all.znodes.sorted(znodesMax, cmp.Compare[string])
	w.Sessions, _ = all.sessions.sorted(clientsMax, compareClients)
	w.Addresses, _ = all.addresses.sorted(addressesMax, netip.Addr.Compare)
	w.Users, _ = all.users.sorted(usersMax, cmp.Compare[string])
	return w
}

// Total is what has come about of an operation since the start.
type Total struct {
	Requests, Failed  uint64
	BytesIn, BytesOut uint64
	Sum, Max          time.Duration // that they took
	counts            [buckets]uint64
}

// add takes in what came about in a second.
func (t *Total) add(c *Counts) {
	t.Requests += c.Requests
	t.Failed += c.Failed
	t.BytesIn += c.BytesIn
	t.BytesOut += c.BytesOut
	t.Sum += c.Latency.Sum
	t.Max = max(t.Max, c.Latency.Max)
	for i, n := range c.Latency.counts {
		t.counts[i] += uint64(n)
	}
}

// Quantile is Latency.Quantile of all since the start.
func (t *Total) Quantile(q float64) time.Duration { return quantileOf(&t.counts, q, t.Max) }

// Below returns how many took less than bound, which is a power of two of microseconds up to 16 s.
func (t *Total) Below(bound time.Duration) (n uint64) {
	for i := range t.counts[:buckets-1] {
		if highestOf(i) <= bound {
			n += t.counts[i]
		}
	}
	return n
}

// Totals calls f with what has come about since the start of each operation that there was, up to the last second that
// is over.
func (r *Recorder) Totals(f func(op jute.Op, t *Total)) {
	if r == nil {
		return
	}
	r.kept.Lock()
	totals := r.kept.totals
	r.kept.Unlock()
	for i := range totals {
		if totals[i].Requests > 0 {
			f(operations[i], &totals[i])
		}
	}
}
