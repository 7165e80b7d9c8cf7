package quorum

import "sync"

// maxInboxBytes is how much of one member's frames may wait for the loop before the goroutine that reads from that
// member waits. A guess: sixteen append messages of the largest size.
const maxInboxBytes = 16 << 20

// arrival is something that has come to the loop from outside of it: a frame or news of a member, or a request.
type arrival struct {
	from  uint64 // 0: this process
	bytes int    // of the frame; 0: it is not counted and nobody waits for room for it
	what  any    // one of the types in loop.arrive
}

// inbox takes arrivals to the loop. What one member sends and the loop has not taken is bounded, each member for
// itself.
type inbox struct {
	wake chan<- struct{} // of size 1; immutable
	room sync.Cond       // with mu; told when the loop has taken all, and at the end

	mu struct {
		sync.Mutex
		items  []arrival
		bytes  map[uint64]int // of items, by member
		closed bool           // nothing is taken any more
	}
}

// newInbox returns an empty inbox that sets wake when something is put.
func newInbox(wake chan<- struct{}) *inbox {
	b := &inbox{wake: wake}
	b.room.L = &b.mu
	b.mu.bytes = map[uint64]int{}
	return b
}

// put adds an arrival, after waiting for room; false if the node ends.
func (b *inbox) put(a arrival) bool {
	b.mu.Lock()
	for a.bytes > 0 && b.mu.bytes[a.from] >= maxInboxBytes && !b.mu.closed {
		b.room.Wait()
	}
	if b.mu.closed {
		b.mu.Unlock()
		return false
	}
	if a.bytes > 0 {
		b.mu.bytes[a.from] += a.bytes
	}
	b.mu.items = append(b.mu.items, a)
	b.mu.Unlock()
	notify(b.wake)
	return true
}

// full tells whether put would wait for room for a frame of this member.
func (b *inbox) full(from uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.bytes[from] >= maxInboxBytes && !b.mu.closed
}

// take returns all arrivals in the order they were put. spare is the slice that the last call returned, done with.
func (b *inbox) take(spare []arrival) []arrival {
	clear(spare)
	b.mu.Lock()
	defer b.mu.Unlock()
	items := b.mu.items
	b.mu.items = spare[:0]
	if len(b.mu.bytes) > 0 {
		clear(b.mu.bytes)
		b.room.Broadcast()
	}
	return items
}

// close ends all waiting. What was not taken nobody will take; who asked to be told is told so.
func (b *inbox) close() {
	b.mu.Lock()
	items := b.mu.items
	b.mu.items, b.mu.closed = nil, true
	b.room.Broadcast()
	b.mu.Unlock()
	for i := range items {
		if r, ok := items[i].what.(inForceRequest); ok {
			r.told(ErrStopped)
		}
	}
}
