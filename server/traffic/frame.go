package traffic

import (
	"cmp"
	"net/netip"
	"strings"
	"time"
)

// How many entries the sketches have. Together, with a frame for each second and each ten of them, they are some six
// megabytes if every entry is used, which takes as many paths and clients; a server with few has few.
const (
	subtreesMax  = 256
	znodesMax    = 128
	clientsMax   = 128
	addressesMax = 64
	usersMax     = 32
)

// subtreeDepthMax is how deep the subtrees are that are counted. Each request counts for all that it is in.
const subtreeDepthMax = 6

// UnitBytes is how many bytes weigh as much as a request in the sketches: so who moves much is seen among many who ask
// for little. A guess: copying and sending as much costs about what a small read costs.
const UnitBytes = 16 << 10

// weightOf is what a request weighs in the sketches that stands for so many.
func weightOf(a *Answer, requests uint32) uint64 {
	return uint64(requests) * uint64(1+(a.In+a.Out)/UnitBytes)
}

// weigh is what counts weigh in the sketches.
func (c *Counts) weigh() uint64 {
	return c.Requests + c.Notices + c.Applied + (c.BytesIn+c.BytesOut)/UnitBytes
}

// frame is what came about in a second.
type frame struct {
	began      time.Duration // Recorder.elapsed
	operations [operationCount]*Counts
	subtrees   sketch[string]
	znodes     sketch[string]
	slowest    []Slow
	slowNotes  int // requests that were among them at some time
	samples    int // of paths
	every      uint32
}

// newFrame returns an empty frame.
func newFrame(began time.Duration) *frame {
	return &frame{began: began, subtrees: newSketch(subtreesMax, strings.Clone),
		znodes: newSketch(znodesMax, strings.Clone)}
}

// operation returns what is counted of an operation, to be counted on.
func (f *frame) operation(slot uint8) *Counts {
	if f.operations[slot] == nil {
		f.operations[slot] = &Counts{}
	}
	return f.operations[slot]
}

// path counts something of a path: for its znode, and for all subtrees that it is in.
func (f *frame) path(path string, weight uint64, count func(c *Counts)) {
	f.samples++
	if len(path) > pathBytesMax {
		count(f.znodes.add(kept(path), weight))
	} else {
		count(f.znodes.add(path, weight))
	}
	for end, depth := 1, 0; depth < subtreeDepthMax && end < len(path); depth++ {
		if next := strings.IndexByte(path[end:], '/'); next >= 0 {
			end += next
		} else {
			end = len(path)
		}
		if end > pathBytesMax {
			return
		}
		count(f.subtrees.add(path[:end], weight))
		end++
	}
}

// clients are the sketches of who asks, of a second. Their counts are not sampled.
type clients struct {
	sessions  sketch[Client]
	addresses sketch[netip.Addr]
	users     sketch[string]
}

// newClients returns empty ones.
func newClients() *clients {
	return &clients{sessions: newSketch(clientsMax, same[Client]), addresses: newSketch(addressesMax, same[netip.Addr]),
		users: newSketch(usersMax, same[string])}
}

// add counts what a client has brought about.
func (c *clients) add(who Client, n *Counts) {
	weight := n.weigh()
	c.sessions.add(who, weight).add(n)
	c.addresses.add(who.Remote.Addr(), weight).add(n)
	c.users.add(who.User, weight).add(n)
}

// period is a frame that is sealed: of one second, or of several.
type period struct {
	took       time.Duration
	operations [operationCount]*Counts // nil where there was nothing
	subtrees   sealed[string]
	znodes     sealed[string]
	sessions   sealed[Client]
	addresses  sealed[netip.Addr]
	users      sealed[string]
	slowest    []Slow
	every      uint32 // the most requests that one sample stands for
}

// seal returns the frame, which is not used any more, as a period.
func (f *frame) seal(c *clients, now time.Duration) *period {
	return &period{
		took: now - f.began, operations: f.operations, subtrees: f.subtrees.seal(), znodes: f.znodes.seal(),
		sessions: c.sessions.seal(), addresses: c.addresses.seal(), users: c.users.seal(), slowest: f.slowest,
		every: max(f.every, 1),
	}
}

// joining are periods that are put together.
type joining struct {
	took       time.Duration
	operations [operationCount]*Counts
	subtrees   merged[string]
	znodes     merged[string]
	sessions   merged[Client]
	addresses  merged[netip.Addr]
	users      merged[string]
	slowest    []Slow
	every      uint32
}

// add takes a period in.
func (j *joining) add(p *period) {
	j.took += p.took
	j.every = max(j.every, p.every)
	for i, c := range p.operations {
		if c == nil {
			continue
		}
		if j.operations[i] == nil {
			j.operations[i] = &Counts{}
		}
		j.operations[i].add(c)
	}
	j.subtrees.add(&p.subtrees)
	j.znodes.add(&p.znodes)
	j.sessions.add(&p.sessions)
	j.addresses.add(&p.addresses)
	j.users.add(&p.users)
	for i := range p.slowest {
		j.slowest = insertSlow(j.slowest, &p.slowest[i])
	}
}

// seal returns them as one period.
func (j *joining) seal() *period {
	return &period{
		took: j.took, operations: j.operations, subtrees: j.subtrees.sealAgain(subtreesMax, cmp.Compare[string]),
		znodes:    j.znodes.sealAgain(znodesMax, cmp.Compare[string]),
		sessions:  j.sessions.sealAgain(clientsMax, compareClients),
		addresses: j.addresses.sealAgain(addressesMax, netip.Addr.Compare),
		users:     j.users.sealAgain(usersMax, cmp.Compare[string]), slowest: j.slowest, every: j.every,
	}
}

// compareClients orders clients that weigh the same.
func compareClients(a, b Client) int {
	return cmp.Or(cmp.Compare(a.Session, b.Session), a.Remote.Compare(b.Remote), cmp.Compare(a.User, b.User))
}
