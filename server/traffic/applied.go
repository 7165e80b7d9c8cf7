package traffic

import (
	"sync"
	"time"

	"zkd/jute"
)

// applied is what the apply goroutine counts.
type applied struct {
	random uint64 // owned by the apply goroutine

	mu         sync.Mutex
	operations [operationCount]struct { // guarded by mu
		n    uint64
		took time.Duration
	}
}

// Applied counts a write that this server has applied, whoever's client has asked for it, in so much time. path finds
// its path, if that is wanted; what it returns is copied as far as it is kept. For the apply goroutine.
func (r *Recorder) Applied(op jute.Op, took time.Duration, path func() string) {
	if r == nil {
		return
	}
	a := &r.applied
	a.mu.Lock()
	o := &a.operations[slotOf(op)]
	o.n++
	o.took += took
	a.mu.Unlock()
	if n := r.drawApplied(); n > 0 {
		r.countPath(path(), n, uint64(n), func(c *Counts) {
			c.Applied += uint64(n)
			c.Apply += took * time.Duration(n)
		})
	}
}

// Noticed counts that so many connections were told of an event at path. For the apply goroutine.
func (r *Recorder) Noticed(path string, connections int) {
	if r == nil || connections == 0 {
		return
	}
	if n := r.drawApplied(); n > 0 {
		all := uint64(n) * uint64(connections)
		r.countPath(path, n, all, func(c *Counts) { c.Notices += all })
	}
}

// drawApplied draws whether something of the apply goroutine's is counted by path, and for how many.
func (r *Recorder) drawApplied() uint32 {
	m := Meter{random: r.applied.random}
	n := m.next()
	r.applied.random = n
	if mask := r.shared.mask.Load(); uint32(n>>32)&mask == 0 {
		return mask + 1
	}
	return 0
}

// takeInto moves what was counted to f.
func (a *applied) takeInto(f *frame) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.operations {
		if o := &a.operations[i]; o.n > 0 {
			c := f.operation(uint8(i))
			c.Applied += o.n
			c.Apply += o.took
			o.n, o.took = 0, 0
		}
	}
}
