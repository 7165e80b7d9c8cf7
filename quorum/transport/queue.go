package transport

import "sync"

// queue holds the frames for one peer, one after the other as they go onto the wire, while its outgoing stream is up.
type queue struct {
	bytesMax int           // immutable
	wake     chan struct{} // one value: that there is something is all it says

	mu       sync.Mutex
	up       bool   // guarded by mu
	pending  []byte // guarded by mu
	frames   int    // guarded by mu; in pending, keep-alives not counted
	inFlight int    // guarded by mu; bytes that the writer has taken and not written
	drops    int64  // guarded by mu; frames refused, or lost with the stream before they were written
}

// newQueue returns a queue that is down.
func newQueue(bytesMax int) *queue {
	return &queue{bytesMax: bytesMax, wake: make(chan struct{}, 1)}
}

// open lets frames in.
func (q *queue) open() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.up = true
}

// shut lets no frame in, and drops those that are there and the lost ones that the writer had taken.
func (q *queue) shut(lost int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.drops += int64(q.frames + lost)
	q.up, q.pending, q.frames, q.inFlight = false, nil, 0, 0
}

// add appends a frame; false if it was refused.
func (q *queue) add(kind uint8, encode func([]byte) []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := len(q.pending)
	if !q.up || before > 0 && before+q.inFlight >= q.bytesMax {
		q.drops++
		return false
	}
	grown, ok := appendFrame(q.pending, kind, encode)
	q.pending = grown
	if ok && before > 0 && len(grown)+q.inFlight > q.bytesMax {
		q.pending, ok = grown[:before], false
	}
	if !ok {
		q.drops++
		return false
	}
	q.frames++
	if before == 0 {
		q.signal()
	}
	return true
}

// keepAlive appends a keep-alive if nothing waits.
func (q *queue) keepAlive() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.up && len(q.pending) == 0 {
		q.pending = appendKeepAlive(q.pending)
		q.signal()
	}
}

// signal wakes the writer.
func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default: // it is about to wake
	}
}

// take returns all that waits; spare, whose bytes are written, takes its place.
func (q *queue) take(spare []byte) (taken []byte, frames int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken, frames = q.pending, q.frames
	q.pending, q.frames, q.inFlight = spare[:0], 0, len(taken)
	return taken, frames
}

// size returns the bytes that are not written, and how many frames were dropped.
func (q *queue) size() (bytes int, drops int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.pending) + q.inFlight, q.drops
}
